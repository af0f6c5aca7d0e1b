"""A run's part in the policy of one host: the node manager there is found or started, and held while the run needs it.

On the launcher's machine it is called directly. On other hosts `converse` answers the launcher for the host agent until
the connection ends. The daemons outlive the run while other runs need them, except those of a
step of Slurm, which Slurm kills after the step: they are ended before, so that they resume all processes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.exchanges import HOST_REQUESTS, LASTING, NodeManager, SharedHost
from apples.daemons.ipc.requests import Refusal, read_request
from apples.daemons.nodeclient import NodeClient, find_node
from apples.daemons.nodemessages import NodeStatus
from apples.daemons.paths import ManagerAccess, machine_of
from apples.daemons.starting import Notify, start_node
from apples.errors import SharingError
from apples.hosts.frames import FromAgent
from nws.base.errors import ReportedError
from nws.base.records import copied

#: Where neither ssh nor a local start shows it: the address by which others reach this host.
REACHED_AT = "APPLES_REACHED_AT"
#: Seconds until daemons that have been asked to end must have ended.
_END_S = 2.0


class HostSharing:
    """The node manager of this host for one run; `leave` releases it.

    started : it was started here
    """

    def __init__(self, notify: Notify, *, lasting: bool = True) -> None:
        """With `lasting` False, daemons that are started end with the run."""
        self.started = False
        self._lasting = lasting
        self._daemons: Sequence[subprocess.Popen[bytes]] = ()
        #: Socket of the node manager that was joined, and its answer then.
        self.path: Path
        self.status: NodeStatus
        self._notify = notify
        self._client: NodeClient | None = None

    def join(self, kind: PolicyKind, machine: ManagerAccess | None = None, listen: str = "127.0.0.1") -> None:
        """Hold the node manager, which is started if there is none. Arguments: `start_node`.

        Raises `SharingError`, also if it has another policy.
        """
        joined = find_node()
        if joined is None:
            started = start_node(kind, self._notify, machine=machine, listen=listen)
            joined, self._daemons = (started.path, started.status), started.daemons
            self.started |= bool(started.daemons)
        self.path, self.status = joined
        check_policy(kind, self.status, self.path)
        if self.status.cut_off:
            self._notify(
                f"the manager at {self.status.manager} is not connected: everything runs until it is back"
            )
        # Kept open: its end is noticed by both sides.
        self._client = NodeClient(self.path)
        # Else a node manager that was started for runs could end between two of them.
        self._client.ask("hold")

    def ask(self, what: str, argument: object = None) -> Any:
        """Return the node manager's answer to one request; raises `SharingError`."""
        if self._client is None:
            raise SharingError("no node manager has been joined")
        return self._client.ask(what, argument)

    def holds(self) -> bool:
        """Return whether the node manager that the run has joined still runs."""
        return self._client is not None and self._client.connected

    def leave(self) -> None:
        """Release the node manager, which ends if it was started for runs and none needs it."""
        if self._client is not None:
            self._client.close()
            self._client = None
        # The node manager first: it resumes everything, and does not wait for heartbeats.
        for daemon in () if self._lasting else reversed(self._daemons):
            # Only where Slurm would kill them with its step, and leave processes stopped.
            daemon.terminate()
        for daemon in () if self._lasting else self._daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(_END_S)
        self._daemons = ()


def check_policy(kind: PolicyKind, status: NodeStatus | NodeManager, socket: str | Path) -> None:
    """Raise `SharingError` if the node manager at a socket has another policy."""
    if status.policy != kind.name:
        raise SharingError(
            f"the node manager of this host ({socket}) runs policy {status.policy}, not {kind.name}; ask for "
            f"--policy {status.policy}, or end it (process {status.pid}) to have another started"
        )


def converse(texts: Iterator[bytes], send: Callable[[bytes, bytes], object]) -> None:
    """Answer the questions of a launcher on another host until they end. `send`: gets kind and payload of each frame

    The first text has `lasting`. Requests: `look`, `join` (the policy; a machine manager's address and key, or null;
    the address at which to listen, or null for that which the launcher reached), `holds`, `ranks` (of a job, as the
    node manager reports them), and `leave`. A refused request is answered by `refused`, a reason.
    """

    def refuse(error: Exception) -> None:
        text = str(error).encode(errors="replace").decode()
        send(FromAgent.ANSWER, msgspec.json.encode(Refusal(refused=text)))

    try:
        # The first text says whether daemons may outlive this conversation.
        _, lasting = read_request(LASTING, next(texts, b""))
    except ReportedError as error:
        refuse(error)
        return

    def note(text: str) -> None:
        send(FromAgent.NOTE, text.encode(errors="replace"))

    sharing = HostSharing(note, lasting=lasting)
    try:
        for text in texts:
            try:
                what, argument = read_request(HOST_REQUESTS, text)
                send(FromAgent.ANSWER, msgspec.json.encode({what: _answer(sharing, what, argument)}))
            except (ReportedError, OSError) as error:
                refuse(error)
    finally:
        # Also after a broken connection: a run that was killed releases its hosts.
        sharing.leave()


def _addresses() -> tuple[str, str]:
    """Return the launcher's address as this host sees it, and this host's address that the launcher reached."""
    known = os.environ.get("SSH_CONNECTION", "").split()
    here = "127.0.0.1"
    return (known[0], known[2]) if len(known) == 4 else (here, os.environ.get(REACHED_AT, here))


def _answer(sharing: HostSharing, what: str, argument: Any) -> Any:
    """Return the answer to one of `HOST_REQUESTS`, whose argument was checked."""
    launcher, reached = _addresses()
    match what:
        case "look":
            node = find_node()
            return SharedHost(launcher=launcher, node=None if node is None else _described(*node))
        case "join":
            policy, machine, listen = argument
            sharing.join(policy_kind(policy), machine, listen or reached)
            return _described(sharing.path, sharing.status, started=sharing.started)
        case "ranks":
            return sharing.ask("job", argument)
        case "holds":
            return sharing.holds()
    return sharing.leave()


def _described(path: Path, status: NodeStatus, *, started: bool = False) -> NodeManager:
    machine = machine_of(status.manager, path)
    key = None if machine is None else machine.key
    return copied(NodeManager, status, socket=str(path), key=key, started=started)
