"""Boxes of ranks in columns: which ranks touch, along how many cells, and cuts of an area into such boxes.

A layout has columns of ranks from left to right, and in each column ranks from top to bottom. One column is a chain of
slabs. The number of columns with the shortest borders follows Beaumont, Boudet, Rastello and Robert, "Partitioning a
square into rectangles", Algorithmica 34 (2002): sorted areas, consecutive ones in a column.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from apples.model.cut import Box
from apples.model.grid import FloatArray
from apples.planning.problem import IntArray

#: Rounds in which the heights and widths of a rectilinear cut are adjusted to each other.
_ROUNDS = 30


@dataclass(frozen=True, slots=True, eq=False)
class BoxLayout:
    """Boxes of ranks, which are numbered column by column.

    counts : ranks in each column.  widths : int64[C] cells of each column.  heights : int64[n] rows of each rank
    """

    counts: tuple[int, ...]
    widths: IntArray
    heights: IntArray

    @property
    def column(self) -> IntArray:
        """Return the column of each rank, int64[n]."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def tops(self) -> IntArray:
        """Return the first row of each rank, int64[n]."""
        below = np.cumsum(self.heights)
        starts = np.concatenate(([0], np.cumsum(self.counts)[:-1]))
        return below - self.heights - np.repeat((below - self.heights)[starts], self.counts)

    @property
    def cells(self) -> IntArray:
        """Return the cells of each rank, int64[n]."""
        return self.heights * self.widths[self.column]

    def boxes(self) -> tuple[Box, ...]:
        """Return the box of each rank."""
        left = np.cumsum(self.widths) - self.widths
        return tuple(
            Box(x=int(left[c]), y=int(y), width=int(self.widths[c]), height=int(h))
            for c, y, h in zip(self.column, self.tops, self.heights, strict=True)
        )

    def borders(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the pairs of ranks that touch, each once, and the cells along their border, int64[B] each."""
        tops, ends = self.tops, np.cumsum(self.counts)
        pairs: list[tuple[int, int, int]] = []
        for c, (count, end) in enumerate(zip(self.counts, ends.tolist(), strict=True)):
            start = end - count
            pairs += [(i, i + 1, int(self.widths[c])) for i in range(start, end - 1)]
            if c + 1 == len(self.counts):
                break
            i, j = start, end
            while i < end and j < ends[c + 1]:
                below_i, below_j = int(tops[i] + self.heights[i]), int(tops[j] + self.heights[j])
                shared = min(below_i, below_j) - max(int(tops[i]), int(tops[j]))
                pairs.append((i, j, shared))
                i, j = i + (below_i <= below_j), j + (below_j <= below_i)
        touching = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        return touching[:, 0], touching[:, 1], touching[:, 2]

    def border(self) -> int:
        """Return the cells along all borders."""
        return int(self.borders()[2].sum())


def column_groups(areas: FloatArray, height: float, width: float) -> list[tuple[float, tuple[int, ...]]]:
    """Return the length of all borders and the ranks of each column, for the best cut in 1, 2, … columns.

    areas : float64[n], shares of the whole in sequence; consecutive ranks form a column
    """
    n, sums = len(areas), np.concatenate(([0.0], np.cumsum(areas)))
    ranks = np.arange(n + 1)
    # One column of the ranks j to i: (i - j - 1) borders as long as the column is wide.
    inside = np.maximum(ranks[:, None] - ranks[None, :] - 1, 0) * (sums[:, None] - sums[None, :]) * width
    inside[ranks[:, None] <= ranks[None, :]] = np.inf
    best, before = inside[:, 0].copy(), []
    best[0] = np.inf
    groups: list[tuple[float, tuple[int, ...]]] = [(float(best[n]), (n,))]
    # A whole narrower than high takes fewer columns than a square, a wide one more.
    most = math.ceil(2 * math.sqrt(n * max(width / height, 1.0))) + 2
    for _ in range(2, min(n, most) + 1):
        lengths = best[None, :] + height + inside
        last = np.argmin(lengths, axis=1)
        best = lengths[ranks, last]
        before.append(last)
        counts, end = [], n
        for choice in reversed(before):
            counts.append(end - int(choice[end]))
            end = int(choice[end])
        groups.append((float(best[n]), (end, *reversed(counts))))
    return groups


def rectilinear_shares(areas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return heights and widths whose products are within the areas, with a large sum of products; float64[r], [c].

    areas : float64[r, c].  Heights and widths are raised in turn to what the other allows, from two beginnings.
    """
    best: tuple[float, FloatArray, FloatArray] | None = None
    for widths in (np.exp(np.log(areas).mean(axis=0)), areas.min(axis=0)):
        heights = areas[:, 0]
        for _ in range(_ROUNDS):
            heights = (areas / widths[None, :]).min(axis=1)
            raised = (areas / heights[:, None]).min(axis=0)
            if np.allclose(raised, widths, rtol=1e-9):
                break
            widths = raised
        whole = float(heights.sum() * widths.sum())
        if best is None or whole > best[0]:
            best = whole, heights, widths
    assert best is not None
    return best[1], best[2]


def whole_parts(
    real: FloatArray, total: int, least: int, most: Sequence[float], finish: Callable[[int, int], float]
) -> IntArray | None:
    """Return whole numbers near the real ones that sum to `total`; None if they cannot.

    Args:
        real: float64[n].
        total: their sum.
        least: smallest part.
        most: largest of each part.
        finish: part, its size → seconds; the remainder after rounding down goes to the earliest.
    """
    parts = np.clip(np.floor(real + 1e-9), least, np.floor(np.maximum(most, 0))).astype(np.int64)
    if (parts < least).any():
        return None
    while parts.sum() > total:
        slack = parts - least
        if not slack.any():
            return None
        parts[np.argmax(slack)] -= 1
    heap = [(finish(i, int(n) + 1), i) for i, n in enumerate(parts) if n + 1 <= most[i]]
    heapq.heapify(heap)
    for _ in range(total - int(parts.sum())):
        if not heap:
            return None
        i = heapq.heappop(heap)[1]
        parts[i] += 1
        if parts[i] + 1 <= most[i]:
            heapq.heappush(heap, (finish(i, int(parts[i]) + 1), i))
    return parts
