"""Blast wave in a magnetised medium: a hot ball that can only spread along the field.

After Gardiner and Stone 2008, J. Comput. Phys. 227, 4123, §6.5, and Londrillo and Del Zanna 2000: unit cube, ρ = 1 at
rest, a uniform oblique field, and inside of a sphere a pressure many times that outside. No exact answer; with the box
periodic, mass, momentum and energy are kept, and the picture is point symmetric.
"""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case, mesh_of
from stencil_app.options import Option, Value

OPTIONS = (
    Option(name="n", default="64", at_least=4, help="cells along each edge"),
    Option(name="radius", type=float, default="0.1", above=0.0, at_most=0.5, help="of the hot ball"),
    Option(name="pressure", type=float, default="0.1", above=0.0, help="outside of the ball"),
    Option(name="ratio", type=float, default="100", above=0.0, help="pressure inside to outside"),
    Option(name="field", type=float, default="1", at_least=0.0, help="strength along (1, 1, 1)"),
    Option(
        name="boundary",
        default="periodic",
        choices=("periodic", "outflow", "reflecting"),
        help="walls of the box; reflecting ones let no field through, so only with field 0",
    ),
)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    n, radius = int(values["n"]), float(values["radius"])
    outside, ratio = float(values["pressure"]), float(values["ratio"])
    strength, boundary = float(values["field"]) / sqrt(3.0), str(values["boundary"])

    def pressure(x: Array, y: Array, z: Array) -> Array:
        inside = x * x + y * y + z * z < radius * radius
        return np.where(inside, ratio * outside, outside)

    return Case(
        cells=mesh_of(values, (n, n, n)),
        lower=(-0.5, -0.5, -0.5),
        upper=(0.5, 0.5, 0.5),
        boundaries=(boundary, boundary, boundary),
        courant=float(values["courant"]),
        until=0.2,
        density=lambda x, y, z: 1.0,
        pressure=pressure,
        velocity=lambda axis, x, y, z: 0.0,
        field=lambda axis, x, y, z: strength,
    )
