"""Halo exchange between neighbouring slabs: whole ghost planes, contiguous, by persistent requests.

Rank i sends its last own plane up to rank i+1 and its first one down to rank i-1, once in each iteration.
At the ends of the chain there is no neighbour (the boundary's planes are left alone), unless the mesh is
periodic along the slab axis; then the chain closes, on one rank onto itself. Requests belong to one buffer
and are freed with the `Halo`; it knows nothing of what is exchanged.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from stencil_app.layout import Array

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Prequest

_UP, _DOWN = 1, 2


class Halo:
    """Exchange of the ghost planes of `fields`, float64[rows + 2, ...] each; use as a context manager."""

    def __init__(self, comm: Intracomm, fields: tuple[Array, ...], *, periodic: bool) -> None:
        from mpi4py import MPI

        below, above = comm.rank - 1, comm.rank + 1
        if periodic:
            below, above = below % comm.size, above % comm.size
        self._below = below if below >= 0 else MPI.PROC_NULL
        self._above = above if above < comm.size else MPI.PROC_NULL
        self._prequest = MPI.Prequest
        self._requests = {id(field): self._connect(comm, field) for field in fields}
        self._fields = fields

    def _connect(self, comm: Intracomm, field: Array) -> list[Prequest]:
        return [
            comm.Recv_init(field[0], source=self._below, tag=_UP),
            comm.Recv_init(field[-1], source=self._above, tag=_DOWN),
            comm.Send_init(field[-2], dest=self._above, tag=_UP),
            comm.Send_init(field[1], dest=self._below, tag=_DOWN),
        ]

    def exchange(self, field: Array) -> None:
        """Fill both ghost planes of `field`, one of the `fields`, from the neighbours; waits for them."""
        requests = self._requests[id(field)]
        self._prequest.Startall(requests)
        self._prequest.Waitall(requests)

    def free(self) -> None:
        """Give the requests back to MPI; a later `exchange` fails."""
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
