"""Reads a file of measurements to score forecasters on: three columns, series, time and value, under any names.

Plain or gzipped CSV, with a header line or without, as `nws insert` takes it; here names and times may be any. Every
problem of the file is found before any is reported, each as ``file:line: the value, the legal values``.
"""

from __future__ import annotations

import csv
import math
import sys
import zlib
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

from nws.base.errors import UsageError
from nws.base.oserrors import REASON, os_errors_as

_SHOWN = 50
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


def read_measurements(path: Path) -> dict[str, list[float]]:
    """Return values of every series of the file, oldest first, in the order in which the series first appear.

    Raises `UsageError` that lists every problem: a file that cannot be read, a header or a row without three columns, a
    time or value that is no finite number, truncated gzip data. Of more than 50 problems the others are only counted.

    Args:
        path: of the file, `-` for standard input
    """
    with os_errors_as(UsageError, f"{path}: cannot be read: {REASON}; expected a CSV file, plain or .gz"):
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    problems: list[tuple[int, str]] = []
    if data.startswith(_GZIP_MAGIC):
        data, flaw = _unzip(data)
        if flaw:
            # the row in which the data break off is not to blame for being cut
            data = data[: data.rfind(b"\n") + 1]
            problems.append((data.count(b"\n") + 1, f"{flaw}; fetch the file again"))
    series: dict[str, list[tuple[float, float]]] = {}
    problems += _parse(_lines(data, problems), series)
    if not problems and not series:
        problems.append((1, "no measurements; expected a header and rows of series,t,value"))
    if problems:
        lines = [f"{path}:{line}: {what}" for line, what in sorted(problems)[:_SHOWN]]
        if len(problems) > _SHOWN:
            lines.append(f"{path}: and {len(problems) - _SHOWN} further problems")
        raise UsageError("\n".join(lines))
    # the sort is stable: values of one time keep the order of the file
    return {name: [v for _, v in sorted(pairs, key=itemgetter(0))] for name, pairs in series.items()}


def _unzip(data: bytes) -> tuple[bytes, str | None]:
    """Return the unpacked data up to the first error, and that error."""
    parts = []
    while data.startswith(_GZIP_MAGIC):
        unpacker = zlib.decompressobj(_GZIP_FORMAT)
        try:
            parts.append(unpacker.decompress(data))
        except zlib.error as error:
            return b"".join(parts), f"broken gzip data ({error})"
        if not unpacker.eof:
            return b"".join(parts), "the gzip data break off here"
        data = unpacker.unused_data
    return b"".join(parts), None


def _lines(data: bytes, problems: list[tuple[int, str]]) -> list[str]:
    lines = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            problems.append(
                (number, f"not UTF-8 text: byte {line[error.start]:#04x} at column {error.start + 1}")
            )
            lines.append("")
    return lines


def _parse(lines: Sequence[str], series: dict[str, list[tuple[float, float]]]) -> list[tuple[int, str]]:
    """Fill `series` from the lines; return the problems, each with its line number counted from 1."""
    problems: list[tuple[int, str]] = []
    rows = csv.reader(lines, skipinitialspace=True)
    header = next(rows, None)
    if header is not None and len(header) == 3 and _number(header[2]) is not None:
        # a file without a header
        rows = csv.reader(lines, skipinitialspace=True)
    elif header is not None and len(header) != 3:
        problems.append(
            (1, f"expected a header naming three columns, series,t,value; got {','.join(header)!r}")
        )
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            problems.append((rows.line_num, f"not CSV: {error}"))
            continue
        if row is None:
            return problems
        if not row:
            continue
        if len(row) != 3:
            problems.append((rows.line_num, f"expected 3 columns, series,t,value; got {len(row)}"))
            continue
        name, t, value = row[0].strip(), _number(row[1]), _number(row[2])
        if not name:
            problems.append((rows.line_num, "the first column, the name of the series, is empty"))
        for column, got, number in (
            ("second column, the time", row[1], t),
            ("third column, the value", row[2], value),
        ):
            if number is None:
                problems.append((rows.line_num, f"{column}: {got!r} is not a finite number"))
        if t is None or value is None:
            continue
        series.setdefault(name, []).append((t, value))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
