"""The termination of a run: a pure state machine. Arguments are events and the time, return values are instructions.

It has no clock, processes or signals; `apples.launching.engine` carries out the instructions. The rules:

- INT, TERM, HUP, USR1 and USR2 are forwarded to the ranks. The first INT, TERM or HUP also shows the ranks' states and
  marks the run as interrupted.
- If the controller orders a checkpoint and the end, all ranks get TERM, and as much time as the checkpoint takes.
- A second interrupt, the time limit, or the first failed rank *ends* the run. The ranks get TERM. After a grace period
  the lifeline is cut, and the supervisors kill their programs. After another one the launcher kills what is left.
- After the first failure a moment passes before the others get TERM, so that ranks which fail together (they all read a
  bad input) are all recorded as failed. The following periods are shorter than after an interrupt: ranks that wait for
  a dead neighbour have nothing to save.
"""

from dataclasses import dataclass
from enum import Enum
from signal import SIGTERM, Signals
from typing import Literal

from apples.hosts.kernel import INTERRUPTS

Cause = Literal["failed", "time limit", "interrupted", "adapted"]


class Step(Enum):
    """The steps of a termination, in order."""

    RUNNING = 0
    FAILED = 1
    TERMINATING = 2
    CUT = 3
    KILLED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GracePeriods:
    """Seconds between the steps of a termination.

    together_s : from the first failure to TERM
    failure_s : from TERM to the cut after a failure
    request_s : the same after an interrupt or the time limit; also from the first interrupted rank's end to TERM
    cut_s : from the cut to killing from the launcher
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
    """Instruction: show the user the state of every rank, and the effect of another interrupt."""


@dataclass(frozen=True, slots=True)
class CutLifeline:
    """Instruction: close the lifeline, upon which the supervisors kill their programs."""


@dataclass(frozen=True, slots=True)
class KillEverything:
    """Instruction: kill `mpiexec`, its proxies and every supervisor."""


Instruction = Forward | ShowStates | CutLifeline | KillEverything


class Termination:
    """The termination state of one run. Times are seconds on any one clock.

    cause : why the run was ended, None while it runs by itself
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
        """Return the time of the next `tick` that has an effect, None for never."""
        return self._limit_at if self.step is Step.RUNNING else self._next_at

    def signalled(self, signal: Signals, now: float) -> list[Instruction]:
        """Return the instructions after a signal to the launcher."""
        if signal not in INTERRUPTS:
            return [Forward(signal=signal)]
        # Not a new interrupt: the run is ending already, only more slowly than the user likes.
        if self.step in (Step.FAILED, Step.TERMINATING):
            # The user insists while the ranks have their grace.
            return self._cut(now)
        if self.step is not Step.RUNNING:
            return []
        if self.interrupt is None:
            # The program decides on the effect of the first one: many write a checkpoint and end.
            self.interrupt = signal
            return [ShowStates(), Forward(signal=signal)]
        self.cause = "interrupted"
        return self._terminate(now, self._grace.request_s)

    def adapt(self) -> list[Instruction]:
        """Return the instructions that make the ranks write a checkpoint and end; none if the run is ending already."""
        if self._adapting or self.interrupt is not None or self.step is not Step.RUNNING:
            return []
        # No step of the termination yet: ranks may take as long as a checkpoint takes.
        self._adapting = True
        return [Forward(signal=SIGTERM)]

    def rank_failed(self, now: float) -> list[Instruction]:
        """Return the instructions after a rank ended with another exit code than 0, as it may after an interrupt."""
        if self.step is not Step.RUNNING:
            return []
        interrupted = self.interrupt is not None
        asked_to_end = interrupted or self._adapting
        # A rank that was asked to end may do so with any code, which is no failure.
        self.cause = "interrupted" if interrupted else "adapted" if asked_to_end else "failed"
        # Ranks that were asked to end may be writing a checkpoint while the first has ended already.
        patience_s = self._grace.request_s if asked_to_end else self._grace.together_s
        # Nothing is sent yet: the others may be about to fail for the same reason, and should say so.
        self.step, self._next_at = Step.FAILED, now + patience_s
        return []

    def tick(self, now: float) -> list[Instruction]:
        """Return the instructions that are due at time `now`."""
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
        # The last step has no deadline: a survivor of SIGKILL cannot be ended from here.
        self.step, self._next_at = Step.KILLED, None
        return [KillEverything()]

    def over(self) -> None:
        """Record that all processes have ended: an interrupt that needed no further step becomes the cause."""
        if self.cause is None and (self.interrupt is not None or self._adapting):
            self.cause = "interrupted" if self.interrupt is not None else "adapted"

    def _terminate(self, now: float, grace_s: float) -> list[Instruction]:
        self.step, self._next_at = Step.TERMINATING, now + grace_s
        return [Forward(signal=SIGTERM)]

    def _cut(self, now: float) -> list[Instruction]:
        self.step, self._next_at = Step.CUT, now + self._grace.cut_s
        return [CutLifeline()]
