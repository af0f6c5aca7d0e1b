"""The 2-D Jacobi iteration as a template: a row is a line of nx points (the paper's other code, §5)."""

from apples.applications.slab_stencil import SlabStencil
from stencil_app.jacobi2d import JACOBI2D

TEMPLATE = SlabStencil(JACOBI2D)
