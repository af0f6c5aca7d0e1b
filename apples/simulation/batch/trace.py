"""A trace: jobs in order of submission as columns, and an account of what was left out or mended while reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from apples.errors import ConfigError
from apples.queueing.state import Flags, Floats, Ints

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseReport:
    """What became of the lines of a trace.

    lines : job lines read.  dropped, mended : count by reason, in words for people
    """

    lines: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)

    def report(self) -> list[str]:
        """One line for each reason."""
        return [f"left out, {reason}: {count}" for reason, count in self.dropped.items()] + [
            f"mended, {reason}: {count}" for reason, count in self.mended.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNames:
    """Numbers of users and projects by name."""

    users: Mapping[str, int] = field(default_factory=dict)
    projects: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in order of submission, then of the file.

    id : of the file.  submit, run, request : s.  procs : processors.  user, project : numbers, -1 unknown
    wait : s as the log has it, nan unknown.  processors : of the machine, 0 when the file does not say
    names : of users and projects, where the file has names
    """

    name: str
    id: Ints
    submit: Floats
    run: Floats
    procs: Ints
    request: Floats
    user: Ints
    project: Ints
    wait: Floats
    processors: int = 0
    intake: ParseReport = field(default_factory=ParseReport)
    names: TraceNames = field(default_factory=TraceNames)

    def __len__(self) -> int:
        return len(self.id)

    @property
    def log_end(self) -> Floats:
        """When each job ended in the log, s; nan where its wait is unknown."""
        ends: Floats = self.submit + self.wait + self.run
        return ends

    def take(self, chosen: Ints | Flags) -> Trace:
        """The chosen jobs only, by index or mask; the account stays that of the whole file."""
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        return replace(self, **columns)

    def fitting(self, processors: int) -> Trace:
        """Only jobs that fit the machine; wider ones are counted as left out."""
        fits = self.procs <= processors
        wide = int(len(self) - np.count_nonzero(fits))
        dropped = dict(self.intake.dropped)
        if wide:
            dropped[f"wider than the machine of {processors} processors"] = wide
        trace = self if not wide else self.take(fits)
        return replace(trace, processors=processors, intake=replace(self.intake, dropped=dropped))

    def in_month(self, number: int, days: int = 30) -> Flags:
        """Which jobs were submitted in the given period of the log, counted from 0 and from its first job."""
        since = self.submit[0] + number * days * DAY_S
        chosen: Flags = (self.submit >= since) & (self.submit < since + days * DAY_S)
        return chosen

    def killed_at_request(self) -> Trace:
        """The same jobs, none running longer than it asked for."""
        return replace(self, run=np.minimum(self.run, self.request))

    def stretched(self, factor: float) -> Trace:
        """Time between submissions longer by a factor, so that offered load falls by it; waits of the log mean
        nothing then. Raises `ConfigError`.
        """
        if not 0.0 < factor < float("inf"):
            raise ConfigError(f"stretching arrivals by {factor!r}: a factor above 0 is legal")
        origin = self.submit[0] if len(self) else 0.0
        submit = origin + (self.submit - origin) * factor
        return replace(self, submit=submit, wait=np.full(len(self), np.nan))

    def offered_load(self, processors: int) -> float:
        """Processor seconds asked for per processor second, between first and last submission."""
        span = float(self.submit[-1] - self.submit[0]) if len(self) else 0.0
        return float(np.dot(self.run, self.procs)) / (span * processors) if span > 0 else float("inf")


_COLUMNS = ("id", "submit", "run", "procs", "request", "user", "project", "wait")


def in_order(trace: Trace) -> Trace:
    """Sorted by submission, order of the file kept at equal times; counts what stood out of order."""
    late = int(np.count_nonzero(np.diff(trace.submit) < 0))
    if not late:
        return trace
    mended = {**trace.intake.mended, "submitted before the line above, sorted": late}
    ordered = trace.take(np.argsort(trace.submit, kind="stable"))
    return replace(ordered, intake=replace(trace.intake, mended=mended))
