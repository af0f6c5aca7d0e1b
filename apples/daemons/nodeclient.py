"""Client of the node managers of this host: one JSON line per request, one per answer.

`NodeClient` is one connection. `find_node` returns the node manager with which a run on this host would register.
`survey` returns the state of the machine from all node managers and their manager. Starts no daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs, to_builtins

from apples.daemons.exchanges import NODE_REQUESTS
from apples.daemons.ipc.socketclient import DaemonClient
from apples.daemons.nodemessages import JobState, MachineView, NodeStatus, NodeView, ProcessReport
from apples.daemons.paths import known_sockets
from apples.errors import NoDaemon, SharingError
from apples.monitoring.efficiencies import Efficiencies, Times, efficiencies as monitored_efficiencies

Json = dict[str, Any]


class NodeClient(DaemonClient):
    """One connection to a node manager; a context manager."""

    daemon = "node manager"
    exchanges = NODE_REQUESTS
    start = "start one with `apples node`, or name the right socket with APPLES_NODE_SOCKET"
    stranger = "Start a node manager with `apples node`, or name the right socket with APPLES_NODE_SOCKET"
    #: It asks the manager itself for some questions.
    connect_s = answer_s = 3.0

    def __init__(self, path: Path) -> None:
        """Connect; see `DaemonClient`."""
        super().__init__([path])


def find_node(given: Path | None = None) -> tuple[Path, NodeStatus] | None:
    """Return socket and status of the node manager of this host; None if none answers.

    `given` is its socket, if the user names one.
    """
    for path in known_sockets(given):
        try:
            with NodeClient(path) as client:
                # Asked, not only connected: a node manager that hangs still accepts connections.
                return path, client.ask("status")
        except SharingError:
            continue
    return None


class SharedJob(JobState, frozen=True, kw_only=True):
    """A job with its processes, and its efficiencies by name (`efficiencies`); None if they were not measured."""

    processes: list[ProcessReport]
    efficiencies: Mapping[str, float] | None


class MachineState(Struct, frozen=True, kw_only=True):
    """The jobs and nodes of the machine; `manager`: the machine manager's view, None without one.

    nodes : as the machine manager knows them; those of this host as their node managers answered now
    """

    manager: MachineView | None
    jobs: Mapping[str, SharedJob]
    nodes: Mapping[str, NodeView]

    def document(self) -> Json:
        """Return the document of `apples jobs --json`."""
        about = None
        if self.manager is not None:
            about = to_builtins(structs.replace(self.manager, jobs={}, nodes={}))
            del about["jobs"], about["nodes"]
        nodes = {}
        for name, node in self.nodes.items():
            ages = to_builtins(node)
            nodes[name] = (ages.pop("report") or {}) | ages
        return {"version": 1, "manager": about, "jobs": to_builtins(self.jobs), "nodes": nodes}


def survey(given: Path | None = None) -> MachineState:
    """Return the state of the machine as `apples jobs` shows it; raises `SharingError` without a node manager.

    The manager's view counts if a manager answers, else the state of the node managers of this host.
    """
    paths = known_sockets(given)
    statuses: dict[str, NodeStatus] = {}
    machine: MachineView | None = None
    for path in paths:
        try:
            with NodeClient(path) as client:
                status: NodeStatus = client.ask("status")
                statuses[status.node] = status
                # The first that knows its manager speaks for the machine; all others have the same one.
                machine = machine or client.ask("view")
        except SharingError:
            continue
    if not statuses:
        where = ", ".join(map(str, paths)) or "none of its usual places"
        raise NoDaemon(
            f"no node manager answers on this host ({where}); start one with `apples node`, or run with "
            "`apples-run SIZE --policy NAME`, which starts one while it needs it"
        )
    return machine_state(machine, statuses)


def machine_state(machine: MachineView | None, here: Mapping[str, NodeStatus]) -> MachineState:
    """Return the state of the machine.

    Args:
        machine: From the machine manager, None without one.
        here: State of the nodes whose node managers were asked.
    """
    nodes = {} if machine is None else dict(machine.nodes)
    for name, status in here.items():
        # Answers of now go before reports to the manager, which may be seconds old.
        nodes[name] = NodeView(report=status, silent=status.silent, heard_s=0.0, told_s=0.0, address=None)
    reports = (node.report for node in nodes.values() if node.report is not None)
    return MachineState(
        manager=machine, jobs=jobs_of(reports, {} if machine is None else machine.jobs), nodes=nodes
    )


def jobs_of(nodes: Iterable[NodeStatus], known: Mapping[str, JobState]) -> dict[str, SharedJob]:
    """Return jobs with their processes, from the reports of nodes and the manager's view of each job."""
    states = dict(known)
    ranks: dict[str, list[ProcessReport]] = {name: [] for name in known}
    for node in nodes:
        for process in node.processes:
            here = JobState(state="here", slot=None, ranks=process.ranks, uid=process.uid)
            states.setdefault(process.job, here)
            ranks.setdefault(process.job, []).append(structs.replace(process, node=node.node))
    return {
        name: SharedJob(
            **structs.asdict(state),
            processes=sorted(ranks[name], key=lambda process: process.rank),
            efficiencies=efficiencies(ranks[name]),
        )
        for name, state in states.items()
    }


def measured_efficiencies(processes: Iterable[ProcessReport]) -> Efficiencies | None:
    """Return the metrics of the monitored processes; None if no process is monitored."""
    measured = [process for process in processes if process.t_cpu_s is not None]
    return monitored_efficiencies(cast(list[Times], measured))


def efficiencies(processes: Iterable[ProcessReport]) -> Json | None:
    """Return the metrics of the monitored processes as a document; None if no process is monitored.

    parallel : load_balance × communication × cpu_share × activity (`apples.monitoring.efficiencies`)
    """
    metrics = measured_efficiencies(processes)
    names = ("parallel", "load_balance", "communication", "cpu_share", "activity")
    return None if metrics is None else {name: getattr(metrics, name) for name in names}
