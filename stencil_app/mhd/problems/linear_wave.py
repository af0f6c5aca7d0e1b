"""Linear waves oblique to the mesh: fast, Alfvén, slow or entropy wave of small amplitude, one period.

Gardiner and Stone 2008, J. Comput. Phys. 227, 4123, §6.1: ρ = 1, p = 1/γ, field (1, √2, 1/2) in the frame of the wave;
with it the fast, Alfvén and slow speeds are 2, 1 and 1/2. The state is q + A R sin(2πx) with the right eigenvectors R
of the conserved variables printed there. The exact answer is the initial state, after every period.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd.case import ADIABATIC, Case, mesh_of
from stencil_app.mhd.oblique import WaveFrame
from stencil_app.options import Option, Value

OPTIONS = (
    Option(name="n", default="32", at_least=8, help="cells along x; half as many along y and z"),
    Option(
        name="wave",
        default="fast",
        choices=("fast", "alfven", "slow", "entropy"),
        help="which of the waves",
    ),
    Option(name="direction", default="right", choices=("right", "left"), help="which way it runs"),
    Option(name="amplitude", type=float, default="1e-6", above=0.0, at_most=0.1, help="A"),
)

_FIELD = (1.0, sqrt(2.0), 0.5)
_PRESSURE = 1.0 / ADIABATIC
_F = 1.0 / (6.0 * sqrt(5.0))
_TWO = sqrt(2.0)

#: Speed, density, momentum, transverse field and energy of each wave to the right.
_EIGENVECTORS = {
    "fast": (2.0, 6.0 * _F, (12.0 * _F, -4.0 * _TWO * _F, -2.0 * _F), (8.0 * _TWO * _F, 4.0 * _F), 27.0 * _F),
    "alfven": (1.0, 0.0, (0.0, 1.0 / 3.0, -2.0 * _TWO / 3.0), (-1.0 / 3.0, 2.0 * _TWO / 3.0), 0.0),
    "slow": (0.5, 12.0 * _F, (6.0 * _F, 8.0 * _TWO * _F, 4.0 * _F), (-4.0 * _TWO * _F, -2.0 * _F), 9.0 * _F),
    "entropy": (1.0, 1.0, (1.0, 0.0, 0.0), (0.0, 0.0), 0.5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Eigenvector:
    """Speed of a wave, and how the conserved variables change in it: ρ, momentum, transverse field, energy."""

    speed: float
    density: float
    momentum: tuple[float, float, float]
    field: tuple[float, float]
    energy: float


def eigenvector(wave: str, direction: str) -> Eigenvector:
    """Return right eigenvector of Gardiner and Stone 2008, §6.1; momentum of a wave to the left has the other sign."""
    s = 1.0 if direction == "right" else -1.0
    speed, density, momentum, field, energy = _EIGENVECTORS[wave]
    normal, one, two = momentum
    momentum = (s * normal, s * one, s * two)
    return Eigenvector(speed=speed, density=density, momentum=momentum, field=field, energy=energy)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    frame = WaveFrame(3)
    wave, direction = str(values["wave"]), str(values["direction"])
    r, amplitude = eigenvector(wave, direction), float(values["amplitude"])
    # an entropy wave moves with the flow
    flow = (1.0 if direction == "right" else -1.0) if wave == "entropy" else 0.0

    def sine(x: Array, y: Array, z: Array) -> Array:
        return amplitude * np.sin(2.0 * pi * frame.along(0, x, y, z))

    def density(x: Array, y: Array, z: Array) -> Array:
        return 1.0 + r.density * sine(x, y, z)

    momentum = frame.turned(
        lambda one, two: (
            flow + r.momentum[0] * amplitude * np.sin(2.0 * pi * one),
            r.momentum[1] * amplitude * np.sin(2.0 * pi * one),
            r.momentum[2] * amplitude * np.sin(2.0 * pi * one),
        )
    )

    def potential(one: Array, two: Array) -> tuple[float, Array, Array]:
        swing = amplitude * np.cos(2.0 * pi * one) / (2.0 * pi)
        return 0.0, -r.field[1] * swing, r.field[0] * swing

    background = 0.5 * flow * flow + _PRESSURE / (ADIABATIC - 1.0) + 0.5 * sum(b * b for b in _FIELD)
    return Case(
        cells=mesh_of(values, frame.cells(int(values["n"]))),
        lower=(0.0, 0.0, 0.0),
        upper=frame.length,
        boundaries=("periodic", "periodic", "periodic"),
        courant=float(values["courant"]),
        until=1.0 / r.speed,
        density=density,
        velocity=lambda axis, x, y, z: momentum(axis, x, y, z) / density(x, y, z),
        pressure=lambda x, y, z: _PRESSURE,
        energy=lambda x, y, z: background + r.energy * sine(x, y, z),
        field=frame.turned(lambda one, two: _FIELD),
        potential=frame.turned(potential),
    )


def exact(values: Mapping[str, Value], *at: Array) -> dict[str, Array]:
    """Return conserved variables at the centres of cells after every period: rho, mx, my, mz, e, Bx, By, Bz."""
    frame, case = WaveFrame(3), make(values)
    r = eigenvector(str(values["wave"]), str(values["direction"]))
    sine = float(values["amplitude"]) * np.sin(2.0 * pi * frame.along(0, *at))
    rho = np.asarray(case.density(*at))
    assert case.energy is not None
    field = (
        np.full(sine.shape, _FIELD[0]),
        _FIELD[1] + r.field[0] * sine,
        _FIELD[2] + r.field[1] * sine,
    )
    quantities = {"rho": rho, "e": np.asarray(case.energy(*at))}
    for a, axis in enumerate("xyz"):
        quantities[f"m{axis}"] = rho * case.velocity(a, *at)
        quantities[f"B{axis}"] = np.asarray(sum(frame.axes[a][c] * field[c] for c in range(3)))
    return quantities
