"""How one slab lies in memory: slab axis outermost, ghost planes contiguous, rows padded to cache lines.

::

      k = rows+1   ghost plane (from the slab above, or the boundary)
      k = 1..rows  own rows     |  j: [ghost] 1..ny [ghost]   |  i: ghost 1..nx ghost padding
      k = 0        ghost plane  |                             |

A plane with all its ghost cells is one contiguous message, sent without packing. The element i = 1 of every
line starts a cache line. NumPy arrays from 4 MiB up get huge pages by themselves. Says nothing of values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LINE = 8  # float64 in a cache line


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Shape of one row of the mesh (a plane of nx × ny cells; a line where `ny_ghosts` is False, ny = 1).

    nx, ny : cells along x and y.  ny_ghosts : whether there are ghost cells along y
    """

    nx: int
    ny: int
    ny_ghosts: bool

    @property
    def stride(self) -> int:
        """Elements from one line to the next: nx, two ghosts, and padding to whole cache lines."""
        return -(-(self.nx + 2) // _LINE) * _LINE

    @property
    def cells_per_row(self) -> int:
        """Cells that one row adds to the mesh."""
        return self.nx * self.ny

    @property
    def message_bytes(self) -> int:
        """Bytes of one ghost plane."""
        return (self.ny + 2 * self.ny_ghosts) * self.stride * 8

    def shape(self, rows: int) -> tuple[int, int, int]:
        """Shape of the field of a slab of `rows` rows, ghost planes included."""
        return rows + 2, self.ny + 2 * self.ny_ghosts, self.stride

    def interior(self, field: Array) -> Array:
        """View float64[rows, ny, nx] of the slab's own cells."""
        first = int(self.ny_ghosts)
        return field[1:-1, first : first + self.ny, 1 : self.nx + 1]

    def allocate(self, rows: int) -> Array:
        """Zeroed float64 of `shape(rows)`, C-contiguous, touched, lines aligned as above."""
        shape = self.shape(rows)
        elements = shape[0] * shape[1] * shape[2]
        raw = np.empty(elements + _LINE, dtype=np.float64)
        offset = (_LINE - 1 - raw.ctypes.data // 8) % _LINE
        field: Array = raw[offset : offset + elements].reshape(shape)
        field[...] = 0.0
        return field
