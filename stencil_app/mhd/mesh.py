"""The storage of the mesh: cells, staggered faces, ghosts, and one plane of the mesh in memory.

Density, momentum and energy are means over cells; the magnetic field is a mean over faces, so that its divergence is
a sum over the faces of a cell; electric fields are on edges (constrained transport, Evans and Hawley 1988)::

                 B2(j+1)
             +------^------+            cell (k, j, i)          axes 1, 2, 3 = i, j, k
             |             |            B1(i) face i-1/2        3 is the slab axis
      B1(i)  >   ρ ρv e    >  B1(i+1)   B2(j) face j-1/2
             |             |            B3(k) face k-1/2        E3 at the corners (j-1/2, i-1/2)
    E3(j,i)  +------^------+            E1, E2 likewise on the edges along i and j
                 B2(j)

A plane is float64[8, nj + ghosts, ni + ghosts] and planes follow each other, so that a neighbouring slab needs one
contiguous piece: three planes, and the B3 of the fourth, for which B3 is first. The two half-steps of one cycle use up
three planes: one exchange a cycle. An axis of one cell has no ghosts: all is constant along it. Each axis has one entry
more above its ghosts than below, for the upper face of the last cell.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from stencil_app.mesh.layout import Array, Messages
from stencil_app.mhd.workspace import scratch_bytes

#: Variables of a plane. B1 belongs to the face below its cell, and so do B2 and B3.
B3, RHO, M1, M2, M3, E, B1, B2 = range(8)
VARIABLES = 8

#: Ghost cells along i and j, and ghost planes along k.
LATERAL_GHOSTS, SLAB_GHOSTS = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshLayout:
    """Shape of the planes of a slab: ny × nx own cells; `slabbed` is False where there is one plane only.

    faces_on_top : see `stencil_app.mesh.layout.SlabLayout`; B3 of the upper wall
    """

    nx: int
    ny: int
    slabbed: bool
    faces_on_top: ClassVar[int] = 1

    @property
    def gj(self) -> int:
        """Return ghost cells below the own ones along j."""
        return LATERAL_GHOSTS if self.ny > 1 else 0

    @property
    def plane(self) -> tuple[int, int, int]:
        """Return shape of one plane."""
        return VARIABLES, self.ny + 2 * self.gj + 1, self.nx + 2 * LATERAL_GHOSTS + 1

    @property
    def plane_bytes(self) -> int:
        """Return bytes of one plane, ghosts included."""
        return 8 * prod(self.plane)

    @property
    def cells_per_row(self) -> int:
        """See `stencil_app.mesh.layout.SlabLayout`."""
        return self.nx * self.ny

    @property
    def message_bytes(self) -> int:
        """Return bytes that go down; up goes one B3 less."""
        return SLAB_GHOSTS * self.plane_bytes + self.plane_bytes // VARIABLES if self.slabbed else 0

    @property
    def ghost_rows(self) -> int:
        """See `stencil_app.mesh.layout.SlabLayout`."""
        return SLAB_GHOSTS if self.slabbed else 0

    @property
    def least_rows(self) -> int:
        """See `stencil_app.mesh.layout.SlabLayout`: a slab fills its neighbours' ghosts by itself."""
        return SLAB_GHOSTS if self.slabbed else 1

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """See `stencil_app.mesh.layout.SlabLayout`: the faces on the upper walls along i and j included."""
        return VARIABLES, self.ny + 1, self.nx + 1

    def mesh(self, size: int) -> tuple[int, ...]:
        """See `stencil_app.mesh.layout.SlabLayout`; axes of one cell are not said."""
        return (*(n for n in (size, self.ny) if n > 1), self.nx)

    def field_bytes(self, rows: int) -> int:
        """See `stencil_app.mesh.layout.SlabLayout`."""
        return (rows + 2 * self.ghost_rows + 1) * self.plane_bytes

    @property
    def scratch_bytes(self) -> int:
        """See `stencil_app.mesh.layout.SlabLayout`: some planes, however high the slab is."""
        return scratch_bytes(*self.plane[1:])

    def allocate(self, rows: int) -> Array:
        """See `stencil_app.mesh.layout.SlabLayout`: float64[rows + ghosts, 8, lines, entries]."""
        field = np.empty((rows + 2 * self.ghost_rows + 1, *self.plane))
        field[...] = 0.0
        return field

    def interior(self, field: Array) -> Array:
        """Return the whole field: faces on the upper walls lie among the ghosts."""
        return field

    @property
    def lines(self) -> slice:
        """Return own lines of a plane."""
        return slice(self.gj, self.gj + self.ny)

    @property
    def entries(self) -> slice:
        """Return own entries of a line."""
        return slice(LATERAL_GHOSTS, LATERAL_GHOSTS + self.nx)

    def cells(self, field: Array) -> Array:
        """Return view float64[rows, 8, nj, ni] of the own cells and their lower faces."""
        g = self.ghost_rows
        return field[g : field.shape[0] - g - 1, :, self.lines, self.entries]

    def _with_upper_faces(self, plane: Array) -> Array:
        return plane[:, self.gj : self.gj + self.ny + 1, LATERAL_GHOSTS : LATERAL_GHOSTS + self.nx + 1]

    def messages(self, field: Array) -> Messages:
        """See `stencil_app.mesh.layout.SlabLayout`: three planes, and downwards the B3 of a fourth."""
        flat = field.reshape(-1)
        plane, g = prod(self.plane), self.ghost_rows
        end = flat.size - (g + 1) * plane
        more = plane // VARIABLES if self.slabbed else 0
        return Messages(
            from_below=flat[: g * plane],
            from_above=flat[end : end + g * plane + more],
            to_below=flat[g * plane : 2 * g * plane + more],
            to_above=flat[end - g * plane : end],
        )

    def pack(self, field: Array, row: int) -> Array:
        """See `stencil_app.mesh.layout.SlabLayout`; what is no own value is 0."""
        k = row + self.ghost_rows
        values: Array = self._with_upper_faces(field[k]).copy()
        is_above_mesh = k == field.shape[0] - self.ghost_rows - 1
        for v in range(VARIABLES):
            if v != B1 or is_above_mesh:
                values[v, :, self.nx :] = 0.0
            if v != B2 or is_above_mesh:
                values[v, self.ny :] = 0.0
            if v != B3 and is_above_mesh:
                values[v] = 0.0
        return values

    def unpack(self, field: Array, row: int, values: Array) -> None:
        """See `stencil_app.mesh.layout.SlabLayout`."""
        self._with_upper_faces(field[row + self.ghost_rows])[...] = values
