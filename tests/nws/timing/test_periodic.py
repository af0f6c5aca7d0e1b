"""Runs at a period: every start that was due is accounted for."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from nws.base.errors import ProbeError, StoreError, UsageError
from nws.timing import periodic
from nws.timing.periodic import Tally, Timetable, total


def one_job(job, period_s, *, report=lambda line: None):
    """Return a timetable with one job, "measure"."""
    table = Timetable(report=report)
    table.every("measure", job, period_s)
    return table


def test_first_run_is_at_once_and_a_stop_ends_it():
    lines = []
    table = one_job(lambda: table.stop(), 60.0, report=lines.append)
    tally = table.run()["measure"]
    assert (tally.due, tally.done) == (1, 1)
    assert str(tally) == "1 of 1 runs done"
    assert lines == []


def test_failed_probe_is_counted_told_and_does_not_end_it():
    lines, turns = [], []

    def job():
        turns.append(1)
        if len(turns) == 1:
            raise ProbeError("peer gone")
        table.stop()

    table = one_job(job, 0.1, report=lines.append)
    tally = table.run()["measure"]
    assert lines == ["peer gone"]
    assert (tally.done, tally.failed) == (1, 1)
    assert "1 failed" in str(tally)


def test_runs_without_memory_are_counted_and_do_not_end_it(monkeypatch):
    monkeypatch.setattr(periodic, "_NO_MEMORY_S", 0.01)
    lines, turns = [], []
    table = Timetable(report=lines.append)

    def measure():
        raise MemoryError

    def deliver(counts):
        turns.append(1)
        if len(turns) == 1:
            raise MemoryError
        table.stop()
        return 1.0

    table.every("cpu", measure, 60.0)
    table.paced("server", deliver)
    tallies = table.run(20.0)
    assert sorted(lines) == [
        "cpu: no memory is left", "server: no memory is left, trying again in 0.01 s"
    ]  # fmt: skip
    assert [tally.failed for tally in tallies.values()] == [1, 1]


def test_paced_run_that_apscheduler_dropped_is_made_up(monkeypatch):
    monkeypatch.setattr(periodic, "_FORGOTTEN_S", 0.05)
    monkeypatch.setattr(periodic, "_WATCH_S", 0.02)
    submit, dropped = ThreadPoolExecutor.submit, []

    def first_fails(pool, call, *arguments):
        if call.__name__ == "run_job" and not dropped:
            dropped.append(call)
            raise MemoryError
        return submit(pool, call, *arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", first_fails)
    table = Timetable(report=lambda line: None)
    ran = []

    def job(counts):
        ran.append(time.monotonic())
        table.stop()
        return 1.0

    table.paced("server", job)
    table.run(10.0)
    assert (len(dropped), len(ran)) == (1, 1)


def test_any_other_error_ends_it_and_is_raised():
    def job():
        raise StoreError("disk full")

    with pytest.raises(StoreError, match="disk full"):
        one_job(job, 0.1).run(60.0)


def test_run_longer_than_its_period_has_others_skipped_and_they_are_told():
    lines, release = [], threading.Event()

    def report(line):
        lines.append(line)
        release.set()
        table.stop()

    table = one_job(lambda: release.wait(10), 0.1, report=report)
    tally = table.run(10.0)["measure"]
    assert tally.skipped >= 1
    assert tally.due == tally.done + tally.skipped + tally.merged
    assert "skipped: the one before it had not ended; choose a longer period" in lines[0]


def test_it_ends_when_its_time_is_over():
    start = time.monotonic()
    tally = one_job(lambda: None, 0.1).run(0.35)["measure"]
    assert time.monotonic() - start >= 0.35
    assert tally.done >= 1


def test_tally_adds_up():
    tally = Tally(due=10, done=4, failed=1, missed=2, skipped=1)
    assert tally.merged == 2
    assert str(tally) == "4 of 10 runs done; 1 failed, 2 missed, 1 skipped, 2 merged"


@pytest.mark.parametrize("period", [0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_impossible_period(period):
    with pytest.raises(UsageError, match=r"expected 0\.1 to 86400 s"):
        one_job(lambda: None, period)


@pytest.mark.parametrize("duration", [-1.0, 1e300, float("inf"), float("nan")])
def test_impossible_duration(duration):
    with pytest.raises(UsageError, match=f"a duration of {duration} s: expected 0 to ".replace("+", r"\+")):
        one_job(lambda: None, 1.0).run(duration)


def test_lost_run_is_told_once():
    program = (
        "import time\nfrom nws.timing.periodic import Timetable\ntable = Timetable(report=print)\n"
        "table.every('measure', lambda: time.sleep(0.5), 0.1)\ntable.run(0.6)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "a run was skipped" in said.stdout
    assert said.stderr == ""


def say_nothing(line):
    pass


def test_several_jobs_run_at_once_and_each_has_its_own_tally():
    table = Timetable(report=say_nothing)
    meeting = threading.Barrier(2, timeout=10)

    def meet():
        meeting.wait()

    def meet_and_end():
        meeting.wait()
        table.stop()
        raise ProbeError("late")

    table.every("one", meet, 60.0)
    table.every("two", meet_and_end, 60.0)
    tallies = table.run(20.0)
    assert {name: (t.due, t.done, t.failed) for name, t in tallies.items()} == {
        "one": (1, 1, 0),
        "two": (1, 0, 1),
    }
    assert str(total(tallies)) == "1 of 2 runs done; 1 failed"


def test_paced_job_says_when_it_wants_to_run_and_counts_for_itself():
    table = Timetable(report=say_nothing)
    turns = []

    def job(counts):
        turns.append(1)
        counts.done += 1
        if len(turns) == 5:
            counts.failed += 1
            table.stop()
        return 0.0

    table.paced("network", job)
    (tally,) = table.run(20.0).values()
    assert (tally.due, tally.done, tally.failed, tally.merged) == (6, 5, 1, 0)


def test_paced_job_in_a_hurry_runs_at_once_and_once_more_when_it_is_under_way():
    table = Timetable(report=say_nothing)
    begun, go_on, turns = threading.Event(), threading.Event(), []

    def job(counts):
        turns.append(1)
        begun.set()
        assert go_on.wait(10)
        if len(turns) == 3:
            table.stop()
        return 3600.0

    def hurry():
        assert begun.wait(10)
        # under way: it runs once more
        table.hurry("network")
        go_on.set()
        while len(turns) < 2:
            time.sleep(0.01)
        # waiting for its hour: it runs now; told again and again, for it may still be on its way to waiting
        while len(turns) < 3:
            table.hurry("network")
            time.sleep(0.01)

    other = threading.Thread(target=hurry)
    table.paced("network", job)
    other.start()
    table.run(20.0)
    other.join()
    assert len(turns) == 3


def test_error_of_a_paced_job_ends_it_all():
    table = Timetable(report=say_nothing)

    def job(counts):
        raise StoreError("disk full")

    table.paced("network", job)
    with pytest.raises(StoreError, match="disk full"):
        table.run(20.0)


def test_new_period_counts_from_when_it_is_set():
    now = [0.0]
    table = Timetable(report=say_nothing, counter=lambda: now[0])
    turns = []

    def job():
        turns.append(1)
        if len(turns) == 1:
            table.set_period("cpu", 0.1)
        elif len(turns) == 3:
            table.stop()

    table.every("cpu", job, 3600.0)
    now[0] = 0.0
    ended = threading.Timer(20.0, table.stop)
    ended.start()
    (tally,) = table.run().values()
    ended.cancel()
    assert len(turns) == 3
    assert tally.due == tally.done == 3
    with pytest.raises(UsageError, match=r"expected 0\.1 to 86400 s"):
        table.set_period("cpu", 0.0)


def test_jobs_that_change_the_table_while_it_ends_do_not_hang_it():
    table = Timetable(report=say_nothing)
    begun, ending = threading.Event(), threading.Event()

    def job(counts):
        begun.set()
        assert ending.wait(10)
        while not table.stopping:
            time.sleep(0.01)
        time.sleep(0.1)
        table.hurry("network")
        table.set_period("cpu", 5.0)
        return 0.0

    table.paced("network", job)
    table.every("cpu", lambda: None, 60.0)

    def end():
        assert begun.wait(10)
        table.stop()
        ending.set()

    ender = threading.Thread(target=end)
    ender.start()
    tallies = table.run(20.0)
    ender.join()
    assert tallies["cpu"].done == 1


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_wall_clock_that_is_set_neither_stops_nor_multiplies_runs(monkeypatch, step):
    """APScheduler goes by the wall clock; what it sees of it is moved here while the job runs."""
    from apscheduler.executors import base as executors
    from apscheduler.schedulers import base as schedulers

    offset = [0.0]

    class Moved(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromtimestamp(time.time() + offset[0], tz)

    for module in (schedulers, executors):
        monkeypatch.setattr(module, "datetime", Moved)
    table = Timetable(report=say_nothing, wall=lambda: time.time() + offset[0])
    turns = []

    def job():
        turns.append(1)
        if len(turns) == 2:
            offset[0] = step
        elif len(turns) == 5:
            table.stop()

    table.every("cpu", job, 0.5)
    (tally,) = table.run(30.0).values()
    assert len(turns) == 5
    assert tally.done == 5
    assert tally.due <= 5 + 4
