"""What an experiment gives: rows with the paper's figure beside ours, the constants used, and the seeds.

The JSON form is the one document of `apples experiment ID --json`; figures to draw travel beside it as plain
numbers, so that nothing here needs a plotting library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. paper : what is printed there, None where it prints no number.  ours : what came out."""

    name: str
    paper: float | None
    ours: float
    unit: str

    @property
    def relative(self) -> float | None:
        """ours / paper - 1; None where that means nothing."""
        return None if not self.paper else self.ours / self.paper - 1

    def as_json(self) -> dict[str, Any]:
        """JSON-ready row."""
        return {
            "name": self.name,
            "paper": self.paper,
            "ours": self.ours,
            "unit": self.unit,
            "relative": self.relative,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points to draw. style : "line", "dashed", "points", "bars", or "plain" for a line without marks."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: str = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper drawn again. log_x : the horizontal axis is logarithmic."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One experiment done.

    constants : what went in, JSON-ready.  further : keys that the document has besides, JSON-ready
    panels : what to draw in place of `figure` where the paper's has several parts
    notes : for people, one line each
    """

    id: str
    title: str
    rows: tuple[Row, ...]
    constants: Mapping[str, Any]
    seeds: tuple[int, ...]
    figure: Figure
    panels: tuple[Figure, ...] = ()
    further: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "id": self.id,
            "title": self.title,
            "rows": [row.as_json() for row in self.rows],
            "constants": dict(self.constants),
            "seeds": list(self.seeds),
            **self.further,
            "notes": list(self.notes),
        }
