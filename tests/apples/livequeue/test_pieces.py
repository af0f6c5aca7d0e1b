"""Clock, locks, requests, reasons and log: each alone."""

import json
import multiprocessing
import os
import time
from types import SimpleNamespace

import msgspec
import pytest

from apples.daemons.ipc.requests import read_request
from apples.errors import ConfigError, HistoryError
from apples.livequeue.clock import Clock, rounded_up
from apples.livequeue.queuelog import swf_lines
from apples.livequeue.queuemessages import QUEUE_REQUESTS, Instants, JobRequest
from apples.livequeue.status import clock_time
from apples.livequeue.store import Store
from apples.livequeue.submissions import submission_of
from apples.livequeue.supervisor import queue_locks


def test_instants_are_exact_and_grow():
    seconds = iter([0.0, 0.1, 0.1, 0.1, 7.3, 7.3])
    clock = Clock(time.time() + 1000, 5.0, lambda: next(seconds))
    instants = [clock.instant() for _ in range(4)]
    assert instants == sorted(set(instants))
    assert all(1024 * one == round(1024 * one) for one in instants)
    assert instants[-1] == pytest.approx(12.3, abs=0.01)
    assert clock.time_of_day(2.0) == clock.origin + 2.0
    assert (rounded_up(0.0001), rounded_up(1.0), rounded_up(1.0001)) == (1 / 1024, 1.0, 1.0 + 1 / 1024)


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_clock_time_of_day_changed_goes_on(monkeypatch, step_s):
    seconds = [100.0]
    clock = Clock(time.time() - 50, -1.0, lambda: seconds[0])
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + step_s)
    seconds[0] += 15.0
    # of a manager that starts after the change
    clock = Clock(clock.origin, 50.0, lambda: seconds[0], clock.zero_s)
    assert clock.now() == pytest.approx(65, abs=1)
    assert clock.time_of_day(60.0) == clock.origin + 60
    assert clock.time_of_day(900.0) == pytest.approx(clock.origin + 885 + step_s, abs=2)


def _hold(path, byte, holding, end):
    locks = queue_locks(path)
    assert locks.take(byte)
    holding.set()
    end.wait()


def test_lock_ends_with_its_process(tmp_path):
    path = tmp_path / "jobs.db"
    context = multiprocessing.get_context("spawn")
    holding, end = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(path, 7, holding, end))
    process.start()
    assert holding.wait(60)
    locks = queue_locks(path)
    assert locks.held(7)
    assert not locks.held(8)
    process.kill()
    process.join()
    assert not locks.held(7)
    locks.close()
    with pytest.raises(HistoryError, match="cannot be used"):
        queue_locks(tmp_path / "nowhere" / "jobs.db")


def test_everything_that_is_wrong_with_a_submission_is_said():
    wrong = {"procs": 0, "request_s": -1, "umask": True, "environment": {"A=": "x"}, "directory": "here"}
    with pytest.raises(ConfigError) as caught:
        read_request(QUEUE_REQUESTS, json.dumps({"submit": wrong}).encode())
    said = str(caught.value)
    for part in (
        "submit: token: missing",
        "submit: command: missing",
        "submit: directory 'here': an absolute path is legal",
        "submit: procs 0: Expected `int` >= 1",
        "submit: request_s -1: Expected `float` > 0.0",
        "submit: umask True: Expected `int`, got `bool`",
        "submit: environment {'A=': 'x'}: a name without '=' is legal",
    ):
        assert part in said
    with pytest.raises(ConfigError, match="submit \\[\\]: Expected `object`, got `array`"):
        read_request(QUEUE_REQUESTS, b'{"submit": []}')


def test_submission_that_this_machine_cannot_run(request_document):
    request = msgspec.convert(request_document("true", procs=9), JobRequest)
    with pytest.raises(
        ConfigError, match="procs 9: this machine has 4 processors; 1 to 4 are legal"
    ) as caught:
        submission_of(request, 54321, os.getpid(), 4)
    assert "user 54321 has no entry on this host" in str(caught.value)


def test_store_that_is_not_there(tmp_path):
    with pytest.raises(HistoryError, match="there is no queue; start one with `apples manager --queue`"):
        Store(tmp_path / "jobs.db")


def test_environments_are_forgotten_when_jobs_end(bench, asked):
    one = bench(processors=1)
    one.at(0, asked(environment={"SECRET": "x"}))
    assert one.store.launch(1)[1].environment == {"SECRET": "x"}
    one.at(1, ended=[1])
    with pytest.raises(HistoryError, match="job 1 has ended, its environment is deleted"):
        one.store.launch(1)


def test_times_of_day():
    now = time.time()
    assert clock_time(now) == time.strftime("%H:%M:%S", time.localtime(now))
    assert clock_time(now - 400 * 86400) == time.strftime("%Y-%m-%d %H:%M", time.localtime(now - 400 * 86400))


def test_log_leaves_out_what_never_ran_and_numbers_names():
    def row(number, user, start, freed, outcome):
        instants = Instants(submitted_s=1.0009765625, start_s=start, freed_s=freed)
        return SimpleNamespace(
            id=number,
            user=user,
            project="sun",
            procs=2,
            request_s=60.0,
            outcome=outcome,
            instants=instants,
        )

    document = SimpleNamespace(
        origin=1.7e9,
        processors=4,
        jobs=[
            row(2, "bob", 3.0, 5.5, "failed"),
            row(1, "ann", 1.5, 4.0, "finished"),
            row(3, "ann", None, 9.0, "cancelled"),
        ],
    )
    lines = list(swf_lines(document))
    assert "; MaxProcs: 4" in lines
    assert [line for line in lines if not line.startswith(";")] == [
        "1 1.0009765625 0.4990234375 2.5 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1",
        "2 1.0009765625 1.9990234375 2.5 2 -1 -1 2 60 -1 0 2 1 -1 -1 -1 -1 -1",
    ]
