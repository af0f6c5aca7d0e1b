"""Reads files of measurements as `nws export` writes them: ``series,t,value`` a line, plain or gzipped, or from a pipe.

The first line may be a header of any three names. `nws score` takes any names of series and any finite times.

The complete file is read before anything is stored, so that every bad line is reported at once as ``file:line: value,
legal values``. The destination of measurements is not known here. 20 bytes of memory a line.
"""

from __future__ import annotations

import csv
import gzip
import math
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from nws.base.errors import ConfigError, UsageError
from nws.series import Series

#: Beyond this no forecaster takes a value (its square must be finite).
LARGEST = 1e120

#: Times further ahead than this are no measurements, seconds.
AHEAD_S = 86_400.0

_Report = Callable[[int, str], None]
"""Takes the number of a line and its fault."""

_MOST_PROBLEMS = 1000
_MOST_BYTES = 1000
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True, kw_only=True)
class CsvColumns:
    """Measurements in the order of the file: names of the series, and for each line its series, time and value.

    index : int[n], places in `names`.  t : seconds since the epoch.  value : in the series' unit
    """

    names: list[str] = field(default_factory=list)
    index: array[int] = field(default_factory=lambda: array("l"))
    t: array[float] = field(default_factory=lambda: array("d"))
    value: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.t)

    def values_by_series(self) -> dict[str, NDArray[np.float64]]:
        """Return the values of each series, oldest first; those of one time stay in the order of the file."""
        index, order = np.array(self.index), np.lexsort((self.t, self.index))
        ends = np.cumsum(np.bincount(index, minlength=len(self.names)))
        return dict(zip(self.names, np.split(np.array(self.value)[order], ends[:-1]), strict=True))


def read_columns(name: str, *, now: float | None = None) -> CsvColumns:
    """Return all measurements of a file, ``-`` for standard input; raises `ConfigError` with every bad line.

    now : seconds since the epoch; a time more than a day ahead is invalid. None: any names and finite times are legal
    """
    where = "standard input" if name == "-" else name
    columns = CsvColumns()
    problems: list[str] = []

    def problem(number: int, text: str) -> None:
        problems.append(f"{where}:{number}: {text}")

    try:
        with _opened(name) as lines:
            _parse(lines, columns, now, problem)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.append(f"{where}: cannot be read: {reason}; expected CSV lines series,t,value, plain or .gz")
    if not problems and not len(columns):
        problems.append(f"{where}: no measurements; expected lines series,t,value")
    if problems:
        further = len(problems) - _MOST_PROBLEMS
        reason = problems[:_MOST_PROBLEMS]
        raise ConfigError([*reason, f"{where}: and {further} further lines"] if further > 0 else reason)
    return columns


def _parse(lines: Iterable[bytes], columns: CsvColumns, now: float | None, problem: _Report) -> None:
    places: dict[str, int] = {}
    # the largest float is not infinite: a time that is, is none
    largest = sys.float_info.max
    earliest, latest = (-largest, largest) if now is None else (0.0, min(now + AHEAD_S, largest))
    times = "a finite number" if now is None else f"seconds since the epoch, such as {now:.0f}"
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            # line by line, so that a quote without its partner spoils one line only
            fields = [field.strip() for row in csv.reader([line], skipinitialspace=True) for field in row]
        except (UnicodeDecodeError, csv.Error):
            problem(number, f"{_shown(raw.decode(errors='replace'))} is not text")
            continue
        if not fields:
            continue
        if len(fields) != 3:
            problem(number, f"{_shown(line)} has {len(fields)} columns; expected series,t,value")
            continue
        name, t, value = fields[0], _number(fields[1]), _number(fields[2])
        if number == 1 and math.isnan(t) and math.isnan(value):
            continue
        wrong = []
        if name not in places:
            try:
                series = name if now is None and name else str(Series.parse(name))
            except UsageError as error:
                # a name is checked once, and reported at every line that has it
                places[name] = -1
                wrong.append(str(error))
            else:
                places[name] = len(columns.names)
                columns.names.append(series)
        elif places[name] < 0:
            wrong.append(f"{_shown(name)} is not a series, as told above")
        if not earliest <= t <= latest:
            what = "is later than tomorrow" if t > latest else "is no time"
            wrong.append(f"t {_shown(fields[1])} {what}; expected {times}")
        if not abs(value) <= LARGEST:
            wrong.append(f"value {_shown(fields[2])}: expected a finite number up to ±{LARGEST:g}")
        if wrong:
            problem(number, "; ".join(wrong))
            continue
        columns.index.append(places[name])
        columns.t.append(t)
        columns.value.append(value)


def _number(text: str) -> float:
    """Return the number, NaN if it is malformed."""
    try:
        # float() also takes 1_000 and digits of other scripts, which no other program writes
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _shown(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= 80 else shown[:79] + "…")


@contextmanager
def _opened(name: str) -> Iterator[Iterable[bytes]]:
    if name == "-":
        yield _lines(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        if not zipped:
            yield _lines(file)
            return
        with gzip.GzipFile(fileobj=file) as unzipped:
            yield _lines(unzipped)


def _lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """Yield lines of bounded length: a file that is no text has lines of any."""
    while line := file.readline(_MOST_BYTES):
        yield line
        while len(line) == _MOST_BYTES and not line.endswith(b"\n"):
            line = file.readline(_MOST_BYTES)
