"""What is worth another attempt, and without whom."""

from signal import SIGBUS, SIGKILL, SIGSEGV, SIGTERM

import pytest

from apples.model.plan import Outcome, RankStatus
from apples.run.attempts import Next, what_next

POOL = ("a1", "a2", "a3")


def status(rank, *, code=None, signal=None, blame=False, pid=7):
    return RankStatus(rank=rank, host=POOL[rank], exit_code=code, signal=signal, pid=pid, to_blame=blame)


def failed(*statuses, lost=None, code=125):
    return Outcome(
        ended="failed", exit_code=code, observed_s=3.0, statuses=statuses, lost=lost or {}, message="…"
    )


def after(outcome, pool=POOL, failures=1, limit=3):
    return what_next(outcome, pool, failures=failures, limit=limit)


def test_lost_host_is_left_out():
    found = after(failed(lost={"a3": "was lost: its connection ended"}))
    assert found == Next(
        again=True,
        why="a3 was lost: its connection ended",
        without={"a3": "was lost: its connection ended"},
    )


@pytest.mark.parametrize("number", [SIGKILL, SIGTERM, SIGBUS])
def test_rank_that_was_killed_from_outside(number):
    found = after(failed(status(0, code=1, blame=True), status(1, signal=number, blame=True), code=137))
    assert found.again
    assert list(found.without) == ["a2"]
    assert found.why.startswith("a2: rank 1 was killed by signal")


def test_rank_whose_keeper_is_gone():
    found = after(failed(status(2, blame=True)))
    assert (found.again, found.without) == (True, {"a3": "is where rank 2 vanished"})


def test_only_host_is_used_again():
    found = after(failed(status(0, signal=SIGKILL, blame=True), code=137), pool=("a1",))
    assert (found.again, found.without) == (True, {})


@pytest.mark.parametrize(
    "outcome",
    [
        failed(status(0, code=2, blame=True), code=2),
        failed(status(1, signal=SIGSEGV, blame=True), code=139),
        Outcome(ended="time limit", exit_code=124, observed_s=3.0),
        Outcome(ended="interrupted", exit_code=130, observed_s=3.0),
        Outcome(ended="finished", exit_code=0, observed_s=3.0),
    ],
    ids=["exit code", "SEGV", "time limit", "interrupted", "finished"],
)
def test_what_would_happen_again_is_not_tried_again(outcome):
    assert after(outcome) == Next(again=False)


def test_ranks_that_were_told_to_end_and_did_so_in_order():
    found = after(failed(status(0, code=143, blame=True), status(1, code=143, blame=True), code=143))
    assert (found.again, found.without) == (True, {})


def test_launcher_that_was_killed_and_one_that_cannot_start_anything():
    assert after(failed(status(0, signal=SIGKILL), status(1, signal=SIGKILL))).again
    assert not after(failed(status(0, pid=None), status(1, pid=None))).again


def test_attempts_have_a_limit_that_is_told():
    lost = failed(lost={"a1": "was lost: …"})
    assert after(lost, failures=2, limit=3).again
    assert after(lost, failures=3, limit=3) == Next(
        again=False, why="a1 was lost: …; this was attempt 3 of 3"
    )
    assert after(lost, failures=1, limit=1) == Next(again=False)


def test_run_that_ended_to_go_on_otherwise_is_no_failure():
    assert after(Outcome(ended="adapted", exit_code=143, observed_s=3.0), failures=0, limit=1).again


def test_run_that_left_a_host_goes_on_without_it():
    left = Outcome(ended="adapted", exit_code=143, observed_s=3.0, lost={"a": "is drained"})
    found = after(left, failures=0, limit=1)
    assert (found.again, found.why, found.without) == (True, "a is drained", {"a": "is drained"})
