"""One run of `apples-run --policy`: finds or starts its node manager, sets its ranks' environment, reports on it.

Daemons that are started here live a moment longer than all sessions that use them. They have process sessions of
their own, so that an interrupt meant for the run does not end them.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from apples.coscheduling.policies import CoschedulingConstants, PolicyKind, policy_kind
from apples.daemons.client import NodeClient, efficiencies, find_node
from apples.daemons.paths import JOB_VARIABLE, SOCKET_VARIABLE, new_key, serving_socket
from apples.errors import SharingError
from apples.model.snapshots import TimeShares
from apples.monitoring.environment import make_directory, monitor_environment, remove_pages
from nws.base.files import open_log
from nws.base.paths import local_host, state_dir

Notify = Callable[[str], None]

#: Seconds that daemons may take to start.
_START_S = 10.0
#: Bytes after which another log is begun.
_LONG_LOG = 1 << 20
_COMMAND = (sys.executable, "-c", "from apples.cli.toolbox import main; main()")


def turns_of(status: Mapping[str, Any], view: Mapping[str, Any] | None) -> TimeShares:
    """Return the time shares in use on this host, and on all others that the manager knows."""
    nodes = {} if view is None else view["nodes"]
    held = {name: int(node["slots"]) for name, node in nodes.items() if "slots" in node}
    kind = policy_kind(str(status["policy"]))
    return TimeShares(
        here=int(status["slots"]), held=held, exclusive=kind.exclusive, node=str(status["node"])
    )


class SharingSession:
    """A run under a policy; a context manager. Raises `SharingError` or `MonitorError` if that is impossible.

    job : its name.  environment : variables for its ranks.  slots : slots in use here when it began
    turns : time shares of all nodes, for the plan
    """

    def __init__(self, kind: PolicyKind, notify: Notify, *, run: bool = True) -> None:
        """With `run` False, only look at existing daemons, for a plan."""
        self.kind, self._notify, self._run = kind, notify, run
        self.job = f"run-{os.getpid()}-{secrets.token_hex(4)}"
        self.environment: dict[str, str] = {}
        self.slots = 0
        self.node = ""
        self.turns: TimeShares | None = None
        self._started = False
        self._client: NodeClient | None = None
        self._pages: Path | None = None

    def __enter__(self) -> SharingSession:
        found = find_node()
        if found is None and not self._run:
            return self
        if found is None:
            found = self._start()
        path, status = found
        if status["policy"] != self.kind.name:
            raise SharingError(
                f"the node manager of this host ({path}) runs policy {status['policy']}, not {self.kind.name}; ask for "
                f"--policy {status['policy']}, or end it (process {status['pid']}) to have another started"
            )
        if _cut_off(status):
            self._notify(
                f"the manager at {status['manager']} is not connected: everything runs until it is back"
            )
        self._client = NodeClient(path)
        self._client.ask("hold")
        self.slots, self.node = int(status["slots"]), str(status["node"])
        self.turns = turns_of(status, self._client.ask("view"))
        self.environment = {SOCKET_VARIABLE: str(path), JOB_VARIABLE: self.job}
        if self._run and self.kind.node(CoschedulingConstants()).needs_monitor:
            self._pages = make_directory()
            self.environment |= monitor_environment(self._pages, self.job)
        shared = (
            f"{self.slots} job{'s' * (self.slots != 1)} there already" if self.slots else "no other job there"
        )
        self._notify(f"policy {self.kind.name}, node {self.node}: {shared}")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._client is not None:
            self._client.close()
        if self._pages is not None:
            remove_pages(self._pages, self.job)

    def observed(self) -> dict[str, Any]:
        """Return the node manager's values of an ended run; empty if the node manager has ended too."""
        assert self._client is not None
        try:
            processes = self._client.ask("job", self.job)
        except SharingError as error:
            self._notify(f"what the run shared is not known: {error}")
            return {}
        return {
            "policy": self.kind.name,
            "node": self.node,
            "job": self.job,
            "slots_before": self.slots,
            "daemons_started": self._started,
            "ranks": sorted(processes, key=lambda process: int(process["rank"])),
            "efficiencies": efficiencies(processes),
        }

    def _start(self) -> tuple[Path, dict[str, Any]]:
        """Start the daemons that the policy needs on this machine alone, and wait for them."""
        self._started = True
        name = local_host()
        socket = serving_socket(name)
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="apples-daemons-")))
            log = stack.enter_context(_opened_log())
            # Output of earlier daemons is not shown.
            since = log.tell()

            def said() -> str:
                return os.pread(log.fileno(), _LONG_LOG, since).decode("utf-8", "replace").strip()

            options = ["--policy", self.kind.name, "--while-needed"]
            deadline = time.monotonic() + _START_S
            if self.kind.coordinated:
                key, place = directory / "key", directory / "place"
                new_key(key)
                options += ["--key", str(key)]
                manager = ["manager", "--listen", "127.0.0.1:0", "--place-file", str(place), *options]
                process = _daemon(manager, log.fileno())
                while not place.exists():
                    self._wait(process, deadline, said)
                options += ["--manager", place.read_text(encoding="utf-8").strip()]
            self._notify(
                f"starting a node manager for {name}, policy {self.kind.name}, while it is needed; what it says is in "
                f"{log.name}"
            )
            process = _daemon(["node", "--name", name, "--socket", str(socket), *options], log.fileno())
            while True:
                found = find_node(socket)
                if found is not None and not _cut_off(found[1]):
                    return found
                # Another run may have been quicker: its node manager serves as well.
                if found is None or process.poll() is None:
                    self._wait(process, deadline, said)
                else:
                    return found

    def _wait(self, process: subprocess.Popen[bytes], deadline: float, said: Callable[[], str]) -> None:
        if time.monotonic() > deadline or process.poll() is not None:
            raise SharingError(
                f"the daemons for policy {self.kind.name} do not start: {said() or 'no answer in time'}"
            )
        time.sleep(0.02)


def _cut_off(status: Mapping[str, Any]) -> bool:
    """Return whether a node manager has a manager and does not reach it."""
    return status["manager"] is not None and not status["connected"]


def _opened_log() -> IO[bytes]:
    """Return the log file of daemons started for a run, opened at its end; raises `SharingError`."""
    path = state_dir() / "daemons.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_log(path, _LONG_LOG)
    except OSError as error:
        raise SharingError(
            f"{path}: the daemons' log cannot be written: {error.strerror}; give the right to write there, or set "
            "APPLES_STATE to another directory"
        ) from error


def _daemon(arguments: list[str], said: int) -> subprocess.Popen[bytes]:
    """Start a daemon that survives an interrupt of this process and ends when it is no longer needed."""
    return subprocess.Popen(
        [*_COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        start_new_session=True,
    )
