"""Heat: the 3-D heat equation on the unit cube of size × ny × nx cells, 7-point, explicit, slabs along z."""

from stencil_app.options import Option
from stencil_app.physics import Physics

HEAT = Physics(
    name="heat",
    summary="3-D heat equation, 7-point explicit scheme, in slabs along z",
    row="plane of nx × ny cells",
    module="stencil_app.heat.diffusion",
    options=(
        Option(name="nx", default="256", at_least=1, help="cells along x"),
        Option(name="ny", default="256", at_least=1, help="cells along y"),
        Option(
            name="boundary",
            default="fixed",
            choices=("fixed", "periodic", "insulated"),
            help="fixed: walls held at 0; periodic; insulated: no flux through the walls",
        ),
        Option(
            name="initial",
            default="mode",
            choices=("mode", "gaussian", "random"),
            help="mode: slowest decaying mode that fits the boundary; gaussian: hot spot in the middle; "
            "random: noise in 0..1",
        ),
        Option(
            name="courant",
            type=float,
            default="0.9",
            above=0.0,
            at_most=1.0,
            help="time step as a fraction of the largest stable one",
        ),
    ),
)
