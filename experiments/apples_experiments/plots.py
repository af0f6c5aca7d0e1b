"""Figures of the papers, drawn into a file. matplotlib is loaded only here, and only for a requested plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apples.errors import ApplesError, ConfigError
from apples_experiments.result import Curve, Figure

_LEGAL = (".png", ".pdf", ".svg")


def check(path: Path) -> None:
    """Raise `ConfigError` or `ApplesError` when a figure cannot be drawn into that file; touches nothing."""
    if path.suffix.lower() not in _LEGAL:
        raise ConfigError(
            f"--plot {path}: unknown kind of file {path.suffix!r}; legal are {', '.join(_LEGAL)}"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no directory {path.parent}; make it first")
    _matplotlib()


def draw(figure: Figure, path: Path, panels: Sequence[Figure] = ()) -> None:
    """Draw one figure, or all its panels, two in a row; raises `ConfigError` when the file cannot be written."""
    canvas_of, figure_of = _matplotlib()
    parts = panels or (figure,)
    columns = min(len(parts), 2)
    rows = -(-len(parts) // columns)
    page = figure_of(
        figsize=(7.0 if columns == 1 else 11.0, 4.5 * rows - 0.6 * (rows - 1)), layout="constrained"
    )
    canvas_of(page)
    for number, part in enumerate(parts, start=1):
        _draw_figure(page.add_subplot(rows, columns, number), part)
    try:
        page.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError(
            f"--plot {path}: cannot be written ({error.strerror}); name another file"
        ) from error


def _draw_figure(axes: Any, figure: Figure) -> None:
    colours: dict[str, Any] = {}
    for curve in figure.curves:
        _draw_curve(axes, curve, colours)
    axes.set_title(figure.title)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.set_ylim(bottom=0)
    if figure.log_x:
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    if any(curve.label for curve in figure.curves):
        axes.legend(fontsize="small")


def _draw_curve(axes: Any, curve: Curve, colours: dict[str, Any]) -> None:
    """Draw a curve. A curve without a label belongs to the one before and shares its colour."""
    colour = None if curve.label else colours.get("last")
    if curve.style == "bars":
        width = 0.9 * min((b - a for a, b in zip(curve.x, curve.x[1:], strict=False)), default=1.0)
        axes.bar(curve.x, curve.y, width=width, label=curve.label)
        return
    style = {"line": "o-", "dashed": "s--", "points": "o", "plain": "-"}[curve.style]
    (drawn,) = axes.plot(
        curve.x, curve.y, style, color=colour, label=curve.label or "_nolegend_", markersize=3.5
    )
    colours["last"] = drawn.get_color()


def _matplotlib() -> tuple[Any, Any]:
    """Return (canvas class, figure class) without any window system; raises `ApplesError` when it is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Page
    except ImportError as error:
        raise ApplesError(
            "--plot needs matplotlib, which is not installed: pip install 'apples-grid[plot]'"
        ) from error
    return FigureCanvasAgg, Page
