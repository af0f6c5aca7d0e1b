"""A problem of magnetohydrodynamics: a box, a gas, walls, an initial state, and its exact answer if known.

A module of `stencil_app.mhd.problems` makes one from its options; a new problem is that one file. Units are those in
which the magnetic permeability is 1: magnetic pressure is B²/2. Functions take coordinates as arrays that broadcast
against each other, and return arrays that do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from stencil_app.options import Option, Value

if TYPE_CHECKING:
    from stencil_app.mesh.layout import Array

    #: f(x, y, z), and one component of a vector: f(axis, x, y, z), axis 0, 1, 2.
    Scalar = Callable[[Array, Array, Array], Array | float]
    Component = Callable[[int, Array, Array, Array], Array | float]

ADIABATIC = 5.0 / 3.0

#: Options of every problem; 0 along an axis is what the problem takes by itself for `n`.
COMMON = (
    Option(name="nx", default="0", at_least=0, help="cells along x instead of what n gives; 0: as n gives"),
    Option(name="ny", default="0", at_least=0, help="cells along y instead of what n gives"),
    Option(name="nz", default="0", at_least=0, help="cells along z instead of what n gives"),
    Option(
        name="courant",
        type=float,
        default="0.3",
        above=0.0,
        at_most=0.5,
        help="time step as a fraction of the time that the fastest signal takes through a cell",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A problem with its options settled.

    cells, lower, upper : of the box along x, y, z.  boundaries : periodic, outflow or reflecting, of each axis
    gamma : adiabatic index.  courant : fraction of the longest stable step.  until : time to end at
    density, velocity, pressure : at the centres of cells
    field : at the centres of faces; must be free of divergence by itself.  potential : A on edges; B = field + curl A
    energy : total energy at the centres if it does not follow from pressure
    """

    cells: tuple[int, int, int]
    lower: tuple[float, float, float]
    upper: tuple[float, float, float]
    boundaries: tuple[str, str, str]
    gamma: float = ADIABATIC
    courant: float
    until: float
    density: Scalar
    velocity: Component
    pressure: Scalar
    field: Component | None = None
    potential: Component | None = None
    energy: Scalar | None = None


def mesh_of(values: Mapping[str, Value], natural: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return cells of the box: `natural` ones, or those that nx, ny, nz name."""
    nx, ny, nz = (int(values[name]) or n for name, n in zip(("nx", "ny", "nz"), natural, strict=True))
    return nx, ny, nz


def names() -> list[str]:
    """Return the names of all problems, in alphabetical order; imports none of them."""
    from stencil_app.mhd import problems

    return sorted(module.name.replace("_", "-") for module in iter_modules(problems.__path__))


def summary(name: str) -> str:
    """Return a problem's summary: the first line of its file, read without importing it."""
    from stencil_app.mhd import problems

    path = Path(next(iter(problems.__path__)), f"{name.replace('-', '_')}.py")
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"').rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A problem of the command line. `make` turns option values into a `Case`."""

    name: str
    summary: str
    options: tuple[Option, ...]
    make: Callable[[Mapping[str, Value]], Case]


def entry(name: str) -> Entry:
    """Return the problem of this name, one of `names()`."""
    module = import_module(f"stencil_app.mhd.problems.{name.replace('-', '_')}")
    options = (*module.OPTIONS, *COMMON)
    return Entry(name=name, summary=summary(name), options=options, make=module.make)
