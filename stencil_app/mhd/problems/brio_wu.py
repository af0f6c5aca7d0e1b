"""Shock tube of Brio and Wu: compound wave, slow shock, contact and two rarefactions.

Brio and Wu 1988, J. Comput. Phys. 75, 400, §5: γ = 2, B along the tube 0.75, both sides at rest. No exact answer with a
compound wave exists; runs are compared with one of much higher resolution.
"""

from collections.abc import Mapping

from stencil_app.mhd import tube
from stencil_app.mhd.case import Case
from stencil_app.options import Value

OPTIONS = tube.options(512)

TUBE = tube.Tube(
    left=tube.TubeState(density=1.0, pressure=1.0, velocity=(0.0, 0.0, 0.0), field=(0.75, 1.0, 0.0)),
    right=tube.TubeState(density=0.125, pressure=0.1, velocity=(0.0, 0.0, 0.0), field=(0.75, -1.0, 0.0)),
    gamma=2.0,
    until=0.1,
)


def make(values: Mapping[str, Value]) -> Case:
    """See `stencil_app.mhd.problems`."""
    return tube.make(TUBE, values)
