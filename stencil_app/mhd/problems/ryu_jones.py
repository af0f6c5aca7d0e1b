"""Shock tube 2a of Ryu and Jones: all seven waves at once, three of them rotating the field.

Ryu and Jones 1995, ApJ 442, 228, figure 2a, first in Dai and Woodward 1994, J. Comput. Phys. 115, 485: γ = 5/3. The
exact answer is eight constant states; `exact` gives those of the literature.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt

from stencil_app.mhd import tube
from stencil_app.mhd.case import ADIABATIC, Case
from stencil_app.options import Value

OPTIONS = tube.options(512)

_N = 1.0 / sqrt(4.0 * pi)
TUBE = tube.Tube(
    left=tube.State(
        density=1.08, pressure=0.95, velocity=(1.2, 0.01, 0.5), field=(2.0 * _N, 3.6 * _N, 2.0 * _N)
    ),
    right=tube.State(
        density=1.0, pressure=1.0, velocity=(0.0, 0.0, 0.0), field=(2.0 * _N, 4.0 * _N, 2.0 * _N)
    ),
    gamma=ADIABATIC,
    until=0.2,
)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    return tube.make(TUBE, values)
