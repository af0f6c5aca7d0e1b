"""Vortex of Orszag and Tang: smooth flow that breaks up into interacting shocks, in the plane.

Orszag and Tang 1979, J. Fluid Mech. 90, 129, in the compressible form of Stone et al. 2008, ApJS 178, 137, §8.4: unit
square, γ = 5/3, speed 1, ρ = 25/36π, p = 5/12π, so that the sound speed is 1. Point symmetric about the middle.
"""

from collections.abc import Mapping
from math import pi, sqrt

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case, mesh_of
from stencil_app.options import Option, Value

OPTIONS = (Option(name="n", default="256", at_least=4, help="cells along each side"),)

_FIELD = 1.0 / sqrt(4.0 * pi)


def _velocity(axis: int, x: Array, y: Array, z: Array) -> Array | float:
    if axis == 0:
        return -np.sin(2.0 * pi * y)
    return np.sin(2.0 * pi * x) if axis == 1 else 0.0


def _potential(axis: int, x: Array, y: Array, z: Array) -> Array | float:
    if axis != 2:
        return 0.0
    return _FIELD * (np.cos(4.0 * pi * x) / (4.0 * pi) + np.cos(2.0 * pi * y) / (2.0 * pi))


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    n = int(values["n"])
    return Case(
        cells=mesh_of(values, (n, n, 1)),
        lower=(0.0, 0.0, 0.0),
        upper=(1.0, 1.0, 1.0),
        boundaries=("periodic", "periodic", "periodic"),
        courant=float(values["courant"]),
        until=0.5,
        density=lambda x, y, z: 25.0 / (36.0 * pi),
        pressure=lambda x, y, z: 5.0 / (12.0 * pi),
        velocity=_velocity,
        potential=_potential,
    )
