"""The node manager: one process per host that joins node, reception, link and watchdog in one loop.

With a manager it acts at every beat, and lets everything run when beats stay away, before a second slice is over.
Under a policy with slices of its own (message-driven) it beats for itself, hears processes that ask for the processor,
looks every `LOOK_S` whether one was not heard, and gives processes that are limited, where no quota can be had, pulses
by signals. Whatever ends it, the watchdog resumes what is stopped; TERM and INT resume everything first.
Papers: FCS section 2.2, Yoo and Jette section 2.2.3.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable

from apples.coscheduling.events import Process
from apples.daemons.journal import Journal
from apples.daemons.managedprocess import ManagedProcess
from apples.daemons.managerconnection import PULSE_S, ConnectionCallbacks, ManagerConnection
from apples.daemons.matrixview import MatrixView, job_json
from apples.daemons.node import ManagedNode
from apples.daemons.nodesettings import NodeSettings
from apples.daemons.paths import private_directory
from apples.daemons.processcontrol import Capabilities, find_capabilities
from apples.daemons.processes import ProcessRegistration
from apples.daemons.processregistry import ProcessRegistry
from apples.daemons.realtime import become_realtime, settle_memory
from apples.daemons.registration import Answer, RegistrationServer
from apples.daemons.watchdogclient import WatchdogClient
from apples.errors import SharingError
from apples.ipc.listener import raise_descriptors
from apples.ipc.loop import Alarm, EndSignals, Loop
from apples.ipc.timer import between_heartbeats, now, raw
from apples.ipc.wire import HeartbeatMessage, Json
from nws.base.detach import notify

#: Slices without a beat before everything runs.
SILENT_SLICES = 1.5
#: Slices, and seconds more, without a sign of life before the watchdog resumes everything.
_HUNG_SLICES, _LATE_S = 2.0, 0.05
#: How often pages are asked for messages; and the period of pulses, seconds.
LOOK_S = 0.1
#: Between two looks for requests, seconds: processes that ask must not keep us from the others.
_REQUEST_S = 0.002
#: Priority among those that run in real time: below the watchdog.
_PRIORITY = 10
#: Beats that are remembered: number, when sent, when heard, when everybody did as it says; by raw clocks.
_BEATS = 600
#: A node manager that runs while it is needed waits so long for the first who needs it, and for the next, seconds.
_FIRST_S, _NEXT_S = 10.0, 1.0
#: Of the descriptors one user has a sixteenth at most, for connections.
_DESCRIPTORS_EACH = 16
#: How long an answer of the manager to people is waited for, seconds.
_ANSWER_S = 1.5


class NodeDaemon:
    """One node manager; `run` until it is told to end. Raises `SharingError` where it cannot work here."""

    def __init__(self, settings: NodeSettings, *, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        kind = settings.sharing.policy
        if kind.coordinated and (settings.sharing.manager is None or settings.key is None):
            raise SharingError(
                f"policy {kind.name} needs a machine manager: name it with --manager HOST:PORT and its key with --key "
                "FILE, or choose a policy without one (--policy message-driven, spin-block, uncoordinated)"
            )
        self._capabilities: Capabilities = find_capabilities(
            settings.sharing.freezer, limits=kind.own_timer, cpus=settings.cpus
        )
        descriptors = raise_descriptors()
        private_directory(settings.socket.parent)
        self._journal = Journal(settings.socket)
        self._loop = Loop(precise=kind.own_timer)
        self._realtime = settings.sharing.realtime and become_realtime(_PRIORITY)
        self.node = ManagedNode(
            settings.processors,
            kind,
            settings.sharing.constants,
            changed_guards=lambda member: self._keeping.hold(member),
        )
        self._slice_s = settings.sharing.slice_s
        self._guard = WatchdogClient(
            self._loop,
            realtime=self._realtime,
            say=say,
            changed=self._enforce,
        )
        self._beats: deque[tuple[int, float, float, float]] = deque(maxlen=_BEATS)
        self._pending: HeartbeatMessage | None = None
        self._acted_at = 0.0
        self._requests_from = 0.0
        self._request: Alarm | None = None
        self._questions: dict[int, Answer] = {}
        self._asked = 0
        self._needed_at = now() + _FIRST_S
        self._guard.start()
        self._link: ManagerConnection | None = None
        if settings.sharing.manager is not None and settings.key is not None and kind.coordinated:
            hooks = ConnectionCallbacks(
                hello=self._hello, welcome=self._welcome, line=self._line, beat=self._beat, lost=self._lost
            )
            self._link = ManagerConnection(self._loop, settings.sharing.manager, settings.key, hooks)
        self._reception = RegistrationServer(
            self._loop, settings.socket, self, most_of_user=descriptors // _DESCRIPTORS_EACH
        )
        self._keeping = ProcessRegistry(
            self.node, self._loop, self._guard, self._capabilities, self._journal, removed=self._removed
        )
        taken = self._keeping.adopt()
        if taken:
            say(f"{taken} processes of an earlier node manager taken over")

    def run(self) -> int | None:
        """Until a signal comes, which is returned, or nobody needs it any more."""
        kind, ended_by = self.node.kind, []

        def end(number: int) -> None:
            ended_by.append(number)
            self._loop.stop()

        signals = EndSignals(self._loop, end)
        self._say(self._introduction())
        if self._link is not None:
            self._link.start()
        if kind.own_timer:
            first, look = now() + self._own_slice_s, now() + LOOK_S
            self._loop.at(first, lambda: self._own_slice(first))
            self._loop.at(look, lambda: self._look(look))
        self._next_second()
        settle_memory()
        notify(f"READY=1\nSTATUS=listens at {self._settings.socket}")
        try:
            self._loop.run()
        finally:
            self.node.release(now())
            signals.close()
            self.close()
        return ended_by[0] if ended_by else None

    def close(self) -> None:
        """Everything runs; nothing is left behind."""
        for process in list(self.node.members):
            self._keeping.remove(process, "left alone")
        self._reception.close()
        if self._link is not None:
            self._link.close()
        self._guard.close()
        self._journal.close()
        self._loop.close()

    # the desk of `reception`

    def register(self, request: object, connection: socket.socket) -> Process:
        """Take a process in (CMDREG); raises `Refused`."""
        member = self._keeping.register(request, connection)
        self._tell_arrival(member)
        self._enforce()
        return member.registration.process

    def leave(self, process: Process) -> None:
        """Its connection has ended (CMDOUT)."""
        self._keeping.remove(process, "left")

    def requested(self) -> None:
        """A process asks for the processor (CMDSCH)."""
        if self.node.kind.own_timer and self._request is None:
            self._request = self._loop.at(self._requests_from, self._look_for_request)

    def _look_for_request(self) -> None:
        self._request = None
        if self.node.look_for_messages(now()):
            self._enforce()
        self._requests_from = now() + _REQUEST_S

    def ask(self, what: str, argument: object, answer: Answer) -> bool:
        """Answer people."""
        instant = now()
        if what == "status":
            self.node.read_all()
            answer({"status": self._status(instant)})
        elif what == "job":
            self.node.read_all()
            live = [entry for entry in self.node.describe(instant) if entry["job"] == argument]
            answer({"job": [*self._keeping.ended.get(str(argument), {}).values(), *live]})
        elif what == "beats":
            answer({"beats": list(self._beats)})
        elif what == "view":
            self._ask_manager(answer)
        else:
            return False
        return True

    # the hooks of `link`

    def _hello(self) -> Json:
        placed = {
            job: job_json(view)
            for job, view in self.node.view.jobs.items()
            if any(process.job == job for process in self.node.members)
        }
        return {
            "node": self._settings.name,
            "processors": self._settings.processors,
            "policy": self.node.kind.name,
            "processes": [_entry(m.registration) for m in self.node.members.values()],
            "placed": placed,
        }

    def _welcome(self, document: Json) -> None:
        self._slice_s = float(document["slice_s"])
        self._say(
            f"manager at {document['place']}: policy {document['policy']}, slices of {self._slice_s * 1e3:g} ms"
        )
        self._pending = None

    def _line(self, document: Json) -> None:
        if "matrix" in document:
            self.node.learn(MatrixView.of_json(document["matrix"]), now())
            pending = self._pending
            if pending is not None and pending.version <= self.node.view.version:
                self._pending = None
                self._act(pending, now())
            else:
                self._enforce()
        elif "refuse" in document:
            for process, member in self.node.members.items():
                if process.job == document["refuse"]:
                    member.refused = document["why"]
            self._say(f"job {document['refuse']} is not taken: {document['why']}")
        elif "answer" in document:
            answer = self._questions.pop(document["answer"], None)
            if answer is not None:
                answer({"view": document["view"]})
        elif "tell" in document:
            self._tell_status(now())

    def _beat(self, beat: HeartbeatMessage, heard: float, instant: float) -> None:
        self._slice_s = beat.slice_s
        if beat.version == self.node.view.version:
            self._pending = None
            self._act(beat, instant)
        elif beat.version > self.node.view.version:
            # What it means is on its way over the stream.
            self._pending = beat
        self._beats.append((beat.number, beat.sent_s, heard, raw()))

    def _act(self, beat: HeartbeatMessage, instant: float) -> None:
        self._acted_at = instant
        self._loop.expect(instant + SILENT_SLICES * self._slice_s, self._silence)
        if not self.node.members:
            # Nobody to decide about; whoever registers runs freely until the beat after.
            self.node.silent = False
            return
        if self.node.silent:
            self._say("the beat is back")
        self.node.beat(beat.slot, instant)
        self._enforce()

    def _lost(self, reason: str) -> None:
        assert self._link is not None
        self._say(f"no manager at {self._link.place}: {reason}")
        for answer in self._questions.values():
            answer({"view": None})
        self._questions.clear()

    def _silence(self) -> None:
        if self.node.members:
            self._say(f"no beat for {SILENT_SLICES:g} slices: everything runs")
        self.node.silence(now())
        self._enforce()

    # time

    @property
    def _own_slice_s(self) -> float:
        return self._settings.sharing.constants.message_driven.slice_s

    def _own_slice(self, due: float) -> None:
        self.node.timer(now())
        self._enforce()
        following = due + self._own_slice_s
        self._loop.at(following, lambda: self._own_slice(following))

    def _look(self, due: float) -> None:
        """Messages; then the pulse of those that are limited and have no quota."""
        self.node.look_for_messages(now())
        share = min(self.node.pulsing, 1.0)
        self.node.pulse = share > 0
        self._enforce()
        if share > 0:
            self._loop.after(share * LOOK_S, self._end_pulse)
        following = max(due + LOOK_S, now())
        self._loop.at(following, lambda: self._look(following))

    def _end_pulse(self) -> None:
        self.node.pulse = False
        self._enforce()

    def _second(self) -> None:
        instant = now()
        if not self.node.kind.own_timer and not self.node.kind.coordinated:
            self._enforce()
        if self._link is not None:
            self._link.tick(instant, silent=self.node.silent)
        if self.node.members or self._reception.holding:
            self._needed_at = instant + _NEXT_S
        if self._settings.while_needed and instant > self._needed_at:
            self._loop.stop()
        self._next_second()

    def _next_second(self) -> None:
        # Not with a beat, though that would save waking up: other nodes of this host hear the same one.
        self._loop.at(between_heartbeats(self._acted_at, self._slice_s, now() + PULSE_S), self._second)

    def _tell_status(self, instant: float) -> None:
        assert self._link is not None
        self.node.read_all()
        self._link.send({"status": self._status(instant, cpu=False)})

    def _enforce(self) -> None:
        if not self.node.enforce(now(), may_stop=self._guard.ready, stopping=self._stopping):
            self._guard.running()

    def _stopping(self) -> None:
        """Before anybody is stopped, at every turn: by when the next one comes, or everything is resumed."""
        turn_s = LOOK_S if self.node.kind.own_timer else self._slice_s
        self._guard.stopping(now() + _HUNG_SLICES * turn_s + _LATE_S)

    def _tell_arrival(self, member: ManagedProcess) -> None:
        if self._link is not None:
            self._link.send({"registered": _entry(member.registration)})

    def _removed(self, process: Process) -> None:
        self._reception.end(process)
        if self._link is not None:
            self._link.send({"ended": {"job": process.job, "rank": process.rank}})
        self._enforce()

    # what people see

    def _status(self, instant: float, *, cpu: bool = True) -> Json:
        node, link = self.node, self._link
        return {
            "node": self._settings.name,
            "pid": os.getpid(),
            "watchdog": self._guard.pid if self._guard.ready else None,
            "processors": self._settings.processors,
            "policy": node.kind.name,
            "slice_s": self._own_slice_s if node.kind.own_timer else self._slice_s,
            "manager": None if link is None else link.place,
            "connected": link is not None and link.welcomed,
            "silent": node.silent,
            "multicast": link is not None and link.multicast_heard and not node.silent,
            "slot": None if node.slot is None else node.slot.slot,
            "slots": self.slots_held(),
            "scheduled": node.policy.scheduled,
            "realtime": self._realtime,
            "powers": self._capabilities.describe(),
            "processes": list(node.describe(instant, cpu=cpu)),
        }

    def slots_held(self) -> int:
        """Jobs that a new one has to share with here, or to wait for: rows with a job of this node, or all jobs."""
        if not self.node.kind.coordinated:
            return len({process.job for process in self.node.members})
        jobs = self.node.view.jobs.values()
        rows = {view.slot for view in jobs if view.slot is not None}
        return len(rows) + sum(view.slot is None for view in jobs)

    def _ask_manager(self, answer: Answer) -> None:
        if self._link is None or not self._link.welcomed:
            answer({"view": None})
            return
        self._asked += 1
        number = self._asked
        self._questions[number] = answer
        self._link.send({"ask": number})

        def give_up() -> None:
            if self._questions.pop(number, None) is not None:
                answer({"view": None})

        self._loop.after(_ANSWER_S, give_up)

    def _introduction(self) -> str:
        powers = ", ".join(f"{what} {how}" for what, how in self._capabilities.describe().items())
        return (
            f"node {self._settings.name}: {self._settings.processors} processors, policy {self.node.kind.name}, "
            f"{'real time' if self._realtime else 'ordinary'} priority; {powers}; socket {self._settings.socket}"
        )


def _entry(registration: ProcessRegistration) -> Json:
    """A process, as the manager is told of it."""
    job, rank = registration.process
    return {"job": job, "rank": rank, "ranks": registration.ranks, "uid": registration.uid}
