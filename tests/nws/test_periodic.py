"""Runs at a period: every start that was due is accounted for."""

import subprocess
import sys
import threading
import time

import pytest

from nws.errors import ProbeError, StoreError, UsageError
from nws.periodic import Periodic, Tally


def test_the_first_run_is_at_once_and_a_stop_ends_it():
    lines = []
    periodic = Periodic(lambda: periodic.stop(), 60.0, report=lines.append)
    tally = periodic.run()
    assert (tally.due, tally.done) == (1, 1)
    assert str(tally) == "1 of 1 runs done"
    assert lines == []


def test_a_failed_probe_is_counted_told_and_does_not_end_it():
    lines, turns = [], []

    def job():
        turns.append(1)
        if len(turns) == 1:
            raise ProbeError("peer gone")
        periodic.stop()

    periodic = Periodic(job, 0.1, report=lines.append)
    tally = periodic.run()
    assert lines == ["peer gone"]
    assert (tally.done, tally.failed) == (1, 1)
    assert "1 failed" in str(tally)


def test_any_other_error_ends_it_and_is_raised():
    def job():
        raise StoreError("disk full")

    with pytest.raises(StoreError, match="disk full"):
        Periodic(job, 0.1, report=lambda line: None).run(60.0)


def test_a_run_longer_than_its_period_has_others_skipped_and_they_are_told():
    lines, release = [], threading.Event()

    def report(line):
        lines.append(line)
        release.set()
        periodic.stop()

    periodic = Periodic(lambda: release.wait(10), 0.1, report=report)
    tally = periodic.run(10.0)
    assert tally.skipped >= 1
    assert tally.due == tally.done + tally.skipped + tally.merged
    assert "skipped: the one before it had not ended; choose a longer period" in lines[0]


def test_it_ends_when_its_time_is_over():
    start = time.monotonic()
    tally = Periodic(lambda: None, 0.1, report=lambda line: None).run(0.35)
    assert time.monotonic() - start >= 0.35
    assert tally.done >= 1


def test_a_tally_adds_up():
    tally = Tally(due=10, done=4, failed=1, missed=2, skipped=1)
    assert tally.merged == 2
    assert str(tally) == "4 of 10 runs done; 1 failed, 2 missed, 1 skipped, 2 merged"


@pytest.mark.parametrize("period", [0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_an_impossible_period(period):
    with pytest.raises(UsageError, match=r"expected 0\.1 to 86400 s"):
        Periodic(lambda: None, period, report=lambda line: None)


@pytest.mark.parametrize("duration", [-1.0, 1e300, float("inf"), float("nan")])
def test_an_impossible_duration(duration):
    with pytest.raises(UsageError, match=f"a duration of {duration} s: expected 0 to ".replace("+", r"\+")):
        Periodic(lambda: None, 1.0, report=lambda line: None).run(duration)


def test_a_lost_run_is_told_once():
    program = (
        "import time\nfrom nws.periodic import Periodic\n"
        "Periodic(lambda: time.sleep(0.5), 0.1, report=print).run(0.6)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "a run was skipped" in said.stdout
    assert said.stderr == ""
