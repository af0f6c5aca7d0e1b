"""Jacobi: Laplace's equation on size × nx points by Jacobi iteration, in strips of rows."""

from stencil_app.options import Option
from stencil_app.physics import Physics

JACOBI2D = Physics(
    name="jacobi2d",
    summary="2-D Laplace equation, 5-point Jacobi iteration, in strips of rows",
    row="line of nx points",
    module="stencil_app.jacobi2d.laplace",
    options=(
        Option(name="nx", default="65536", at_least=1, help="points along x"),
        Option(
            name="boundary",
            default="sine",
            choices=("sine", "hot"),
            help="value on the side beyond the last row: sine: sin(πx); hot: 1; the other sides are 0",
        ),
        Option(
            name="initial",
            default="zero",
            choices=("zero", "random"),
            help="first guess; random: noise in 0..1",
        ),
    ),
)
