"""The daemons of a machine and the files that they need: machine manager, node managers, queue. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from apples_deploy.records import DaemonRole
from apples_deploy.units import Daemon

_FILES = ("sharing.yaml", "sharing.key")
#: What a node manager that serves all users needs of root: signals to their processes, their niceness and scheduling,
#: /proc of their processes, and their pages in shared memory.
_OF_ROOT = ("CAP_KILL", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE")

MANAGER = Daemon(
    name="apples-manager",
    title="AppLeS: manager of the machine's nodes",
    program="apples",
    words=("manager", "--config", "{sharing.yaml}"),
    files=_FILES,
    realtime=True,
    memory="1G",
)
NODE = Daemon(
    name="apples-node",
    title="AppLeS: manager of the processes of this node",
    program="apples",
    words=("node", "--config", "{sharing.yaml}"),
    files=_FILES,
    root=_OF_ROOT,
    realtime=True,
    runtime="apples",
)
QUEUE = Daemon(
    name="apples-queue",
    title="AppLeS: queue of jobs",
    program="apples",
    words=("manager", "--queue"),
    jobs=True,
    usual_state=True,
    runtime="apples",
)
DAEMONS = (MANAGER, NODE, QUEUE)


def manager_role(settings: Mapping[str, Any], *, port: int, key: str) -> DaemonRole:
    """Return a machine manager on all interfaces. settings : of the user, for all other keys"""
    document = {**settings, "listen": f"0.0.0.0:{port}", "key": "sharing.key"}
    return DaemonRole(daemon=MANAGER, words=MANAGER.words, files=_files(document, key))


def node_role(host: str, settings: Mapping[str, Any], *, manager: str | None, key: str) -> DaemonRole:
    """Return the node manager of a host. manager : HOST:PORT of the machine manager, None without one"""
    document = {**settings, "key": "sharing.key", **({} if manager is None else {"manager": manager})}
    return DaemonRole(daemon=NODE, words=(*NODE.words, "--name", host), files=_files(document, key))


def queue_role(slots: Mapping[str, int | None], *, everybody: bool) -> DaemonRole:
    """Return a queue of jobs for these hosts. slots : processors of each, None for one"""
    hosts = ",".join(host if count is None else f"{host}:{count}" for host, count in slots.items())
    words = (*QUEUE.words, "-H", hosts, *(["--everybody"] if everybody else []))
    return DaemonRole(daemon=QUEUE, words=words)


def _files(document: Mapping[str, Any], key: str) -> dict[str, str]:
    return {"sharing.yaml": yaml.safe_dump(dict(document), sort_keys=False), "sharing.key": key}
