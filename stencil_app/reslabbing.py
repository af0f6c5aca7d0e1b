"""Another cut of a mesh between two iterations: rows move straight from their old to their new ranks.

Every rank knows both cuts, so that nobody asks: what two slabs have in common is one contiguous piece of memory on
either side. Ghosts are not moved; they are set again afterwards. Who decides on the new cut is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stencil_app.decomposition import Decomposition
from stencil_app.layout import Array, SlabLayout

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def _span(slabs: Decomposition, rank: int, faces_on_top: int) -> tuple[int, int]:
    """Rows [first, end) that `rank` holds; the last slab has the faces on top of the mesh too."""
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
