"""Circularly polarised Alfvén wave, travelling or standing: an exact answer of any amplitude.

Tóth 2000, J. Comput. Phys. 161, 605; in the boxes of Gardiner and Stone 2005, §4.2 (plane) and 2008, §6.2 (oblique):
ρ = 1, p = 0.1, field 1 along the wave, transverse field and velocity 0.1 turning about it. It travels against the
field at speed 1; with a flow of the same speed it is at rest. The answer is the initial state, after every period.
"""

from collections.abc import Mapping
from math import pi

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import Case, mesh_of
from stencil_app.mhd.oblique import WaveFrame
from stencil_app.options import Option, Value

OPTIONS = (
    Option(name="n", default="32", at_least=8, help="cells along x; half as many along the others"),
    Option(name="dimensions", default="3", at_least=2, at_most=3, help="2: in the plane; 3: oblique"),
    Option(
        name="kind", default="travelling", choices=("travelling", "standing"), help="with or without flow"
    ),
    Option(name="amplitude", type=float, default="0.1", above=0.0, at_most=1.0, help="of field and velocity"),
    Option(name="periods", type=float, default="1", above=0.0, help="time to end at"),
)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    frame, a = WaveFrame(int(values["dimensions"])), float(values["amplitude"])
    flow = 1.0 if values["kind"] == "standing" else 0.0

    def velocity(one: Array, two: Array) -> tuple[float, Array, Array]:
        return flow, a * np.sin(2.0 * pi * one), a * np.cos(2.0 * pi * one)

    def potential(one: Array, two: Array) -> tuple[float, Array, Array]:
        # curl: -dA3/d1 = a sin, dA2/d1 = a cos
        return 0.0, a * np.sin(2.0 * pi * one) / (2.0 * pi), a * np.cos(2.0 * pi * one) / (2.0 * pi)

    return Case(
        cells=mesh_of(values, frame.cells(int(values["n"]))),
        lower=(0.0, 0.0, 0.0),
        upper=frame.length,
        boundaries=("periodic", "periodic", "periodic"),
        courant=float(values["courant"]),
        until=float(values["periods"]),
        density=lambda x, y, z: 1.0,
        velocity=frame.turned(velocity),
        pressure=lambda x, y, z: 0.1,
        field=frame.turned(lambda one, two: (1.0, 0.0, 0.0)),
        potential=frame.turned(potential),
    )
