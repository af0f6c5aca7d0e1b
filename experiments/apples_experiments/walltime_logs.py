"""The logs of the walltime experiments, and the run time over request of similar jobs at each job's submission.

Histories are those of the logs (the recorded end times), the same for every policy. The paper's own log is not
available; `configs/tang2013.yaml` names the logs used instead.
"""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from apples.errors import ConfigError
from apples.queueing.estimates import Ratios, Scheme, percentile_of
from apples.queueing.state import Floats, Ints
from apples.simulation.batch.reading import read_trace
from apples.simulation.batch.trace import Trace
from apples_experiments.result import Progress
from apples_experiments.settings import read_settings
from nws.base.durations import Period_s
from nws.base.quantities import Within

Percent = Annotated[float, Within(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A job log. `file`: in the folder `swf` of the reference data. `processors`: of the machine it is replayed on."""

    name: str
    file: str
    processors: Annotated[int, Within(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Months:
    """Settings for splitting a log into months and replaying them; the file explains each value."""

    days: Annotated[int, Within(ge=1)]
    percentiles: tuple[Percent, ...]
    key: Literal["all", "project", "user", "double", "triple"]
    window: Period_s
    skip: Annotated[int, Within(ge=0)]
    overrun: Literal["request", "increment", "doubling", "half"]
    increment: Period_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TangSettings:
    """Contents of `configs/tang2013.yaml`."""

    logs: Annotated[tuple[Log, ...], Within(least_length=1)]
    percentiles: tuple[Percent, ...]
    windows: tuple[Period_s, ...]
    minimum: Annotated[int, Within(ge=1)]
    floor: Annotated[float, Within(ge=0, le=1)]
    months: Months


@cache
def load_settings() -> TangSettings:
    """Return the settings; raise `ConfigError` with every problem of the file."""
    return read_settings("tang2013", TangSettings)


@cache
def load_log(log: Log) -> Trace:
    """Return the log, with the jobs that fit the machine; no job runs longer than its request.

    Section 3.2 counts R above 1 as 1. Raises `ConfigError` when the reference data are missing.
    """
    folder = os.environ.get("APPLES_DATA")
    path = Path(folder or "", "swf", log.file)
    if folder is None or not path.is_file():
        raise ConfigError(
            f"{log.file} is not there; get it from the Parallel Workloads Archive, put it into a folder `swf`, "
            "and set APPLES_DATA to the directory that holds that folder"
        )
    return read_trace(path).fitting(log.processors).killed_at_request()


def groups(trace: Trace, key: str) -> list[Hashable]:
    """Return the group of similar jobs of each job."""
    scheme = Scheme(key=key)
    columns = (trace.user.tolist(), trace.project.tolist(), trace.request.tolist())
    return [scheme.group(*of_job) for of_job in zip(*columns, strict=True)]


@cache
def past_ratios(
    log: Log, key: str, window_s: float, percentiles: tuple[float, ...], progress: Progress
) -> Floats:
    """Return float64[jobs, percentiles]: run / request of similar jobs at those percentiles at each job's submission.

    nan where there were fewer similar jobs than the settings' minimum.
    """
    progress(f"{log.name}: history by {key}, {_span(window_s)}")
    trace, minimum = load_log(log), load_settings().minimum
    of_job, ratios = groups(trace, key), Ratios(window_s)
    told, found = 0, np.full((len(trace), len(percentiles)), np.nan)
    by_end, ends = _ends(trace)
    used = (trace.run / trace.request).tolist()
    for index, now in enumerate(trace.submit.tolist()):
        while told < len(by_end) and ends[told] <= now:
            ratios.add(of_job[by_end[told]], ends[told], used[by_end[told]])
            told += 1
        ordered = ratios.sorted(of_job[index], now)
        if len(ordered) >= minimum:
            found[index] = [percentile_of(ordered, p) for p in percentiles]
    return found


def estimates(trace: Trace, ratios: Floats, floor: float) -> Floats:
    """Return the adjusted requests, s. `ratios`: float64[jobs], nan for no adjustment."""
    adjusted: Floats = np.maximum(
        trace.request * np.where(np.isnan(ratios), 1.0, np.maximum(ratios, floor)), 1.0
    )
    return adjusted


def month_masks(trace: Trace, months: Months) -> list[tuple[int, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
    """Return (number, jobs) of every whole month with a month of history before it."""
    whole = int((trace.submit[-1] - trace.submit[0]) // (months.days * 86400.0))
    return [(number, trace.in_month(number, months.days)) for number in range(months.skip, whole)]


def spread_in_groups(trace: Trace, of_job: Sequence[Hashable], least: int) -> tuple[float, int]:
    """Return (mean standard deviation of R, number of groups), over groups of at least that many jobs."""
    numbers: dict[Hashable, int] = {}
    group: Ints = np.array([numbers.setdefault(name, len(numbers)) for name in of_job])
    ratio = np.minimum(trace.run / trace.request, 1.0)
    count = np.bincount(group)
    mean = np.bincount(group, ratio) / count
    variance = np.bincount(group, (ratio - mean[group]) ** 2) / count
    kept = count >= least
    return float(np.sqrt(variance[kept]).mean()), int(kept.sum())


def _ends(trace: Trace) -> tuple[list[int], list[float]]:
    """Return (jobs by their end in the log, those ends in s); jobs without a known end are not used."""
    ends = trace.log_end
    order = np.argsort(ends, kind="stable")
    order = order[: int(np.count_nonzero(~np.isnan(ends)))]
    return order.tolist(), ends[order].tolist()


def _span(seconds: float) -> str:
    return "all there is" if math.isinf(seconds) else f"{seconds / 86400:.0f} days"
