"""The published fake launcher: what a user's own test would do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from apples.errors import LaunchError
from apples.model.launchrequest import LaunchRequest
from apples.model.template import Workload
from apples.testing import FakeLauncher, failed, finished
from tests.apples.samples import a_plan, an_assignment


@pytest.fixture
def request_of_one(tmp_path: Path) -> LaunchRequest:
    plan, workload = a_plan(an_assignment(host="a", rows=4)), Workload(application="a", size=4)
    return LaunchRequest(plan=plan, workload=workload, command=("app", "4"), run_dir=tmp_path)


def test_outcomes_come_in_the_order_of_the_script(request_of_one: LaunchRequest) -> None:
    launcher = FakeLauncher([finished(4.2, ["a"]), failed("rank 0 broke", exit_code=3)])
    notes: list[str] = []
    first, second = (launcher.run(request_of_one, notes.append) for _ in range(2))
    assert (first.finished, first.observed_s, first.statuses[0].host) == (True, 4.2, "a")
    assert (second.finished, second.exit_code, second.message) == (False, 3, "rank 0 broke")
    assert launcher.requests == [request_of_one] * 2
    assert notes == ["fake run of 1 ranks: finished", "fake run of 1 ranks: failed"]


def test_error_comes_from_check_already(request_of_one: LaunchRequest) -> None:
    launcher = FakeLauncher([LaunchError("no room")])
    with pytest.raises(LaunchError, match="no room"):
        launcher.check(request_of_one)
    with pytest.raises(LaunchError, match="no room"):
        launcher.run(request_of_one, print)
    assert launcher.checked == [request_of_one]


def test_outcome_may_depend_on_the_request(request_of_one: LaunchRequest) -> None:
    launcher = FakeLauncher([lambda request: finished(float(request.plan.size))])
    assert launcher.run(request_of_one, lambda line: None).observed_s == 4.0


def test_run_too_many_is_the_tests_mistake(request_of_one: LaunchRequest) -> None:
    with pytest.raises(AssertionError, match="more than its 0 scripted runs"):
        FakeLauncher([]).run(request_of_one, print)


def test_command_line_is_recognisable(request_of_one: LaunchRequest) -> None:
    assert FakeLauncher([]).command_line(request_of_one) == ["fake", "-n", "1", "app", "4"]
