"""What an outcome means when Slurm had a hand in it: pure, from what the launch showed and what became of the job.

A run that finished has finished, whatever Slurm did afterwards, and what the user asked for stays what it was. A job
that somebody else ended explains why ranks and hosts seemed to be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apples.launching.verdict import LAUNCHER_FAILED, TIME_LIMIT
from apples.model.plan import Outcome
from apples.slurm.records import Job

TERMINATED, KILLED = 143, 137

#: What is said of `mpiexec` and its proxies holds for what stands in their place.
_WORDS = {"(mpiexec ": "(srun ", "mpiexec or hydra_pmi_proxy": "srun or slurmstepd"}
#: Said by every step on clusters that bind no ranks to CPUs, which is as we want it.
_NOISE = "lacks support for cpu binding"

#: States of a job that goes on, or that we ended ourselves.
_OURS = ("RUNNING", "COMPLETING", "COMPLETED", "PENDING")


def explained(outcome: Outcome, fate: Job | None, away: Mapping[str, str] | None = None) -> Outcome:
    """The outcome with Slurm's part in it; fate : the job as Slurm remembers it, None where it does not.

    away : hosts that Slurm itself has lost, each with a predicate
    """
    outcome = replace(outcome, message=_in_terms_of_slurm(outcome.message))
    if outcome.ended != "failed" or fate is None or fate.state in _OURS:
        return outcome
    job = f"job {fate.number}"
    match fate.state:
        case "TIMEOUT" | "DEADLINE":
            message = f"{job} was ended by Slurm at its time limit; ask for more with --time-limit"
            return replace(outcome, ended="time limit", exit_code=TIME_LIMIT, message=message, lost={})
        case "CANCELLED":
            message = f"{job} was cancelled by somebody (scancel)"
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
    # all hosts were lost to us together, and none of them is to blame
    return replace(outcome, exit_code=LAUNCHER_FAILED, message=message, lost={})


def needs_explaining(outcome: Outcome) -> bool:
    """Whether Slurm may have had a hand in it: not where ranks failed by themselves, unless they were told to end.

    Nor where some hosts were lost and others were not: a job ends on all of them.
    """
    hosts = {status.host for status in outcome.statuses}
    if outcome.lost and outcome.lost.keys() < hosts:
        return False
    return outcome.ended == "failed" and outcome.exit_code in (LAUNCHER_FAILED, TERMINATED, KILLED)


def _in_terms_of_slurm(message: str) -> str:
    for ours, slurms in _WORDS.items():
        message = message.replace(ours, slurms)
    return "\n".join(line for line in message.splitlines() if not line.endswith(_NOISE))
