"""How a run is brought to its end: a pure state machine, events and the time in, instructions out.

No clock, no processes, no signals inside: `apples.launching.mpiexec` acts on what it answers, and the tests
need no waiting. The rules:

- INT, TERM, HUP, USR1, USR2 are passed on to the ranks; the first of INT, TERM and HUP also shows their states
  and marks the run as interrupted.
- An controller's wish for a checkpoint and the end is a TERM to all ranks, which have the time they need for it.
- The second of these, the time limit, or the first rank that fails, *ends* the run: TERM to all ranks; after a
  grace the lifeline is cut, upon which the keepers kill; after another, what is left is killed from here.
- After the first failure a moment passes before the others are ended, so that ranks which fail together
  (a bad input, read by all) are all seen to fail by themselves. From then on it goes faster than for people:
  what waits for a dead neighbour has nothing left to save.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from signal import SIGTERM, Signals
from typing import Literal

from apples.launching.kernel import INTERRUPTS

Cause = Literal["failed", "time limit", "interrupted", "adapted"]


class Step(Enum):
    """How far the ending has gone, in order."""

    RUNNING = 0
    FAILED = 1
    TERMINATING = 2
    CUT = 3
    KILLED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GracePeriods:
    """Seconds between the steps of an ending.

    together_s : from the first failure to TERM
    failure_s : from TERM to the cut when a rank failed
    request_s : the same for a user or the time limit; also from the first interrupted rank's end to TERM
    cut_s : from the cut to killing what is left from here
    """

    together_s: float = 0.25
    failure_s: float = 1.0
    request_s: float = 5.0
    cut_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """Instruction: send this signal to every rank, also to those that start later."""

    signal: Signals


@dataclass(frozen=True, slots=True)
class ShowStates:
    """Instruction: tell the user what every rank is doing and what happens next."""


@dataclass(frozen=True, slots=True)
class CutLifeline:
    """Instruction: let go of the keepers, which then kill their programs."""


@dataclass(frozen=True, slots=True)
class KillEverything:
    """Instruction: kill `mpiexec` and every keeper."""


Instruction = Forward | ShowStates | CutLifeline | KillEverything


class Termination:
    """One run's way to its end. Times are seconds on any one clock.

    cause : why the run is or was ended, None while it goes its own way
    interrupt : the first signal that asked for the end
    """

    def __init__(self, *, started: float, time_limit_s: float | None, grace: GracePeriods) -> None:
        self.cause: Cause | None = None
        self.interrupt: Signals | None = None
        self._adapting = False
        self.step = Step.RUNNING
        self._grace = grace
        self._limit_at = None if time_limit_s is None else started + time_limit_s
        self._next_at: float | None = None

    @property
    def wake_at(self) -> float | None:
        """When `tick` has something to do, None for never."""
        return self._limit_at if self.step is Step.RUNNING else self._next_at

    def signalled(self, signal: Signals, now: float) -> list[Instruction]:
        """A signal reached the launcher."""
        if signal not in INTERRUPTS:
            return [Forward(signal=signal)]
        if self.step in (Step.FAILED, Step.TERMINATING):
            # The user insists while the ranks have their grace.
            return self._cut(now)
        if self.step is not Step.RUNNING:
            return []
        if self.interrupt is None:
            self.interrupt = signal
            return [ShowStates(), Forward(signal=signal)]
        self.cause = "interrupted"
        return self._terminate(now, self._grace.request_s)

    def adapt(self) -> list[Instruction]:
        """The run is to write a checkpoint and end, to go on elsewhere; nothing if it is ending already."""
        if self._adapting or self.interrupt is not None or self.step is not Step.RUNNING:
            return []
        self._adapting = True
        return [Forward(signal=SIGTERM)]

    def rank_failed(self, now: float) -> list[Instruction]:
        """A rank ended otherwise than with exit code 0; after an interrupt that is what was asked for."""
        if self.step is not Step.RUNNING:
            return []
        interrupted = self.interrupt is not None
        asked = interrupted or self._adapting
        self.cause = "interrupted" if interrupted else "adapted" if asked else "failed"
        # Ranks that were asked to end may be writing a checkpoint while the first has ended already.
        patience_s = self._grace.request_s if asked else self._grace.together_s
        self.step, self._next_at = Step.FAILED, now + patience_s
        return []

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed."""
        due = self.wake_at
        if due is None or now < due:
            return []
        if self.step is Step.RUNNING:
            self.cause = "time limit"
            return self._terminate(now, self._grace.request_s)
        if self.step is Step.FAILED:
            return self._terminate(now, self._grace.failure_s)
        if self.step is Step.TERMINATING:
            return self._cut(now)
        self.step, self._next_at = Step.KILLED, None
        return [KillEverything()]

    def over(self) -> None:
        """All processes are gone: an interrupt that needed no further step is the cause after all."""
        if self.cause is None and (self.interrupt is not None or self._adapting):
            self.cause = "interrupted" if self.interrupt is not None else "adapted"

    def _terminate(self, now: float, grace_s: float) -> list[Instruction]:
        self.step, self._next_at = Step.TERMINATING, now + grace_s
        return [Forward(signal=SIGTERM)]

    def _cut(self, now: float) -> list[Instruction]:
        self.step, self._next_at = Step.CUT, now + self._grace.cut_s
        return [CutLifeline()]
