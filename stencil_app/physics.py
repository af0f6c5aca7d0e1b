"""The interface between a physics and the slab runtime.

A `Physics` is light and importable without numpy: name, help and options. It makes a `Problem`, which holds the kernels
and works on the field of one slab. A problem never sees MPI, files or clocks; halo exchange, reduction, checkpoints and
timing belong to the runtime (`stencil_app.running.runtime`), the same for every physics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from stencil_app.options import Option, Value

if TYPE_CHECKING:
    from stencil_app.mesh.layout import Array, Layout, SlabLayout


class Problem(Protocol):
    """One physics with its parameters on a mesh of `size` rows.

    periodic : whether the last row's neighbour is the first row
    parameters : all parameters of the answer, without the number of iterations; kept in checkpoints
    floored : values of this slab raised to a floor so far; the sum over slabs is kept in checkpoints
    """

    name: str
    size: int
    periodic: bool
    floored: int
    parameters: Mapping[str, Value]

    @property
    def layout(self) -> SlabLayout:
        """Return how slabs lie in memory."""

    def initialise(self, interior: Array, first_row: int) -> None:
        """Set the initial values of the slab's own cells (`SlabLayout.interior`), global rows `first_row`..."""

    def dress(self, field: Array, first_row: int) -> None:
        """Set every ghost cell that no exchange delivers, from the boundary or the slab's own cells."""

    def rate_bits(self, field: Array, first_row: int, *, ends: bool) -> int:
        """Return the bit pattern of a number >= 0 whose maximum over all slabs bounds the next step; 0 for no bound.

        ends : of the rows that neighbours are sent, or of all others. May change own values of these rows, for the
        last time in an iteration
        """

    def choose_step(self, rate: float, longest: float) -> float:
        """Return length of the next iteration in the problem's own time, at most `longest`, kept for the sweep."""

    def failure(self, field: Array, first_row: int) -> str | None:
        """Return where and how this slab's values are not finite, or None; asked when the rate is not."""

    def sweep_ahead(self, field: Array, out: Array, first_row: int) -> None:
        """Compute the part of `sweep` that needs no ghost rows, while they are late; may do nothing."""

    def sweep(self, field: Array, out: Array, first_row: int) -> None:
        """Compute one iteration of all own cells of `field` into `out`, with its ghosts set; `field` stays."""


class FixedStep:
    """The part of a `Problem` whose iterations are all alike: no reduction, no overlap, no floors.

    step : length of an iteration in the problem's own time
    """

    step = 1.0
    floored = 0

    def rate_bits(self, field: Array, first_row: int, *, ends: bool) -> int:
        """See `Problem`."""
        return 0

    def choose_step(self, rate: float, longest: float) -> float:
        """See `Problem`."""
        return self.step

    def failure(self, field: Array, first_row: int) -> str | None:
        """See `Problem`."""
        return None

    def sweep_ahead(self, field: Array, out: Array, first_row: int) -> None:
        """See `Problem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """An entry of the registry. `module`: has `make(size, values) -> Problem`; imports numpy and numba."""

    name: str
    summary: str
    row: str
    options: tuple[Option, ...]
    module: str

    def layout(self, values: Mapping[str, Value]) -> Layout:
        """Return how the slabs of a mesh with these option values lie in memory; costs no kernels."""
        from stencil_app.mesh.layout import Layout

        return Layout(nx=int(values["nx"]), ny=int(values.get("ny", 1)), ny_ghosts="ny" in values)

    def make(self, size: int, values: Mapping[str, Value]) -> Problem:
        """Return problem of `size` rows with checked option values; imports the kernels."""
        factory: Callable[[int, Mapping[str, Value]], Problem] = import_module(self.module).make
        return factory(size, values)
