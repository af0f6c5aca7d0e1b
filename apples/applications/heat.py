"""The 3-D heat equation as a template: a row is a plane of nx × ny cells."""

from apples.applications.slab_stencil import SlabStencil
from stencil_app.heat import HEAT

TEMPLATE = SlabStencil(HEAT)
