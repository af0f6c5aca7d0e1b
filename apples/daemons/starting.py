"""Start the daemons that a policy needs on this host, for as long as they are needed.

They have process sessions of their own, so that an interrupt meant for a run does not end them, and they live a moment
longer than all runs that use them. The machine manager that one host started serves node managers of other hosts. Each
node manager writes its address and key to a file of mode 0600 beside its socket, before it answers: so runs that start
daemons at the same moment find the same manager, and its key outlives a starter that is killed.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

from apples.coscheduling.policies import PolicyKind
from apples.daemons.nodeclient import find_node
from apples.daemons.nodemessages import NodeStatus
from apples.daemons.paths import ManagerAccess, new_key, serving_socket
from apples.errors import SharingError
from nws.base.detach import open_log
from nws.base.files import make_private, write_whole
from nws.base.oserrors import REASON, os_errors_as
from nws.base.paths import local_host, state_dir
from nws.base.program import OWN_PYTHON
from nws.base.scratch import ScratchDirectory

Notify = Callable[[str], None]

#: Seconds that a daemon may take to start, on a busy host, and that of another run after ours has ended.
_START_S, _OTHER_S = 12.0, 3.0
#: Bytes after which another log is begun.
_LONG_LOG = 1 << 20
#: Slices over several hosts. Each costs a node manager 0.3 ms and its manager 0.1 ms a host. Their length is limited by
#: the time for which a rank may stay stopped without heartbeats, half a second.
_SLICE_OVER_HOSTS, _LOOPBACK = "250ms", "127.0.0.1"
_COMMAND = (*OWN_PYTHON, "-c", "from apples.cli.toolbox import main; main()")


class Started(NamedTuple):
    """A node manager. path : its socket.  status : its answer.  daemons : those started for it, none if it was there"""

    path: Path
    status: NodeStatus
    daemons: Sequence[subprocess.Popen[bytes]]


def start_node(
    kind: PolicyKind, notify: Notify, *, machine: ManagerAccess | None = None, listen: str = _LOOPBACK
) -> Started:
    """Start a node manager, and a machine manager if the policy needs one; return the former.

    Another run may have been quicker: then its node manager is returned. Raises `SharingError`.

    Args:
        kind: The policy.
        notify: Gets a line for the user.
        machine: The manager to join; None to start one, if the policy needs one.
        listen: Address at which that one listens; other than the loopback's for several hosts.
    """
    name = local_host()
    socket = serving_socket(name)
    with ExitStack() as stack:
        directory = stack.enter_context(ScratchDirectory("apples-daemons-"))
        log = stack.enter_context(_opened_log())
        # Output of earlier daemons is not shown.
        since = log.tell()
        deadline = time.monotonic() + _START_S

        def wait(process: subprocess.Popen[bytes]) -> None:
            nonlocal deadline
            if process.poll() is not None:
                # Perhaps because another run was quicker, whose node manager will answer.
                deadline = min(deadline, time.monotonic() + _OTHER_S)
            if time.monotonic() > deadline:
                said = os.pread(log.fileno(), _LONG_LOG, since).decode("utf-8", "replace").strip()
                raise SharingError(
                    f"the daemons for policy {kind.name} do not start: {said or 'no answer in time'}"
                )
            time.sleep(0.02)

        daemons = []
        options = ["--policy", kind.name, "--while-needed"]
        if kind.coordinated:
            key, address_file = directory / "key", directory / "place"
            if machine is None:
                new_key(key)
                options += ["--key", str(key)]
                where = f"[{listen}]" if ":" in listen else listen
                manager = ["manager", "--listen", f"{where}:0", "--place-file", str(address_file), *options]
                manager += [] if listen == _LOOPBACK else ["--slice", _SLICE_OVER_HOSTS]
                daemons.append(process := _daemon(manager, log.fileno()))
                while not address_file.exists():
                    wait(process)
                machine = ManagerAccess(
                    address_file.read_text(encoding="utf-8").strip(), key.read_text(encoding="ascii")
                )
            else:
                # A file, because command lines are public on a host.
                write_whole(key, machine.key.encode(), mode=0o600)
                options += ["--key", str(key)]
            options += ["--manager", machine.address]
        deadline = time.monotonic() + _START_S
        notify(
            f"starting a node manager for {name}, policy {kind.name}, while it is needed; its log is {log.name}"
        )
        daemons.append(
            process := _daemon(["node", "--name", name, "--socket", str(socket), *options], log.fileno())
        )
        while (answer := find_node(socket)) is None or (answer[1].cut_off and process.poll() is None):
            wait(process)
        if answer[1].pid != process.pid:
            # Another run was quicker, and its node manager has its own machine manager, or the same.
            for daemon in daemons:
                daemon.terminate()
            daemons = []
        return Started(*answer, daemons)


def _opened_log() -> IO[bytes]:
    """Return the log file of daemons started for a run, opened at its end; raises `SharingError`."""
    path = state_dir() / "daemons.log"
    with os_errors_as(
        SharingError,
        f"{path}: the daemons' log cannot be written: {REASON}; give the right to write there, or set "
        "APPLES_STATE to another directory",
    ):
        make_private(path.parent)
        return open_log(path, _LONG_LOG)


def _daemon(arguments: list[str], said: int) -> subprocess.Popen[bytes]:
    """Start a daemon that survives an interrupt of this process and ends when it is no longer needed."""
    return subprocess.Popen(
        [*_COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        # They outlive the run, and Ctrl-C at its terminal.
        start_new_session=True,
    )
