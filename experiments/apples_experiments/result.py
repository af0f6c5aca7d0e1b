"""Result of an experiment: rows with the paper's value beside ours, the constants used, and the seeds.

The JSON form is part of the document of `apples experiment ID --json`. Figures are plain numbers, so that this module
needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Progress = Callable[[str], None]
"""Receives one line of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value beside the paper's. `paper` is None where the paper prints no number."""

    name: str
    paper: float | None
    ours: float
    unit: str

    @property
    def relative(self) -> float | None:
        """Return ours / paper - 1, or None where the paper has no value or 0."""
        return None if not self.paper else self.ours / self.paper - 1

    def as_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        return {
            "name": self.name,
            "paper": self.paper,
            "ours": self.ours,
            "unit": self.unit,
            "relative": self.relative,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points to draw. `style` is "line", "dashed", "points", "bars", or "plain" for a line without marks."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: str = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper, drawn again. `log_x`: the horizontal axis is logarithmic."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Values returned by an experiment.

    constants: parameters of the run, JSON-ready.
    further: more keys of the document, JSON-ready.
    panels: figures that replace `figure` where the paper's figure has several parts.
    notes: remarks for the reader, one line each.
    """

    rows: tuple[Row, ...]
    constants: Mapping[str, Any]
    seeds: tuple[int, ...]
    figure: Figure
    panels: tuple[Figure, ...] = ()
    further: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "rows": [row.as_json() for row in self.rows],
            "constants": dict(self.constants),
            "seeds": list(self.seeds),
            **self.further,
            "notes": list(self.notes),
        }
