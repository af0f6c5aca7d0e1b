"""The part of the mesh that one rank owns: two buffers, their ghost rows, and the move to another cut.

Values belong to the problem (`stencil_app.physics.Problem`), the memory layout to its layout object; time and
iterations are not known here (`stencil_app.running.runtime`).

Another cut of a mesh between two iterations: rows move straight from their old to their new ranks. Every rank knows
both cuts, so no negotiation is needed: the overlap of two slabs is one contiguous piece of memory on either side.
Ghosts are not moved; they are set again afterwards. New cuts are given by a timetable, or by a file written outside
(`stencil_app.running.runsteering`).

Halo exchange between neighbouring slabs: whole ghost planes, contiguous, by persistent requests.

Rank i sends its last own planes up to rank i+1 and its first ones down to rank i-1, once in one or several iterations.
Ranks at the ends of the chain have one neighbour (the boundary's planes are left alone), unless the mesh is periodic
along the slab axis; then the chain closes, on one rank onto itself. Requests belong to one buffer and are freed with
the `Halo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from nws.base.closing import Closing
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.layout import Array, SlabLayout
from stencil_app.mesh.measures import largest_change_bits, row_digests
from stencil_app.physics import Problem

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Prequest

_UP, _DOWN = 1, 2


class Halo(Closing):
    """Exchange of the ghost planes of `fields`, which are stored as in `layout`; use as a context manager."""

    def __init__(
        self, comm: Intracomm, layout: SlabLayout, fields: tuple[Array, ...], *, periodic: bool
    ) -> None:
        from mpi4py import MPI

        below, above = comm.rank - 1, comm.rank + 1
        if periodic:
            below, above = below % comm.size, above % comm.size
        self._below = below if below >= 0 else MPI.PROC_NULL
        self._above = above if above < comm.size else MPI.PROC_NULL
        self._prequest = MPI.Prequest
        #: Pieces to send that lie in part where others are received: a slab that is as thin as can be.
        self._copies: dict[int, tuple[Array, Array]] = {}
        self._requests = {id(field): self._connect(comm, layout, field) for field in fields}
        self._fields = fields

    def _connect(self, comm: Intracomm, layout: SlabLayout, field: Array) -> list[Prequest]:
        piece = layout.messages(field)
        to_below = piece.to_below
        if np.may_share_memory(to_below, piece.from_above):
            to_below = np.empty_like(piece.to_below)
            self._copies[id(field)] = (to_below, piece.to_below)
        return [
            comm.Recv_init(piece.from_below, source=self._below, tag=_UP),
            comm.Recv_init(piece.from_above, source=self._above, tag=_DOWN),
            comm.Send_init(piece.to_above, dest=self._above, tag=_UP),
            comm.Send_init(to_below, dest=self._below, tag=_DOWN),
        ]

    def start(self, field: Array) -> None:
        """Begin to fill the ghost planes of `field`, one of the `fields`; it may be read meanwhile, not written."""
        if id(field) in self._copies:
            copy, piece = self._copies[id(field)]
            copy[...] = piece
        self._prequest.Startall(self._requests[id(field)])

    def arrives(self, field: Array, patience_s: float) -> bool:
        """Return whether the exchange begun by `start` ends within `patience_s` seconds.

        `finish` is due in any case.
        """
        requests, until = self._requests[id(field)], perf_counter() + patience_s
        while not self._prequest.Testall(requests):
            if perf_counter() >= until:
                return False
        return True

    def finish(self, field: Array) -> None:
        """Wait for the exchange begun by `start`; return at once if it has ended."""
        self._prequest.Waitall(self._requests[id(field)])

    def close(self) -> None:
        """Return the requests to MPI; a later `exchange` fails."""
        for requests in self._requests.values():
            for request in requests:
                request.Free()
        self._requests.clear()


def _span(slabs: Decomposition, rank: int, faces_on_top: int) -> tuple[int, int]:
    """Return rows [first, end) that `rank` holds; the last slab has the faces on top of the mesh too."""
    first = slabs.first_row(rank)
    return first, first + slabs.heights[rank] + (faces_on_top if rank == slabs.ranks - 1 else 0)


def _common(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    first, end = max(one[0], other[0]), min(one[1], other[1])
    return (first, end) if first < end else None


def move_rows(
    comm: Intracomm, faces_on_top: int, old: tuple[Decomposition, Array], new: tuple[Decomposition, Array]
) -> None:
    """Copy the rows of all slabs into fields for another cut; collective.

    faces_on_top : see `SlabLayout`.  old, new : the cut and this rank's field from its first own row on
    """
    from mpi4py import MPI

    before, source = old
    after, target = new
    had = _span(before, comm.rank, faces_on_top)
    has = _span(after, comm.rank, faces_on_top)
    requests = []
    for rank in range(comm.size):
        incoming = _common(has, _span(before, rank, faces_on_top))
        outgoing = _common(had, _span(after, rank, faces_on_top))
        if rank == comm.rank:
            if incoming is not None:
                first, end = incoming
                target[first - has[0] : end - has[0]] = source[first - had[0] : end - had[0]]
            continue
        if incoming is not None:
            first, end = incoming
            piece = target[first - has[0] : end - has[0]]
            requests.append(comm.Irecv(piece, source=rank))
        if outgoing is not None:
            first, end = outgoing
            piece = source[first - had[0] : end - had[0]]
            requests.append(comm.Isend(piece, dest=rank))
    MPI.Request.Waitall(requests)


class KeptRows:
    """The rows of a slab as checkpoints keep them, one at a time; the last slab's include the top faces."""

    def __init__(self, slab: Slab) -> None:
        self._field = slab.field
        self._layout = slab.problem.layout
        self._rows = slab.rows + (self._layout.faces_on_top if slab.is_last else 0)

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[Array]:
        return (self._layout.pack(self._field, row) for row in range(self._rows))

    def __setitem__(self, row: int, values: Array) -> None:
        self._layout.unpack(self._field, row, values)


class Slab:
    """The part of the mesh that this rank owns, in two buffers that swap roles each iteration."""

    def __init__(self, problem: Problem, decomposition: Decomposition, comm: Intracomm) -> None:
        self.problem = problem
        self.comm = comm
        self.decomposition = decomposition
        problem.fit(decomposition)
        self.field, self.other = (problem.layout.allocate(self.rows) for _ in range(2))

    @property
    def rows(self) -> int:
        """Return own rows."""
        return self.decomposition.heights[self.comm.rank]

    @property
    def first_row(self) -> int:
        """Return global number of the first own row."""
        return self.decomposition.first_row(self.comm.rank)

    @property
    def is_last(self) -> bool:
        """Return whether the mesh ends with this slab."""
        return self.comm.rank == self.comm.size - 1

    @property
    def interior(self) -> Array:
        """Return the slab's own values, a view; heat: float64[rows, ny, nx]."""
        return self.problem.layout.interior(self.field)

    def dress(self) -> None:
        """Make both buffers ready for the first sweep, after the own cells were set."""
        self.problem.dress(self.field, self.first_row)
        self.problem.dress(self.other, self.first_row)

    def swap(self) -> None:
        """Make the new values the current ones."""
        self.field, self.other = self.other, self.field

    def change_bits(self) -> int:
        """Return the largest change between the two last iterations (lateral ghosts repeat own cells or are fixed)."""
        ghosts = self.problem.layout.ghost_rows
        own_rows = slice(ghosts, ghosts + self.rows)
        return int(largest_change_bits(self.field[own_rows].reshape(-1), self.other[own_rows].reshape(-1)))

    def halo(self) -> Halo:
        """Return halo exchange of both buffers."""
        layout, periodic = self.problem.layout, self.problem.periodic
        return Halo(self.comm, layout, (self.field, self.other), periodic=periodic)

    def rearrange(self, decomposition: Decomposition) -> None:
        """Move rows between ranks to the slabs of `decomposition`; collective, no value changes."""
        own_rows = self.field[self.problem.layout.ghost_rows :]
        # the second buffer holds nothing that is needed, and its memory may be
        self.other = self.field[:0]
        self.problem.fit(decomposition)
        layout = self.problem.layout
        moved = layout.allocate(decomposition.heights[self.comm.rank])
        old, new = (self.decomposition, own_rows), (decomposition, moved[layout.ghost_rows :])
        move_rows(self.comm, layout.faces_on_top, old, new)
        self.decomposition = decomposition
        self.field = moved
        self.other = layout.allocate(self.rows)
        self.dress()
        self.refresh()

    def refresh(self) -> None:
        """Fill the ghost rows of the current values from the neighbours; collective."""
        with self.halo() as halo:
            halo.start(self.field)
            halo.finish(self.field)

    def checksum(self) -> int:
        """Return digest of the whole mesh, 64 bits, the same for every layout; collective."""
        from mpi4py import MPI

        mine, whole = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
        for row, values in enumerate(KeptRows(self), self.first_row):
            mine += row_digests(values[None], row)
        self.comm.Allreduce(mine, whole, MPI.SUM)
        return int(whole[0])
