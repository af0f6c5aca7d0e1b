"""Advection of a weak field loop, in the plane or as an oblique cylinder: the scheme's effect on B alone.

Gardiner and Stone 2005, §3.3, and 2008, §6.4: ρ = p = 1, a loop of radius 0.3 and field 10⁻³ carried once round a
periodic box. Its field energy decays by numerical resistivity alone; in the oblique box the flow has a component along
the cylinder, and a field along it would show that the scheme's edge fields do not fit its fluxes.
"""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case, mesh_of
from stencil_app.options import Option, Value

OPTIONS = (
    Option(name="n", default="64", at_least=8, help="cells along the shorter sides"),
    Option(
        name="dimensions", default="2", at_least=2, at_most=3, help="2: in the plane; 3: oblique cylinder"
    ),
    Option(name="radius", type=float, default="0.3", above=0.0, at_most=0.4, help="of the loop"),
    Option(name="field", type=float, default="1e-3", above=0.0, help="strength inside of the loop"),
)
_ROOT_5 = sqrt(5.0)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    n, radius, field = int(values["n"]), float(values["radius"]), float(values["field"])
    is_oblique = int(values["dimensions"]) == 3
    flow = (1.0, 1.0, 2.0) if is_oblique else (2.0, 1.0, 0.0)

    def along_cylinder(one: Array, two: Array) -> Array:
        return field * np.maximum(radius - np.sqrt(one * one + two * two), 0.0)

    def potential(axis: int, x: Array, y: Array, z: Array) -> Array | float:
        if not is_oblique:
            return along_cylinder(x, y) if axis == 2 else 0.0
        if axis == 1:
            return 0.0
        # the cylinder's axis is (-1, 0, 2)/√5; across it lie (2, 0, 1)/√5 and y, and the loop repeats every 2/√5
        period = 2.0 / _ROOT_5
        one = (2.0 * x + z) / _ROOT_5
        one = one - period * np.floor(one / period + 0.5)
        share = -1.0 / _ROOT_5 if axis == 0 else 2.0 / _ROOT_5
        return share * along_cylinder(one, y)

    # longest side last in space, but along lines in the plane, where it vectorises
    natural, half = ((n, n, 2 * n), (0.5, 0.5, 1.0)) if is_oblique else ((2 * n, n, 1), (1.0, 0.5, 0.5))
    return Case(
        cells=mesh_of(values, natural),
        lower=(-half[0], -half[1], -half[2]),
        upper=half,
        boundaries=("periodic", "periodic", "periodic"),
        courant=float(values["courant"]),
        until=1.0,
        density=lambda x, y, z: 1.0,
        velocity=lambda axis, x, y, z: flow[axis],
        pressure=lambda x, y, z: 1.0,
        potential=potential,
    )
