"""The initial state on the staggered mesh: cells at their centres, the field through faces as a curl of edges.

A field given by its vector potential has no divergence to round-off, whatever its shape. Every row is evaluated by
itself with arrays of one shape, so that no value depends on the first row of a slab. Here the axes of the box become
those of the mesh: the slab axis is z, and y for a box of one cell along z.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E, MeshLayout


@dataclass(frozen=True)
class Frame:
    """How the box lies on the mesh.

    order : the axis of the box (0, 1, 2) along i, j, k
    """

    case: Case

    @cached_property
    def order(self) -> tuple[int, int, int]:
        """Return axes of the box along i, j, k; turning an axis round leaves the equations as they are."""
        _, ny, nz = self.case.cells
        return (0, 2, 1) if nz == 1 and ny > 1 else (0, 1, 2)

    @cached_property
    def cells(self) -> tuple[int, int, int]:
        """Return cells along i, j, k."""
        i, j, k = (self.case.cells[axis] for axis in self.order)
        return i, j, k

    @cached_property
    def layout(self) -> MeshLayout:
        """Return how slabs of the mesh lie in memory."""
        ni, nj, nk = self.cells
        return MeshLayout(nx=ni, ny=nj, slabbed=nk > 1)

    @cached_property
    def widths(self) -> tuple[float, float, float]:
        """Return widths of a cell along i, j, k."""
        i, j, k = (
            (self.case.upper[axis] - self.case.lower[axis]) / self.case.cells[axis] for axis in self.order
        )
        return i, j, k

    @property
    def boundaries(self) -> tuple[str, str, str]:
        """Return kinds of walls across i, j, k."""
        i, j, k = (self.case.boundaries[axis] for axis in self.order)
        return i, j, k

    def points(self, axis: int, *, nodes: bool) -> Array:
        """Return centres of cells along an axis of the box, or the nodes between them, lower wall first."""
        n, low, high = self.case.cells[axis], self.case.lower[axis], self.case.upper[axis]
        steps = np.arange(n + 1) if nodes else np.arange(n) + 0.5
        # symmetric boxes get symmetric points, which a plain low + steps * width would not give
        return 0.5 * (low + high) + (high - low) * (steps - 0.5 * n) / n


class InitialState:
    """Fills rows of a mesh; `row` counts along k from 0, and the row above the last has B3 only."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._case = frame.case

    def _at(self, row: int, on_nodes: tuple[bool, bool, bool]) -> tuple[Array, Array, Array]:
        """Return coordinates x, y, z around a row; on_nodes : of each axis of the box.

        Along k: the row's centre, or its lower and upper node. Arrays broadcast to [k, j, i].
        """
        coordinates = []
        for axis in range(3):
            mesh_axis = self._frame.order.index(axis)
            points = self._frame.points(axis, nodes=on_nodes[axis])
            if mesh_axis == 2:
                points = points[row : row + 2] if on_nodes[axis] else points[row : row + 1]
            shape = [1, 1, 1]
            shape[2 - mesh_axis] = points.size
            coordinates.append(points.reshape(shape))
        return coordinates[0], coordinates[1], coordinates[2]

    def _shape(self, row: int, on_nodes: tuple[bool, bool, bool]) -> tuple[int, ...]:
        return np.broadcast_shapes(*(at.shape for at in self._at(row, on_nodes)))

    def _edges(self, axis: int, row: int) -> Array:
        """Return the potential along `axis` on its edges around a row, float64[k, j, i]."""
        assert self._case.potential is not None
        on_nodes = (axis != 0, axis != 1, axis != 2)
        values = self._case.potential(axis, *self._at(row, on_nodes))
        return np.broadcast_to(np.asarray(values, dtype=np.float64), self._shape(row, on_nodes))

    def faces(self, axis: int, row: int) -> Array:
        """Return field through faces across an axis of the box, float64[k, j, i]; across k: the row's lower faces."""
        frame = self._frame
        on_nodes = (axis == 0, axis == 1, axis == 2)
        shape = self._shape(row, on_nodes)
        face_field = np.zeros(shape)
        if self._case.field is not None:
            face_field += self._case.field(axis, *self._at(row, on_nodes))
        if self._case.potential is not None:
            b, c = (axis + 1) % 3, (axis + 2) % 3
            for along, by, sign in ((c, b, 1.0), (b, c, -1.0)):
                mesh_axis = frame.order.index(by)
                edges = self._edges(along, row)
                if frame.order[2] == axis:
                    edges = edges[: shape[0]]
                face_field += sign * np.diff(edges, axis=2 - mesh_axis) / frame.widths[mesh_axis]
        return face_field[:1] if frame.order[2] == axis else face_field

    def fill_row(self, plane: Array, row: int) -> None:
        """Set all own values of one row but the B3 above it; plane : float64[8, lines, entries]."""
        frame, case = self._frame, self._case
        layout = frame.layout
        own_cells = (
            slice(layout.gj, layout.gj + layout.ny),
            slice(LATERAL_GHOSTS, LATERAL_GHOSTS + layout.nx),
        )
        centre = self._at(row, (False, False, False))
        through = [self.faces(axis, row)[0] for axis in frame.order]
        plane[B1, own_cells[0], own_cells[1].start : own_cells[1].stop + 1] = through[0]
        plane[B2, own_cells[0].start : own_cells[0].stop + 1, own_cells[1]] = through[1]
        plane[(B3, *own_cells)] = through[2]
        rho = np.broadcast_to(case.density(*centre), self._shape(row, (False, False, False)))[0]
        plane[(RHO, *own_cells)] = rho
        kinetic = np.zeros(rho.shape)
        for variable, axis in zip((M1, M2, M3), frame.order, strict=True):
            v = np.broadcast_to(case.velocity(axis, *centre), (1, *rho.shape))[0]
            plane[(variable, *own_cells)] = rho * v
            kinetic += 0.5 * rho * v * v
        if case.energy is not None:
            plane[(E, *own_cells)] = np.broadcast_to(case.energy(*centre), (1, *rho.shape))[0]
            return
        middle = [
            0.5 * (through[0][:, :-1] + through[0][:, 1:]),
            0.5 * (through[1][:-1] + through[1][1:]),
            0.5 * (through[2] + self.top_faces(row + 1)),
        ]
        magnetic = 0.5 * (middle[0] ** 2 + middle[1] ** 2 + middle[2] ** 2)
        pressure = np.broadcast_to(case.pressure(*centre), (1, *rho.shape))[0]
        plane[(E, *own_cells)] = pressure / (case.gamma - 1.0) + kinetic + magnetic

    def top_faces(self, row: int) -> Array:
        """Return B3 on the lower faces of a row, which may be the one above the last, float64[nj, ni]."""
        face_field: Array = self.faces(self._frame.order[2], row)[0]
        return face_field
