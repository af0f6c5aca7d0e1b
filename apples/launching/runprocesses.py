"""The processes of one launch: host agents, the command that starts the ranks, and everything below them.

Every agent is started first. When all are ready, the command is started: `mpiexec` or `srun` for several hosts. Its
remote shells hand their commands to the agents of the hosts; on this machine alone, the only agent starts `mpiexec`.
Status changes, output and exit codes come back over the agents' connections. Nothing here decides.
"""

import contextlib
import os
import secrets
import select
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any

import msgspec

from apples.errors import LaunchError
from apples.hosts.agentconnection import (
    AGENT_TIMEOUT_S,
    HEARTBEAT_S,
    AgentConnection,
    HostAddress,
)
from apples.hosts.fdserver import ranks_by_host, server_of
from apples.hosts.frames import FromAgent, ToAgent
from apples.hosts.hostagents import HostAgents
from apples.hosts.hostmessages import AgentReport, ProxyEnd, RankRecord, RunSetup, StartOrder, encoded
from apples.hosts.orders import read_file
from apples.hosts.rundirectory import ANSWER, ASK, WORLD
from apples.hosts.steering import SHOWN_LOOK_S, STEERED_LOOK_S, clear, page_of
from apples.launching.command import (
    LaunchMethod,
    Rendezvous,
    chain_of_hosts,
    groups_of,
    hosts_path,
    network_environment,
)
from apples.launching.outputreader import RankOutput
from apples.launching.starter import Starter
from apples.model.launchrequest import LaunchRequest
from apples.model.progress import NewSlabs
from apples.monitoring.names import LIBRARY
from nws.base.files import write_whole
from nws.base.scratch import remove_noted

#: Seconds that processes may take to end after they were asked to, and killed ones the same again.
GONE_S = 8.0
#: Output that is passed on at once.
_PART_BYTES = 1 << 16

#: Numbers of orders that no remote shell waits for: the command of a run on this machine, file-descriptor servers.
COMMAND, FD_SERVER = -1, -2


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
        self._first_host = next(iter(method.agents)) if method.here else groups_of(request)[0][0]
        self._readers: set[str] = set()
        self._progress: list[bytes] = []
        self._token = f".shared-{secrets.token_hex(8)}"
        self._started = self._cut = False
        self._starter: Starter | None = None
        self._starter_code = 0
        self._output = RankOutput(request)
        self._poll = select.epoll()
        self.events = self._poll.fileno()
        self._agents = HostAgents(
            self._poll, method.timeouts, len(request.plan.assignments), beat=not method.here
        )
        try:
            clear_statuses(self._run_dir)
            clear(str(self._run_dir))
            (self._run_dir / self._token).touch()
            # Ranks write to descriptor 1 themselves: text in this buffer has to come before theirs.
            sys.stdout.flush()
            for host, (address, command) in method.agents.items():
                self._connect(address, command, _proxies(request, method, host))
        except OSError as error:
            self.close()
            raise _refused("the host agents", error) from error
        # Not earlier: a fork while another thread holds a lock leaves the lock held for ever in the child.
        self._agents.start_heartbeats()

    def _connect(self, address: HostAddress, command: Sequence[str] | None, proxies: int) -> None:
        log = self._log if self._method.here else self._run_dir / f"agent-{address.host}.log"
        first = address.host == self._first_host
        self._agents.add(
            AgentConnection(address, command, log, self._output.inherited),
            _setup(self._request, self._method, address, token=self._token, proxies=proxies, first=first),
        )

    @property
    def wake_at(self) -> float | None:
        """When `listen` has work although `events` is not readable (`time.monotonic`), None for never."""
        kill_at = None if self._starter is None else self._starter.kill_at
        return min((at for at in (self._agents.silent_at, kill_at) if at is not None), default=None)

    def listen(self) -> tuple[list[RankRecord], bool]:
        """Return the records that are new since the last call, and whether all processes have ended.

        Raises `LaunchError` when the operating system refuses to start the command.
        """
        changed: dict[int, RankRecord] = {}
        for fd, _ in self._poll.poll(0):
            if self._starter is not None and fd == self._starter.fd:
                self._poll.unregister(fd)
                self._starter.over = True
                # Processes that it has not ended would stay.
                self.cut()
            elif self._starter is not None and fd == self._starter.shells.fileno():
                for number, host, command in self._starter.shells.orders():
                    self._order(host, number, command)
            else:
                self._take_frames(fd, changed)
        self._agents.check_silence()
        if self._starter is not None:
            self._starter.check_time()
        if not self._started and not self._cut and self._agents.ready:
            try:
                self._start()
            except OSError as error:
                raise _refused("the ranks", error) from error
        over = self._agents.over and (self._starter is None or self._starter.end_soon())
        return list(changed.values()), over

    def progress(self) -> list[bytes]:
        """Return the lines of progress that are new since the last call."""
        lines, self._progress = self._progress, []
        return lines

    def offer(self, order: NewSlabs) -> None:
        """Write new slabs, as in `20,22,22`, where rank 0 looks for them on its host."""
        self._readers |= {self._first_host, order.reader or self._first_host}
        self._agents.send(ToAgent.SLABS, ",".join(map(str, order.rows)).encode(), only=self._readers)

    def lost_hosts(self) -> Mapping[str, str]:
        """Return the hosts that were lost, each with the reason."""
        return {} if self._method.here else self._agents.lost()

    def leaving_hosts(self) -> Mapping[str, str]:
        """Return the hosts that have announced their end, each with the reason."""
        return self._agents.leaving()

    def forward(self, number: Signals) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._agents.send(ToAgent.SIGNAL, str(int(number)).encode())

    def cut(self) -> None:
        """Close the lifeline on every host: supervisors kill their programs and agents end. Idempotent."""
        if not self._cut:
            self._cut = True
            self._agents.send(ToAgent.CUT)

    def kill(self) -> None:
        """Kill all processes on every host, and the command here."""
        self._cut = True
        self._agents.send(ToAgent.KILL)
        if self._starter is not None:
            self._starter.kill()

    def close(self) -> int:
        """End all processes that are left; return the exit code of the command, negative for a signal."""
        self.cut()
        deadline = time.monotonic() + GONE_S
        while not self.listen()[1] and (left_s := deadline - time.monotonic()) > 0:
            self._poll.poll(min(left_s, 0.2))
        if self._starter is not None:
            self._starter_code = self._starter.close()
        self._agents.close()
        self._poll.close()
        _remove_traces(self._run_dir, self._token)
        if self._method.spawns and all(record.exit_code == 0 for record in self.records.values()):
            _pass_on(self._log, self._output)
        self._output.close()
        return self._starter_code

    def stderr_text(self) -> str:
        """Return the output of `mpiexec`, and why the agent of a run here was lost; remove the file if it is empty."""
        return _log_text(self._log, self._agents[self._first_host] if self._method.here else None)

    def _start(self) -> None:
        """All agents are ready: start the command, after sending the monitor's library to hosts that lack it."""
        self._started = True
        # Before the command: frames arrive in order, so the library is there when the first rank loads it.
        self._agents.send_missing(self._run_dir / LIBRARY)
        reports = [agent.report for agent in self._agents.values() if agent.report is not None]
        command = self._method.command(_rendezvous(reports, self._run_dir))
        for host, words in _fd_servers(self._request, self._method):
            self._order(host if host in self._agents else self._first_host, FD_SERVER, words, helper=True)
        environment = partial(self._method.environment, self._request, os.environ)
        if self._method.here:
            self._order(self._first_host, COMMAND, command, environment=environment(""))
            return
        hosts_path(self._run_dir).write_text(self._method.hostfile(self._request))
        self._starter = Starter(command, environment, self._log, shell=self._method.shell)
        for fd in (self._starter.fd, self._starter.shells.fileno()):
            self._poll.register(fd, select.EPOLLIN)

    def _order(self, host: str, number: int, command: list[str], **more: Any) -> None:
        """Have the agent of a host start a command, and report its exit code under this number."""
        agent = self._agents.get(host)
        if agent is None or agent.over:
            self._answer(number, 255)
        else:
            agent.send(ToAgent.START, encoded(StartOrder(id=number, command=command, **more)))

    def _answer(self, number: int, code: int) -> None:
        if self._starter is not None:
            self._starter.shells.answer(number, code)
        elif number == COMMAND:
            self._starter_code = code

    def _take_frames(self, fd: int, changed: dict[int, RankRecord]) -> None:
        agent = self._agents.with_fd(fd)
        if agent is None:
            return
        try:
            for kind, payload in agent.receive():
                if kind == FromAgent.STATUS:
                    record = _taken_record(self._run_dir, agent, payload)
                    self.records[record.rank] = changed[record.rank] = record
                elif kind in (FromAgent.STDOUT, FromAgent.STDERR):
                    self._progress += self._output.take(kind, payload)
                elif kind == FromAgent.ANNOUNCED:
                    self._agents.take_announced(agent.host, payload)
                elif kind == FromAgent.PROGRESS:
                    self._progress.append(payload)
                elif kind == FromAgent.ENDED:
                    ended = msgspec.json.decode(payload, type=ProxyEnd)
                    self._answer(ended.id, ended.code)
                elif kind == FromAgent.FILE:
                    name, content = read_file(payload)
                    write_whole(self._run_dir / name, content)
        except (ValueError, RecursionError) as error:
            # The host is another machine, and may have another version or a damaged disk.
            agent.lose(f"sent an illegal frame ({error!r}); install the same version there")
        if agent.over:
            # Its end of file stays readable, and a hang-up is always reported.
            self._poll.unregister(fd)
            if self._starter is not None:
                self._starter.shells.host_lost(agent.host)
            elif agent.lost is not None and self._method.here:
                # `mpiexec` dies with the agent that started it.
                self._starter_code = -SIGKILL


def _setup(
    request: LaunchRequest,
    method: LaunchMethod,
    address: HostAddress,
    *,
    token: str,
    proxies: int,
    first: bool,
) -> RunSetup:
    """Return the setup of a host's agent. first : rank 0 runs there, so it forwards progress if anything listens."""
    steered = request.controller is not None
    # No looks if nothing listens: each costs the host of rank 0 a few system calls.
    watched = first and (steered or request.on_progress is not None)
    return RunSetup(
        run_dir=str(request.run_dir.absolute()),
        token=token,
        # Where the user started the run: relative paths in the program's arguments mean files there.
        directory=os.getcwd(),
        proxies=proxies,
        watched=page_of(request.environment) if watched else None,
        look_s=STEERED_LOOK_S if steered else SHOWN_LOOK_S,
        environment={**network_environment(address.interface, os.environ), **address.environment},
        beat_s=None if method.here else HEARTBEAT_S,
        silence_s=None if method.here else AGENT_TIMEOUT_S,
    )


def clear_statuses(run_dir: Path) -> None:
    """Remove the status files of an earlier run, also those that a killed supervisor did not complete.

    The same for the list of its ranks that had the monitor, and the answer to them.
    """
    # The second is left by a `write_whole` that is killed between writing and renaming.
    for pattern in ("status-*.json*", ".status-*.whole-tmp", ANSWER, f".*{WORLD}"):
        for path in run_dir.glob(pattern):
            path.unlink(missing_ok=True)


def _remove_traces(run_dir: Path, token: str) -> None:
    """Remove the files of the run directory that are for agents and `mpiexec` only."""
    for path in (run_dir / token, run_dir / ASK, hosts_path(run_dir)):
        path.unlink(missing_ok=True)
    remove_noted(str(run_dir))


def _pass_on(log: Path, output: RankOutput) -> None:
    """Write a log to the output: the ranks that a program spawns have no supervisor, and write to `mpiexec`."""
    # It may be gone: a run directory belongs to the user.
    with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
        for part in iter(partial(file.read, _PART_BYTES), b""):
            output.take(FromAgent.STDOUT, part)


def _taken_record(run_dir: Path, agent: AgentConnection, payload: bytes) -> RankRecord:
    """Return the record of a rank's status; raise `ValueError` for other text."""
    record = msgspec.json.decode(payload, type=RankRecord)
    if agent.report is not None and not agent.report.shared:
        # In a shared directory the supervisor writes the file, and may do so again before this is read.
        write_whole(run_dir / f"status-{record.rank:05d}.json", payload)
    return record


def _refused(what: str, error: OSError) -> LaunchError:
    where = f"{error.filename}: " if error.filename else ""
    return LaunchError(f"cannot start {what}: {where}{error.strerror}")


def _proxies(request: LaunchRequest, method: LaunchMethod, host: str) -> int:
    """Return the number of processes that the agent of a host will be ordered to start."""
    if method.here:
        # The command itself, and the servers from which its ranks fetch their descriptors.
        return 1 + len(list(_fd_servers(request, method)))
    if method.daemons is None:
        # hydra starts one proxy for each group of consecutive ranks, so a host that occurs twice gets two.
        return [name for name, _ in groups_of(request)].count(host)
    return method.daemons.get(host, 0) + (method.fd_servers is not None)


def _fd_servers(request: LaunchRequest, method: LaunchMethod) -> Iterator[tuple[str, list[str]]]:
    """Yield the hosts with the commands of their file-descriptor servers."""
    if method.fd_servers is not None:
        hosts = chain_of_hosts(request)
        for host, ranks in ranks_by_host(hosts).items():
            yield host, ["fds", server_of(method.fd_servers, host, hosts), str(ranks)]


def _log_text(log: Path, agent: AgentConnection | None) -> str:
    """Return the text of a log, and the reason why the agent was lost, if any; remove the file if it is empty."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if not text:
        log.unlink(missing_ok=True)
    if agent is None or agent.lost is None:
        return text
    return "\n".join((*text.splitlines(), f"{agent.host} {agent.lost}"))


def _rendezvous(reports: list[AgentReport], run_dir: Path) -> Rendezvous:
    """Return the values that follow from the agents' reports."""
    here = os.getcwd()
    # All ranks start in one directory; the run directory is there on every host, made by the agent if need be.
    directory = here if all(report.directory for report in reports) else str(run_dir.absolute())
    return Rendezvous(launcher=_own_address(reports), directory=directory)


def _own_address(reports: list[AgentReport]) -> str:
    """Return the address of this machine from which the hosts were reached; the loopback if it is not local."""
    for report in reports:
        address = report.launcher
        if address is not None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                # Only an address of this machine can be bound; behind address translation ssh shows another one.
                probe.bind((address, 0))
                return str(address)
    return "127.0.0.1"
