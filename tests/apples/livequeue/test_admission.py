"""Jobs that share processors: which pairs, for how long, after which end, and after a restart at any instant."""

import json
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from apples.coscheduling.events import Process
from apples.coscheduling.fitting import fit
from apples.daemons.classmemory import ClassMemory
from apples.daemons.processes import ProcessRegistration
from apples.errors import ConfigError
from apples.livequeue.occupancy import SharingJob, guests
from apples.livequeue.queueclient import ask

DUTY = st.floats(0.0, 1.0, allow_nan=False)


@st.composite
def sharing_jobs(draw, first_id):
    found = []
    for number in range(draw(st.integers(0, 6))):
        procs = draw(st.integers(1, 3))
        duties = draw(
            st.one_of(
                st.just([]),
                st.lists(DUTY, min_size=1, max_size=1),
                st.lists(DUTY, min_size=procs, max_size=procs),
            )
        )
        found.append(
            SharingJob(
                id=first_id + number,
                procs=procs,
                duties=tuple(duties),
                end_s=draw(st.floats(0, 100)),
                reserved_s=draw(st.sampled_from([float("-inf"), 50.0, float("inf")])),
            )
        )
    return found


@given(waiting=sharing_jobs(1), holders=sharing_jobs(100), only_first=st.booleans())
def test_guests_fit_and_end_by_the_holder_or_are_reserved(waiting, holders, only_first):
    holders = [job for job in holders if job.duties]
    found = guests(waiting, holders, only_first=only_first)
    by_id = {job.id: job for job in (*waiting, *holders)}
    assert max([*Counter(holder for _, holder in found).values(), 0]) <= 1
    assert max([*Counter(guest for guest, _ in found).values(), 0]) <= 1
    order = [job.id for job in waiting]
    passed_over = min((order.index(i) for i in set(order) - {guest for guest, _ in found}), default=99)
    for guest, holder in ((by_id[one], by_id[other]) for one, other in found):
        assert guest.duties
        assert guest.procs <= holder.procs
        first, second = (job.duties * (job.procs if len(job.duties) == 1 else 1) for job in (holder, guest))
        assert fit(first, second, holder.procs).fits
        if guest.end_s > holder.end_s:
            assert guest.procs == holder.procs
            assert guest.reserved_s <= holder.end_s
            assert not only_first or order.index(guest.id) < passed_over


def test_least_slowed_pair_is_chosen_then_the_lowest_id():
    holders = [
        SharingJob(id=i, procs=1, duties=(duty,), end_s=9.0) for i, duty in ((3, 0.5), (2, 0.3), (1, 0.4))
    ]
    waiting = [SharingJob(id=i, procs=1, duties=(0.35,), end_s=9.0) for i in (11, 12, 13)]
    assert guests(waiting, holders, only_first=True) == [(11, 2), (12, 1), (13, 3)]


JOBS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 20),
        st.integers(1, 4),
        st.integers(0, 15),
        st.sampled_from([(), (0.3,), (0.6,), (1.0,)]),
    ),
    min_size=1,
    max_size=12,
)
POLICIES = st.sampled_from(
    [
        {},
        {"priority": "sjf"},
        {"priority": "wfp", "backfill": "none"},
        {"backfill": "conservative"},
        {"priority": "wait / procs", "backfill": "conservative"},
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, policy=POLICIES, restarts=st.sets(st.integers(0, 40)))
def test_guests_delay_no_reservation_and_survive_restarts(bench, asked, jobs, policy, restarts):
    """A twin that shares no processors from this instant on starts no job and reserves no processors earlier."""
    with tempfile.TemporaryDirectory() as directory:
        one = bench(Path(directory), processors=4, **policy)
        left, ends, runs, step = sorted(jobs), {}, {}, 0
        while left or ends:
            now = min([*(job[0] for job in left[:1]), *ends.values()])
            ended = [number for number, end in ends.items() if end <= now]
            came = [job for job in left if job[0] <= now]
            left = left[len(came) :]
            submitted = [
                asked(token=f"{step}-{n}", procs=procs, request_s=float(run + slack), duties=duties)
                for n, (_, run, procs, slack, duties) in enumerate(came)
            ]
            runs.update({len(runs) + 1 + n: job[1] for n, job in enumerate(came)})
            plain = _twin(bench, one, f"{directory}/{step}", now, submitted, ended)
            for number in ended:
                del ends[number]
            started = one.at(now, *submitted, ended=ended)
            assert started[: len(plain["started"])] == plain["started"]
            _check_reservations(one, plain)
            _check_processors(one)
            ends |= {number: one.live.clock.last_s + runs[number] for number in started}
            step += 1
            if step in restarts:
                before = _memory(one)
                one.restart()
                assert _memory(one) == before
        assert set(one.states().values()) <= {"ended"}
        one.store.close()


def _twin(bench, one, directory, now, submitted, ended):
    """What the same queue does without new guests."""
    Path(directory).mkdir()
    with closing(sqlite3.connect(f"{directory}/jobs.db")) as copy, closing(sqlite3.connect(one.path)) as live:
        live.backup(copy)
    other = bench(Path(directory), processors=4)
    other.chosen = replace(one.chosen, queue=replace(one.chosen.queue, oversubscribe=False))
    other.restart()
    found = {"started": other.at(now, *submitted, ended=ended), "planned": _planned(other)}
    found["head"] = other.live.queue.reservation(other.live.clock.last_s)
    other.store.close()
    return found


def _planned(one):
    return {job.id: one.live.queue.planned_start_s(job.id) for job in one.live.queue.waiting}


def _check_reservations(one, plain):
    head, before = one.live.queue.reservation(one.live.clock.last_s), plain["head"]
    # Under conservative backfilling the promise is the job's own reservation, checked below.
    easy = one.chosen.queue.backfill != "conservative"
    if easy and head is not None and head.job.id == before.job.id:
        assert head.at_s <= before.at_s
    for number, start in _planned(one).items():
        reserved = plain["planned"][number]
        assert reserved is None or start <= reserved


def _check_processors(one):
    running = [record for record in one.store.present() if record.start_s is not None]
    by_id = {record.id: record for record in running}
    guest_of = {r.id: by_id[r.beside] for r in running if r.beside in by_id}
    holders = [record for record in running if record.id not in guest_of]
    assert one.live.queue.free == 4 - sum(record.procs for record in holders)
    assert {job.id for job in one.live.queue.running} == {record.id for record in holders}
    assert max([*Counter(holder.id for holder in guest_of.values()).values(), 0]) <= 1
    assert not guest_of.keys() & {holder.id for holder in guest_of.values()}
    for number, holder in guest_of.items():
        assert fit(holder.duties, by_id[number].duties, 1).fits
        ends = [record.start_s + record.request_s for record in (holder, by_id[number])]
        assert one.live.queue.expected_end_s(holder.id) >= max(ends)


def _memory(one):
    queue = one.live.queue
    waiting = {job.id: queue.planned_start_s(job.id) for job in queue.waiting}
    running = {job.id: (job.procs, job.request_s, queue.expected_end_s(job.id)) for job in queue.running}
    return queue.free, waiting, running, one.live.occupancy.guests


def test_two_jobs_run_at_once_on_one_processor(manager, cli, tmp_path):
    call, queue, eventually = cli
    manager("--procs", 1)

    def states():
        return {job["id"]: (job["state"], job["beside"]) for job in queue()["jobs"]}

    script = ("--", "sh", "-c", "echo ran; sleep 600")
    for number in (1, 2):
        call("submit", "-s", "--duty", "0.4", "-o", number, *script, cwd=tmp_path)
    eventually(lambda: states() == {1: ("running", None), 2: ("running", 1)})
    files = [tmp_path / name for name in "12"]
    eventually(lambda: all(file.exists() and file.read_text() for file in files))
    assert json.loads(call("queue", "--json"))["jobs"][1]["duties"] == [0.4]
    assert "runs since" in call("why", 2)
    assert "on 1 processor beside job 1" in call("why", 2)
    call("cancel", 1)
    eventually(lambda: states() == {2: ("running", 1)})
    assert "beside" not in call("why", 2)
    call("submit", "-s", "--duty", "1", "--", "true", cwd=tmp_path)
    assert states()[3] == ("waiting", None)
    call("cancel", 2)
    eventually(lambda: not states())
    outcomes = [job["outcome"] for job in queue(True)["jobs"]]
    assert outcomes == ["cancelled", "cancelled", "finished"]


@pytest.mark.nightly
def test_guest_is_adopted_and_ended_at_its_limit(manager, cli, tmp_path):
    call, queue, eventually = cli
    one = manager("--procs", 1)
    sleep = ("--", "sleep", "600")
    call("submit", "-s", "--duty", "0.4", *sleep, cwd=tmp_path)
    call("submit", "-s", "--duty", "0.4", "-t", "12s", *sleep, cwd=tmp_path)
    eventually(lambda: [job["state"] for job in queue()["jobs"]] == ["running", "running"])
    one.kill()
    one.start()
    one.ready()
    assert "2 jobs found, 2 running" in one.log.read_text()
    eventually(lambda: [job["id"] for job in queue()["jobs"]] == [1])
    assert queue(True)["jobs"][1]["outcome"] == "time limit"
    assert queue()["free"] == 0


def test_duty_cycles_come_from_the_last_measured_run(manager, cli, tmp_path, state_of_its_own, monkeypatch):
    call, queue, _ = cli
    manager("--procs", 2)
    program = tmp_path / "solver"
    program.write_text("#!/bin/sh\nsleep 600\n")
    program.chmod(0o755)
    memory = ClassMemory(state_of_its_own / "classes.json")
    for rank, duty in enumerate((0.5, 0.25)):
        process = Process("j", rank)
        registration = ProcessRegistration(
            process=process, ranks=2, pid=1, uid=0, started=0, page=None, program=f"{program} input"
        )
        memory.note(registration, None, duty)
    words = ("submit", "-s", "-n", 2, "--", "env", "-u", "X", program, "input", "-v")
    assert call(*words, cwd=tmp_path) == "1\n"
    assert "no program of this command was measured on 1 ranks" in call(
        "submit", "-s", "--", program, code=None, cwd=tmp_path
    )
    assert [job["duties"] for job in queue()["jobs"]] == [[0.5, 0.25], [1.0]]
    refused = {"0": "--duty 0: expected", "1.5": "--duty 1.5: expected", "nan": "--duty nan: expected"}
    for given_text, problem in refused.items():
        assert problem in call("submit", "-s", "--duty", given_text, "--", "true", code=2)
    assert "--duty is for a job that shares its processors" in call(
        "submit", "--duty", 0.5, "--", "true", code=2
    )


def test_duties_in_a_request_are_checked(manager, request_document):
    manager("--procs", 4)
    for duties, problem in (
        ([0.5, 0.5], "2 numbers; one, or one for each processor"),
        ([1.5] * 4, r"duties\[0\] 1\.5: Expected `float` <= 1\.0"),
        ([-0.5] * 4, r"duties\[0\] -0\.5: Expected `float` >= 0\.0"),
        ("0.5", "duties '0.5': Expected `array`, got `str`"),
    ):
        with pytest.raises(ConfigError, match=problem):
            ask("submit", request_document(procs=4, duties=duties))
