"""A trace: jobs in order of submission as columns, with a report of omitted and corrected lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from apples.errors import ConfigError
from apples.queueing.state import Flags, Floats, Ints

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseReport:
    """Counts of the lines of a trace.

    lines: job lines read.
    dropped, mended: count by reason.
    """

    lines: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)

    def report(self) -> list[str]:
        """Return one line for each reason."""
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
    """Jobs in order of submission, then in order of the file.

    id: id in the file.
    submit, run, request: s.
    procs: processors.
    user, project: numbers, -1 if unknown.
    wait: wait in the log, s, nan if unknown.
    processors: processors of the machine, 0 if the file does not have the value.
    names: numbers of users and projects, if the file has names.
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
        """Return the end of each job in the log, s, nan if its wait is unknown."""
        return self.submit + self.wait + self.run

    def take(self, chosen: Ints | Flags) -> Trace:
        """Return the chosen jobs, by index or mask. The report remains that of the whole file."""
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        return replace(self, **columns)

    def fitting(self, processors: int) -> Trace:
        """Return the jobs that fit the machine. Wider jobs are counted as dropped."""
        fits = self.procs <= processors
        wide = int(len(self) - np.count_nonzero(fits))
        dropped = dict(self.intake.dropped)
        if wide:
            dropped[f"wider than the machine of {processors} processors"] = wide
        trace = self if not wide else self.take(fits)
        return replace(trace, processors=processors, intake=replace(self.intake, dropped=dropped))

    def in_month(self, number: int, days: int = 30) -> Flags:
        """Return a mask of the jobs submitted in one period of the log, numbered from 0 and from its first job."""
        since = self.submit[0] + number * days * DAY_S
        chosen: Flags = (self.submit >= since) & (self.submit < since + days * DAY_S)
        return chosen

    def killed_at_request(self) -> Trace:
        """Return the same jobs with run times of at most their requests."""
        return replace(self, run=np.minimum(self.run, self.request))

    def stretched(self, factor: float) -> Trace:
        """Return the trace with the time between submissions multiplied by a factor. Its waits are unknown.

        Raises:
            ConfigError: the factor is not above 0.
        """
        if not 0.0 < factor < float("inf"):
            raise ConfigError(f"stretching arrivals by {factor!r}: a factor above 0 is legal")
        origin = self.submit[0] if len(self) else 0.0
        submit = origin + (self.submit - origin) * factor
        return replace(self, submit=submit, wait=np.full(len(self), np.nan))

    def offered_load(self, processors: int) -> float:
        """Return processor seconds of the jobs per processor second, between first and last submission."""
        span = float(self.submit[-1] - self.submit[0]) if len(self) else 0.0
        return float(np.dot(self.run, self.procs)) / (span * processors) if span > 0 else float("inf")


_COLUMNS = ("id", "submit", "run", "procs", "request", "user", "project", "wait")


def in_order(trace: Trace) -> Trace:
    """Return the trace sorted by submission, stable, with a count of the jobs that were not in order."""
    late = int(np.count_nonzero(np.diff(trace.submit) < 0))
    if not late:
        return trace
    mended = {**trace.intake.mended, "submitted before the line above, sorted": late}
    ordered = trace.take(np.argsort(trace.submit, kind="stable"))
    return replace(ordered, intake=replace(trace.intake, mended=mended))
