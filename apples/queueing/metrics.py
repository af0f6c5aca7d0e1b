"""What a schedule is worth to its users and to the machine, and how good the estimates were.

Waits and slowdowns as in section 6.1 of Tang et al. 2013, bounded slowdown with τ = 10 s (Feitelson), weighted wait by
equation 4, accuracy by equation 3, and the shares NA, OE, UE and BE of section 4.2.2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apples.queueing.state import Flags, Floats, Ints

TAU_S = 10.0

BAD_S = 1800.0
"""A job that runs longer than this beyond its estimate was estimated badly (BE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and median over jobs."""

    mean: float
    median: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Of at least one value."""
        return cls(mean=float(values.mean()), median=float(np.median(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateAccuracy:
    """How near estimates came, as shares of jobs. accuracy : equation 3

    not_adjusted : estimate is the request (NA).  over : between run time and request (OE).  under : run time less than
    30 min beyond the estimate (UE).  bad : more than that (BE)
    """

    accuracy: Spread
    not_adjusted: float
    over: float
    under: float
    bad: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Of one schedule. Times in s.

    weighted_wait : equation 4, weights `weighted_by` at the start: the wait under FCFS, else equation 5
    utilisation : busy processor seconds over those from first submission to last end.  backfilled : share of jobs
    """

    jobs: int
    wait: Spread
    response: Spread
    slowdown: Spread
    bounded_slowdown: Spread
    weighted_wait: float
    weighted_by: str
    utilisation: float
    backfilled: float
    estimates: EstimateAccuracy

    def as_json(self) -> dict[str, Any]:
        """JSON-ready; seconds throughout."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJobs:
    """Columns of a schedule that is over; times in s. estimate : what the policy was told"""

    submit: Floats
    start: Floats
    run: Floats
    request: Floats
    procs: Ints
    estimate: Floats
    backfilled: Flags


def measure(outcome: FinishedJobs, processors: int, priority: str) -> Metrics:
    """Figures of a schedule of one or more jobs. priority : name of the policy's, for the weighted wait."""
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
        wait=Spread.of(wait),
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
    """Equation 5: (wait / request)³ × processors."""
    score: Floats = (wait / request) ** 3 * procs
    return score


def weighted_wait(wait: Floats, weights: Floats) -> float:
    """Equation 4, s; 0 when nobody waited."""
    total = float(weights.sum())
    return float(np.dot(wait, weights)) / total if total > 0 else 0.0


def accuracy(estimate: Floats, run: Floats) -> Floats:
    """Equation 3: the smaller over the larger, 1 where both are 0."""
    small, large = np.minimum(estimate, run), np.maximum(estimate, run)
    return np.divide(small, large, out=np.ones(len(small)), where=large > 0)


def judge(estimate: Floats, run: Floats, request: Floats) -> EstimateAccuracy:
    """Accuracy and shares of one or more jobs; a job that outlived its request counts as ended by it (R at most 1)."""
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
