"""The connections to all host agents of one launch: heartbeats, silence, frames to all, and their end."""

import contextlib
import select
import time
from collections import UserDict
from collections.abc import Collection
from pathlib import Path

from apples.hosts.agentconnection import HEARTBEAT_S, AgentConnection, Heartbeats, LivenessTimeouts
from apples.hosts.frames import ToAgent
from apples.hosts.hostmessages import RunSetup, encoded
from apples.hosts.rundirectory import ANSWER, ENTRY_BYTES, PROCESS_BYTES


class HostAgents(UserDict[str, AgentConnection]):
    """The connections by host.

    poll : gets the descriptor of each connection.  timeouts : when a silent host counts as lost
    ranks : of the run.  beat : heartbeats go both ways; without them no host can be silent for too long
    """

    def __init__(self, poll: select.epoll, timeouts: LivenessTimeouts, ranks: int, *, beat: bool) -> None:
        super().__init__()
        self._ranks, self._announced, self._answered = ranks, dict[str, set[bytes]](), False
        self._poll, self._timeouts, self._beat = poll, timeouts, beat
        self._checked_at = time.monotonic()
        self._heartbeats = Heartbeats(self)

    def add(self, agent: AgentConnection, setup: RunSetup) -> None:
        """Add a connection and send its agent the setup frame."""
        self[agent.host] = agent
        self._poll.register(agent.fd, select.EPOLLIN)
        # First frame: it says that this is a run, and not a check.
        agent.send(ToAgent.SETUP, encoded(setup))

    def start_heartbeats(self) -> None:
        """Start sending heartbeats, if any are sent; no connection is added afterwards."""
        if self._beat:
            self._heartbeats.start()

    @property
    def ready(self) -> bool:
        """Whether every agent has reported that it is ready."""
        return all(agent.report for agent in self.values())

    @property
    def over(self) -> bool:
        """Whether no more frames are expected from any agent."""
        return all(agent.over for agent in self.values())

    @property
    def silent_at(self) -> float | None:
        """When the first host counts as lost without another frame (`time.monotonic`), None for never."""
        moments = [agent.silent_at(self._timeouts) for agent in self.values() if not agent.over]
        return min(moments, default=None) if self._beat else None

    def check_silence(self) -> None:
        """Count hosts as lost that were silent for too long."""
        if not self._beat:
            return
        now = time.monotonic()
        # By the time between checks, because a stop of this process cannot be noticed otherwise.
        if now - self._checked_at > 2 * HEARTBEAT_S:
            # The launcher itself did not listen: it was stopped, or blocked because its output was not read.
            for agent in self.values():
                agent.received_at = now
        self._checked_at = now
        for agent in self.values():
            agent.check_silence(now, self._timeouts)

    def with_fd(self, fd: int) -> AgentConnection | None:
        """Return the connection with this descriptor."""
        return next((agent for agent in self.values() if agent.fd == fd), None)

    def lost(self) -> dict[str, str]:
        """Return the hosts that were lost, each with the reason."""
        return {host: agent.lost for host, agent in self.items() if agent.lost is not None}

    def leaving(self) -> dict[str, str]:
        """Return the hosts that have announced their end, each with the reason."""
        return {
            host: "ends soon (a signal to its host agent)" for host, agent in self.items() if agent.leaving
        }

    def send_missing(self, file: Path) -> None:
        """Send a file of the run directory, if it exists, to the hosts that do not share the directory."""
        if file.exists():
            for agent in self.values():
                if agent.report is not None and not agent.report.shared:
                    agent.send(ToAgent.FILE, file.name.encode() + b"\n" + file.read_bytes())

    def send(self, kind: bytes, payload: bytes = b"", *, only: Collection[str] | None = None) -> None:
        """Send a frame to every agent that is not over, or to those of the hosts `only`."""
        for host, agent in self.items():
            if not agent.over and (only is None or host in only):
                agent.send(kind, payload)

    def take_announced(self, host: str, entries: bytes) -> None:
        """Take a host's ranks that have the monitor; tell all hosts, once it is known, whether all ranks have it.

        The first rank that asks has ended MPI_Init, so all ranks have begun it, and every host's list is complete.
        """
        if not self._announced:
            self.send(ToAgent.ANNOUNCED)
        parts = range(0, len(entries), ENTRY_BYTES)
        self._announced[host] = {entries[at : at + PROCESS_BYTES] for at in parts}
        # Hosts that share a directory send the same processes.
        all_have_it = len(set[bytes]().union(*self._announced.values())) == self._ranks
        complete = all(agent.over or name in self._announced for name, agent in self.items())
        if (complete or all_have_it) and not self._answered:
            self._answered = True
            self.send(ToAgent.FILE, f"{ANSWER}\n{int(all_have_it)}".encode())

    def close(self) -> None:
        """End all connections and remove the logs of agents, except that of a run on this machine alone."""
        self._heartbeats.stop()
        for agent in self.values():
            # Those that are over were unregistered.
            with contextlib.suppress(FileNotFoundError):
                self._poll.unregister(agent.fd)
            # A lost host is not waited for: its ssh may hang for minutes.
            agent.close(1.0 if agent.gone else 0.0)
            if self._beat:
                agent.log.unlink(missing_ok=True)
