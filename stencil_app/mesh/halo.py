"""Halo exchange between neighbouring slabs: whole ghost planes, contiguous, by persistent requests.

Rank i sends its last own planes up to rank i+1 and its first ones down to rank i-1, once in each iteration. Ranks at
the ends of the chain have one neighbour (the boundary's planes are left alone), unless the mesh is periodic along the
slab axis; then the chain closes, on one rank onto itself. Requests belong to one buffer and are freed with the `Halo`.
"""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from stencil_app.mesh.layout import Array, SlabLayout

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Prequest

_UP, _DOWN = 1, 2


class Halo:
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

    def free(self) -> None:
        """Return the requests to MPI; a later `exchange` fails."""
        for requests in self._requests.values():
            for request in requests:
                request.Free()
        self._requests.clear()

    def __enter__(self) -> Halo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.free()
