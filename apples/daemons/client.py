"""Client of the node managers of this host: one JSON line per request, one per answer.

`NodeClient` is one connection. `find_node` returns the node manager with which a run on this host would register.
`survey` returns the state of the machine from all node managers and their manager. Starts no daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from apples.daemons.ipc.client import DaemonClient
from apples.daemons.paths import known_sockets
from apples.errors import NoDaemon, SharingError
from apples.monitoring.efficiencies import efficiencies as monitored_efficiencies

Json = dict[str, Any]


class NodeClient(DaemonClient):
    """One connection to a node manager; a context manager."""

    daemon = "node manager"
    start = "start one with `apples node`, or name the right socket with APPLES_NODE_SOCKET"
    stranger = "Start a node manager with `apples node`, or name the right socket with APPLES_NODE_SOCKET"
    #: It asks the manager itself for some questions.
    connect_s = answer_s = 3.0

    def __init__(self, path: Path) -> None:
        """Connect; see `DaemonClient`."""
        super().__init__([path])


def find_node(given: Path | None = None) -> tuple[Path, Json] | None:
    """Return socket and status of the node manager of this host; None if none answers.

    `given` is its socket, if the user names one.
    """
    for path in known_sockets(given):
        try:
            with NodeClient(path) as client:
                return path, client.ask("status")
        except SharingError:
            continue
    return None


def survey(given: Path | None = None) -> Json:
    """Return the state of the machine as `apples jobs` shows it; raises `SharingError` without a node manager.

    The manager's view counts if a manager answers, else the state of the node managers of this host.
    """
    paths = known_sockets(given)
    statuses: dict[str, Json] = {}
    manager: Json | None = None
    for path in paths:
        try:
            with NodeClient(path) as client:
                status = client.ask("status")
                statuses[status["node"]] = status | {"heard_s": 0.0}
                manager = manager or client.ask("view")
        except SharingError:
            continue
    if not statuses:
        where = ", ".join(map(str, paths)) or "none of its usual places"
        raise NoDaemon(
            f"no node manager answers on this host ({where}); start one with `apples node`, or run with "
            "`apples-run SIZE --policy NAME`, which starts one while it needs it"
        )
    nodes = statuses if manager is None else {**manager["nodes"], **statuses}
    known = {} if manager is None else manager["jobs"]
    about = None if manager is None else {k: v for k, v in manager.items() if k not in ("nodes", "jobs")}
    return {"version": 1, "manager": about, "jobs": jobs_of(nodes.values(), known), "nodes": nodes}


def jobs_of(nodes: Iterable[Mapping[str, Any]], known: Mapping[str, Json]) -> dict[str, Json]:
    """Return jobs with their processes, from the reports of nodes and the manager's view of each job."""
    jobs = {name: dict(entry, processes=[]) for name, entry in known.items()}
    for node in nodes:
        for process in node.get("processes", ()):
            name = process["job"]
            entry = jobs.setdefault(
                name,
                {
                    "state": "here",
                    "slot": None,
                    "ranks": process["ranks"],
                    "uid": process["uid"],
                    "processes": [],
                },
            )
            entry["processes"].append(process | {"node": node["node"]})
    for entry in jobs.values():
        entry["processes"].sort(key=lambda process: process["rank"])
        entry["efficiencies"] = efficiencies(entry["processes"])
    return jobs


def efficiencies(processes: Iterable[Mapping[str, Any]]) -> Json | None:
    """Return the metrics of the monitored processes; None if no process is monitored.

    parallel : load_balance × communication × cpu_share × activity (`apples.monitoring.efficiencies`)
    """
    found = monitored_efficiencies([_Times(p) for p in processes if p["t_cpu_s"] is not None])
    if found is None:
        return None
    return {
        "parallel": found.parallel,
        "load_balance": found.load_balance,
        "communication": found.communication,
        "cpu_share": found.cpu_share,
        "activity": found.activity,
    }


class _Times:
    """Times of a process from its node manager's report."""

    def __init__(self, process: Mapping[str, Any]) -> None:
        self.t_cpu_s = float(process["t_cpu_s"])
        self.threads = int(process["threads"])
        self.ran_s = float(process["ran_s"])
        # A node manager of an earlier version does not report these.
        self.off_s = float(process.get("off_s", 0.0))
        self.queued_s = float(process.get("queued_s", 0.0))
