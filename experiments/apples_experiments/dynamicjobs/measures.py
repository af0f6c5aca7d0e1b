"""Measures of a dynamic workload: response, slowdown, accepted load, and the load at which a machine saturates.

All functions are pure. Work is counted in processor seconds in isolation, and the progress of a running job is linear
between start and end. *Accepted load* is the offered load less the growth of the backlog. The backlog is work that has
arrived and is not done. It grows if the machine is saturated (section 5.1 infers it from the queue).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apples.errors import ConfigError
from apples.queueing.metrics import Spread
from apples.queueing.state import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimes:
    """Times of the jobs as columns in order of submission, s.

    run: run time in isolation.
    procs: processors of the job.
    processors: processors of the machine.
    """

    submit: Floats
    start: Floats
    finish: Floats
    run: Floats
    procs: Ints
    processors: int

    @property
    def response(self) -> Floats:
        """Return the time from submission to the end of the last rank, s."""
        values: Floats = self.finish - self.submit
        return values

    def slowdown(self, tau_s: float) -> Floats:
        """Return the bounded slowdown: response over the larger of run time in isolation and τ, at least 1."""
        values: Floats = np.maximum(1.0, self.response / np.maximum(self.run, tau_s))
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFigures:
    """Measures of one run. Times in s; loads and utilisation are shares of the machine.

    offered, accepted: see `offered_load`, `accepted_load`.
    left: share of the work that is not done at the last arrival.
    throughput: see `throughput`.
    utilisation: processor seconds in isolation over those from the first arrival to the last end.
    short, long: response of the shorter half and of the longer half of the jobs.
    """

    offered: float
    accepted: float
    left: float
    throughput: float
    utilisation: float
    response: Spread
    slowdown: Spread
    wait: Spread
    short: Spread
    long: Spread


def measure(course: JobTimes, tau_s: float) -> WorkloadFigures:
    """Return all measures of a run of at least two jobs."""
    order = by_length(course)
    half = len(order) // 2
    span = float(course.finish.max() - course.submit[0])
    response = course.response
    return WorkloadFigures(
        offered=offered_load(course),
        accepted=accepted_load(course),
        left=backlog(course, float(course.submit[-1])) / _work(course),
        throughput=throughput(course),
        utilisation=_work(course) / (course.processors * span),
        response=Spread.of(response),
        slowdown=Spread.of(course.slowdown(tau_s)),
        wait=Spread.of(course.start - course.submit),
        short=Spread.of(response[order[:half]]),
        long=Spread.of(response[order[half:]]),
    )


def by_length(course: JobTimes) -> Ints:
    """Return the indices of the jobs, the shortest in isolation first."""
    return np.argsort(course.run, kind="stable")


def offered_load(course: JobTimes) -> float:
    """Return processor seconds of all jobs in isolation over processors × last arrival (section 5.1)."""
    return _work(course) / (course.processors * _span(course))


def accepted_load(course: JobTimes) -> float:
    """Return the offered load less the growth of the backlog: the work done while jobs arrive."""
    return offered_load(course) - backlog_growth(course)


def throughput(course: JobTimes) -> float:
    """Return the work done until the queue is empty for good, as a share of the processor seconds until then.

    If all jobs arrive at the beginning, it is the throughput with a full queue. A higher load cannot be accepted for
    ever (the saturation rule of Baccelli and Foss).
    """
    last = float(course.start.max())
    done = float(np.dot(_done(course, last), course.run * course.procs))
    span = last - float(course.submit[0])
    return done / (course.processors * span) if span > 0 else 1.0


def ideal(course: JobTimes) -> JobTimes:
    """Return the same jobs on an ideal machine: first come, first served, each on all processors at once.

    Its backlog comes from the daily cycle of arrivals alone, not from a policy.
    """
    takes = course.run * course.procs / course.processors
    finish = np.empty(len(takes))
    free = -math.inf
    for i, (came, needs) in enumerate(zip(course.submit.tolist(), takes.tolist(), strict=True)):
        free = max(free, came) + needs
        finish[i] = free
    return replace(course, start=finish - takes, finish=finish)


def backlog(course: JobTimes, when: float) -> float:
    """Return the processor seconds in isolation that are submitted by `when` and not done then."""
    left = np.where(course.submit <= when, 1.0 - _done(course, when), 0.0)
    return float(np.dot(left, course.run * course.procs))


def backlog_growth(course: JobTimes, points: int = 100) -> float:
    """Return the slope of the backlog between first and last arrival by least squares, as a share of the machine.

    The value is about 0 for a machine that is not saturated. A burst before the end has the same weight as any other.
    """
    times = np.linspace(float(course.submit[0]), float(course.submit[-1]), points)
    levels = np.array([backlog(course, when) for when in times.tolist()])
    slope = float(np.polyfit(times, levels, 1)[0])
    return slope / course.processors


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """The load at which a machine saturates.

    bound: "at" this load; "above" if the machine accepted every load of the sweep; "below" if it accepted none. In the
    last two cases `load` is the end of the sweep.
    """

    load: float
    bound: str = "at"


def saturation(offered: Sequence[float], accepted: Sequence[float], keeps_up: float) -> Saturation:
    """Return the highest offered load of which at least the share `keeps_up` is accepted.

    The share is interpolated linearly between two loads. Loads above the first one that is not accepted are ignored.

    Args:
        offered: loads of a sweep, ascending.
        accepted: accepted load at each of them.
        keeps_up: share of the offered load, 0 to 1.

    Raises:
        ConfigError: an argument is not legal.
    """
    if len(offered) != len(accepted) or not offered or list(offered) != sorted(set(offered)):
        raise ConfigError(
            f"{len(offered)} offered and {len(accepted)} accepted loads; legal is one of each or more, ascending"
        )
    if not 0.0 < keeps_up < 1.0 or not all(math.isfinite(load) and load > 0 for load in offered):
        raise ConfigError(
            f"keeps_up {keeps_up!r}, loads {list(offered)}; legal are 0 to 1, and loads above 0"
        )
    shares = [took / came for took, came in zip(accepted, offered, strict=True)]
    if shares[0] < keeps_up:
        return Saturation(load=offered[0], bound="below")
    for i in range(1, len(shares)):
        if shares[i] < keeps_up:
            part = (shares[i - 1] - keeps_up) / (shares[i - 1] - shares[i])
            return Saturation(load=offered[i - 1] + part * (offered[i] - offered[i - 1]))
    return Saturation(load=offered[-1], bound="above")


def _done(course: JobTimes, when: float) -> Floats:
    """Return the share of each job that is done at `when`."""
    values: Floats = np.clip((when - course.start) / np.maximum(course.finish - course.start, 1e-9), 0.0, 1.0)
    return values


def _work(course: JobTimes) -> float:
    return float(np.dot(course.run, course.procs))


def _span(course: JobTimes) -> float:
    return float(course.submit[-1] - course.submit[0])
