"""Shock tubes: two constant states meet at the middle of a box of length 1, across any of its axes.

Directions turn with the axis, so that the three tubes are one problem: normal, first and second transverse component
of a vector lie along (x, y, z), (y, z, x) or (z, x, y). The box may be some cells wide; across it nothing happens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case, mesh_of
from stencil_app.options import Option, Value

AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TubeState:
    """One side of a tube: velocity and field as (normal, transverse, transverse)."""

    density: float
    pressure: float
    velocity: tuple[float, float, float]
    field: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tube:
    """A tube: both sides, the gas, and its end time."""

    left: TubeState
    right: TubeState
    gamma: float
    until: float


def options(n: int) -> tuple[Option, ...]:
    """Return options of a tube of `n` cells by default."""
    return (
        Option(name="n", default=str(n), at_least=4, help="cells along the tube"),
        Option(name="axis", default="x", choices=tuple(AXES), help="direction of the tube"),
        Option(name="width", default="1", at_least=1, help="cells across the tube, along both other axes"),
    )


def make(tube: Tube, values: Mapping[str, Value]) -> Case:
    """Return the case of a tube."""
    axis, n, width = AXES[str(values["axis"])], int(values["n"]), int(values["width"])
    natural = [width] * 3
    natural[axis] = n
    cells = mesh_of(values, (natural[0], natural[1], natural[2]))
    length = [cells[a] / cells[axis] for a in range(3)]

    def pick(left: float, right: float, *at: Array) -> Array:
        return np.where(at[axis] < 0.0, left, right)

    def component(name: str, a: int, *at: Array) -> Array:
        turned = (a - axis) % 3
        return pick(getattr(tube.left, name)[turned], getattr(tube.right, name)[turned], *at)

    return Case(
        cells=cells,
        lower=(-length[0] / 2, -length[1] / 2, -length[2] / 2),
        upper=(length[0] / 2, length[1] / 2, length[2] / 2),
        boundaries=("outflow", "outflow", "outflow"),
        gamma=tube.gamma,
        courant=float(values["courant"]),
        until=tube.until,
        density=lambda *at: pick(tube.left.density, tube.right.density, *at),
        pressure=lambda *at: pick(tube.left.pressure, tube.right.pressure, *at),
        velocity=lambda a, *at: component("velocity", a, *at),
        field=lambda a, *at: component("field", a, *at),
    )
