"""One instant, one transaction: what the queue decides, what it knows after a restart, what a replay says."""

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from apples.errors import ConfigError, HistoryError
from apples.livequeue import status as requests
from apples.livequeue.queuelog import swf_lines
from apples.livequeue.status import StatusRequests
from apples.queueing.jobs import OFF
from apples.simulation.batch.batchmachine import Replay, simulate
from apples.simulation.batch.swf import parse_swf


def test_jobs_start_when_there_is_room_and_in_order(bench, asked):
    one = bench(processors=4)
    assert one.at(0, asked(procs=3), asked(procs=4), asked(procs=1)) == [1, 3]
    assert one.states() == {1: "running", 2: "waiting", 3: "running"}
    assert one.at(5, ended=[1]) == []
    assert one.at(9, ended=[3]) == [2]
    record = one.store.job(1)
    assert (record.start_s, record.freed_s, record.held_s) == (0.0, 5.0, 5.0)
    assert one.store.job(3).backfilled


def test_waiting_job_is_cancelled_and_makes_way(bench, asked):
    one = bench(processors=4)
    one.at(0, asked(procs=3, request_s=100.0), asked(procs=4), asked(procs=1, request_s=200.0))
    assert one.states()[3] == "waiting"
    assert one.at(1, cancelled=[2]) == [3]
    assert one.store.job(2).outcome == "cancelled"
    assert one.store.job(2).held_s is None


def test_instants_are_different_although_the_clock_stands_still_or_goes_back(bench, asked):
    one = bench()
    for _ in range(3):
        one.at(7, asked())
    one.seconds = 2.0
    one.restart()
    one.at(2, asked())
    submitted = [record.submitted_s for record in one.store.all_jobs()]
    assert submitted == [7.0, 7.0 + 1 / 1024, 7.0 + 2 / 1024, 7.0 + 3 / 1024]


def test_instant_that_cannot_be_written_has_not_happened(bench, asked, monkeypatch):
    one = bench(processors=2)
    one.at(0, asked(procs=2))

    def full(*arguments, **numbers):
        raise HistoryError("jobs.db: cannot be written (disk is full); nothing of it was done")

    with monkeypatch.context() as patch:
        patch.setattr(one.store, "set_numbers", full)
        with pytest.raises(HistoryError, match="disk is full"):
            one.at(1, asked(procs=1))
    assert one.states() == {1: "running"}
    assert one.at(2, asked(procs=1)) == []
    assert one.at(3, ended=[1]) == [2]


def test_machine_that_has_shrunk(bench, asked, machine):
    one = bench(processors=8)
    one.at(0, asked(procs=6), asked(procs=8), asked(procs=2, request_s=90.0))
    one.live.set_machine(machine(4))
    assert one.live.too_wide == {2}
    assert one.at(1) == []
    assert one.at(2, ended=[1]) == [3]
    assert one.at(3, ended=[3]) == []
    one.live.set_machine(machine(8))
    assert one.at(4) == [2]


def test_wide_job_can_be_cancelled_while_the_machine_is_too_small(bench, asked, machine):
    one = bench(processors=8)
    one.at(0, asked(procs=8), asked(procs=8))
    one.live.set_machine(machine(4))
    one.at(1, cancelled=[2])
    assert one.store.job(2).outcome == "cancelled"


def test_truth_is_no_source_of_a_live_queue(bench):
    with pytest.raises(ConfigError, match="actual run times are known in a replay only"):
        bench(source="actual")


def test_estimates_come_from_the_queues_own_ends_also_after_a_restart(bench, asked):
    one = bench(processors=1, source="history", minimum=3, floor=0.1)
    for number in range(1, 4):
        one.at(10 * number, asked(request_s=100.0))
        one.at(10 * number + 8, ended=[number])
    one.at(60, asked(request_s=100.0))
    one.restart()
    one.at(65, asked(request_s=100.0), asked(request_s=100.0, model_s=33.0))
    assert [one.store.job(number).estimate_s for number in (3, 4, 5, 6)] == [100.0, 10.0, 10.0, 33.0]
    assert one.store.job(6).estimates == {"history": 10.0, "recent": 8.0, "request": 100.0, "model": 33.0}
    seen = one.live.predicted_starts()
    assert (seen[5].early_s, seen[5].late_s) == (70.0, 160.0)


def test_another_policy_after_a_restart_is_noticed(bench, asked):
    one = bench(processors=1)
    one.at(0, asked())
    one.restart()
    assert not one.live.policy_changed
    one.processors = 2
    one.restart()
    assert one.live.policy_changed


def test_promises_outlive_the_manager(bench, asked):
    one = bench(processors=2, backfill="conservative")
    one.at(0, asked(procs=2, request_s=50.0), asked(procs=2, request_s=50.0), asked(procs=2, request_s=50.0))
    promised = [one.live.queue.planned_start_s(number) for number in (2, 3)]
    one.restart()
    assert [one.live.queue.planned_start_s(number) for number in (2, 3)] == promised == [50.0, 100.0]


JOBS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 4), st.integers(0, 15)),
    min_size=1,
    max_size=12,
)
POLICIES = st.sampled_from(
    [
        {},
        {"priority": "wfp"},
        {"priority": "sjf", "backfill": "none"},
        {"priority": "procs * 3 - wait / 7"},
        {"backfill": "conservative"},
        {"overrun": "half", "source": "history", "adjust": "regular", "minimum": 1, "floor": 0.1},
        {"overrun": "doubling", "source": "recent", "adjust": "regular", "last": 1},
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, policy=POLICIES, restarts=st.sets(st.integers(0, 40)))
def test_replay_of_the_log_starts_the_same_jobs_at_the_same_instants(bench, asked, jobs, policy, restarts):
    """Whenever the manager was started anew."""
    with tempfile.TemporaryDirectory() as directory:
        one = bench(Path(directory), processors=4, **policy)
        by_submission = sorted(jobs)
        ends = {}
        steps = 0
        while by_submission or ends:
            now = min([*(job[0] for job in by_submission[:1]), *ends.values()])
            ended = [number for number, end in ends.items() if end <= now]
            came = [job for job in by_submission if job[0] <= now]
            by_submission = by_submission[len(came) :]
            submitted = [
                asked(token=f"{steps}-{n}", procs=procs, request_s=float(run + slack))
                for n, (_, run, procs, slack) in enumerate(came)
            ]
            known = one.store.all_jobs()
            runs = {len(known) + 1 + n: job[1] for n, job in enumerate(came)}
            RUNS.update(runs)
            for number in ended:
                del ends[number]
            for number in one.at(now, *submitted, ended=ended):
                ends[number] = one.live.clock.last_s + RUNS[number]
            steps += 1
            if steps in restarts:
                one.restart()
        document = requests.document(one.live, 0, everything=True)
        log = parse_swf(swf_lines(document), "log")
        estimator = one.chosen.estimates.estimator()
        how = Replay(
            queue=one.chosen.queue.settings(),
            switches=OFF if estimator is None else one.chosen.estimates.switches(),
        )
        told = simulate(log.fitting(4), how, estimator)
        one.store.close()
    live = {job.id: job.instants.start_s for job in document.jobs}
    assert dict(zip(told.trace.id.tolist(), told.start.tolist(), strict=True)) == live


RUNS = {}
"""Run time of the jobs of one example, by id."""


def test_supervisors_load_little():
    code = "import apples.livequeue.supervisor, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "numpy",
        "numba",
        "pydantic",
        "msgspec",
        "yaml",
        "click",
        "rich",
        "subprocess",
        "typing_extensions",
    }
    assert not heavy & set(done.stdout.split())


def test_long_queue_is_told_page_by_page(bench, asked, monkeypatch):
    monkeypatch.setattr(requests, "PAGE", 2)
    one = bench(processors=1)
    one.at(0, *(asked(procs=1) for _ in range(5)))
    pages, after = [], 0
    while after is not None:
        page = requests.document(one.live, 0, everything=False, after=after)
        pages.append([(job.id, job.position) for job in page.jobs])
        after = page.more
    assert pages == [[(1, None), (2, 1)], [(3, 2), (4, 3)], [(5, 4)]]


def test_client_that_has_left_waits_for_no_job(bench, asked):
    one = bench(processors=1)
    one.at(0, asked(), asked())
    status = StatusRequests(one.live)
    clients = [SimpleNamespace(stream=SimpleNamespace(open=known), uid=0) for known in (True, False)]
    for client in clients:
        status.answer(client, "wait", 2)
    assert status._waiting == {2: clients[:1]}
