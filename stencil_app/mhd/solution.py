"""The solution for users: primitive variables at the centres of cells, whole box, arrays [z, y, x].

The field at a centre is the mean over the two faces. Rank 0 receives one quantity at a time, so that no rank ever holds
more of a large box than the quantity being written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.equations import MhdProblem
from stencil_app.mhd.mesh import B1, B2, B3, LATERAL_GHOSTS, M1, M2, M3, RHO, E

if TYPE_CHECKING:
    from stencil_app.mesh.slab import Slab

#: Quantities in the order in which they are given and written.
QUANTITIES = ("rho", "p", "vx", "vy", "vz", "Bx", "By", "Bz")
_I0 = LATERAL_GHOSTS


def mhd_problem(slab: Slab) -> MhdProblem:
    """Return the problem of a slab that is known to be one of magnetohydrodynamics."""
    assert isinstance(slab.problem, MhdProblem)
    return slab.problem


def centred(slab: Slab) -> dict[str, Array]:
    """Return this slab's quantities by name, and total energy as `e`, float64[rows, nj, ni]."""
    problem = mhd_problem(slab)
    layout, field = problem.layout, slab.field
    own = slice(layout.ghost_rows, layout.ghost_rows + slab.rows)
    above = slice(own.start + 1, own.stop + 1)
    lines, entries = layout.lines, layout.entries
    b = (
        0.5 * (field[own, B1, lines, entries] + field[own, B1, lines, _I0 + 1 : _I0 + 1 + layout.ni]),
        0.5 * (field[own, B2, lines, entries] + field[own, B2, lines.start + 1 : lines.stop + 1, entries]),
        0.5 * (field[own, B3, lines, entries] + field[above, B3, lines, entries]),
    )
    rho, energy = field[own, RHO, lines, entries], field[own, E, lines, entries]
    v = [field[own, m, lines, entries] / rho for m in (M1, M2, M3)]
    kinetic = 0.5 * rho * (v[0] ** 2 + v[1] ** 2 + v[2] ** 2)
    magnetic = 0.5 * (b[0] ** 2 + b[1] ** 2 + b[2] ** 2)
    found = {"rho": rho.copy(), "p": (problem.case.gamma - 1.0) * (energy - kinetic - magnetic)}
    order = problem.frame.order
    found |= {f"v{axis}": v[order.index(number)] for number, axis in enumerate("xyz")}
    found |= {f"B{axis}": b[order.index(number)] for number, axis in enumerate("xyz")}
    return {**found, "e": energy.copy()}


def gathered(slab: Slab, names: tuple[str, ...] = QUANTITIES) -> Iterator[tuple[str, Array | None]]:
    """Name and float64[nz, ny, nx] on rank 0, None elsewhere, one quantity after the other; collective."""
    frame, comm = mhd_problem(slab).frame, slab.comm
    ni, nj, nk = frame.cells
    counts = [rows * nj * ni for rows in slab.decomposition.heights]
    values = centred(slab)
    axes = tuple(2 - frame.order.index(axis) for axis in (2, 1, 0))
    for name in names:
        whole = np.empty((nk, nj, ni)) if comm.rank == 0 else None
        receive = None if whole is None else [whole, counts]
        comm.Gatherv(np.ascontiguousarray(values[name]), receive)
        yield name, None if whole is None else np.ascontiguousarray(np.transpose(whole, axes))


def whole(slab: Slab) -> dict[str, Array]:
    """Return all quantities on rank 0, nothing elsewhere; collective."""
    return {name: values for name, values in gathered(slab) if values is not None}
