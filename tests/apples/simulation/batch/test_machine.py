"""Replays of small traces: the same decisions as the live queue, both event orders, estimates from three places."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.estimates import RecentRuns, Scheme, SimilarJobs
from apples.queueing.jobs import REGULAR, SELECTIVE, QueueJob
from apples.queueing.settings import QueueSettings
from apples.simulation.batch.batchmachine import Jobs, Replay, log_estimates, simulate

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


def test_two_event_orders_differ_where_an_end_and_a_submission_meet(trace):
    """Job 0 ends early just when job 2 comes. In batch order job 1 was there first; in pyss order 2 overtakes it."""
    jobs = trace((0, 10, 6, 100), (1, 10, 8, 10), (10, 50, 2, 50))
    assert simulate(jobs, Replay()).start.tolist() == [0, 10, 20]
    assert simulate(jobs, Replay(event_order="pyss")).start.tolist() == [0, 60, 10]


def test_in_pyss_order_a_submission_that_does_not_fit_causes_no_pass(trace):
    jobs = trace((0, 10, 6, 10), (1, 10, 8, 10), (2, 3, 4, 3), (3, 3, 2, 3))
    assert simulate(jobs, Replay(event_order="pyss")).passes == 6
    assert simulate(jobs, Replay()).passes == 8


def test_end_that_was_not_expected_is_no_free_processor_in_pyss_order(trace):
    """At 10 job 1 ends as expected and job 2 early: job 3 may start at once, and job 4 when job 2's end is handled."""
    jobs = trace((0, 10, 4, 10), (0, 10, 4, 50), (10, 5, 4, 5), (10, 5, 4, 5))
    schedule = simulate(jobs, Replay(event_order="pyss"))
    assert schedule.start.tolist() == [0, 0, 10, 10]


def test_jobs_of_no_length_pass_through(trace):
    for order in ("batch", "pyss"):
        schedule = simulate(trace((0, 0, 8, 1), (0, 0, 8, 1), (0, 5, 8, 5)), Replay(event_order=order))
        assert schedule.start.tolist() == [0, 0, 0]


def test_selective_adjustment_opens_the_window_for_others(trace):
    """The running job keeps its request, the candidate's estimate fits before that."""
    jobs = trace((0, 100, 4, 100), (1, 100, 8, 100), (2, 50, 4, 200))
    known = np.array([50.0, 50.0, 60.0])
    assert simulate(jobs, Replay(), known).start[2] == 200
    assert simulate(jobs, Replay(switches=SELECTIVE), known).start[2] == 2
    assert simulate(jobs, Replay(switches=REGULAR), known).start[2] == 200
    assert simulate(jobs, Replay(switches=SELECTIVE), known).estimate.tolist() == [50, 50, 60]


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
