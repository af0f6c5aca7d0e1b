"""Turns of variants, medians and tables."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: The command `apples`, without an installed script.
APPLES = (sys.executable, "-c", "from apples.cli.toolbox import main; main()")


def in_turns(
    variants: Mapping[str, Callable[[], T]], repetitions: int, rng: random.Random | None = None
) -> dict[str, list[T]]:
    """Return the results of each variant. All run once a repetition, in this order or in one that `rng` draws."""
    results: dict[str, list[T]] = {name: [] for name in variants}
    for _ in range(repetitions):
        names = list(variants) if rng is None else rng.sample(list(variants), len(variants))
        for name in names:
            results[name].append(variants[name]())
    return results


def ratios(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the ratios of the same repetitions, as many as both have."""
    return [one / other for one, other in zip(values, base, strict=False)]


def median(values: Iterable[float]) -> float:
    """Return the median; not a number without values."""
    return statistics.median(values) if (values := list(values)) else float("nan")


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Return median, least and largest value as a text."""
    return f"{median(values):{form}} ({min(values):{form}} … {max(values):{form}})"


def percentile(values: Iterable[float], part: float) -> float:
    """Return the value below which this part of all values is."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, widths: Sequence[int] = ()) -> None:
    """Print rows as they come, right-aligned below their columns; numbers with four digits."""
    sizes = [
        max(len(name), least) for name, least in zip(columns, [*widths, *[9] * len(columns)], strict=False)
    ]
    print("  ".join(f"{name:>{size}}" for name, size in zip(columns, sizes, strict=True)))
    for row in rows:
        cells = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row)
        print("  ".join(f"{cell:>{size}}" for cell, size in zip(cells, sizes, strict=False)), flush=True)


def say(*words: object, end: str = "\n") -> None:
    """Print a line at once."""
    print(*words, end=end, flush=True)


def machine() -> str:
    """Return the number of CPUs and the load, for the first line of a report."""
    return f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}"


def output(command: Sequence[str], *, seconds: float = 600.0, **environment: str) -> str:
    """Return the standard output of a command; end the benchmark with the command's messages if it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout)[-3000:]}")
    return done.stdout


def seconds_of(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that a call takes by a clock."""
    begun = clock()
    action()
    return clock() - begun


def read_lines(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the JSON documents of files, one a line."""
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def append_line(file: Path, document: Mapping[str, Any]) -> None:
    """Append a JSON document as one line."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(document) + "\n")


def print_document(document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the figures of a report, one a line, or as a JSON document."""
    if as_json:
        print(json.dumps(document, indent=1))
        return
    for name, value in document.items():
        parts = (
            "  ".join(f"{key} {one:.4g}" for key, one in value.items()) if isinstance(value, dict) else value
        )
        print(f"{name:22} {parts:.6g}" if isinstance(parts, float) else f"{name:22} {parts}")
