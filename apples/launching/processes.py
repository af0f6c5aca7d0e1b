"""The processes of one launch: host agents, the command that starts the ranks, and everything below them.

Every agent is started first. When all are ready, the command is started: `mpiexec` or `srun` for several hosts. Its
remote shells hand their commands to the agents of the hosts; on this machine alone, the only agent starts `mpiexec`.
Status changes, output and exit codes come back over the agents' connections. Nothing here decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

from apples.errors import LaunchError
from apples.launching.agentconnection import (
    HEARTBEAT_S,
    AgentConnection,
    Heartbeats,
    HostAddress,
    LivenessTimeouts,
    setup,
)
from apples.launching.command import (
    Rendezvous,
    groups_of,
    hostfile,
    hosts_path,
    launch_environment,
    network_environment,
    rank_environment,
    with_parent_death,
)
from apples.launching.launcher import LaunchRequest
from apples.launching.outputreader import OutputReader
from apples.launching.relays import write_all
from apples.launching.remoteshellserver import RemoteShellServer
from apples.launching.statuses import RankRecord, clear_statuses, parse_status
from apples.launching.steering import clear, page_of
from nws.base.files import write_whole

#: Seconds that processes may take to end after they were asked to, and killed ones the same again.
GONE_S = 8.0
#: Seconds that the command may take to end when no process is left on any host.
LEFT_BEHIND_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchMethod:
    """How a launcher reaches the hosts of a run and starts its ranks.

    agents : host → its address, and the command that starts its agent; None forks the agent on this machine
    command : builds the command that starts all ranks, once the agents have reported
    here : the run needs this machine only: its agent starts the command, and no host can be lost
    timeouts : when a silent host counts as lost
    """

    agents: Mapping[str, tuple[HostAddress, Sequence[str] | None]]
    command: Callable[[Rendezvous], list[str]]
    here: bool = False
    timeouts: LivenessTimeouts = field(default_factory=LivenessTimeouts)


class RunProcesses:
    """Host agents, the command that starts the ranks, and its remote shells.

    records : the latest record of every rank.  events : descriptor that is readable when `listen` has work
    """

    def __init__(self, request: LaunchRequest, method: LaunchMethod) -> None:
        """Start the agents; raises `LaunchError` when the operating system refuses."""
        self.records: dict[int, RankRecord] = {}
        self._request, self._method = request, method
        self._run_dir: Path = request.run_dir
        self._log = self._run_dir / "mpiexec.log"
        groups = list(method.agents) if method.here else [host for host, _ in groups_of(request)]
        self._first_host = groups[0]
        self._progress: list[bytes] = []
        pattern = request.progress_pattern if request.on_progress is not None else None
        self._reader = None if pattern is None else OutputReader(pattern)
        self._token = f".shared-{secrets.token_hex(8)}"
        self._mpiexec: subprocess.Popen[bytes] | None = None
        self._mpiexec_end = -1
        self._started = self._mpiexec_over = self._cut = False
        self._mpiexec_code = 0
        self._kill_mpiexec_at: float | None = None
        self._shells: RemoteShellServer | None = None
        self._listened = time.monotonic()
        self._output_file = _opened(request.output)
        self._outputs = {b"O": 2 if request.program_output_to_stderr else 1, b"E": 2}
        if self._output_file is not None:
            self._outputs = dict.fromkeys(self._outputs, self._output_file)
        self._poll = select.epoll()
        self.events = self._poll.fileno()
        self._agents: dict[str, AgentConnection] = {}
        self._heartbeats = Heartbeats(self._agents)
        try:
            clear_statuses(self._run_dir)
            clear(str(self._run_dir))
            (self._run_dir / self._token).touch()
            sys.stdout.flush()
            for host, (address, command) in method.agents.items():
                self._connect(address, command, groups.count(host))
        except OSError as error:
            self.close()
            raise _refused("the host agents", error) from error
        if not method.here:
            self._heartbeats.start()

    def _connect(self, address: HostAddress, command: Sequence[str] | None, proxies: int) -> None:
        host, here = address.host, self._method.here
        log = self._log if here else self._run_dir / f"agent-{host}.log"
        # To be read here, output comes in frames.
        outputs = None if self._reader is not None else (self._outputs[b"O"], self._outputs[b"E"])
        agent = AgentConnection(address, command, log, outputs)
        self._agents[host] = agent
        self._poll.register(agent.fd, select.EPOLLIN)
        own = {**network_environment(address.interface, os.environ), **address.environment}
        listens = self._request.controller is not None or self._request.on_progress is not None
        watched = page_of(self._request.environment) if listens and host == self._first_host else None
        agent.send(
            b"J", setup(self._run_dir, self._token, proxies, own, watched=watched, heartbeats=not here)
        )

    @property
    def wake_at(self) -> float | None:
        """When `listen` has work although `events` is not readable (`time.monotonic`), None for never."""
        if self._method.here:
            return None
        moments = [self._silent_at(agent) for agent in self._agents.values() if not agent.over]
        if self._kill_mpiexec_at is not None:
            moments.append(self._kill_mpiexec_at)
        return min(moments, default=None)

    def listen(self) -> tuple[list[RankRecord], bool]:
        """Return the records that are new since the last call, and whether all processes have ended.

        Raises `LaunchError` when the operating system refuses to start the command.
        """
        changed: dict[int, RankRecord] = {}
        for fd, _ in self._poll.poll(0):
            if fd == self._mpiexec_end:
                self._on_mpiexec_end()
            elif self._shells is not None and fd == self._shells.fileno():
                for number, host, command in self._shells.orders():
                    self._order(host, number, command)
            else:
                self._take_frames(fd, changed)
        if not self._method.here:
            self._check_clock()
        if not self._started and not self._cut and all(a.found for a in self._agents.values()):
            try:
                self._start()
            except OSError as error:
                raise _refused("the ranks", error) from error
        return list(changed.values()), self._over()

    def progress(self) -> list[bytes]:
        """Return the lines of progress that are new since the last call."""
        lines, self._progress = self._progress, []
        return lines

    def offer(self, heights: str) -> None:
        """Write new slabs, as in `20,22,22`, where rank 0 looks for them on its host."""
        agent = self._agents[self._first_host]
        if not agent.over:
            agent.send(b"D", heights.encode())

    def lost_hosts(self) -> Mapping[str, str]:
        """Return the hosts that were lost, each with the reason."""
        if self._method.here:
            return {}
        return {host: agent.lost for host, agent in self._agents.items() if agent.lost is not None}

    def forward(self, number: Signals) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._send_all(b"K", str(int(number)).encode())

    def cut(self) -> None:
        """Close the lifeline on every host: supervisors kill their programs and agents end. Idempotent."""
        if not self._cut:
            self._cut = True
            self._send_all(b"C")

    def kill(self) -> None:
        """Kill all processes on every host, and the command here."""
        self._cut = True
        self._send_all(b"X")
        if self._mpiexec is not None:
            self._mpiexec.kill()

    def close(self) -> int:
        """End all processes that are left; return the exit code of the command, negative for a signal."""
        self.cut()
        deadline = time.monotonic() + GONE_S
        while not self.listen()[1] and (left_s := deadline - time.monotonic()) > 0:
            self._poll.poll(min(left_s, 0.2))
        if self._mpiexec is not None:
            self._mpiexec.kill()
        self._heartbeats.stop()
        for agent in self._agents.values():
            # Those that are over were unregistered.
            with contextlib.suppress(FileNotFoundError):
                self._poll.unregister(agent.fd)
            agent.close(1.0 if agent.gone else 0.0)
            if agent.log != self._log:
                agent.log.unlink(missing_ok=True)
        if self._shells is not None:
            self._shells.close()
        self._poll.close()
        (self._run_dir / self._token).unlink(missing_ok=True)
        hosts_path(self._run_dir).unlink(missing_ok=True)
        if self._mpiexec is not None:
            self._mpiexec_code = self._mpiexec.wait()
        if self._mpiexec_end >= 0:
            os.close(self._mpiexec_end)
        if self._output_file is not None:
            os.close(self._output_file)
            self._output_file = None
        return self._mpiexec_code

    def stderr_text(self) -> str:
        """Return the output of `mpiexec` itself; remove the file if it is empty.

        On this machine alone, the reason why its agent was lost follows.
        """
        text = ""
        if self._log.exists():
            text = self._log.read_text(encoding="utf-8", errors="replace")
            if not text:
                self._log.unlink()
        agent = self._agents[self._first_host]
        if not self._method.here or agent.lost is None:
            return text
        return "\n".join((*text.splitlines(), f"{agent.host} {agent.lost}"))

    def _start(self) -> None:
        """All agents are ready: start the command."""
        self._started = True
        request, cwd = self._request, os.getcwd()
        found = [agent.found or {} for agent in self._agents.values()]
        if self._method.here:
            command = self._method.command(Rendezvous(launcher="127.0.0.1", directory=cwd))
            self._order(self._first_host, 0, command, environment=rank_environment(request, os.environ))
            return
        directory = cwd if all(f["directory"] for f in found) else str(self._run_dir.absolute())
        command = self._method.command(Rendezvous(launcher=_own_address(found), directory=directory))
        hosts_path(self._run_dir).write_text(hostfile(request))
        self._shells = RemoteShellServer()
        self._poll.register(self._shells, select.EPOLLIN)
        with open(self._log, "wb") as log:
            self._mpiexec = subprocess.Popen(
                with_parent_death(command, os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=launch_environment(request, os.environ, self._shells.name),
                # A Ctrl-C at the terminal must reach the ranks once, through the launcher.
                start_new_session=True,
            )
        self._mpiexec_end = os.pidfd_open(self._mpiexec.pid)
        self._poll.register(self._mpiexec_end, select.EPOLLIN)

    def _order(self, host: str, number: int, command: list[str], **more: Any) -> None:
        """Have the agent of a host start a command, and report its exit code under this number."""
        agent = self._agents.get(host)
        if agent is None or agent.over:
            self._answer(number, 255)
        else:
            agent.send(b"S", json.dumps({"id": number, "command": command, **more}).encode())

    def _answer(self, number: int, code: int) -> None:
        if self._shells is not None:
            self._shells.answer(number, code)
        elif self._method.here:
            self._mpiexec_code = code

    def _take_frames(self, fd: int, changed: dict[int, RankRecord]) -> None:
        agent = next((a for a in self._agents.values() if a.fd == fd), None)
        if agent is None:
            return
        for kind, payload in agent.receive():
            if kind == b"T":
                record = parse_status(payload)
                self.records[record.rank] = changed[record.rank] = record
                if not (agent.found or {})["shared"]:
                    # In a shared directory the supervisor writes the file, and may do so again before this is read.
                    self._keep(f"status-{record.rank:05d}.json", payload)
            elif kind in self._outputs:
                write_all(self._outputs[kind], payload)
                if self._reader is not None:
                    self._progress += self._reader.lines(payload)
            elif kind == b"R":
                agent.found = json.loads(payload)
            elif kind == b"N":
                self._progress.append(payload)
            elif kind == b"P":
                ended = json.loads(payload)
                self._answer(ended["id"], ended["code"])
            elif kind == b"F":
                name, _, content = payload.partition(b"\n")
                self._keep(os.path.basename(name.decode()), content)
            elif kind == b"W":
                agent.lose(f"cannot take part: {payload.decode(errors='replace')}")
            elif kind == b"G":
                agent.gone = True
        if agent.over:
            # Its end of file stays readable, and a hang-up is always reported.
            self._poll.unregister(fd)
            if self._shells is not None:
                self._shells.host_lost(agent.host)
            elif agent.lost is not None and self._method.here:
                # `mpiexec` dies with the agent that started it.
                self._mpiexec_code = -SIGKILL

    def _keep(self, name: str, content: bytes) -> None:
        """Write a file from a run directory that is not shared. Readers see it complete or not at all."""
        write_whole(self._run_dir / name, content)

    def _on_mpiexec_end(self) -> None:
        self._poll.unregister(self._mpiexec_end)
        self._mpiexec_over = True
        # Processes that it has not ended would stay.
        self.cut()

    def _check_clock(self) -> None:
        now = time.monotonic()
        if now - self._listened > 2 * HEARTBEAT_S:
            # The launcher itself did not listen: it was stopped, or blocked because its output was not read.
            for agent in self._agents.values():
                agent.received_at = now
        self._listened = now
        for agent in self._agents.values():
            if not agent.over and now >= self._silent_at(agent):
                after = "did not answer" if agent.found is None else "was not heard of"
                agent.lose(
                    f"{after} for {now - agent.received_at:.0f} s; it is off, frozen, or its link is cut"
                )
        if self._kill_mpiexec_at is not None and now >= self._kill_mpiexec_at and self._mpiexec is not None:
            self._mpiexec.kill()

    def _silent_at(self, agent: AgentConnection) -> float:
        timeouts = self._method.timeouts
        return agent.received_at + (timeouts.connect_s if agent.found is None else timeouts.lost_s)

    def _over(self) -> bool:
        if not all(agent.over for agent in self._agents.values()):
            return False
        if self._mpiexec is None or self._mpiexec_over:
            return True
        if self._kill_mpiexec_at is None:
            self._kill_mpiexec_at = time.monotonic() + LEFT_BEHIND_S
        return False

    def _send_all(self, kind: bytes, payload: bytes = b"") -> None:
        for agent in self._agents.values():
            if not agent.over:
                agent.send(kind, payload)


def _opened(output: Path | None) -> int | None:
    """Return a descriptor of the file for the ranks' output; raise `LaunchError`. None for no file."""
    if output is None:
        return None
    try:
        return os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused("the ranks", error) from error


def _refused(what: str, error: OSError) -> LaunchError:
    where = f"{error.filename}: " if error.filename else ""
    return LaunchError(f"cannot start {what}: {where}{error.strerror}")


def _own_address(found: list[dict[str, Any]]) -> str:
    """Return the address of this machine from which the hosts were reached; the loopback if it is not local."""
    for one in found:
        address = one["launcher"]
        if address is not None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
                return str(address)
    return "127.0.0.1"
