"""One node: who is registered here, what the policy wants of each, and making it so. No sockets, no clock, no kernel.

Processes are behind `grips.Grip`, pages behind `Page`, time is passed in. `enforce` asserts the whole wanted state,
again and again: a signal may get lost, a process may be stopped by somebody else, another may just have ended.
While `may_stop` is not said, everything runs. Papers: FCS sections 2.2 and 2.5, Yoo and Jette section 2.2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from apples.coscheduling.events import (
    Heartbeat,
    HeartbeatLost,
    JobArrived,
    JobLeft,
    MessageArrived,
    Order,
    Process,
    ProcessLeft,
    SliceEnded,
    Wait,
)
from apples.coscheduling.node import NodePolicy
from apples.coscheduling.policies import CoschedulingConstants, PolicyKind
from apples.daemons.managedprocess import ManagedProcess, Page
from apples.daemons.matrixview import MatrixView
from apples.daemons.processcontrol import ProcessControl
from apples.daemons.processes import ProcessRegistration, RegistrationRefused
from apples.errors import ApplesError
from apples.monitoring.efficiencies import reading_document

#: A job with at least this share of the node is not limited: the limits of the others leave it that.
_UNLIMITED_SHARE = 0.5

#: How long one that runs may be held by somebody else's signal before that is noticed, seconds.
LOOK_AGAIN_S = 0.2
#: How long one whose quota somebody else has lifted may go without, seconds.
LIMIT_AGAIN_S = 1.0

_FREE = Order()


class _Turn(NamedTuple):
    """What `orders` come to: who is stopped and who runs, and of each how it is to wait and whether it is favoured."""

    orders: Mapping[Process, Order]
    stops: list[tuple[ManagedProcess, Wait | None, bool]]
    runs: list[tuple[ManagedProcess, Wait | None, bool]]


class ManagedNode:
    """The processes of one host under one policy.

    processors : how many it has.  changed_guards : called for a member whose descriptors to guard have changed
    """

    def __init__(
        self,
        processors: int,
        kind: PolicyKind,
        constants: CoschedulingConstants,
        *,
        changed_guards: Callable[[ManagedProcess], None] = lambda member: None,
    ) -> None:
        self.kind, self._constants = kind, constants
        self._processors = processors
        self.policy: NodePolicy = kind.node(constants)
        self.members: dict[Process, ManagedProcess] = {}
        self.view = MatrixView()
        self.slot: Heartbeat | None = None
        self.silent = kind.coordinated
        #: Whether processes that are limited by pulses have one now.
        self.pulse = False
        self._placed: dict[str, Mapping[Process, int]] = {}
        #: By slot; they hold while the policy keeps its answer, and until processes come, go or are placed.
        self._turns: dict[int, _Turn] = {}
        self._gone_cpu_s: dict[str, float] = {}
        self._changed_guards = changed_guards

    def add(
        self, registration: ProcessRegistration, control: ProcessControl, page: Page | None, now: float
    ) -> ManagedProcess:
        """A process has registered (CMDREG); the one that was registered as the same rank must have ended."""
        member = ManagedProcess(registration=registration, control=control, page=page, arrived_at=now)
        process = registration.process
        self.members[process] = member
        self._turns.clear()
        if not self.kind.coordinated:
            here = self._placed.get(process.job, {})
            self._place(process.job, {**here, process: process.rank % self._processors}, now)
        return member

    def check(self, registration: ProcessRegistration) -> None:
        """Raise `Refused` for a process whose job or rank is somebody else's here."""
        job, rank = registration.process
        for other, member in self.members.items():
            if other.job != job:
                continue
            known = member.registration
            if known.uid != registration.uid:
                raise RegistrationRefused(
                    f"a job {job} of user {known.uid} is registered here; choose another name"
                )
            if known.ranks != registration.ranks:
                raise RegistrationRefused(
                    f"job {job} has {known.ranks} ranks here, not {registration.ranks}; choose another name"
                )
            if other.rank == rank and known.pid != registration.pid:
                raise RegistrationRefused(
                    f"rank {rank} of job {job} is process {known.pid}; choose another name"
                )

    def remove(self, process: Process, now: float) -> ManagedProcess | None:
        """It has ended, or wants to be left alone (CMDOUT): it runs like any other."""
        member = self.members.pop(process, None)
        if member is None:
            return None
        self._turns.clear()
        self._read(member)
        job = process.job
        self._gone_cpu_s[job] = self._gone_cpu_s.get(job, 0.0) + (member.control.cpu_s() or 0.0)
        self._resume(member, now)
        self._tell_page(member, lambda page: page.set_wait(None))
        if member.scheduled is False:
            self._tell_page(member, lambda page: page.set_scheduled(True))
        member.stopped_s = member.held_s(now)
        if any(other.job == job for other in self.members):
            self._placed[job] = {p: n for p, n in self._placed.get(job, {}).items() if p != process}
            self.policy.on(ProcessLeft(process=process, now=now))
        else:
            self._placed.pop(job, None)
            self._gone_cpu_s.pop(job, None)
            self.policy.on(JobLeft(job=job, now=now))
        if member.page is not None:
            member.page.close()
        member.control.close()
        return member

    def learn(self, view: MatrixView, now: float) -> None:
        """The manager says who stands where; jobs it has taken out run freely, once it knows of all."""
        self.view = view
        self._turns.clear()
        for job, entry in view.jobs.items():
            here = {p: entry.processors.get(p.rank, 0) for p in self.members if p.job == job}
            if here:
                self._place(job, here, now)
        for job in [job for job in self._placed if view.settled and job not in view.jobs]:
            del self._placed[job]
            self.policy.on(JobLeft(job=job, now=now))

    def beat(self, slot: int, now: float) -> None:
        """A slot begins; the readings of those whose slot ends are taken first."""
        readings = {}
        if self.policy.needs_monitor and self.slot is not None:
            for process, processor in self._placed_processes():
                if self.slot.jobs.get(processor) == process.job and self._read(
                    member := self.members[process]
                ):
                    readings[process] = member.reading
        row = self.view.rows.get(slot)
        if row is None:
            self.slot = Heartbeat(slot=None, readings=readings, now=now)
        else:
            self.slot = Heartbeat(slot=slot, jobs=row.jobs, fill=row.fill, readings=readings, now=now)
        self.silent = False
        self.policy.on(self.slot)

    def silence(self, now: float) -> None:
        """No beat came for too long."""
        self.silent = True
        self.policy.on(HeartbeatLost(now=now))

    def timer(self, now: float) -> None:
        """The node's own slice is over (CMDCSW)."""
        self.policy.on(SliceEnded(cpu_s=self._used_cpu_s(), now=now))

    def _used_cpu_s(self) -> dict[str, float]:
        """By job, CPU seconds of its processes here, those that are gone included."""
        used = dict.fromkeys(self.policy.jobs, 0.0) | self._gone_cpu_s
        for process, member in self.members.items():
            used[process.job] = used.get(process.job, 0.0) + (member.control.cpu_s() or 0.0)
        return used

    def look_for_messages(self, now: float) -> bool:
        """Ask the pages for messages from scheduled senders (CMDSCH); whether there were any."""
        found, counted = False, self._constants.message_driven.gmet_of == "cpu"
        for process, member in self.members.items():
            if member.page is None:
                continue
            try:
                requests = member.page.requests()
            except ApplesError:
                self._drop_page(member)
                continue
            if requests != member.requests:
                member.requests, found = requests, True
                used = self._used_cpu_s() if counted else {}
                self.policy.on(MessageArrived(process=process, sender_scheduled=True, now=now, cpu_s=used))
        return found

    def enforce(self, now: float, *, may_stop: bool, stopping: Callable[[], None] = lambda: None) -> bool:
        """Make everybody do what is wanted; whether anything is held stopped now. Stops before it resumes.

        stopping : called once before the first is stopped
        """
        orders, slot = self.policy.wanted(), None if self.slot is None else self.slot.slot
        turn = self._turns.get(slot) if may_stop and slot is not None else None
        if turn is None or turn.orders is not orders:
            turn = self._take(orders, now, may_stop=may_stop, stopping=stopping)
            if may_stop and slot is not None and self.policy.repeats:
                self._turns[slot] = turn
        else:
            if turn.stops:
                stopping()
            for member, wait, favoured in turn.stops:
                if wait is not member.wait or favoured is not member.favoured:
                    self._tell(member, wait, favoured)
                self._stop(member, now)
            for member, wait, favoured in turn.runs:
                if wait is not member.wait or favoured is not member.favoured:
                    self._tell(member, wait, favoured)
        for member, _, _ in turn.runs:
            self._resume(member, now)
        return bool(turn.stops)

    def release(self, now: float) -> None:
        """Everything runs, now."""
        for member in self.members.values():
            self._resume(member, now)

    @property
    def pulsing(self) -> float:
        """The largest share that somebody gets in pulses, 0 where there is nobody."""
        return max((m.processors or 0.0 for m in self.members.values() if m.limited), default=0.0)

    def read_all(self) -> None:
        """Take the readings of everybody."""
        for member in self.members.values():
            self._read(member)

    def describe(self, now: float, *, cpu: bool = True) -> Iterator[dict[str, Any]]:
        """One document for each process. cpu : with its CPU seconds, which the kernel has to be asked for"""
        wanted = self.policy.wanted()
        classifications = self.policy.classifications
        for process, member in self.members.items():
            known, standing = member.registration, classifications.get(process)
            order = wanted.get(process)
            yield {
                "job": process.job,
                "rank": process.rank,
                "ranks": known.ranks,
                "pid": known.pid,
                "uid": known.uid,
                "state": "free" if order is None else "stopped" if member.stopped_at is not None else "runs",
                "waits": None if member.wait is None else member.wait.value,
                "class": None if standing is None else standing.process_class.value,
                "monitored": member.page is not None,
                "stopped_s": member.held_s(now),
                "here_s": now - member.arrived_at,
                "ran_s": member.ran_s,
                "threads": member.threads,
                **({"cpu_s": member.control.cpu_s()} if cpu else {}),
                "refused": member.refused,
                **reading_document(member.reading if member.page is not None else None),
            }

    def _place(self, job: str, here: Mapping[Process, int], now: float) -> None:
        if self._placed.get(job) != here:
            self._placed[job] = here
            self.policy.on(JobArrived(job=job, processors=here, now=now))

    def _placed_processes(self) -> Iterator[tuple[Process, int]]:
        for here in self._placed.values():
            yield from ((process, p) for process, p in here.items() if process in self.members)

    def _take(
        self, orders: Mapping[Process, Order], now: float, *, may_stop: bool, stopping: Callable[[], None]
    ) -> _Turn:
        """A turn for the first time: everything but the resuming."""
        turn = _Turn(orders, [], [])
        for process, member in self.members.items():
            order = orders.get(process, _FREE)
            # Where the policy does not care, processes wait as their MPI does.
            cares = self.policy.needs_monitor and process.job in self._placed
            wait = order.wait if cares or order.wait is Wait.SPIN_BLOCK else None
            self._tell(member, wait, order.favoured)
            self._limit(member, order, now)
            self._tell_scheduled(member)
            if may_stop and not (order.run and (self.pulse or not member.limited)):
                if not turn.stops:
                    stopping()
                turn.stops.append((member, wait, order.favoured))
                self._stop(member, now)
            else:
                turn.runs.append((member, wait, order.favoured))
        return turn

    def _tell(self, member: ManagedProcess, wait: Wait | None, favoured: bool) -> None:
        """How it is to wait, if anybody can tell it, and whether it is favoured; only what has changed."""
        if wait is not member.wait and member.page is not None:
            spin_s = self._constants.fcs.spin_s
            self._tell_page(member, lambda page: page.set_wait(wait, spin_s))
            member.wait = wait
        if favoured != member.favoured:
            member.favoured = favoured
            member.control.favour(favoured)

    def _tell_scheduled(self, member: ManagedProcess) -> None:
        if self.policy.announces_scheduled:
            scheduled = member.registration.process.job == self.policy.scheduled
            if scheduled != member.scheduled:
                member.scheduled = scheduled
                self._tell_page(member, lambda page: page.set_scheduled(scheduled))

    def _limit(self, member: ManagedProcess, order: Order, now: float) -> None:
        """What has changed of its share, and now and then the same again."""
        if order.share is None and member.processors is None:
            return
        processors = None
        if order.share is not None and order.share < _UNLIMITED_SHARE:
            job = member.registration.process.job
            ranks = sum(process.job == job for process in self.members)
            processors = order.share * self._processors / ranks
        if processors != member.processors:
            member.processors, member.limited_at = processors, now
            done = member.control.limit(processors)
            member.limited = processors is not None and not done
            self._changed_guards(member)
        elif processors is not None and not member.limited and now - member.limited_at >= LIMIT_AGAIN_S:
            # The watchdog may have freed it, because we hung.
            member.limited_at = now
            member.control.limit(processors)

    def _stop(self, member: ManagedProcess, now: float) -> None:
        if member.stopped_at is None:
            member.stopped_at = now
        # Said again at every turn: it costs less than to look whether somebody has resumed it.
        member.control.stop()

    def _resume(self, member: ManagedProcess, now: float) -> None:
        if member.stopped_at is not None:
            held_s = now - member.stopped_at
            member.stopped_s += held_s
            member.stopped_at = None
            # Before it runs, so that no communication of its own counts the time.
            try:
                self._tell_page(member, lambda page: page.add_stopped(held_s))
            finally:
                member.control.resume()
            member.looked_at = now
        elif now - member.looked_at >= LOOK_AGAIN_S:
            # Not simply said again: a program may do something of its own when it is continued.
            member.looked_at = now
            if member.control.stopped():
                member.control.resume()

    def _read(self, member: ManagedProcess) -> bool:
        if member.page is None:
            return False
        try:
            seen = member.page.figures(member.stopped_at)
        except ApplesError:
            self._drop_page(member)
            return False
        member.reading, member.ran_s, member.threads = seen.reading, seen.ran_s, seen.threads
        return True

    def _tell_page(self, member: ManagedProcess, tell: Callable[[Page], None]) -> None:
        if member.page is not None:
            try:
                tell(member.page)
            except ApplesError:
                self._drop_page(member)

    def _drop_page(self, member: ManagedProcess) -> None:
        """Its owner has spoilt it; the process goes on without."""
        assert member.page is not None
        member.page.close()
        member.page = None
