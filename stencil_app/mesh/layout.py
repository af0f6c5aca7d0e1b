"""The memory layout of one slab: slab axis outermost, ghost planes contiguous, rows padded to cache lines.

::

      g ghost planes (from the slab above, or the boundary)
      own rows          |  j: [ghost] 1..ny [ghost]   |  i: ghost 1..nx ghost padding
      g ghost planes    |                             |

Planes with all their ghost cells are one contiguous message, sent without packing. The element i = 1 of every line
starts a cache line. NumPy gives arrays of 4 MiB and more huge pages by itself.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LINE = 8  # float64 in a cache line


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The four contiguous pieces of a field that an exchange reads and writes."""

    from_below: Array
    from_above: Array
    to_below: Array
    to_above: Array


class SlabLayout(Protocol):
    """The runtime's view of a slab's memory layout; rows are indexed along the first axis."""

    @property
    def nx(self) -> int:
        """Return cells along a line of a row."""

    @property
    def ny(self) -> int:
        """Return lines of a row."""

    @property
    def cells_per_row(self) -> int:
        """Return cells that one row adds to the mesh."""

    @property
    def message_bytes(self) -> int:
        """Return bytes that a slab sends to one neighbour for each iteration."""

    @property
    def ghost_rows(self) -> int:
        """Return rows below the first own one."""

    @property
    def least_rows(self) -> int:
        """Return rows of the thinnest slab that can serve its neighbours."""

    @property
    def faces_on_top(self) -> int:
        """Return 1 if the row after the last of the mesh holds values of its own (faces), else 0."""

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """Return shape of one row as checkpoints keep it."""

    def mesh(self, size: int) -> tuple[int, ...]:
        """Return cells along each axis of a mesh of `size` rows, as users count them."""

    def field_bytes(self, rows: int) -> int:
        """Return bytes of one field of a slab."""

    @property
    def scratch_bytes(self) -> int:
        """Return bytes that a slab of any height takes beside its two fields."""

    def allocate(self, rows: int) -> Array:
        """Return a zeroed field of a slab."""

    def interior(self, field: Array) -> Array:
        """Return view of the slab's own values, one row after the other."""

    def messages(self, field: Array) -> Messages:
        """Return the pieces that an exchange of this field reads and writes."""

    def pack(self, field: Array, row: int) -> Array:
        """Return own values of one row (0: the slab's first), float64 of `kept_shape`, the same for every layout."""

    def unpack(self, field: Array, row: int, values: Array) -> None:
        """Set a row to the values that `pack` returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Shape of one row of the mesh (a plane of nx × ny cells; a line where `ny_ghosts` is False, ny = 1).

    nx, ny : cells along x and y.  ny_ghosts : whether there are ghost cells along y.  ghost_rows : on either side
    The same for all, see `SlabLayout`: unknowns are in cells only, and a sweep needs no scratch.
    """

    nx: int
    ny: int
    ny_ghosts: bool
    ghost_rows: int = 1
    least_rows: ClassVar[int] = 1
    faces_on_top: ClassVar[int] = 0
    scratch_bytes: ClassVar[int] = 0

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """See `SlabLayout`."""
        return self.ny, self.nx

    def mesh(self, size: int) -> tuple[int, ...]:
        """See `SlabLayout`."""
        return (size, self.ny, self.nx) if self.ny_ghosts else (size, self.nx)

    def field_bytes(self, rows: int) -> int:
        """See `SlabLayout`."""
        return (rows + 2 * self.ghost_rows) * self.message_bytes

    def messages(self, field: Array) -> Messages:
        """See `SlabLayout`: whole planes."""
        g = self.ghost_rows
        return Messages(
            from_below=field[:g],
            from_above=field[-g:],
            to_below=field[g : 2 * g],
            to_above=field[-2 * g : -g],
        )

    def pack(self, field: Array, row: int) -> Array:
        """See `SlabLayout`."""
        values: Array = self.interior(field)[row]
        return values

    def unpack(self, field: Array, row: int, values: Array) -> None:
        """See `SlabLayout`."""
        self.interior(field)[row] = values

    @property
    def stride(self) -> int:
        """Return elements from one line to the next: nx, two ghosts, and padding to whole cache lines."""
        return -(-(self.nx + 2) // _LINE) * _LINE

    @property
    def cells_per_row(self) -> int:
        """Return cells that one row adds to the mesh."""
        return self.nx * self.ny

    @property
    def message_bytes(self) -> int:
        """Return bytes of one ghost plane: several are sent once in as many iterations."""
        return (self.ny + 2 * self.ny_ghosts) * self.stride * 8

    def shape(self, rows: int) -> tuple[int, int, int]:
        """Return shape of the field of a slab of `rows` rows, ghost planes included."""
        return rows + 2 * self.ghost_rows, self.ny + 2 * self.ny_ghosts, self.stride

    def interior(self, field: Array) -> Array:
        """Return view float64[rows, ny, nx] of the slab's own cells."""
        first = int(self.ny_ghosts)
        own_rows = slice(self.ghost_rows, -self.ghost_rows)
        return field[own_rows, first : first + self.ny, 1 : self.nx + 1]

    def allocate(self, rows: int) -> Array:
        """Return zeroed float64 of `shape(rows)`, C-contiguous, touched, lines aligned as above."""
        shape = self.shape(rows)
        elements = shape[0] * shape[1] * shape[2]
        raw = np.empty(elements + _LINE, dtype=np.float64)
        offset = (_LINE - 1 - raw.ctypes.data // 8) % _LINE
        field: Array = raw[offset : offset + elements].reshape(shape)
        field[...] = 0.0
        return field
