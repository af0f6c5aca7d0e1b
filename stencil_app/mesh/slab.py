"""The part of the mesh that one rank owns: two buffers, their ghost rows, and the move to another cut.

Values belong to the problem (`stencil_app.physics.Problem`), the memory layout to its layout object; time and
iterations are not known here (`stencil_app.running.runtime`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mesh.halo import Halo
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import largest_change_bits, row_digests
from stencil_app.mesh.reslabbing import move_rows
from stencil_app.physics import Problem

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


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
        """Return the largest change by the sweep into `other` (lateral ghosts repeat own cells or are fixed)."""
        ghosts = self.problem.layout.ghost_rows
        own = slice(ghosts, ghosts + self.rows)
        return int(largest_change_bits(self.field[own].reshape(-1), self.other[own].reshape(-1)))

    def halo(self) -> Halo:
        """Return halo exchange of both buffers."""
        layout, periodic = self.problem.layout, self.problem.periodic
        return Halo(self.comm, layout, (self.field, self.other), periodic=periodic)

    def rearrange(self, decomposition: Decomposition) -> None:
        """Move rows between ranks to the slabs of `decomposition`; collective, no value changes."""
        layout = self.problem.layout
        # the second buffer holds nothing that is needed, and its memory may be
        self.other = self.field[:0]
        moved = layout.allocate(decomposition.heights[self.comm.rank])
        move_rows(self.comm, layout, (self.decomposition, self.field), (decomposition, moved))
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
