"""How runs are ended, told to the state machine with made-up times; nothing waits here."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import pytest

from apples.launching.termination import (
    CutLifeline,
    Forward,
    GracePeriods,
    KillEverything,
    ShowStates,
    Step,
    Termination,
)

GRACE = GracePeriods(together_s=0.5, failure_s=1.0, request_s=5.0, cut_s=2.0)
TERMINATE = [Forward(signal=SIGTERM)]


@pytest.fixture
def ending() -> Termination:
    return Termination(started=100.0, time_limit_s=None, grace=GRACE)


def test_quiet_run_is_left_alone(ending: Termination) -> None:
    assert ending.wake_at is None
    assert ending.tick(1e9) == []
    ending.over()
    assert ending.cause is None


def test_user_signals_pass_through(ending: Termination) -> None:
    assert ending.signalled(SIGUSR1, 101.0) == [Forward(signal=SIGUSR1)]
    assert (ending.cause, ending.step) == (None, Step.RUNNING)


@pytest.mark.parametrize("signal", [SIGINT, SIGTERM, SIGHUP])
def test_first_interrupt_shows_states_and_is_forwarded(ending, signal) -> None:
    assert ending.signalled(signal, 101.0) == [ShowStates(), Forward(signal=signal)]
    assert ending.wake_at is None
    ending.over()
    assert (ending.cause, ending.interrupt) == ("interrupted", signal)


def test_second_interrupt_terminates_then_kills_after_grace(ending: Termination) -> None:
    ending.signalled(SIGINT, 101.0)
    assert ending.signalled(SIGINT, 102.0) == TERMINATE
    assert ending.tick(106.9) == []
    assert ending.tick(107.0) == [CutLifeline()]
    assert ending.tick(109.0) == [KillEverything()]
    assert ending.wake_at is None
    assert ending.cause == "interrupted"


def test_third_interrupt_does_not_wait_for_the_grace(ending: Termination) -> None:
    ending.signalled(SIGINT, 101.0)
    ending.signalled(SIGINT, 102.0)
    assert ending.signalled(SIGINT, 102.1) == [CutLifeline()]
    assert ending.signalled(SIGINT, 102.2) == []


def test_failed_rank_ends_the_others_after_a_moment(ending: Termination) -> None:
    assert ending.rank_failed(101.0) == []
    assert ending.rank_failed(101.1) == []
    assert ending.tick(101.5) == TERMINATE
    assert ending.tick(102.5) == [CutLifeline()]
    assert ending.cause == "failed"


def test_rank_that_dies_of_an_interrupt_did_not_fail(ending: Termination) -> None:
    ending.signalled(SIGINT, 101.0)
    ending.rank_failed(101.1)
    assert ending.cause == "interrupted"
    assert ending.tick(106.0) == []
    assert ending.tick(106.1) == TERMINATE


def test_interrupt_after_a_failure_only_hastens_it(ending: Termination) -> None:
    ending.rank_failed(101.0)
    assert ending.signalled(SIGINT, 101.1) == [CutLifeline()]
    assert ending.cause == "failed"


def test_time_limit_terminates_with_grace() -> None:
    ending = Termination(started=100.0, time_limit_s=10.0, grace=GRACE)
    assert ending.wake_at == 110.0
    assert ending.tick(109.9) == []
    assert ending.tick(110.0) == TERMINATE
    assert ending.rank_failed(110.1) == []
    assert ending.tick(115.0) == [CutLifeline()]
    assert ending.cause == "time limit"


def test_adapted_run_gets_time_for_its_checkpoint(
    ending: Termination,
) -> None:
    assert ending.adapt() == TERMINATE
    assert ending.wake_at is None
    assert ending.adapt() == []
    assert ending.rank_failed(200.0) == []
    assert ending.tick(204.9) == []
    assert ending.tick(205.0) == TERMINATE
    assert ending.cause == "adapted"


def test_run_that_ends_after_adapt_was_adapted(ending: Termination) -> None:
    ending.adapt()
    ending.over()
    assert ending.cause == "adapted"


def test_interrupt_after_adapt_is_an_interrupt(ending: Termination) -> None:
    ending.adapt()
    assert ending.signalled(SIGINT, 101.0) == [ShowStates(), Forward(signal=SIGINT)]
    assert ending.adapt() == []
    ending.over()
    assert ending.cause == "interrupted"


def test_interrupted_run_is_not_adapted_any_more(ending: Termination) -> None:
    ending.signalled(SIGINT, 101.0)
    assert ending.adapt() == []
