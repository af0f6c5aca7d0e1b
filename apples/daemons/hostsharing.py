"""A run's part in the policy of one host: the node manager there is found or started, and held while the run needs it.

On the launcher's machine it is called directly. On other hosts `serve` answers requests of the launcher, one JSON
document a line, and ends with the connection. The daemons outlive the run while other runs need them, except those of a
step of Slurm, which Slurm kills after the step: they are ended before, so that they resume all processes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.client import NodeClient, find_node
from apples.daemons.ipc.requests import read_request
from apples.daemons.paths import ManagerAccess, machine_of
from apples.daemons.starting import Notify, cut_off, start_node
from apples.errors import SharingError
from nws.base.errors import ReportedError

#: Where neither ssh nor a local start shows it: the address by which others reach this host.
REACHED_AT = "APPLES_REACHED_AT"
#: Seconds until daemons that have been asked to end must have ended.
_END_S = 2.0

#: Longest request, bytes.
LONGEST_LINE = 1 << 16

_Text = Annotated[str, Field(strict=True, max_length=4096)]
_NOTHING: TypeAdapter[Any] = TypeAdapter(None)
_FIRST_LINE: Mapping[str, TypeAdapter[Any]] = {"lasting": TypeAdapter(Annotated[bool, Field(strict=True)])}
#: Requests with the type of their argument.
_ARGUMENTS: Mapping[str, TypeAdapter[Any]] = {
    "look": _NOTHING,
    "join": TypeAdapter(tuple[_Text, ManagerAccess | None, _Text | None]),
    "holds": _NOTHING,
    "ranks": TypeAdapter(_Text),
    "leave": _NOTHING,
}


class HostSharing:
    """The node manager of this host for one run; `leave` releases it.

    started : it was started here.  path : its socket.  status : its answer when the run joined it
    """

    def __init__(self, notify: Notify, *, lasting: bool = True) -> None:
        """With `lasting` False, daemons that are started end with the run."""
        self.started = False
        self._lasting = lasting
        self._daemons: Sequence[subprocess.Popen[bytes]] = ()
        self.path, self.status = Path(), dict[str, Any]()
        self._notify = notify
        self._client: NodeClient | None = None

    def join(self, kind: PolicyKind, machine: ManagerAccess | None = None, listen: str = "127.0.0.1") -> None:
        """Hold the node manager, which is started if there is none. Arguments: `start_node`.

        Raises `SharingError`, also if it has another policy.
        """
        found = find_node()
        if found is None:
            started = start_node(kind, self._notify, machine=machine, listen=listen)
            found, self._daemons = (started.path, started.status), started.daemons
            self.started |= bool(started.daemons)
        self.path, self.status = found
        check_policy(kind, self.status, self.path)
        if cut_off(self.status):
            self._notify(
                f"the manager at {self.status['manager']} is not connected: everything runs until it is back"
            )
        self._client = NodeClient(self.path)
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
            daemon.terminate()
        for daemon in () if self._lasting else self._daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(_END_S)
        self._daemons = ()


def check_policy(kind: PolicyKind, status: Mapping[str, Any], socket: str | Path) -> None:
    """Raise `SharingError` if the node manager at a socket has another policy."""
    if status["policy"] != kind.name:
        raise SharingError(
            f"the node manager of this host ({socket}) runs policy {status['policy']}, not {kind.name}; ask for "
            f"--policy {status['policy']}, or end it (process {status['pid']}) to have another started"
        )


def serve(lines: Iterable[bytes], answer: Callable[[dict[str, Any]], None]) -> None:
    """Answer the requests of a launcher on another host until its connection ends.

    The first line has `lasting`. Requests: `look`, `join` (the policy; a machine manager's address and key, or null;
    the address at which to listen, or null for that which the launcher reached), `holds`, `ranks` (of a job, as the
    node manager reports them), and `leave`. A refused request is answered by `refused`, a reason.
    """
    requests = iter(lines)
    try:
        _, lasting = read_request(_FIRST_LINE, next(requests, b""))
    except ReportedError as error:
        answer({"refused": str(error)})
        return
    sharing = HostSharing(lambda text: answer({"note": text}), lasting=lasting)
    try:
        for line in requests:
            try:
                what, argument = read_request(_ARGUMENTS, line)
                answer({what: _REQUESTS[what](sharing, argument)})
            except (ReportedError, OSError) as error:
                answer({"refused": str(error)})
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                answer({"refused": f"the node manager's answer cannot be understood: {error!r}"})
    finally:
        sharing.leave()


def _addresses() -> tuple[str, str]:
    """Return the launcher's address as this host sees it, and this host's address that the launcher reached."""
    known = os.environ.get("SSH_CONNECTION", "").split()
    here = "127.0.0.1"
    return (known[0], known[2]) if len(known) == 4 else (here, os.environ.get(REACHED_AT, here))


def _look(_: HostSharing, __: object) -> dict[str, Any]:
    found = find_node()
    return {"launcher": _addresses()[0], "node": None if found is None else _described(*found)}


def _join(sharing: HostSharing, argument: tuple[str, ManagerAccess | None, str | None]) -> dict[str, Any]:
    policy, machine, listen = argument
    sharing.join(policy_kind(policy), machine, listen or _addresses()[1])
    return _described(sharing.path, sharing.status) | {"started": sharing.started}


def _holds(sharing: HostSharing, _: object) -> bool:
    return sharing.holds()


def _leave(sharing: HostSharing, _: object) -> None:
    sharing.leave()


def _ranks(sharing: HostSharing, job: str) -> Any:
    return sharing.ask("job", job)


def _described(path: Path, status: dict[str, Any]) -> dict[str, Any]:
    machine = machine_of(status["manager"], path)
    known = ("node", "policy", "slots", "manager", "connected", "pid")
    return {
        **{name: status[name] for name in known},
        "socket": str(path),
        "key": None if machine is None else machine.key,
    }


_REQUESTS: dict[str, Callable[[HostSharing, Any], Any]] = {
    "look": _look,
    "join": _join,
    "holds": _holds,
    "leave": _leave,
    "ranks": _ranks,
}
