"""Tables and numbers as text: rich on a terminal, plain columns elsewhere; NO_COLOR is honoured."""

import math
import os
import shutil
import sys
from collections.abc import Sequence

import click


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit at a readable scale: ``23.0 GB``, ``53.4 µs``, ``0.981 CPU``."""
    if not math.isfinite(value):
        return "-"
    if unit.startswith("B"):
        for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{value / factor:.3g} {prefix}{unit}"
        return f"{value:.3g} {unit}"
    if unit == "s":
        for factor, prefix in ((1.0, ""), (1e-3, "m")):
            if abs(value) >= factor:
                return f"{value / factor:.3g} {prefix}s"
        return f"{value / 1e-6:.3g} µs"
    return f"{value:.3f} {unit}" if unit else f"{value:.6g}"


def duration(seconds: float) -> str:
    """Return a rounded duration: ``4 s``, ``12 min``, ``3.5 h``, ``2.1 d``; ``in 4 s`` (future); a dash for NaN."""
    if math.isnan(seconds):
        return "-"
    if seconds <= -0.5:
        return f"in {duration(-seconds)}"
    for factor, name in ((86400.0, "d"), (3600.0, "h")):
        if seconds >= factor:
            return f"{seconds / factor:.1f} {name}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def echo_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    warn: Sequence[bool] | None = None,
) -> None:
    """Print a table on stdout.

    Args:
        numbers: columns aligned right
        warn: rows highlighted on a terminal; by default those with ``stale`` in the last column
    """
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    # rich would squeeze a table wider than the terminal until it is unreadable
    if sys.stdout.isatty() and fits_terminal(widths):
        _rich(headings, rows, numbers, [row[-1] == "stale" for row in rows] if warn is None else warn)
        return
    for row in [headings, *rows]:
        cells = [
            text.rjust(w) if i in numbers else text.ljust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def fits_terminal(widths: Sequence[int]) -> bool:
    """Return whether a table with columns of these widths fits; rich adds three characters per column."""
    return sum(widths) + 3 * len(widths) <= shutil.get_terminal_size().columns


def _rich(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int], warn: Sequence[bool]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i in numbers else "left")
    for row, stands_out in zip(rows, warn, strict=True):
        table.add_row(*row, style="yellow" if stands_out else None)
    Console(no_color=bool(os.environ.get("NO_COLOR"))).print(table)
