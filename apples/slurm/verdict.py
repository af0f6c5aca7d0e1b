"""The outcome of a launch with Slurm's part in it, computed from the launch's outcome and the job's record. Pure.

A finished run stays finished, whatever Slurm did afterwards, and so does the effect of a user's request. A job that
was ended from outside explains why ranks and hosts were lost.
"""

from collections.abc import Mapping
from dataclasses import replace

from apples.launching.verdict import LAUNCHER_FAILED, TIME_LIMIT
from apples.model.plan import Outcome
from apples.slurm.records import Job

TERMINATED, KILLED = 143, 137

#: Printed by every step on clusters that do not bind ranks to CPUs, as intended.
_NOISE = "lacks support for cpu binding"

#: States of a job that continues, or that the launcher ended.
_OURS = ("RUNNING", "COMPLETING", "COMPLETED", "PENDING")


def explained(outcome: Outcome, fate: Job | None, away: Mapping[str, str] | None = None) -> Outcome:
    """Return the outcome with Slurm's part in it.

    Args:
        fate: Slurm's record of the job, None if it has none
        away: hosts that Slurm itself has lost, each with a predicate
    """
    outcome = replace(outcome, message=_without_noise(outcome.message))
    if outcome.ended != "failed" or fate is None or fate.state in _OURS:
        return outcome
    job = f"job {fate.number}"
    match fate.state:
        case "TIMEOUT" | "DEADLINE":
            message = f"{job} was ended by Slurm at its time limit; ask for more with --time-limit"
            return replace(outcome, ended="time limit", exit_code=TIME_LIMIT, message=message, lost={})
        case "CANCELLED":
            message = f"{job} was cancelled (scancel)"
            return replace(outcome, ended="interrupted", exit_code=TERMINATED, message=message, lost={})
        case "PREEMPTED":
            message = f"{job} was preempted: Slurm gave its nodes to a job of higher priority"
        case "NODE_FAIL":
            lost = dict(away or {}) or outcome.lost
            named = "; ".join(f"{host} {why}" for host, why in lost.items()) or outcome.message
            message = f"{job} was ended because a node failed: {named}"
            return replace(outcome, exit_code=LAUNCHER_FAILED, message=message, lost=lost)
        case "OUT_OF_MEMORY":
            message = f"{job} took more memory than it was given; {outcome.message}"
            return replace(outcome, message=message)
        case _:
            reason = f" ({fate.reason})" if fate.reason else ""
            message = f"{job} ended as {fate.state}{reason}; {outcome.message}"
            return replace(outcome, message=message)
    # All hosts were lost together, so none of them is to blame.
    return replace(outcome, exit_code=LAUNCHER_FAILED, message=message, lost={})


def needs_explaining(outcome: Outcome, *, revoked: bool) -> bool:
    """Return whether Slurm may have ended the run.

    It did not if ranks failed by themselves, unless they were asked to end, or if only some hosts were lost while the
    job went on: a job ends on all of them, but not everywhere at once.

    Args:
        revoked: whether Slurm ended the job before its nodes were released
    """
    hosts = {status.host for status in outcome.statuses}
    if outcome.lost and outcome.lost.keys() < hosts and not revoked:
        return False
    return outcome.ended == "failed" and outcome.exit_code in (LAUNCHER_FAILED, TERMINATED, KILLED)


def _without_noise(message: str) -> str:
    return "\n".join(line for line in message.splitlines() if not line.endswith(_NOISE))
