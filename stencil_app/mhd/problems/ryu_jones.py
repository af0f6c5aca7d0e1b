"""Shock tube 2a of Ryu and Jones: all seven waves at once, three of them rotating the field.

Ryu and Jones 1995, ApJ 442, 228, figure 2a, first in Dai and Woodward 1994, J. Comput. Phys. 115, 485: γ = 5/3. The
exact answer is eight constant states; `exact` gives those of the literature.
"""

from collections.abc import Mapping
from math import pi, sqrt

import numpy as np

from stencil_app.mesh.layout import Array
from stencil_app.mhd import tube
from stencil_app.mhd.case import ADIABATIC, Case
from stencil_app.options import Value

OPTIONS = tube.options(512)

_N = 1.0 / sqrt(4.0 * pi)
TUBE = tube.Tube(
    left=tube.TubeState(
        density=1.08, pressure=0.95, velocity=(1.2, 0.01, 0.5), field=(2.0 * _N, 3.6 * _N, 2.0 * _N)
    ),
    right=tube.TubeState(
        density=1.0, pressure=1.0, velocity=(0.0, 0.0, 0.0), field=(2.0 * _N, 4.0 * _N, 2.0 * _N)
    ),
    gamma=ADIABATIC,
    until=0.2,
)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    return tube.make(TUBE, values)


#: The eight states between the jumps, left to right: ρ, p, velocity (normal, transverse, transverse), transverse field.
#: Between the first and the last they follow from the jump conditions of two fast shocks, two rotations, two slow
#: shocks and a contact; the speeds are those of Dai and Woodward to within a unit of their last digit.
_STATES = (
    (1.08, 0.95, (1.2, 0.01, 0.5), (1.01554125, 0.564189584)),
    (1.490336998, 1.65576976, (0.605878329, 0.112350738, 0.556861521), (1.438315835, 0.799064353)),
    (1.490336998, 1.65576976, (0.605878329, 0.221567078, 0.301249745), (1.571646443, 0.487015135)),
    (1.6342995, 1.931671563, (0.575383315, 0.047600605, 0.247341753), (1.41255894, 0.437717774)),
    (1.473453156, 1.931671563, (0.575383315, 0.047600605, 0.247341753), (1.41255894, 0.437717774)),
    (1.308950706, 1.584366052, (0.534320165, -0.184106874, 0.175541222), (1.61028072, 0.498986961)),
    (1.308950706, 1.584366052, (0.534320165, -0.094571648, -0.047285824), (1.50784402, 0.75392201)),
    (1.0, 1.0, (0.0, 0.0, 0.0), (1.128379167, 0.564189584)),
)
SPEEDS = (-0.957839805, 0.143728473, 0.259691063, 0.575383315, 0.902123982, 1.027452429, 2.263787535)


def exact(position: Array, time: float) -> dict[str, Array]:
    """Return exact state along the tube by name: rho, p, and normal and transverse components vn, vt, vs, Bn, Bt, Bs.

    position : distance from the middle, along the tube
    """
    at = np.searchsorted(np.array(SPEEDS) * time, position)
    rho, p = (np.array([state[q] for state in _STATES])[at] for q in range(2))
    v = [np.array([state[2][c] for state in _STATES])[at] for c in range(3)]
    b = [np.array([state[3][c] for state in _STATES])[at] for c in range(2)]
    normal = np.full(at.shape, TUBE.left.field[0])
    return {"rho": rho, "p": p, "vn": v[0], "vt": v[1], "vs": v[2], "Bn": normal, "Bt": b[0], "Bs": b[1]}
