"""Records of a job as the queue sees it, and of its assumed run times."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apples.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """A submitted job.

    submit_s: seconds since the queue's origin.
    request_s: run time that the user requested.
    model_s: run time by a calibrated performance model, or None.
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
    """Run times that the policy assumes: for the queue's order, for a backfill candidate, and for a running job.

    The walltime paper has three switches. *Regular* adjustment uses the estimate for all three values. *Selective*
    adjustment keeps `running_s` at the request (section 5.2).
    """

    priority_s: float
    backfill_s: float
    running_s: float

    def __post_init__(self) -> None:
        for value in (self.priority_s, self.backfill_s, self.running_s):
            if not 0.0 < value < math.inf:
                raise ConfigError(f"an estimate of {value!r} s: a finite time above 0 s is legal")

    @classmethod
    def requested(cls, request_s: float) -> Beliefs:
        """Return the request as all three values: no adjustment."""
        return cls(priority_s=request_s, backfill_s=request_s, running_s=request_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The uses for which an estimate replaces the request."""

    priority: bool = True
    backfill: bool = True
    running: bool = True

    def beliefs(self, request_s: float, estimate_s: float) -> Beliefs:
        """Return the run times that the policy assumes for one job."""
        return Beliefs(
            priority_s=estimate_s if self.priority else request_s,
            backfill_s=estimate_s if self.backfill else request_s,
            running_s=estimate_s if self.running else request_s,
        )


OFF = Switches(priority=False, backfill=False, running=False)
REGULAR = Switches()
SELECTIVE = Switches(running=False)
SWITCHES = {"off": OFF, "regular": REGULAR, "selective": SELECTIVE}
