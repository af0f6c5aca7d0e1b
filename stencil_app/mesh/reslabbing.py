"""Another cut of a mesh between two iterations: rows move straight from their old to their new ranks.

Every rank knows both cuts, so no negotiation is needed: the overlap of two slabs is one contiguous piece of memory on
either side. Ghosts are not moved; they are set again afterwards. New cuts are given by a timetable, or by a file
written outside (`stencil_app.running.runsteering`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stencil_app.mesh.decomposition import Decomposition, parse

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from stencil_app.mesh.layout import Array, SlabLayout


def _span(slabs: Decomposition, rank: int, faces_on_top: int) -> tuple[int, int]:
    """Return rows [first, end) that `rank` holds; the last slab has the faces on top of the mesh too."""
    first = slabs.first_row(rank)
    return first, first + slabs.heights[rank] + (faces_on_top if rank == slabs.ranks - 1 else 0)


def _common(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    first, end = max(one[0], other[0]), min(one[1], other[1])
    return (first, end) if first < end else None


def move_rows(
    comm: Intracomm, layout: SlabLayout, old: tuple[Decomposition, Array], new: tuple[Decomposition, Array]
) -> None:
    """Copy the rows of all slabs into fields for another cut; collective.

    old, new : the cut and this rank's field
    """
    from mpi4py import MPI

    before, source = old
    after, target = new
    had = _span(before, comm.rank, layout.faces_on_top)
    has = _span(after, comm.rank, layout.faces_on_top)
    ghosts = layout.ghost_rows
    requests = []
    for rank in range(comm.size):
        incoming = _common(has, _span(before, rank, layout.faces_on_top))
        outgoing = _common(had, _span(after, rank, layout.faces_on_top))
        if rank == comm.rank:
            if incoming is not None:
                first, end = incoming
                target[ghosts + first - has[0] : ghosts + end - has[0]] = source[
                    ghosts + first - had[0] : ghosts + end - had[0]
                ]
            continue
        if incoming is not None:
            first, end = incoming
            piece = target[ghosts + first - has[0] : ghosts + end - has[0]]
            requests.append(comm.Irecv(piece, source=rank))
        if outgoing is not None:
            first, end = outgoing
            piece = source[ghosts + first - had[0] : ghosts + end - had[0]]
            requests.append(comm.Isend(piece, dest=rank))
    MPI.Request.Waitall(requests)


class CutTimetable:
    """Cuts to change to at given iterations, known from the start, for instance from ``40:3,9,4;80:6,5,5``."""

    def __init__(self, cuts: dict[int, Decomposition]) -> None:
        self._cuts = cuts

    def next_layout(self, iteration: int) -> Decomposition | None:
        """Return the cut for this iteration, or None for no change."""
        return self._cuts.get(iteration)


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
