"""The node manager: one process per host, with node, registration server, manager session and watchdog in one loop.

With a machine manager it follows the heartbeats (`managersession`). Under a policy with slices of its own
(message-driven) it uses its own timers (`owntimer`). If it is killed or hangs, the watchdog resumes all stopped
processes; on TERM and INT it resumes them first. Papers: FCS section 2.2, Yoo and Jette section 2.2.3.

Time slices of a node without a machine manager (message-driven): the slice timer, requests and pulses.

Processes that ask for the processor are heard at once. Pages are also read every `LOOK_S`, in case a request got lost.
Processes that are limited, where no quota can be set, run in pulses by signals. Paper: Yoo and Jette, section 2.2.3.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from apples.coscheduling.events import Process
from apples.daemons.classmemory import ClassMemory
from apples.daemons.exchanges import RegisterRequest
from apples.daemons.ipc.eventloop import Alarm, Loop, run_until_signal, settle_memory
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.unixserver import Client
from apples.daemons.ipc.wire import PULSE_S
from apples.daemons.journal import Journal
from apples.daemons.managednode import ManagedNode, pulsing, reports, slots_held
from apples.daemons.managersession import ManagerSession
from apples.daemons.nodemessages import NodeStatus, ProcessReport
from apples.daemons.paths import private_directory
from apples.daemons.processcontrol import Capabilities, find_capabilities
from apples.daemons.processregistry import ProcessRegistry
from apples.daemons.registration import Answer, RegistrationServer
from apples.daemons.settings import NodeSettings
from apples.daemons.watchdogclient import WatchdogClient
from apples.errors import SharingError
from nws.base.detach import notify
from nws.base.wording import counted

#: Real-time priority of a node manager's program: below the watchdog's.
PRIORITY = 10
#: Slices, and seconds more, without a new deadline before the watchdog resumes everything.
_HUNG_SLICES, _LATE_S = 2.0, 0.05
#: With `while_needed`: wait for the first process or session, for the next one, and for a manager that has ended.
_FIRST_S, _NEXT_S, _MANAGER_S = 10.0, 1.0, 2.0

#: Period of reading the pages for messages, and of pulses, seconds.
LOOK_S = 0.1
#: Least time between two reads because of requests, seconds, so that requests cannot take all of the CPU.
_REQUEST_S = 0.002


class OwnTimer:
    """Timers of one node. `enforce`: called after each change of the orders."""

    def __init__(self, loop: Loop, node: ManagedNode, slice_s: float, enforce: Callable[[], None]) -> None:
        self._loop, self._node, self.slice_s, self._enforce = loop, node, slice_s, enforce
        self._requests_from = 0.0
        self._request: Alarm | None = None

    def start(self) -> None:
        """Start the slice timer and the periodic reads."""
        first, poll_at = now() + self.slice_s, now() + LOOK_S
        self._loop.at(first, lambda: self._end_slice(first))
        self._loop.at(poll_at, lambda: self._poll_messages(poll_at))

    def request(self) -> None:
        """Handle a process that asks for the processor (CMDSCH)."""
        if self._request is None:
            self._request = self._loop.at(self._requests_from, self._look_for_request)

    def _look_for_request(self) -> None:
        self._request = None
        if self._node.look_for_messages(now()):
            self._enforce()
        # From the end of the work, so that requests leave the CPU to others however long it takes.
        self._requests_from = now() + _REQUEST_S

    def _end_slice(self, due: float) -> None:
        # First: a step that fails must not be the last.
        following = due + self.slice_s
        self._loop.at(following, lambda: self._end_slice(following))
        self._node.timer(now())
        self._enforce()

    def _poll_messages(self, due: float) -> None:
        """Read messages, then begin a pulse of the processes that are limited and have no quota."""
        # After a stop of this daemon, missed reads are not made up for.
        following = max(due + LOOK_S, now())
        self._loop.at(following, lambda: self._poll_messages(following))
        self._node.look_for_messages(now())
        # All limited processes have one pulse: the largest of their shares.
        share = min(pulsing(self._node), 1.0)
        self._node.pulse = share > 0
        self._enforce()
        if share > 0:
            self._loop.after(share * LOOK_S, self._end_pulse)

    def _end_pulse(self) -> None:
        self._node.pulse = False
        self._enforce()


class NodeDaemon:
    """One node manager; `run` until a signal arrives. Raises `SharingError` if it cannot work here."""

    def __init__(self, settings: NodeSettings, *, log: Callable[[str], None], realtime: bool = False) -> None:
        """Report `realtime`, whether this process has a real-time priority; the watchdog then takes one too."""
        self._settings, self._log, self._realtime = settings, log, realtime
        kind = settings.sharing.policy
        if kind.coordinated and (settings.sharing.manager is None or settings.key is None):
            raise SharingError(
                f"policy {kind.name} needs a machine manager: name it with --manager HOST:PORT and its key with --key "
                "FILE, or choose a policy without one (--policy message-driven, spin-block, uncoordinated)"
            )
        self._capabilities: Capabilities = find_capabilities(
            settings.sharing.freezer, limits=kind.own_timer, cpus=settings.cpus
        )
        private_directory(settings.socket.parent, all_users=settings.everybody)
        self._journal = Journal(settings.socket, settings.machine)
        self._loop = Loop(precise=kind.own_timer, failed=lambda error: log(f"failed: {error!r}"))
        self.node = ManagedNode(
            settings.processors,
            kind,
            settings.sharing.constants,
            changed_guards=lambda managed: self._registry.hold(managed),
        )
        self._watchdog = WatchdogClient(self._loop, realtime=self._realtime, log=log, changed=self._enforce)
        self._needed_at = now() + _FIRST_S
        self._second_due = math.inf
        self._second_alarm: Alarm | None = None
        self._watchdog.start()
        self._manager = ManagerSession(
            self._loop,
            self.node,
            settings,
            enforce=self._enforce,
            status=lambda: self._status(now(), cpu=False),
            acted=self._with_heartbeat,
            log=log,
        )
        slice_s = settings.sharing.constants.message_driven.slice_s
        self.timer = OwnTimer(self._loop, self.node, slice_s, self._enforce) if kind.own_timer else None
        limits = settings.sharing.limits
        self._server = RegistrationServer(
            self._loop,
            settings.socket,
            self,
            most_of_user=limits.connections,
            all_users=settings.everybody,
            log=log,
        )
        self._registry = ProcessRegistry(
            self.node,
            self._loop,
            self._watchdog,
            self._capabilities,
            self._journal,
            ClassMemory.of_user(),
            limits,
            removed=self._removed,
        )
        # After the socket listens: programs that try to register meanwhile wait, instead of running unregistered.
        adopted = self._registry.adopt()
        if adopted:
            log(f"{counted(adopted, 'process')} of an earlier node manager taken over")

    def run(self) -> int | None:
        """Run until a signal arrives, and return its number; None if the daemon is no longer needed."""
        return run_until_signal(self._loop, self.close, starting=self._start)

    def _start(self) -> None:
        self._log(self._introduction())
        if self._manager.connection is not None:
            self._manager.connection.start()
        if self.timer is not None:
            self.timer.start()
        self._next_second()
        settle_memory()
        notify(f"READY=1\nSTATUS=listens at {self._settings.socket}")

    def close(self) -> None:
        """Resume all processes, leave them to the next node manager, and remove socket and watchdog."""
        left = [managed.registration for managed in self.node.processes.values()]
        # First of all: if anything below fails, nothing stays stopped all the same.
        self.node.release(now())
        for process in list(self.node.processes):
            self._registry.remove(process, "left alone")
        self._server.close()
        if self._manager.connection is not None:
            self._manager.connection.close()
        self._watchdog.close()
        self._journal.close(left)
        self._loop.close()

    # requests of `registration`

    def register(self, request: RegisterRequest, client: Client) -> Process:
        """Register a process (CMDREG); raises `RegistrationRefused`."""
        managed = self._registry.register(request, client.stream.socket)
        self._manager.report_arrival(managed.registration)
        self._enforce()
        return managed.registration.process

    def leave(self, process: Process) -> None:
        """Deregister a process after the end of its connection (CMDOUT)."""
        self._registry.remove(process, "left")

    def requested(self) -> None:
        """Handle a message from a scheduled sender to a process that is not scheduled (CMDSCH)."""
        if self.timer is not None:
            self.timer.request()

    def ask(self, what: str, argument: object, answer: Answer) -> None:
        """Answer a query, now or later."""
        instant = now()
        if what == "status":
            self.node.read_all()
            answer(self._status(instant))
        elif what == "job":
            self.node.read_all()
            live: list[ProcessReport] = [e for e in reports(self.node, instant) if e.job == argument]
            # Ranks that have ended are reported as well: a run asks when all of its ranks have.
            answer([*self._registry.ended.get(str(argument), {}).values(), *live])
        else:
            self._manager.query_view(answer)

    def _second(self) -> None:
        # First: a step that fails, for lack of memory for example, must not be the last.
        self._next_second()
        instant = now()
        if self.node.kind.measured:
            self.node.measure(instant)
        # Without heartbeats and slices nothing else would assert the orders again.
        if not self.node.kind.own_timer and not self.node.kind.coordinated:
            self._enforce()
        if self._manager.connection is not None:
            self._manager.connection.tick(instant, silent=self.node.silent)
        if self._server.needed() or self.node.processes:
            self._needed_at = instant + _NEXT_S
        # Runs that need a machine manager start it, and their node managers, again.
        unneeded = instant > self._needed_at or self._manager.refused_s(instant) > _MANAGER_S
        if self._settings.while_needed and unneeded:
            self._loop.stop()

    def _next_second(self) -> None:
        # At the heartbeat closest to it, or half a slice later without one.
        manager, instant = self._manager, now()
        half_s = manager.slice_s / 2 if manager.connection is not None and manager.slice_s < PULSE_S else 0.0
        self._second_due = instant + PULSE_S - half_s
        self._second_alarm = self._loop.at(instant + PULSE_S + half_s, self._second)

    def _with_heartbeat(self, instant: float) -> None:
        """Do the tasks of a second after a heartbeat, if they are due: a wake-up of their own costs more."""
        if instant >= self._second_due and self._second_alarm is not None:
            self._second_alarm.cancel()
            self._second()

    def _enforce(self) -> None:
        if not self.node.enforce(now(), may_stop=self._watchdog.ready, stopping=self._stopping):
            self._watchdog.running()

    def _stopping(self) -> None:
        """Arm the watchdog before a process is stopped: it resumes everything unless it is armed again in time."""
        turn_s = LOOK_S if self.timer is not None else self._manager.slice_s
        self._watchdog.stopping(now() + _HUNG_SLICES * turn_s + _LATE_S)

    def _removed(self, process: Process) -> None:
        self._server.end(process)
        self._manager.report_end(process)
        self._enforce()

    def _status(self, instant: float, *, cpu: bool = True) -> NodeStatus:
        node, manager = self.node, self._manager
        connection = manager.connection
        return NodeStatus(
            node=self._settings.name,
            pid=os.getpid(),
            watchdog=self._watchdog.pid if self._watchdog.ready else None,
            processors=self._settings.processors,
            policy=node.kind.name,
            slice_s=manager.slice_s if self.timer is None else self.timer.slice_s,
            manager=None if connection is None else connection.place,
            connected=connection is not None and connection.welcomed,
            silent=node.silent,
            multicast=manager.multicast,
            slot=None if node.slot is None else node.slot.slot,
            slots=slots_held(node),
            scheduled=node.policy.scheduled,
            contended=sorted(node.policy.contended),
            realtime=self._realtime,
            powers=self._capabilities.describe(),
            processes=list(reports(node, instant, cpu=cpu)),
        )

    def _introduction(self) -> str:
        capabilities = ", ".join(f"{what} {how}" for what, how in self._capabilities.describe().items())
        return (
            f"node {self._settings.name}: {counted(self._settings.processors, 'processor')}, "
            f"policy {self.node.kind.name}, {'real time' if self._realtime else 'ordinary'} priority; {capabilities}; "
            f"socket {self._settings.socket}"
        )
