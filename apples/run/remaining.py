"""The remaining run after some iterations: its demands, and the cost of its checkpoints. Pure."""

from dataclasses import replace

from apples.model.plan import Plan
from apples.model.template import Workload


def remaining_workload(workload: Workload, done: int) -> Workload:
    """Return demands of the iterations after the first `done`; memory stays, messages and bytes go with iterations."""
    left = workload.iterations - done
    part = left / workload.iterations if workload.iterations else 0.0
    return replace(
        workload,
        iterations=left,
        messages=workload.messages * part,
        bytes_exchanged=workload.bytes_exchanged * part,
    )


def iteration_s(plan: Plan, iterations: int) -> float:
    """Return predicted seconds of one iteration of this plan: its slowest rank's, without the overhead."""
    slowest_s = max((a.compute_s + a.communicate_s for a in plan.assignments), default=0.0)
    return slowest_s / iterations if iterations > 0 else 0.0


def checkpoints_in(iterations: int, done: int, every: int | None, *, at_end: bool) -> int:
    """Return checkpoints of a run that has done `done` of its `iterations`; they fall on multiples of `every`.

    at_end : whether there is one after the last iteration, independent of `every`
    """
    regular = 0 if every is None else iterations // every - done // every
    last = at_end and (every is None or iterations % every != 0)
    return regular + last


def with_overhead(plan: Plan, more_s: float) -> Plan:
    """Return the plan with `more_s` seconds more of overhead on every rank, and in its predicted times."""
    return replace(
        plan,
        assignments=tuple(replace(a, overhead_s=a.overhead_s + more_s) for a in plan.assignments),
        predicted_s=plan.predicted_s + more_s,
        low_s=plan.low_s + more_s,
        high_s=plan.high_s + more_s,
    )
