"""The node's side of its manager: handles lines and heartbeats.

The node acts at every heartbeat and resumes everything when heartbeats stop, before a second slice is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from apples.coscheduling.events import Process
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.wire import HeartbeatMessage
from apples.daemons.managednode import ManagedNode
from apples.daemons.managerconnection import ManagerConnection
from apples.daemons.nodemessages import (
    Ask,
    Ended,
    FromManager,
    Hello,
    MachineView,
    MatrixView,
    NodeStatus,
    ProcessEntry,
    ProcessRegistered,
    RefuseJob,
    Report,
    Tell,
    View,
    Welcome,
)
from apples.daemons.processes import ProcessRegistration
from apples.daemons.settings import NodeSettings

ViewAnswer: TypeAlias = Callable[[MachineView | None], None]

#: Slices without a heartbeat before everything runs.
SILENT_SLICES = 1.5
#: Longest wait for the manager's answer to a status query, seconds.
_ANSWER_S = 1.5


class ManagerSession:
    """The node under its manager, or under none.

    slice_s : time slice, as the manager has it.  acted_at : instant of the last heartbeat that was acted on
    enforce : called after each change of the orders.  status : makes the node's report.  log : writes a log line
    acted : called with its instant after each heartbeat that was received
    """

    def __init__(
        self,
        loop: Loop,
        node: ManagedNode,
        settings: NodeSettings,
        *,
        enforce: Callable[[], None],
        status: Callable[[], NodeStatus],
        acted: Callable[[float], None],
        log: Callable[[str], None],
    ) -> None:
        self._loop, self._node, self._settings = loop, node, settings
        self._enforce, self._status, self._acted, self._log = enforce, status, acted, log
        self.slice_s = settings.sharing.slice_s
        self.acted_at = 0.0
        # A datagram may overtake the line with the matrix to which it refers.
        self._pending: HeartbeatMessage | None = None
        self._queries: dict[int, ViewAnswer] = {}
        self._query_number = 0
        self.connection: ManagerConnection | None = None
        manager, key = settings.sharing.manager, settings.key
        if manager is not None and key is not None and node.kind.coordinated:
            self.connection = ManagerConnection(loop, manager, key, self)

    @property
    def multicast(self) -> bool:
        """Whether heartbeats arrive by multicast."""
        return (
            self.connection is not None and self.connection.receiver.multicast_heard and not self._node.silent
        )

    def refused_s(self, instant: float) -> float:
        """Return seconds since which no machine manager listens, 0 if one does or none is used."""
        since = None if self.connection is None else self.connection.refused_since
        return 0.0 if since is None else instant - since

    def report_arrival(self, registration: ProcessRegistration) -> None:
        """Report a process that has registered."""
        if self.connection is not None:
            self.connection.send(ProcessRegistered(process=_entry(registration)))

    def report_end(self, process: Process) -> None:
        """Report a process that has left."""
        if self.connection is not None:
            self.connection.send(Ended(job=process.job, rank=process.rank))

    def query_view(self, answer: ViewAnswer) -> None:
        """Ask the manager for the view of the whole machine; answer with None if it cannot be had in time."""
        # At once, instead of after a wait: the client shows its own node then.
        if self.connection is None or not self.connection.welcomed:
            # Clients must not wait for an answer that cannot come.
            answer(None)
            return
        self._query_number += 1
        # Of its own for each query: a late answer must not go to the next client.
        number = self._query_number
        self._queries[number] = answer
        self.connection.send(Ask(query=number))

        def give_up() -> None:
            if self._queries.pop(number, None) is not None:
                answer(None)

        self._loop.after(_ANSWER_S, give_up)

    # called by the connection

    def hello(self, nonce: str, word: str, shown: int) -> Hello:
        """Return the introduction. nonce, word : random words of connection and process

        shown : number of the last presence datagram
        """
        processes = self._node.processes
        jobs = {process.job for process in processes}
        return Hello(
            node=self._settings.name,
            nonce=nonce,
            word=word,
            shown=shown,
            processors=self._settings.processors,
            policy=self._node.kind.name,
            processes=[_entry(managed.registration) for managed in processes.values()],
            # A manager that was restarted gets rows and ranks back from its nodes.
            placed={job: view for job, view in self._node.view.jobs.items() if job in jobs},
        )

    def welcome(self, welcome: Welcome) -> None:
        """Handle the proof of the manager's key."""
        self.slice_s = welcome.slice_s
        self._log(f"manager at {welcome.place}: policy {welcome.policy}, slices of {self.slice_s * 1e3:g} ms")
        # It refers to the matrix of the manager before.
        self._pending = None

    def line(self, message: FromManager) -> None:
        """Handle a line of the manager."""
        if isinstance(message, MatrixView):
            self._node.learn(message, now())
            pending = self._pending
            if pending is not None and pending.version <= self._node.view.version:
                self._pending = None
                self._act(pending, now())
            else:
                self._enforce()
        elif isinstance(message, RefuseJob):
            for process, managed in self._node.processes.items():
                if process.job == message.job:
                    # Shown by `apples jobs`; the processes run on.
                    managed.refused = message.why
            self._log(f"job {message.job} is not accepted: {message.why}")
        elif isinstance(message, View):
            answer = self._queries.pop(message.query, None)
            if answer is not None:
                answer(message.view)
        elif isinstance(message, Tell) and self.connection is not None:
            # The report is to be of now.
            self._node.read_all()
            self.connection.send(Report(status=self._status()))

    def heartbeat(self, heartbeat: HeartbeatMessage, instant: float) -> None:
        """Handle a heartbeat that was received at an instant of the clock of timers."""
        # From the heartbeat: a restarted manager may have another slice.
        self.slice_s = heartbeat.slice_s
        if heartbeat.version == self._node.view.version:
            self._pending = None
            self._act(heartbeat, instant)
        elif heartbeat.version > self._node.view.version:
            # The matrix of this version is on its way over the stream.
            self._pending = heartbeat
        # After the orders: these tasks have no hurry.
        self._acted(instant)

    def _act(self, heartbeat: HeartbeatMessage, instant: float) -> None:
        self.acted_at = instant
        # One and a half: a single lost datagram ends no slice, and a cut network stops nothing for long.
        self._loop.expect(instant + SILENT_SLICES * self.slice_s, self._silence)
        if not self._node.processes:
            # A process that registers now runs freely until the next heartbeat.
            self._node.silent = False
            return
        if self._node.silent:
            self._log("heartbeats arrive again")
        self._node.heartbeat(heartbeat.slot, instant)
        self._enforce()

    def lost(self, reason: str) -> None:
        """Handle the end of the connection, or a new reason why there is none."""
        assert self.connection is not None
        self._log(f"no manager at {self.connection.place}: {reason}")
        for answer in self._queries.values():
            answer(None)
        self._queries.clear()

    def _silence(self) -> None:
        if self._node.processes:
            self._log(f"no heartbeat for {SILENT_SLICES:g} slices: everything runs")
        self._node.silence(now())
        self._enforce()


def _entry(registration: ProcessRegistration) -> ProcessEntry:
    """Return a process as the manager knows it."""
    job, rank = registration.process
    return ProcessEntry(job=job, rank=rank, ranks=registration.ranks, uid=registration.uid)
