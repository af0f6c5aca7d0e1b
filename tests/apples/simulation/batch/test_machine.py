"""Replays of small traces: the same decisions as the live queue, both event orders, estimates from three places."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.estimates import RecentRuns, Scheme, SimilarJobs
from apples.queueing.jobs import REGULAR, SELECTIVE, QueueJob
from apples.queueing.settings import QueueSettings
from apples.simulation.batch.batchmachine import Jobs, Replay, log_estimates, simulate
from tests.transcripts import recorded

rows = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 8), st.integers(1, 40)),
    min_size=1,
    max_size=25,
).map(lambda found: sorted(found, key=lambda row: row[0]))


def live(trace, settings, switches, estimator):
    """The live queue over the same trace, with an estimator beside it."""
    queue, starts, ends = JobQueue(settings, trace.processors), {}, {}
    times = sorted(set(trace.submit.tolist()))
    while times or ends:
        now = min([*times[:1], *ends.values()])
        for job in sorted((job for job in ends if ends[job] == now), key=list(starts).index):
            del ends[job]
            queue.end(job)
            estimator.ended(Jobs(trace)[job], float(trace.run[job]), now)
        if times and times[0] == now:
            times.pop(0)
            for index in np.flatnonzero(trace.submit == now).tolist():
                job = Jobs(trace)[index]
                queue.submit(job, switches.beliefs(job.request_s, estimator.estimate(job, now).seconds))
        for job in queue.start(now):
            starts[job.id], ends[job.id] = now, now + float(trace.run[job.id])
    return [starts[index] for index in range(len(trace))]


@pytest.mark.parametrize("priority", ["fcfs", "wfp", "procs - wait"])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_replay_decides_as_the_live_queue_does(trace, priority, backfill):
    @settings(max_examples=50, deadline=None)
    @given(rows, st.sampled_from(["request", "increment", "doubling", "half"]))
    def hold(found, overrun):
        jobs = trace(*found, users=[index % 3 for index in range(len(found))])
        queue = QueueSettings(priority=priority, backfill=backfill, overrun=overrun, increment_s=7)
        for switches in (REGULAR, SELECTIVE):
            schedule = simulate(jobs, Replay(queue=queue, switches=switches), RecentRuns(last=1))
            assert schedule.start.tolist() == live(jobs, queue, switches, RecentRuns(last=1))

    hold()


REPLAYS = {
    "batch order": Replay(),
    "pyss order": Replay(event_order="pyss"),
    "regular": Replay(switches=REGULAR),
    "selective": Replay(switches=SELECTIVE),
}


@recorded("apples/simulation/replays.txt", "why", "jobs", "known")
def test_replay_is_as_recorded(trace, answered, why, jobs, known):
    """jobs : submitted, run, processors, request.  known : estimates of their runs, if any"""
    lines = []
    for name, replay in REPLAYS.items():
        schedule = simulate(trace(*jobs), replay, None if known is None else np.array(known))
        estimates = [] if schedule.estimate is None else schedule.estimate.tolist()
        lines.append(f"{name}: starts {schedule.start.tolist()}, {schedule.passes} passes, {estimates}")
    answered(lines)


def test_history_from_the_simulation_and_from_the_log(trace):
    scheme = Scheme(key="user", minimum=1, floor=0)
    jobs = trace((0, 10, 8, 100), (5, 10, 8, 100), (30, 10, 8, 100), users=[1, 1, 1], waits=[0, 5, 0])
    learnt = simulate(jobs, Replay(switches=SELECTIVE), SimilarJobs(scheme))
    assert learnt.estimate.tolist() == [100, 100, 10]
    assert log_estimates(jobs, SimilarJobs(scheme)).tolist() == [100, 100, 10]
    late = trace((0, 10, 8, 100), (5, 10, 8, 100), (30, 10, 8, 100), users=[1, 1, 1], waits=[70, 75, 80])
    assert log_estimates(late, SimilarJobs(scheme)).tolist() == [100, 100, 100]


def test_log_without_waits_has_no_history(trace):
    with pytest.raises(ConfigError, match="has no waits"):
        log_estimates(trace((0, 1, 1, 1)), SimilarJobs(Scheme()))


def test_progress_is_told(trace, monkeypatch):
    monkeypatch.setattr("apples.simulation.batch.batchmachine._CHUNK", 2)
    jobs = trace(*[(second, 1, 1, 1) for second in range(5)])
    said = []
    simulate(jobs, Replay(), None, lambda done, total: said.append((done, total)))
    assert said == [(2, 5), (4, 5), (5, 5)]
    said.clear()
    simulate(jobs, Replay(), RecentRuns(), lambda done, total: said.append((done, total)))
    assert said == [(2, 5), (4, 5)]


@pytest.mark.parametrize(
    ("change", "how", "estimates", "message"),
    [
        ({"processors": 0}, {}, None, r"does not say how many processors .* say it \(--procs\)"),
        ({"processors": 3}, {}, None, "a job of 4 processors on a machine of 3; leave out the wide ones"),
        ({}, {"event_order": "pyss"}, RecentRuns(), "pyss has no learning from the simulation"),
    ],
)
def test_what_cannot_be_replayed(trace, change, how, estimates, message):
    jobs = trace((0, 1, 4, 1), **change)
    with pytest.raises(ConfigError, match=message):
        simulate(jobs, Replay(**how), estimates)


def test_nothing_to_replay(trace):
    with pytest.raises(ConfigError, match="no job to replay"):
        simulate(trace((0, 1, 1, 1)).take(np.zeros(0, int)), Replay())
    with pytest.raises(ConfigError, match="event order 'random' is unknown; legal are batch, pyss"):
        Replay(event_order="random")


def test_job_of_a_trace_is_known_by_its_place(trace):
    jobs = trace((3, 1, 4, 9), users=[7])
    assert Jobs(jobs)[0] == QueueJob(id=0, procs=4, request_s=9.0, submit_s=3.0, user="7", project="0")


def test_head_is_delayed_by_its_budget_and_no_more(trace):
    """A job of both processors is the head; short ones that run a hundred times as long as estimated overtake it."""
    long, wide = (0, 100, 1, 100), (1, 10, 2, 10)
    short = [(2 + 40 * n, 100, 1, 100) for n in range(40)]
    jobs = trace(long, wide, *short, processors=2)
    estimates = np.array([100.0, 10.0, *[1.0] * 40])
    waits = {}
    for budget_s in (math.inf, 1000.0, 300.0, 0.0):
        policy = QueueSettings(delay_budget_s=budget_s)
        how = Replay(queue=policy, switches=SELECTIVE)
        waits[budget_s] = simulate(jobs, how, estimates).start[1] - 1
    assert waits[math.inf] > waits[1000.0] > waits[300.0] > waits[0.0]
    # The first reservation is at 100; a job that overtakes within the budget may still run for its request.
    assert all(waits[budget_s] <= 100 + budget_s + 100 for budget_s in (1000.0, 300.0, 0.0))


@pytest.mark.parametrize(("order", "first"), [("priority", 2), ("shortest", 3), ("area", 4)])
def test_jobs_that_overtake_start_in_the_order_of_the_policy(trace, order, first):
    """Three jobs fit beside the first and before the reservation of the second, one at a time."""
    jobs = trace(
        (0, 100, 4, 100), (1, 10, 8, 10), (2, 40, 3, 40), (2, 20, 4, 20), (2, 30, 2, 30), processors=8
    )
    start = simulate(jobs, Replay(queue=QueueSettings(backfill_order=order))).start
    assert start[first] == 2
    assert start[1] == 100
