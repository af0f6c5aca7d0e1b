"""The registered processes of a node manager: registered, guarded, journaled, and removed when they end.

Joins the node, which decides, with descriptors, pages, watchdog and journal. A process is removed when the kernel
reports its end through its descriptor, or when its connection ends, whichever is first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from apples.coscheduling.events import Process
from apples.daemons import cgroups, processes
from apples.daemons.classmemory import ClassMemory
from apples.daemons.exchanges import RegisterRequest
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now
from apples.daemons.journal import Journal
from apples.daemons.managednode import ManagedNode, check_free, check_limits, reports
from apples.daemons.managedprocess import ManagedProcess
from apples.daemons.nodemessages import ProcessReport
from apples.daemons.processcontrol import Capabilities
from apples.daemons.processes import ProcessRegistration, RegistrationRefused
from apples.daemons.settings import UserLimits
from apples.daemons.watchdogclient import WatchdogClient
from apples.errors import MonitorError
from apples.monitoring.page import MonitorPage

#: Jobs that have ended and can still be asked for, and ranks of each.
_ENDED_JOBS, _ENDED_RANKS = 64, 4096


class ProcessRegistry:
    """ProcessRegistered processes. `ended`: last values by job and rank.  `removed`: called for each removed process"""

    def __init__(
        self,
        node: ManagedNode,
        loop: Loop,
        watchdog: WatchdogClient,
        capabilities: Capabilities,
        journal: Journal,
        memory: ClassMemory,
        limits: UserLimits,
        *,
        removed: Callable[[Process], None],
    ) -> None:
        self._node, self._loop, self._watchdog = node, loop, watchdog
        self._capabilities, self._journal, self._removed = capabilities, journal, removed
        self._memory, self._limits = memory, limits
        self._pidfds: dict[Process, int] = {}
        self.ended: dict[str, dict[int, ProcessReport]] = {}

    def register(self, request: RegisterRequest, connection: socket.socket) -> ManagedProcess:
        """Register the process that sent a request over a connection; raises `RegistrationRefused`."""
        # The descriptor is held from here on: the process cannot be mistaken for another any more.
        registration, pidfd = processes.check(request, connection)
        try:
            check_free(self._node.processes, registration)
            if registration.uid != os.geteuid():
                check_limits(self._node.processes, registration, self._limits)
            if registration.process in self._node.processes:
                raise RegistrationRefused(f"process {registration.pid} is registered already")
            page = self._page(registration)
        except BaseException:
            # A refused process must not cost descriptors, or any user could use them up.
            os.close(pidfd)
            raise
        managed = self._take(registration, pidfd, page)
        # After the process is in the node: the journal lists all that may be stopped.
        self._write()
        return managed

    def adopt(self) -> int:
        """Adopt the processes of an earlier node manager, which run until the next heartbeat; return their number."""
        for registration in self._journal.read():
            pidfd = processes.adopt(registration)
            if pidfd is not None:
                try:
                    page = self._page(registration)
                except RegistrationRefused:
                    page = None
                # What froze it cannot be undone by a signal, and this node manager may use signals.
                cgroups.release(registration.pid)
                control = self._take(registration, pidfd, page).control
                control.favour(False)
                control.resume()
        # After the processes were taken out: groups of killed node managers are empty then.
        cgroups.sweep()
        return len(self._node.processes)

    def hold(self, managed: ManagedProcess) -> None:
        """Have the watchdog hold the current descriptors of a process."""
        for number, (fd, action) in enumerate(managed.control.guards()):
            # Before the process can be stopped for the first time.
            self._watchdog.hold(_key(managed.registration.process, number), fd, action)

    def remove(self, process: Process, why: str) -> None:
        """Remove a process that has ended or is deregistered."""
        managed = self._node.processes.get(process)
        if managed is None:
            return
        managed.read()
        self._memory.note(managed.registration, self._node.policy.learned(process), managed.own_duty)
        # While its page and its control exist.
        self._remanaged(process, why)
        # Before `node.remove` closes the descriptor: a closed one cannot be forgotten.
        self._loop.forget(self._pidfds.pop(process))
        for number, _ in enumerate(managed.control.guards()):
            self._watchdog.drop(_key(process, number))
        self._node.remove(process, now())
        self._write()
        self._removed(process)

    def _take(
        self, registration: ProcessRegistration, pidfd: int, page: MonitorPage | None
    ) -> ManagedProcess:
        process = registration.process
        if all(other.job != process.job for other in self._node.processes):
            # A new job of a name that was there before.
            self.ended.pop(process.job, None)
        self.ended.get(process.job, {}).pop(process.rank, None)
        control, known = self._capabilities.control(registration, pidfd), self._memory.recall(registration)
        managed = self._node.add(registration, control, page, now(), known=known)
        self._pidfds[process] = pidfd
        self._loop.watch(pidfd, lambda: self._seen(process, pidfd))
        self.hold(managed)
        return managed

    def _seen(self, process: Process, pidfd: int) -> None:
        """Handle an exit event of a pidfd. Ignored if the descriptor number now belongs to another process."""
        # The event may have been read before `forget`, and the number given to another file since.
        if not processes.alive(pidfd):
            self.remove(process, "ended")

    def _remanaged(self, process: Process, why: str) -> None:
        self._node.read_all()
        (final,) = (e for e in reports(self._node, now()) if (e.job, e.rank) == process)
        ranks = self.ended.setdefault(process.job, {})
        ranks[process.rank] = msgspec.structs.replace(final, state=why)
        while len(ranks) > _ENDED_RANKS:
            del ranks[next(iter(ranks))]
        while len(self.ended) > _ENDED_JOBS:
            del self.ended[next(iter(self.ended))]

    def _page(self, registration: ProcessRegistration) -> MonitorPage | None:
        if registration.page is None:
            if self._node.policy.needs_monitor:
                raise RegistrationRefused(
                    f"policy {self._node.kind.name} needs the monitor: start the program with `apples share` or "
                    "`apples-run --policy`"
                )
            return None
        try:
            # Of the same user: else a program could have this daemon write into files of others.
            return MonitorPage.attach(Path(registration.page), owner=registration.uid)
        except MonitorError as error:
            raise RegistrationRefused(str(error)) from None

    def _write(self) -> None:
        # Without it only a node manager that is killed would be missed by the next one.
        with suppress(OSError):
            self._journal.write(managed.registration for managed in self._node.processes.values())


def _key(process: Process, number: int) -> str:
    return f"{process.job} {process.rank} {number}"
