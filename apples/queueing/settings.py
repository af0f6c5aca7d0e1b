"""Settings of a queue: priority, backfilling, and the rule for running jobs that outlive an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apples.queueing import expressions

if TYPE_CHECKING:
    from apples.queueing.state import Rules

PRIORITIES = ("fcfs", "sjf", "wfp")
"""First come; shortest estimate; (wait / estimate)³ × processors, equation 5 of the walltime paper."""

BACKFILLS = ("none", "easy", "conservative")

BACKFILL_ORDERS = ("priority", "shortest", "area")
"""Order of the jobs that may overtake the head: by priority, by run time, or by run time × processors."""

OVERRUNS = ("request", "increment", "doubling", "half")
"""Expected end of a running job that outlives its estimate. request: the end of its request. increment: max(estimate,
now + increment), renewed at every pass (Cobalt). doubling: the doubled estimate, at most the request (OpenPBS). half:
half way to the end of its request (Slurm's soft limit).
"""

RANGE_PERCENTILE = 80.0
"""Stated share of the starts inside their predicted ranges, %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A policy, with values that `apples.queueing.configuration` has checked.

    priority: one of `PRIORITIES`, or an expression (`apples.queueing.expressions`).
    backfill: one of `BACKFILLS`.
    backfill_order: one of `BACKFILL_ORDERS`, under EASY.
    delay_budget_s: delay of the head, against its first reservation, from which a job that overtakes it must end in
        time by its request, not by its estimate (EASY). Infinity: never.
    overrun: one of `OVERRUNS`.
    increment_s: value for that rule, and for jobs that outlive their request.
    """

    priority: str = "fcfs"
    backfill: str = "easy"
    backfill_order: str = "priority"
    delay_budget_s: float = float("inf")
    overrun: str = "request"
    increment_s: float = 300.0

    def rules(self) -> Rules:
        """Return the policy as numbers for the compiled pass; raise `ConfigError` for a wrong expression."""
        import numpy as np

        from apples.queueing.operations import DEPTH
        from apples.queueing.state import EXPRESSION, Rules

        named = self.priority in PRIORITIES
        program = () if named else expressions.compile_expression(self.priority)
        return Rules(
            priority=PRIORITIES.index(self.priority) if named else EXPRESSION,
            backfill=BACKFILLS.index(self.backfill),
            overrun=OVERRUNS.index(self.overrun),
            backfill_order=BACKFILL_ORDERS.index(self.backfill_order),
            increment_s=float(self.increment_s),
            delay_budget_s=float(self.delay_budget_s),
            operations=np.array([code for code, _ in program], np.int64),
            constants=np.array([constant for _, constant in program], np.float64),
            stack=np.zeros(DEPTH),
        )
