"""Run a plan through Slurm: an allocation of its hosts, one `srun` step for all ranks, rank i on its host of the plan.

It describes a launch for `apples.launching.engine`: `srun` starts the host agents, and rank wrappers and supervisors
are the same. The ranks are Slurm's children and meet through its PMI. Paper: Wolski et al. 2000, §2.1 (the actuator).

The outcome of a launch with Slurm's part in it, computed from the launch's outcome and the job's record. Pure.

A finished run stays finished, whatever Slurm did afterwards, and so does the effect of a user's request. A job that
was ended from outside explains why ranks and hosts were lost.
"""

import math
import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apples.errors import LaunchError
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.hosts.steering import steered
from apples.hosts.travelling import agent_command
from apples.launching import preflight
from apples.launching.command import (
    FOREIGN,
    LaunchMethod,
    hosts_by_rank,
    hosts_path,
    rank_environment,
    wrapped,
)
from apples.launching.engine import launch
from apples.launching.mpis import Family
from apples.launching.termination import GracePeriods
from apples.launching.verdict import LAUNCHER_FAILED, TIME_LIMIT
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.slurm import commands, runner
from apples.slurm.allocation import Allocation, AllocationRefused, OwnAllocation
from apples.slurm.commands import PMI, PMIX, Shape, Wishes, on_node
from apples.slurm.records import Job, parse_mpi_types, parse_nodes
from nws.base.durations import format_seconds

#: Seconds an allocation lasts longer than its run: for starting, and for ending with a checkpoint before Slurm kills.
START_S, END_S = 30.0, 15.0
#: Seconds for a run without a prediction: a benchmark, which may compile first.
UNPREDICTED_S = 600.0
#: Bytes of a rank with its libraries before it holds a single row, where Slurm gives memory away.
RANK_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The facts about a cluster that the launcher needs.

    hosts : allowed in plans, with their slots.  wishes : the user's options.  most_s : longest time of the partition
    threads : hardware threads of a core.  counts_memory : Slurm allocates memory as it does CPUs
    enclosing : number of the enclosing job, None if an allocation is to be made; left_s : its remaining time
    grace : time that ranks have to end before they are killed.  timeouts : when a silent host counts as lost
    """

    hosts: Mapping[str, int]
    wishes: Wishes = field(default_factory=Wishes)
    most_s: float = math.inf
    threads: int = 1
    counts_memory: bool = False
    enclosing: str | None = None
    left_s: float = math.inf
    grace: GracePeriods = field(default_factory=GracePeriods)
    timeouts: LivenessTimeouts = field(default_factory=LivenessTimeouts)


def step_command(
    request: LaunchRequest, cluster: Cluster, srun: str, job: str, *, name: str, where: tuple[str, str]
) -> list[str]:
    """Return the whole command that starts the ranks.

    Args:
        name: of the file-descriptor servers
        where: the program, and its directory
    """
    program, directory = where
    return [
        *commands.ranks(srun, job, len(request.plan.assignments), directory, _pmi(request)),
        *(("--overcommit",) if overcommitted(request, cluster) else ()),
        *request.mpi.arguments,
        *wrapped(request, program, "--fds", name),
    ]


def step_environment(request: LaunchRequest, base: Mapping[str, str], _socket: str) -> dict[str, str]:
    """Return the environment of `srun`, without variables of an enclosing job, which it would take for options."""
    kept = {
        name: value
        for name, value in rank_environment(request, base, (*FOREIGN, "HYDRA_")).items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SRUN_"))
    }
    return {**kept, "SLURM_HOSTFILE": str(hosts_path(request.run_dir.absolute()))}


def wanted_s(request: LaunchRequest) -> float:
    """Return the seconds that the allocation must last: the user's limit or the predicted upper bound, with margins."""
    plan = request.plan
    predicted = max(plan.high_s, plan.predicted_s)
    run_s = request.time_limit_s or predicted or UNPREDICTED_S
    return run_s + START_S + END_S


def shape(request: LaunchRequest, cluster: Cluster) -> Shape:
    """Return the allocation of a plan: its hosts, each with as many ranks as the host with most."""
    assignments, workload = request.plan.assignments, request.workload
    ranks = Counter(a.host for a in assignments)
    need: Counter[str] = Counter()
    for a in assignments:
        need[a.host] += math.ceil(workload.bytes_fixed + workload.bytes_per_row * a.work + RANK_BYTES)
    return Shape(
        hosts=request.plan.hosts,
        ranks_each=max(ranks.values()),
        minutes=commands.minutes(wanted_s(request), cluster.most_s),
        threads=cluster.threads,
        overcommit=overcommitted(request, cluster),
        # A run without a prediction has no known need. It gets Slurm's default for its CPUs.
        memory_bytes=max(need.values()) if cluster.counts_memory and workload.bytes_per_row > 0 else 0.0,
    )


def overcommitted(request: LaunchRequest, cluster: Cluster) -> bool:
    """Return whether the plan's host gets more ranks than slots, as for a benchmark of a pair on a node of one CPU."""
    ranks = Counter(a.host for a in request.plan.assignments)
    return any(count > cluster.hosts.get(host, count) for host, count in ranks.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyNodes:
    """Hosts of an allocation after their check. unfit : those that cannot take part, each with a predicate

    interfaces : host → network interface of its ranks; hosts that are missing leave it to the MPI library
    environment : host → variables of its ranks.  ended : called after the run, while the hosts are still allocated
    """

    interfaces: Mapping[str, str] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ended: Callable[[], None] = lambda: None


#: Checks the hosts of an allocation before ranks are started there. Arguments: job, hosts, notify.
Ready = Callable[[str, Sequence[str], Notify], ReadyNodes]


def check(request: LaunchRequest, cluster: Cluster) -> None:
    """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` if the run cannot start."""
    preflight.check_known(request, cluster.hosts, "of Slurm's that are free")
    preflight.check_time_limit(request)
    preflight.check_run_dir(request)
    _check_time(request, cluster)
    runner.find("salloc")
    check_pmi(_pmi(request))


def command_line(request: LaunchRequest, cluster: Cluster) -> list[str]:
    """Return the command that `run` executes: `srun`, inside `salloc` unless there is an allocation already."""
    job = cluster.enclosing or "JOB"
    where = (preflight.find_program(request), os.getcwd())
    step = step_command(request, cluster, runner.find("srun"), job, name="NAME", where=where)
    if cluster.enclosing is not None:
        return step
    return commands.salloc(shape(request, cluster), cluster.wishes, step)


def run(
    request: LaunchRequest, cluster: Cluster, notify: Notify, *, ready: Ready = lambda *of_job: ReadyNodes()
) -> Outcome:
    """Run to the end and return the outcome. No process and no job is left, whatever happens. Raises `LaunchError`.

    Args:
        ready: checks the nodes once they are allocated
    """
    request = steered(request)
    check(request, cluster)
    try:
        allocation = _allocation(request, cluster, notify)
        with allocation:
            nodes = ready(allocation.number, request.plan.hosts, notify)
            try:
                outcome = _run_in(allocation, request, cluster, nodes, notify)
            finally:
                nodes.ended()
            revoked = bool(outcome.lost) and allocation.revoked()
        fate = allocation.fate() if needs_explaining(outcome, revoked=revoked) else None
    except AllocationRefused as refused:
        if not refused.unavailable:
            raise
        return _not_started(str(refused), refused.unavailable)
    return explained(outcome, fate, _away(fate, request.plan.hosts))


def _allocation(request: LaunchRequest, cluster: Cluster, notify: Notify) -> Allocation:
    if cluster.enclosing is not None:
        return Allocation(cluster.enclosing, cluster.left_s)
    found = shape(request, cluster)
    if found.minutes * 60.0 < wanted_s(request):
        notify(
            f"the partition gives {found.minutes} min at most, less than the {format_seconds(wanted_s(request))} "
            "this run may take; it is ended then"
        )
    return OwnAllocation(found, cluster.wishes, notify)


def _run_in(
    allocation: Allocation, request: LaunchRequest, cluster: Cluster, nodes: ReadyNodes, notify: Notify
) -> Outcome:
    if nodes.unfit:
        what = "; ".join(f"{host} {why}" for host, why in nodes.unfit.items())
        return _not_started(what, nodes.unfit)
    limited = _limited(request, allocation.left_s)
    srun, name = runner.find("srun"), f"apples-{secrets.token_hex(16)}"
    program, inside = preflight.find_program(request), runner.without_enclosing()
    method = LaunchMethod(
        # messages of srun, such as on the binding of CPUs, are no output of the program
        spawns=False,
        agents={
            host: (
                HostAddress(
                    host=host,
                    interface=nodes.interfaces.get(host),
                    environment=nodes.environment.get(host, {}),
                ),
                [*inside, *on_node(srun, allocation.number, host), *agent_command()],
            )
            for host in request.plan.hosts
        },
        command=lambda rendezvous: step_command(
            limited, cluster, srun, allocation.number, name=name, where=(program, rendezvous.directory)
        ),
        environment=step_environment,
        hostfile=hosts_by_rank,
        fd_servers=name,
        daemons={},
        names=("srun", "slurmstepd"),
        timeouts=cluster.timeouts,
    )
    outcome = launch(limited, method, cluster.grace, notify)
    if outcome.ended == "time limit" and limited.time_limit_s != request.time_limit_s:
        more = "what the allocation leaves; give more with --time-limit"
        outcome = replace(outcome, message=f"{outcome.message}, {more}")
    return outcome


def _check_time(request: LaunchRequest, cluster: Cluster) -> None:
    """Raise `LaunchError` if the run cannot end in the available time."""
    inside = cluster.enclosing is not None
    most_s = cluster.left_s - END_S if inside else cluster.most_s
    least_s = request.plan.predicted_s
    if request.time_limit_s is not None:
        if not inside and request.time_limit_s > most_s:
            raise LaunchError(
                f"--time-limit of {format_seconds(request.time_limit_s)} is more than the partition's "
                f"{format_seconds(most_s)}; give less, or another --partition"
            )
        least_s = min(least_s, request.time_limit_s)
    if least_s > most_s or most_s <= 0:
        limit = "is left of this allocation" if inside else "is the time limit of the partition"
        raise LaunchError(
            f"the run is predicted to take {format_seconds(least_s)} and {format_seconds(max(most_s, 0.0))} "
            f"{limit}; use another --partition, or cut it short with --time-limit"
        )


def _pmi(request: LaunchRequest) -> str:
    """Return the type of PMI that the MPI of the program uses."""
    return PMIX if preflight.find_mpi(request).family is Family.OPEN_MPI else PMI


def check_pmi(pmi: str) -> None:
    """Raise `LaunchError` if `srun` does not offer the PMI that the ranks use."""
    types = parse_mpi_types(runner.asked(["srun", "--mpi=list"]))
    if pmi not in types:
        whose = "Open MPI's" if pmi == PMIX else "MPICH's"
        raise LaunchError(
            f"srun cannot start {whose} ranks here: it offers --mpi={', '.join(types) or 'nothing'} and they need "
            f"{pmi}; install Slurm's plugin mpi_{pmi}, or use --launcher ssh inside the allocation"
        )


def _away(fate: Job | None, hosts: Sequence[str]) -> dict[str, str]:
    """Return the hosts of a job ended by a failing node that are not available now, each with the reason."""
    if fate is None or fate.state != "NODE_FAIL":
        return {}
    nodes = parse_nodes(runner.tried(["scontrol", "-o", "show", "nodes"]))
    return {host: nodes[host].away for host in hosts if host in nodes and nodes[host].away}


def _limited(request: LaunchRequest, left_s: float) -> LaunchRequest:
    """Return the request with a time limit that ends the ranks before Slurm does."""
    if math.isinf(left_s) or math.isnan(left_s):
        return request
    most_s = max(1.0, left_s - END_S)
    limit_s = most_s if request.time_limit_s is None else min(request.time_limit_s, most_s)
    return replace(request, time_limit_s=limit_s)


def _not_started(message: str, lost: Mapping[str, str]) -> Outcome:
    """Return the outcome of a run whose hosts were not available. It may be tried again without them."""
    return Outcome(ended="failed", exit_code=125, observed_s=0.0, message=message, lost=dict(lost))


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
