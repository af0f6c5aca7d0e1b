"""The slab physics of this package, by name."""

from __future__ import annotations

from stencil_app.heat import HEAT
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.physics import Physics


def registry() -> dict[str, Physics]:
    """Return all physics by name."""
    return {physics.name: physics for physics in (HEAT, JACOBI2D)}
