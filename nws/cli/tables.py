"""Tables and numbers as text, in plain columns; on a terminal some rows have a colour, unless NO_COLOR is set."""

import math
import os
import shutil
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
    highlighted = [row[-1] == "stale" for row in rows] if warn is None else warn
    for row, stands_out in zip([headings, *rows], [False, *highlighted], strict=True):
        cells = [
            text.rjust(w) if i in numbers else text.ljust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        # click leaves the colour out where there is no terminal
        click.echo(click.style(line, fg="yellow") if stands_out and not os.environ.get("NO_COLOR") else line)


def fits_terminal(widths: Sequence[int]) -> bool:
    """Return whether a table with columns of these widths fits, with two blanks between them."""
    return sum(widths) + 2 * len(widths) <= shutil.get_terminal_size().columns + 2
