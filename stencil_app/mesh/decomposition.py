"""The decomposition of the mesh: one slab of consecutive rows for each rank, of any height from one row up.

Rank i owns slab i; rank order is the order of the rows (the chain order of the agent's plan). Slabs may be uneven, so
that a busy machine gets fewer rows (Wolski et al. 2000, §3). The content of a row belongs to the physics; nothing here
touches data.
"""

from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Slab heights in rank order, whole rows, each at least 1."""

    heights: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return rows of the whole mesh."""
        return sum(self.heights)

    @property
    def ranks(self) -> int:
        """Return number of slabs."""
        return len(self.heights)

    def first_row(self, rank: int) -> int:
        """Return global number of the first row of `rank`, counted from 0."""
        return tuple(accumulate(self.heights, initial=0))[rank]

    def __str__(self) -> str:
        return ",".join(map(str, self.heights))


def even(size: int, ranks: int) -> Decomposition:
    """Return `size` rows over `ranks` slabs whose heights differ by at most one; needs 1 <= ranks <= size."""
    base, more = divmod(size, ranks)
    return Decomposition(tuple(base + (rank < more) for rank in range(ranks)))


def parse(text: str) -> Decomposition:
    """Return decomposition of a list such as ``20,22,22``; raises `ValueError` naming every bad entry."""
    heights, bad = [], []
    for entry in text.split(","):
        try:
            rows = int(entry)
        except ValueError:
            rows = 0
        if rows < 1:
            bad.append(repr(entry))
        heights.append(rows)
    if bad:
        raise ValueError(f"{', '.join(bad)} in {text!r}: a slab is a whole number of rows, 1 or more")
    return Decomposition(tuple(heights))


def cut_problem(text: str, mesh: tuple[int, int], ranks: int) -> str | None:
    """Return why a list of heights cannot cut a mesh (rows, least rows of a slab) for so many ranks, or None."""
    size, least = mesh
    try:
        cut = parse(text)
    except ValueError as error:
        return str(error)
    if cut.ranks != ranks:
        return f"{text}: {cut.ranks} slab(s) for {ranks} rank(s); give one for each rank"
    if cut.size != size:
        return f"{text}: {cut.size} rows together, the mesh has {size}"
    if min(cut.heights) < least and ranks > 1:
        return f"{text}: a slab of {min(cut.heights)} row(s); the thinnest that can be is {least}"
    return None
