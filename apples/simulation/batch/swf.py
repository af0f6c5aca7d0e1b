"""Job logs in Standard Workload Format (Feitelson, Parallel Workloads Archive), plain or gzipped.

18 numbers a line, -1 for unknown, `;` before comments. Nothing is dropped silently: lines that are not such, jobs
that never ran, jobs without processors or submission are counted by reason.
"""

from __future__ import annotations

import gzip
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from apples.errors import ConfigError
from apples.simulation.batch.trace import Intake, Trace, in_order

_FIELDS = 18
_ID, _SUBMIT, _WAIT, _RUN, _ALLOCATED, _ASKED, _REQUEST, _STATUS, _USER, _GROUP = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    10,
    11,
    12,
)
_KEPT = (_ID, _SUBMIT, _WAIT, _RUN, _ALLOCATED, _ASKED, _REQUEST, _STATUS, _USER, _GROUP)
_LARGEST = 2.0**53
_CANCELLED = 5


def read_swf(path: Path) -> Trace:
    """The jobs of a log. Raises `ConfigError` when it cannot be read or holds no job that ran."""
    try:
        with _opened(path) as lines:
            return _parse(lines, path)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{path}: cannot be read ({reason}); give a log in Standard Workload Format, .swf or .swf.gz"
        ) from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _parse(lines: Iterable[str], path: Path) -> Trace:
    """Rows of numbers, then columns; a line that is none is counted."""
    numbers = array("d")
    processors = read = malformed = 0
    for line in lines:
        text = line.strip()
        if not text:
            continue
        if text.startswith(";"):
            processors = _processors(text) or processors
            continue
        read += 1
        try:
            values = [float(word) for word in text.split()]
        except ValueError:
            malformed += 1
            continue
        if len(values) != _FIELDS or not all(map(math.isfinite, values)):
            malformed += 1
            continue
        numbers.extend([values[index] for index in _KEPT])
    dropped = Counter({"not 18 numbers": malformed}) if malformed else Counter[str]()
    if not numbers:
        what = "no job lines" if not read else f"{read} lines, none of them of 18 numbers"
        raise ConfigError(f"{path}: {what}; is it in Standard Workload Format?")
    table = np.frombuffer(numbers, np.float64).reshape(-1, len(_KEPT))
    return _judged(table, path, processors, Intake(lines=read, dropped=dropped))


def _processors(comment: str) -> int:
    """MaxProcs of the header, 0 if this line does not say."""
    name, colon, value = comment.lstrip("; \t").partition(":")
    word = value.split()[0] if value.split() else ""
    return int(word) if colon and name.strip() == "MaxProcs" and word.isdecimal() else 0


def _judged(
    table: np.ndarray[tuple[int, ...], np.dtype[np.float64]], path: Path, processors: int, read: Intake
) -> Trace:
    """Leave out what cannot be replayed and mend what can, counting both."""
    ids, submit, wait, run, allocated, asked, request, status, user, group = table.T
    procs = np.maximum(allocated, asked)
    dropped, mended = Counter(read.dropped), Counter(read.mended)
    keep = np.ones(len(table), bool)
    for reason, odd in (
        ("no time of submission", (submit < 0) | (submit > _LARGEST)),
        ("cancelled before they ran", (status == _CANCELLED) & (run <= 0)),
        ("no run time", (run < 0) | (run > _LARGEST)),
        ("no number of processors", (procs < 1) | (procs > _LARGEST)),
    ):
        count = int(np.count_nonzero(odd & keep))
        if count:
            dropped[reason] += count
        keep &= ~odd
    if not keep.any():
        raise ConfigError(f"{path}: none of {len(table)} jobs ran; {dict(dropped)}")
    without = keep & ~((request > 0) & (request <= _LARGEST))
    if without.any():
        mended["no requested time, taken as the run time"] += int(np.count_nonzero(without))
    request = np.maximum(np.where(without, run, request), 1.0)
    trace = Trace(
        name=path.name.removesuffix(".gz").removesuffix(".swf"),
        id=ids[keep].astype(np.int64),
        submit=submit[keep].copy(),
        run=run[keep].copy(),
        procs=procs[keep].astype(np.int64),
        request=request[keep],
        user=user[keep].astype(np.int64),
        project=group[keep].astype(np.int64),
        wait=np.where(wait[keep] >= 0, wait[keep], np.nan),
        processors=processors,
        intake=Intake(lines=read.lines, dropped=dict(dropped), mended=dict(mended)),
    )
    return in_order(trace)
