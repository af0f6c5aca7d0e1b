"""Replay of a trace on one machine: the queue's decision for every job.

Estimates are arrays that are known at submission (requests, the log's own history, or true run times), or values of an
estimator that learns from the ends of this simulation. The queue has no other information about run times.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from apples.errors import ConfigError
from apples.queueing import replay
from apples.queueing.estimates import Estimator
from apples.queueing.jobs import OFF, QueueJob, Switches
from apples.queueing.metrics import FinishedJobs, Metrics, measure
from apples.queueing.settings import QueueSettings
from apples.queueing.state import Flags, Floats, QueueState, empty_state
from apples.simulation.batch.foresight import Foresight
from apples.simulation.batch.trace import Trace
from nws.base.records import copied, document_of

EVENT_ORDERS = ("batch", "pyss")

Progress = Callable[[int, int], None]
"""Receives the number of submitted jobs, and the number of all jobs."""

_CHUNK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Parameters of a replay.

    queue: the policy.
    switches: uses for which estimates replace requests.
    event_order: one of `EVENT_ORDERS`.
    predict: predict the start of each job at its submission.
    """

    queue: QueueSettings = field(default_factory=QueueSettings)
    switches: Switches = OFF
    event_order: str = "batch"
    predict: bool = False

    def __post_init__(self) -> None:
        if self.event_order not in EVENT_ORDERS:
            raise ConfigError(
                f"event order {self.event_order!r} is unknown; legal are {', '.join(EVENT_ORDERS)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySchedule:
    """Result for every job of the trace.

    start, estimate: s.
    passes: number of passes of the policy.
    predicted: float64[jobs, 3], s: start as foreseen at the submission, as median, low and high end; or None.
    """

    trace: Trace
    processors: int
    start: Floats
    estimate: Floats
    backfilled: Flags
    passes: int
    predicted: Floats | None = None

    @property
    def outcome(self) -> FinishedJobs:
        """Return the columns for `apples.queueing.metrics`."""
        return copied(FinishedJobs, self.trace, **document_of(self, "start", "estimate", "backfilled"))

    def metrics(self, priority: str) -> Metrics:
        """Return the metrics over all jobs."""
        return measure(self.outcome, self.processors, priority)


def simulate(
    trace: Trace,
    how: Replay,
    estimates: Floats | Estimator | None = None,
    progress: Progress | None = None,
) -> ReplaySchedule:
    """Replay a trace on `trace.processors` processors, and return the schedule.

    Argument `estimates` is an array in s, known at each submission, or an estimator that learns from the ends, or None
    for requests.

    Raises:
        ConfigError: there is no job, a job does not fit, or something would be learnt in pyss order.
    """
    _check(trace, how, estimates)
    state = empty_state(len(trace), trace.processors)
    world = replay.make_world(trace.submit, trace.run)
    known = estimates if isinstance(estimates, np.ndarray) else trace.request
    _believe(state, trace, how.switches, known)
    foresight = Foresight(trace, how.queue.rules()) if how.predict else None
    estimator = None if estimates is None or isinstance(estimates, np.ndarray) else estimates
    if estimator is not None or foresight is not None:
        used = _stepwise(trace, how, (state, world), (estimator, foresight), progress)
        used = np.array(known) if estimator is None else used
    else:
        used = np.array(known)
        rules = how.queue.rules()
        for until in [*range(_CHUNK, len(trace), _CHUNK), len(trace) + 1]:
            if how.event_order == "pyss":
                replay.advance_pyss(state, rules, world, until)
            else:
                replay.advance(state, rules, world, until, False)
            if progress is not None:
                progress(min(until, len(trace)), len(trace))
    return ReplaySchedule(
        trace=trace,
        processors=trace.processors,
        start=state.jobs["start"].copy(),
        estimate=used,
        backfilled=state.jobs["backfilled"] == 1,
        passes=int(world.cursor[replay.PASSES]),
        predicted=None if foresight is None else foresight.predicted,
    )


class Jobs:
    """Jobs of a trace as queue jobs, made on access. Their `id` is the index in the trace."""

    def __init__(self, trace: Trace) -> None:
        """Read the columns of the trace once."""
        self._procs, self._request = trace.procs.tolist(), trace.request.tolist()
        self._submit = trace.submit.tolist()
        self._user, self._project = trace.user.tolist(), trace.project.tolist()

    def __getitem__(self, index: int) -> QueueJob:
        return QueueJob(
            id=index,
            procs=self._procs[index],
            request_s=self._request[index],
            submit_s=self._submit[index],
            user=str(self._user[index]),
            project=str(self._project[index]),
        )


def log_estimates(trace: Trace, estimator: Estimator) -> Floats:
    """Return the estimate of each job, s, by an estimator that learns from the ends in the log.

    Raises:
        ConfigError: the log has no waits, so the ends are unknown.
    """
    ends = trace.log_end
    known = np.flatnonzero(~np.isnan(ends))
    if not len(known):
        raise ConfigError(
            f"{trace.name}: the log has no waits, so when jobs ended in it is not known; let the history come from "
            "the simulation itself"
        )
    by_end = known[np.argsort(ends[known], kind="stable")]
    jobs, runs = Jobs(trace), trace.run.tolist()
    to_come = deque(zip(by_end.tolist(), ends[by_end].tolist(), strict=True))
    estimates = np.empty(len(trace))
    for index, now in enumerate(trace.submit.tolist()):
        while to_come and to_come[0][1] <= now:
            ended, end = to_come.popleft()
            estimator.ended(jobs[ended], runs[ended], end)
        estimates[index] = estimator.estimate(jobs[index], now).seconds
    return estimates


def _check(trace: Trace, how: Replay, estimates: object) -> None:
    if not len(trace):
        raise ConfigError(f"{trace.name}: no job to replay")
    if trace.processors < 1:
        raise ConfigError(
            f"{trace.name}: the file does not say how many processors the machine has; say it (--procs)"
        )
    widest = int(trace.procs.max())
    if widest > trace.processors:
        raise ConfigError(
            f"{trace.name}: a job of {widest} processors on a machine of {trace.processors}; leave out the wide ones"
        )
    learns = estimates is not None and not isinstance(estimates, np.ndarray)
    if (learns or how.predict) and how.event_order == "pyss":
        raise ConfigError(
            "event order pyss has no learning from the simulation, and no predicted starts; use batch, a log's "
            "history, or requests as estimates"
        )


def _believe(state: QueueState, trace: Trace, switches: Switches, estimate: Floats) -> None:
    """Fill the columns of assumed run times of all jobs."""
    jobs = state.jobs
    jobs["submit"], jobs["procs"], jobs["request"] = trace.submit, trace.procs, trace.request
    jobs["priority_s"] = estimate if switches.priority else trace.request
    jobs["backfill_s"] = estimate if switches.backfill else trace.request
    jobs["running_s"] = estimate if switches.running else trace.request


def _stepwise(
    trace: Trace,
    how: Replay,
    live: tuple[QueueState, replay.ReplayState],
    learners: tuple[Estimator | None, Foresight | None],
    progress: Progress | None,
) -> Floats:
    """Replay from submission to submission, and return the estimate of each job by the estimator, if any, s."""
    (state, world), (estimator, foresight) = live, learners
    rules, cursor, jobs, runs = how.queue.rules(), world.cursor, Jobs(trace), trace.run.tolist()
    submit, ends = trace.submit.tolist(), world.jobs["end"]
    columns = [
        state.jobs[name]
        for name in ("priority_s", "backfill_s", "running_s")
        if getattr(how.switches, name[:-2])
    ]
    said = np.empty(len(trace))
    while replay.advance(state, rules, world, len(trace), True):
        ended = world.ended[: cursor[replay.ENDED]]
        cursor[replay.ENDED] = 0
        first = slot = int(cursor[replay.NEXT])
        now = submit[slot]
        while slot < len(trace) and submit[slot] == now:
            slot += 1
        if estimator is not None:
            for index in ended.tolist():
                estimator.ended(jobs[index], runs[index], float(ends[index]))
            for index in range(first, slot):
                said[index] = estimator.estimate(jobs[index], now).seconds
                for column in columns:
                    column[index] = said[index]
        if foresight is not None:
            foresight.ended(ended, ends)
            replay.advance(state, rules, world, slot, False)
            foresight.submitted(state, range(first, slot), now)
        if progress is not None and slot // _CHUNK > first // _CHUNK:
            progress(slot, len(trace))
    replay.advance(state, rules, world, len(trace) + 1, False)
    return said
