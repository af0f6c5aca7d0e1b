"""The interface between a physics and the slab runtime.

A `Physics` is light and importable without numpy: name, help and options. It makes a `Problem`, which holds the kernels
and works on the field of one slab. A problem never sees MPI, files or clocks; halo exchange, reduction, checkpoints and
timing belong to the runtime (`stencil_app.running.runtime`), the same for every physics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from stencil_app.options import Option, Value

if TYPE_CHECKING:
    from stencil_app.mesh.decomposition import Decomposition
    from stencil_app.mesh.layout import Array, Layout, SlabLayout


class Problem(Protocol):
    """One physics with its parameters on a mesh of `size` rows.

    periodic : whether the last row's neighbour is the first row
    parameters : all parameters of the answer, without the number of iterations; kept in checkpoints
    floored : values of this slab raised to a floor so far; the sum over slabs is kept in checkpoints
    sweeps : iterations from one exchange to the next, at most
    """

    name: str
    size: int
    periodic: bool
    floored: int
    sweeps: int
    parameters: Mapping[str, Value]

    @property
    def layout(self) -> SlabLayout:
        """Return how slabs lie in memory."""

    def fit(self, slabs: Decomposition) -> None:
        """Choose `sweeps` and ghost rows for these slabs, before any is allocated; the same on all ranks."""

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

    def sweep(self, field: Array, out: Array, first_row: int, count: int = 1) -> None:
        """Compute `count` iterations, at most `sweeps`, of all own cells, alternately into `out` and `field`.

        Afterwards one field has the last values, with its ghosts set, the other those before them.
        """


class FixedStep:
    """The part of a `Problem` whose iterations are all alike: no reduction, no overlap, no floors.

    step : length of an iteration in the problem's own time
    best_sweeps : iterations for each exchange on high slabs
    """

    step = 1.0
    floored = 0
    sweeps = 1
    periodic = False
    best_sweeps = 8

    def __init__(
        self, physics: Physics, size: int, values: Mapping[str, Value], sweeps: int | None = None
    ) -> None:
        self.size = size
        self.parameters = {"size": size, **values}
        self.layout = physics.layout(values)
        self.boundary = str(values["boundary"])
        self.initial = str(values["initial"])
        self._requested_sweeps = sweeps

    def fit(self, slabs: Decomposition) -> None:
        """See `Problem`. Ghost rows come from one neighbour, so no slab is thinner than the sweeps."""
        thinnest = min(slabs.heights)
        most = self._requested_sweeps or self.best_sweeps
        if self._requested_sweeps is None and slabs.ranks > 1:
            # Each sweep computes half as many ghost rows again: at most a sixteenth of a slab's rows on each side.
            most = min(most, 1 << (max(1, thinnest // 8).bit_length() - 1))
        self.sweeps = min(most, thinnest)
        self.layout = replace(self.layout, ghost_rows=self.sweeps)

    def planes(self, field: Array, first_row: int, count: int) -> tuple[int, int, int, int, int]:
        """Return what `stencil_app.mesh.wavefront` needs for `count` iterations of a slab."""
        ghosts = self.layout.ghost_rows
        end = field.shape[0] - ghosts
        below = self.periodic or first_row > 0
        above = self.periodic or first_row + end - ghosts < self.size
        return count, ghosts, end, int(below), int(above)

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

    def make(self, size: int, values: Mapping[str, Value], sweeps: int | None = None) -> Problem:
        """Return problem of `size` rows with checked option values; imports the kernels.

        sweeps : iterations for each exchange; None to choose them from the slabs
        """
        factory: Callable[..., Problem] = import_module(self.module).make
        return factory(size, values, sweeps)
