"""What a queue knows of a job, and what it believes about its run time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apples.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """A job as submitted. submit_s : seconds since the queue's own origin.  request_s : what the user asked for.

    model_s : run time by a calibrated performance model, None without one
    """

    id: int
    procs: int
    request_s: float
    submit_s: float
    user: str = ""
    project: str = ""
    model_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """Run time by which the policy orders the queue, judges a candidate to backfill, and expects a running job to end.

    The three switches of the walltime paper: *regular* adjustment uses the estimate in all three, *selective* leaves
    `running_s` at the request (section 5.2).
    """

    priority_s: float
    backfill_s: float
    running_s: float

    def __post_init__(self) -> None:
        """Raises `ConfigError` unless all are times above 0."""
        for value in (self.priority_s, self.backfill_s, self.running_s):
            if not 0.0 < value < math.inf:
                raise ConfigError(f"an estimate of {value!r} s: a finite time above 0 s is legal")

    @classmethod
    def requested(cls, request_s: float) -> Beliefs:
        """No adjustment."""
        return cls(priority_s=request_s, backfill_s=request_s, running_s=request_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Where an estimate takes the request's place."""

    priority: bool = True
    backfill: bool = True
    running: bool = True

    def beliefs(self, request_s: float, estimate_s: float) -> Beliefs:
        """What the policy is told of one job."""
        return Beliefs(
            priority_s=estimate_s if self.priority else request_s,
            backfill_s=estimate_s if self.backfill else request_s,
            running_s=estimate_s if self.running else request_s,
        )


OFF = Switches(priority=False, backfill=False, running=False)
REGULAR = Switches()
SELECTIVE = Switches(running=False)
SWITCHES = {"off": OFF, "regular": REGULAR, "selective": SELECTIVE}
