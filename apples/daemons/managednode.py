"""The registered processes of one node, and the enforcement of the policy's orders. No sockets, clock or kernel calls.

Kernel calls are those of `ProcessControl`, pages those of `MonitorPage`; time is an argument. `enforce` asserts all
orders again, because a signal may get lost, another program may stop a process, or a process may have just ended. While
`may_stop` is False, everything runs. Papers: FCS sections 2.2 and 2.5, Yoo and Jette section 2.2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from apples.coscheduling.classes import MonitorCounts, ProcessClass
from apples.coscheduling.events import (
    Heartbeat,
    HeartbeatLost,
    JobArrived,
    JobLeft,
    Measured,
    MessageArrived,
    Order,
    Process,
    ProcessLeft,
    SliceEnded,
    Wait,
)
from apples.coscheduling.nodestate import NodePolicy
from apples.coscheduling.policies import CoschedulingConstants, PolicyKind
from apples.daemons.managedprocess import ManagedProcess, report_of
from apples.daemons.nodemessages import MatrixView, ProcessReport
from apples.daemons.processcontrol import ProcessControl
from apples.daemons.processes import ProcessRegistration, RegistrationRefused
from apples.daemons.settings import UserLimits
from apples.monitoring.page import MonitorPage

#: A job with at least this share of the node is not limited, because the limits of the others leave it that much.
_UNLIMITED_SHARE = 0.5

#: Orders of processes about which the policy does not decide (yet).
_FREE, _FREE_SPINNING = Order(), Order(wait=Wait.SPIN_BLOCK)


class _Plan(NamedTuple):
    """The orders of one slot by process. `steps`: process, its order, how it waits (None: as its MPI does)."""

    orders: Mapping[Process, Order]
    steps: list[tuple[ManagedProcess, Order, Wait | None]]


class ManagedNode:
    """The processes of one host under one policy.

    processors : number of processors
    changed_guards : called with a process after its descriptors for the watchdog have changed
    pulse : True while processes that are limited by pulses may run
    """

    def __init__(
        self,
        processors: int,
        kind: PolicyKind,
        constants: CoschedulingConstants,
        *,
        changed_guards: Callable[[ManagedProcess], None] = lambda managed: None,
    ) -> None:
        self.kind, self._constants = kind, constants
        self._processors = processors
        self.policy: NodePolicy = kind.node(constants)
        self.processes: dict[Process, ManagedProcess] = {}
        self.view = MatrixView()
        self.slot: Heartbeat | None = None
        self.silent = kind.coordinated
        self.pulse = False
        self._placed: dict[str, Mapping[Process, int]] = {}
        #: By slot, if the policy repeats its orders; valid until processes arrive, leave or are placed.
        self._plans: dict[int, _Plan] = {}
        #: By job, CPU seconds of its processes that have left.
        self._left_cpu_s: dict[str, float] = {}
        self._changed_guards = changed_guards
        #: Order of processes about which the policy does not decide (yet): they block from their first call.
        self._free = _FREE_SPINNING if kind.coordinated and self.policy.needs_monitor else _FREE

    def add(
        self,
        registration: ProcessRegistration,
        control: ProcessControl,
        page: MonitorPage | None,
        now: float,
        *,
        known: ProcessClass | None = None,
    ) -> ManagedProcess:
        """Add a registered process (CMDREG). An earlier process of the same rank must have been removed.

        The argument `known` is the class of its program in an earlier run.
        """
        managed = ManagedProcess(
            registration=registration, control=control, page=page, arrived_at=now, known=known
        )
        process = registration.process
        self.processes[process] = managed
        self._plans.clear()
        if not self.kind.coordinated:
            # Without a manager, the processors of ranks follow from their numbers.
            here = self._placed.get(process.job, {})
            self._set_processors(process.job, {**here, process: process.rank % self._processors}, now)
        return managed

    def remove(self, process: Process, now: float) -> ManagedProcess | None:
        """Remove a process that has ended or deregisters (CMDOUT), and let it run; None if it is not registered."""
        managed = self.processes.pop(process, None)
        if managed is None:
            return None
        self._plans.clear()
        managed.read()
        job = process.job
        # The job must not look needier because one of its processes has ended.
        self._left_cpu_s[job] = self._left_cpu_s.get(job, 0.0) + (managed.control.cpu_s() or 0.0)
        # Before the policy hears of it: after that no order covers the process, and it would stay stopped.
        managed.release(now)
        if any(other.job == job for other in self.processes):
            self._placed[job] = {p: n for p, n in self._placed.get(job, {}).items() if p != process}
            self.policy.on(ProcessLeft(process=process, now=now))
        else:
            self._placed.pop(job, None)
            self._left_cpu_s.pop(job, None)
            self.policy.on(JobLeft(job=job, now=now))
        managed.close()
        return managed

    def learn(self, view: MatrixView, now: float) -> None:
        """Take over the manager's matrix. Jobs that are not in it run freely once the manager knows of all jobs."""
        self.view = view
        self._plans.clear()
        for job, entry in view.jobs.items():
            here = {p: entry.processors.get(p.rank, 0) for p in self.processes if p.job == job}
            if here:
                self._set_processors(job, here, now)
        # A manager that was restarted does not know all jobs at first; they keep their orders until it does.
        for job in [job for job in self._placed if view.settled and job not in view.jobs]:
            del self._placed[job]
            self.policy.on(JobLeft(job=job, now=now))

    def heartbeat(self, slot: int, now: float) -> None:
        """Begin a slot, after reading the counts of the owners of the slot that ends."""
        # Of the slot that ends, so before it is replaced: a policy judges owners by their own slots only.
        measured = _of_owners(self.policy, self.slot, self._placed, self.processes, now)
        row = self.view.rows.get(slot)
        owners: dict[str, Any] = {} if row is None else {"jobs": row.jobs, "fill": row.fill}
        self.slot = Heartbeat(slot=None if row is None else slot, **owners, **measured, now=now)
        self.silent = False
        self.policy.on(self.slot)

    def silence(self, now: float) -> None:
        """Handle the absence of heartbeats: all orders become running ones."""
        self.silent = True
        self.policy.on(HeartbeatLost(now=now))

    def measure(self, now: float) -> None:
        """Report the counts of all processes to the policy."""
        # Without those whose page is gone: old counts would look like a process that does nothing.
        readings = {process: managed.reading for process, managed in self.processes.items() if managed.read()}
        self.policy.on(Measured(readings=readings, now=now))

    def timer(self, now: float) -> None:
        """End the node's own slice (CMDCSW)."""
        self.policy.on(
            SliceEnded(cpu_s=_used_cpu_s(self.policy.jobs, self._left_cpu_s, self.processes), now=now)
        )

    def look_for_messages(self, now: float) -> bool:
        """Read from the pages whether messages from scheduled senders arrived (CMDSCH); return True if any did."""
        arrived, counted = False, self._constants.message_driven.gmet_of == "cpu"
        for process, managed in self.processes.items():
            if managed.has_request():
                arrived = True
                used = _used_cpu_s(self.policy.jobs, self._left_cpu_s, self.processes) if counted else {}
                self.policy.on(MessageArrived(process=process, sender_scheduled=True, now=now, cpu_s=used))
        return arrived

    def enforce(self, now: float, *, may_stop: bool, stopping: Callable[[], None] = lambda: None) -> bool:
        """Bring every process into its wanted state; return whether any is held stopped. Stops before it resumes.

        Args:
            now: Instant on the clock of the timers, seconds.
            may_stop: False while no watchdog runs; then nothing is stopped.
            stopping: Called once before the first process is stopped.
        """
        policy, spin_s, runs = self.policy, self._constants.fcs.spin_s, []
        announces, pulse, stopped = policy.announces_scheduled, self.pulse, False
        scheduled = policy.scheduled if announces else None
        for managed, order, wait in self._plan():
            if wait is not managed.wait or order.favoured is not managed.favoured:
                managed.set_wait(wait, spin_s)
                managed.favour(order.favoured)
            if order.nice != managed.nice:
                managed.renice(order.nice)
            if order.share is not None or managed.processors is not None:
                processors = _processors(managed, order, self.processes, self._processors)
                if managed.update_limit(processors, now):
                    self._changed_guards(managed)
            if announces:
                managed.announce(managed.registration.process.job == scheduled)
            # A process with a limit and without a quota runs during pulses only.
            if may_stop and not (order.run and (pulse or not managed.limited)):
                if not stopped:
                    # The watchdog is armed first: this process may be killed after any of the stops.
                    stopping()
                    stopped = True
                managed.stop(now)
            else:
                # Resumed after all stops, so that processes of two slots never compete.
                runs.append(managed)
        for managed in runs:
            # Also processes that should run already: another program may have stopped them.
            managed.resume(now)
        return stopped

    def release(self, now: float) -> None:
        """Resume all processes now."""
        for managed in self.processes.values():
            # Without a look at the orders: this is the way out of every failure.
            managed.resume(now)

    def read_all(self) -> None:
        """Read the counts of all processes."""
        for managed in self.processes.values():
            managed.read()

    def _set_processors(self, job: str, here: Mapping[Process, int], now: float) -> None:
        if self._placed.get(job) != here:
            self._placed[job] = here
            known = {p: m.known for p, m in self.processes.items() if p in here and m.known is not None}
            user = next((m.registration.uid for p, m in self.processes.items() if p in here), 0)
            self.policy.on(JobArrived(job=job, processors=here, classes=known, now=now, user=user))

    def _plan(self) -> list[tuple[ManagedProcess, Order, Wait | None]]:
        """Return the steps to the wanted state, cached by slot if the policy repeats its orders."""
        orders, slot = self.policy.wanted(), None if self.slot is None else self.slot.slot
        if slot is not None and (known := self._plans.get(slot)) is not None and known.orders is orders:
            return known.steps
        steps = []
        for process, managed in self.processes.items():
            order = orders.get(process, self._free)
            decides = self.policy.needs_monitor and process.job in self._placed
            wait = _wait(order.wait, decides=decides, turns=slot is not None)
            steps.append((managed, order, wait))
        if slot is not None and self.policy.repeats:
            self._plans[slot] = _Plan(orders, steps)
        return steps


def pulsing(node: ManagedNode) -> float:
    """Return the largest number of processors that any process gets in pulses, 0 if there are no pulses."""
    return max((m.processors or 0.0 for m in node.processes.values() if m.limited), default=0.0)


def reports(node: ManagedNode, now: float, *, cpu: bool = True) -> Iterator[ProcessReport]:
    """Yield the report of each process. `cpu`: with its CPU seconds, which cost a kernel call each."""
    orders, known = node.policy.wanted(), node.policy.classifications
    for process, managed in node.processes.items():
        yield report_of(managed, now, ordered=process in orders, known=known.get(process), cpu=cpu)


def slots_held(node: ManagedNode) -> int:
    """Return how many jobs a new one shares with on a node or waits for: rows with a job of this node, or all jobs."""
    if not node.kind.coordinated:
        return len({process.job for process in node.processes})
    jobs = node.view.jobs.values()
    rows = {view.slot for view in jobs if view.slot is not None}
    return len(rows) + sum(view.slot is None for view in jobs)


def check_free(processes: Mapping[Process, ManagedProcess], registration: ProcessRegistration) -> None:
    """Raise `RegistrationRefused` if a job or rank is registered already, by another user or process."""
    job, rank = registration.process
    for other, managed in processes.items():
        if other.job != job:
            continue
        known = managed.registration
        if known.uid != registration.uid:
            why = f"a job {job} of user {known.uid} is registered here"
        elif known.ranks != registration.ranks:
            why = f"job {job} has {known.ranks} ranks here, not {registration.ranks}"
        elif other.rank == rank and known.pid != registration.pid:
            why = f"rank {rank} of job {job} is process {known.pid}"
        else:
            continue
        raise RegistrationRefused(f"{why}; choose another name")


def check_limits(
    processes: Mapping[Process, ManagedProcess], registration: ProcessRegistration, limits: UserLimits
) -> None:
    """Raise `RegistrationRefused` if the user of a new process has as many processes or jobs as are legal."""
    job, uid = registration.process.job, registration.uid
    jobs_of_user = [process.job for process, managed in processes.items() if managed.registration.uid == uid]
    for number, most, what in (
        (len(jobs_of_user), limits.processes, "processes"),
        (len({*jobs_of_user} - {job}), limits.jobs, "jobs"),
    ):
        if number >= most:
            raise RegistrationRefused(
                f"user {uid} has {number} {what} here already (limits.{what}); end some of them"
            )


def _of_owners(
    policy: NodePolicy,
    ended: Heartbeat | None,
    placed: Mapping[str, Mapping[Process, int]],
    processes: Mapping[Process, ManagedProcess],
    now: float,
) -> dict[str, Any]:
    """Return readings and shares of the owners of the slot that ends, as far as the policy needs them."""
    readings: dict[Process, MonitorCounts] = {}
    shares: dict[Process, float] = {}
    jobs = ended.jobs if ended is not None else {}
    for of_job in placed.values() if jobs else ():
        for process, processor in of_job.items():
            # Jobs are placed by the manager, which hears of an end a moment later.
            if jobs.get(processor) != process.job or (managed := processes.get(process)) is None:
                continue
            if policy.needs_monitor and managed.read():
                readings[process] = managed.reading
            if policy.needs_shares and (share := managed.share(now)) is not None:
                shares[process] = share
    return {"readings": readings, "shares": shares}


def _processors(
    managed: ManagedProcess, order: Order, processes: Iterable[Process], processors: int
) -> float | None:
    """Return the number of processors to which an order limits a process, None for no limit."""
    if order.share is None or order.share >= _UNLIMITED_SHARE:
        return None
    job = managed.registration.process.job
    # The share is that of a job on the node, and a quota that of one process.
    return order.share * processors / sum(process.job == job for process in processes)


def _used_cpu_s(
    jobs: Iterable[str], left_cpu_s: Mapping[str, float], processes: Mapping[Process, ManagedProcess]
) -> dict[str, float]:
    """Return CPU seconds by job, of all its processes here, those that have left included."""
    used = {**dict.fromkeys(jobs, 0.0), **left_cpu_s}
    for process, managed in processes.items():
        used[process.job] = used.get(process.job, 0.0) + (managed.control.cpu_s() or 0.0)
    return used


def _wait(ordered: Wait, *, decides: bool, turns: bool) -> Wait | None:
    """Return how a process waits, None as its MPI does. decides : the policy has a say.  turns : there are slots"""
    if not decides:
        return ordered if ordered is Wait.SPIN_BLOCK else None
    # Ranks whose turn it is, and all where there are no turns, measure how to wait; those that fill the turns of others
    # block.
    return Wait.ADAPTIVE if not turns or ordered is Wait.POLL else ordered
