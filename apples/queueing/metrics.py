"""Metrics of a schedule, and accuracy of run time estimates.

Waits and slowdowns are those of section 6.1 of Tang et al. 2013, bounded slowdown has τ = 10 s (Feitelson). Weighted
wait is equation 4, accuracy equation 3. The shares NA, OE, UE and BE are those of section 4.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.queueing.state import Flags, Floats, Ints

TAU_S = 10.0

BAD_S = 1800.0
"""Seconds beyond the estimate from which a job counts as badly estimated (BE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and median over jobs."""

    mean: float
    median: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Return mean and median of at least one value."""
        return cls(mean=float(values.mean()), median=float(np.median(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits(Spread):
    """Mean, median and longest wait, s."""

    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateAccuracy:
    """Accuracy of estimates, as shares of jobs.

    accuracy: equation 3.
    not_adjusted: the estimate equals the request (NA).
    over: the estimate is between run time and request (OE).
    under: the run time exceeds the estimate by at most 30 min (UE).
    bad: the run time exceeds it by more (BE).
    """

    accuracy: Spread
    not_adjusted: float
    over: float
    under: float
    bad: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metrics of one schedule; times in s.

    weighted_wait: equation 4 with the weights `weighted_by` at the start: the wait under FCFS, else equation 5.
    utilisation: busy processor seconds over all processor seconds from first submission to last end.
    backfilled: share of jobs.
    """

    jobs: int
    wait: Waits
    response: Spread
    slowdown: Spread
    bounded_slowdown: Spread
    weighted_wait: float
    weighted_by: str
    utilisation: float
    backfilled: float
    estimates: EstimateAccuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJobs:
    """Columns of a finished schedule; times in s. `estimate`: value that the policy used."""

    submit: Floats
    start: Floats
    run: Floats
    request: Floats
    procs: Ints
    estimate: Floats
    backfilled: Flags


def measure(outcome: FinishedJobs, processors: int, priority: str) -> Metrics:
    """Return the metrics of one or more jobs. `priority`: name of the policy's priority, for the weighted wait."""
    wait = outcome.start - outcome.submit
    response = wait + outcome.run
    # A run of 0 s has no slowdown; logs count whole seconds.
    run = np.maximum(outcome.run, 1.0)
    bounded = np.maximum(1.0, response / np.maximum(outcome.run, TAU_S))
    weights = wait if priority == "fcfs" else wfp_score(wait, outcome.request, outcome.procs)
    span = float((outcome.start + outcome.run).max() - outcome.submit.min())
    busy = float(np.dot(outcome.run, outcome.procs))
    return Metrics(
        jobs=len(wait),
        wait=Waits(mean=float(wait.mean()), median=float(np.median(wait)), longest=float(wait.max())),
        response=Spread.of(response),
        slowdown=Spread.of((wait + run) / run),
        bounded_slowdown=Spread.of(bounded),
        weighted_wait=weighted_wait(wait, weights),
        weighted_by="wait" if priority == "fcfs" else "wfp",
        utilisation=busy / (span * processors) if span > 0 else 0.0,
        backfilled=float(outcome.backfilled.mean()),
        estimates=judge(outcome.estimate, outcome.run, outcome.request),
    )


def wfp_score(wait: Floats, request: Floats, procs: Ints) -> Floats:
    """Return equation 5: (wait / request)³ × processors."""
    return (wait / request) ** 3 * procs


def weighted_wait(wait: Floats, weights: Floats) -> float:
    """Return equation 4, s; 0 if no job waited."""
    total = float(weights.sum())
    return float(np.dot(wait, weights)) / total if total > 0 else 0.0


def accuracy(estimate: Floats, run: Floats) -> Floats:
    """Return equation 3: the smaller value over the larger one, 1 if both are 0."""
    small, large = np.minimum(estimate, run), np.maximum(estimate, run)
    return np.divide(small, large, out=np.ones(len(small)), where=large > 0)


def judge(estimate: Floats, run: Floats, request: Floats) -> EstimateAccuracy:
    """Return accuracy and shares of one or more jobs. A run time is at most the request (R at most 1)."""
    run = np.minimum(run, request)
    adjusted = estimate < request
    gap = run - estimate
    jobs = len(estimate)
    return EstimateAccuracy(
        accuracy=Spread.of(accuracy(estimate, run)),
        not_adjusted=float(np.count_nonzero(~adjusted)) / jobs,
        over=float(np.count_nonzero(adjusted & (gap <= 0))) / jobs,
        under=float(np.count_nonzero(adjusted & (gap > 0) & (gap <= BAD_S))) / jobs,
        bad=float(np.count_nonzero(adjusted & (gap > BAD_S))) / jobs,
    )
