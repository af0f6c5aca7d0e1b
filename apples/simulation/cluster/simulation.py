"""Runs jobs on the simulated cluster under a policy of `apples.coscheduling`: `simulate`.

Between two decisions the compiled engine runs; at heartbeats, timers, messages, arrivals and ends the very objects
decide that decide in the daemons: `Machine` for the whole, a `NodePolicy` for each node. A heartbeat reaches each
node after a delay of its own, then the node manager needs some processor time, then it stops and continues
processes. Measurements are read when the heartbeat is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from apples.coscheduling.classes import MonitorCounts, ProcessClass
from apples.coscheduling.events import (
    Heartbeat,
    JobArrived,
    JobLeft,
    MessageArrived,
    NodeEvent,
    Process,
    ProcessLeft,
    SliceEnded,
)
from apples.coscheduling.fcs import Fcs
from apples.coscheduling.machine import MachineScheduler, MachineSlot
from apples.coscheduling.matrix import Allotment
from apples.coscheduling.messagedriven import MessageDriven
from apples.coscheduling.node import NodePolicy
from apples.coscheduling.policies import CoschedulingConstants, PolicyKind, policy_kind
from apples.simulation.cluster import engine
from apples.simulation.cluster import layout as at
from apples.simulation.cluster.building import build, move, ns, place
from apples.simulation.cluster.constants import ClusterConstants
from apples.simulation.cluster.entrance import Entrance, check_limits
from apples.simulation.cluster.nodemanagers import MonitorPages, OrderWriter
from apples.simulation.cluster.outcome import ClusterOutcome, outcome_of
from apples.simulation.cluster.workload import BspJob, moved

_CLASSES_SAMPLED_EVERY = 10


def simulate(
    machine: ClusterConstants,
    jobs: Sequence[BspJob],
    policy: str,
    *,
    seed: int,
    constants: CoschedulingConstants | None = None,
    at_once: int | None = None,
    degree: int | None = None,
    entrance: Entrance | None = None,
) -> ClusterOutcome:
    """Run the jobs to their ends.

    at_once : the most jobs that run at a time, first come first served; None for no limit but the policy's own
    degree : the most jobs on a node: the next job in order starts as soon as there are enough nodes for it with
        fewer, on those with the fewest; None where jobs stay on their own nodes
    entrance : a queue that decides who starts when and where, in place of the two limits

    Raises `apples.errors.ConfigError` for an unknown policy, jobs that do not fit the machine, a limit below 1, or
    a degree where a machine manager places the jobs.
    """
    kind = policy_kind(policy)
    check_limits(kind, at_once=at_once, degree=degree, entrance=entrance)
    limits = {"at_once": at_once, "degree": degree if entrance is None else entrance.mpl}
    constants = constants or CoschedulingConstants()
    return Simulation(machine, jobs, kind, constants, seed=seed, entrance=entrance, **limits).run()


class Simulation:
    """One run. Times within are whole nanoseconds."""

    def __init__(
        self,
        machine: ClusterConstants,
        jobs: Sequence[BspJob],
        kind: PolicyKind,
        constants: CoschedulingConstants,
        *,
        seed: int,
        at_once: int | None = None,
        degree: int | None = None,
        entrance: Entrance | None = None,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._constants, self._kind = machine, kind
        self._jobs = {job.name: job for job in jobs}
        self._index = {job.name: j for j, job in enumerate(jobs)}
        spin_s = constants.fcs.spin_s
        self._views = build(
            machine, jobs, self._random, spin_s=spin_s, messages=kind.own_timer, degree=degree
        )
        self._policies = [kind.node(constants) for _ in range(machine.nodes)]
        self._needs_monitor = self._policies[0].needs_monitor
        self._names = [str(n) for n in range(machine.nodes)]
        processors = dict.fromkeys(self._names, machine.processors)
        self._manager = (
            MachineScheduler(processors, mpl=1 if kind.exclusive else None) if kind.coordinated else None
        )
        self._at_once = at_once if at_once is not None else len(jobs)
        self._degree = degree
        self._entrance, self._changed = entrance, False
        self._gmet_of_cpu = constants.message_driven.gmet_of == "cpu"
        self._arrivals = sorted(jobs, key=lambda job: job.arrival_s)
        self._waiting: list[BspJob] = []
        self._running: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        self._slice = ns(constants.message_driven.slice_s if kind.own_timer else constants.fcs.slice_s)
        self._timers = (
            [self._slice + ns(t) for t in self._random.uniform(0.0, machine.timer_spread_s, machine.nodes)]
            if kind.own_timer
            else []
        )
        self._beats, self._next_beat, self._stale = 0, 0, True
        self._last: MachineSlot | None = None
        self._pages = MonitorPages(self._views, self._process)
        self._orders = OrderWriter(self._views, self._number, machine.favoured_nice)
        self._seen: dict[Process, Counter[ProcessClass]] = {}
        self._judged_after = constants.fcs.cslots_min
        self._now = 0
        self._left = {job.name: len(job.nodes) for job in jobs}
        self._told = np.zeros(len(self._views.processes), bool)

    @cached_property
    def _process(self) -> list[Process | None]:
        """Names of processes by number."""
        ranks = [Process(job.name, rank) for job in self._jobs.values() for rank in range(len(job.nodes))]
        return [None] * (2 * self._constants.nodes) + ranks

    @cached_property
    def _number(self) -> dict[Process, int]:
        """Numbers of processes by name."""
        return {process: p for p, process in enumerate(self._process) if process is not None}

    def run(self) -> ClusterOutcome:
        """Everything, to the end of the last job."""
        while len(self._finished) < len(self._jobs):
            self._arrive()
            self._now = engine.run(self._views.memory, self._next_decision())
            self._reports()
            self._ends()
            for node, when in enumerate(self._timers):
                if when <= self._now:
                    self._timer(node)
            if self._manager is not None and self._now >= self._next_beat:
                self._beat(self._manager)
        return self._outcome()

    def _next_decision(self) -> int:
        times = [*self._timers]
        if self._manager is not None:
            times.append(self._next_beat)
        if self._arrivals:
            times.append(ns(self._arrivals[0].arrival_s))
        return max(min(times, default=self._now + self._slice), self._now)

    # -- arrivals and ends ---------------------------------------------------------------------------------------

    def _arrive(self) -> None:
        while self._arrivals and ns(self._arrivals[0].arrival_s) <= self._now:
            self._waiting.append(self._arrivals.pop(0))
        if self._entrance is not None:
            self._enter(self._entrance)
        while self._waiting and self._busy() < self._at_once:
            if self._degree is not None and not self._find_nodes(self._waiting[0], self._degree):
                return
            self._admit(self._jobs[self._waiting.pop(0).name])

    def _enter(self, entrance: Entrance) -> None:
        """The queue hears of submissions; after these, or ends, it says who starts where."""
        if not (self._waiting or self._changed):
            return
        for job in self._waiting:
            entrance.submitted(job, self._now / 1e9)
        self._waiting.clear()
        self._changed = False
        for name, nodes, slot in entrance.admit(self._now / 1e9):
            self._jobs[name] = replace(self._jobs[name], nodes=nodes)
            move(self._views, self._index[name], self._number[Process(name, 0)], nodes)
            self._admit(self._jobs[name], slot)

    def _find_nodes(self, job: BspJob, degree: int) -> bool:
        """Move the job to where the fewest are; False when it has to wait."""
        loads = [len(policy.jobs) for policy in self._policies]
        here = moved(job, loads)
        if max(loads[node] for node in here.nodes) >= degree:
            return False
        self._jobs[job.name] = here
        move(self._views, self._index[job.name], self._number[Process(job.name, 0)], here.nodes)
        return True

    def _busy(self) -> int:
        queued = len(self._manager.waiting) if self._manager is not None else 0
        return len(self._running) - len(self._finished) + queued

    def _admit(self, job: BspJob, slot: int | None = None) -> None:
        if self._manager is None:
            taken: Counter[int] = Counter()
            processors = []
            for node in job.nodes:
                processors.append((self._loads(node) + taken[node]) % self._constants.processors)
                taken[node] += 1
            self._start(job, tuple(processors))
        else:
            self._let_in(self._manager.arrive(job.name, tuple(map(str, job.nodes)), slot=slot))

    def _loads(self, node: int) -> int:
        """Ranks on the node."""
        return int(np.count_nonzero(self._views.occupant[node] >= 0)) - 2

    def _let_in(self, allotments: Sequence[Allotment]) -> None:
        for allotment in allotments:
            job = self._jobs[allotment.job]
            self._start(job, tuple(column.processor for column in allotment.columns))
        self._stale = True

    def _start(self, job: BspJob, processors: tuple[int, ...]) -> None:
        self._running[job.name] = self._now
        first = self._number[Process(job.name, 0)]
        spread = ns(self._constants.start_spread_s)
        for rank, processor in enumerate(processors):
            when = self._now + 1 + int(self._random.integers(0, spread + 1))
            place(self._views, first + rank, processor=processor, when=when, random=self._random)
        engine.prepare(self._views.memory, self._views.job_address(self._index[job.name]))
        for node in sorted(set(job.nodes)):
            here = {
                Process(job.name, rank): processors[rank]
                for rank, other in enumerate(job.nodes)
                if other == node
            }
            self._tell(node, JobArrived(job=job.name, processors=here, now=self._now / 1e9), self._now)

    def _ends(self) -> None:
        memory, processes = self._views.memory, self._views.processes
        if memory[at.K_ENDED] == 0:
            return
        memory[at.K_ENDED] = 0
        gone = (processes[:, at.STATE] == at.GONE) & (processes[:, at.FINISHED] > 0) & ~self._told
        self._told |= gone
        for p in np.flatnonzero(gone).tolist():
            process = self._process[p]
            assert process is not None
            node = self._jobs[process.job].nodes[process.rank]
            policy = self._policies[node]
            self._tell(node, ProcessLeft(process=process, now=self._now / 1e9), self._now)
            if process.job not in policy.jobs:
                self._tell(node, JobLeft(job=process.job, now=self._now / 1e9), self._now)
            self._left[process.job] -= 1
            if self._left[process.job] == 0:
                first = self._number[Process(process.job, 0)]
                ranks = processes[first : first + len(self._jobs[process.job].nodes)]
                self._finished[process.job] = int(ranks[:, at.FINISHED].max())
                if self._manager is not None:
                    self._let_in(self._manager.leave(process.job))
                if self._entrance is not None:
                    self._entrance.ended(process.job, self._now / 1e9)
                    self._changed = True

    # -- decisions -----------------------------------------------------------------------------------------------

    def _beat(self, manager: MachineScheduler) -> None:
        self._next_beat += self._slice
        # With one job at a time, or none at all, a beat says something new only when jobs have come or gone.
        if not self._stale and (self._kind.exclusive or not manager.matrix.allotments):
            return
        self._stale = False
        self._beats += 1
        beat = manager.beat()
        readings, now = self._readings(), self._now / 1e9
        self._orders.write(
            [
                policy.on(
                    Heartbeat(
                        slot=beat.slot,
                        jobs=beat.jobs.get(name, {}),
                        fill=beat.fill.get(name, {}),
                        readings=seen,
                        now=now,
                    )
                )
                for name, policy, seen in zip(self._names, self._policies, readings, strict=True)
            ]
        )
        self._last = beat
        self._wake_managers()
        if self._beats % _CLASSES_SAMPLED_EVERY == 0:
            self._sample()

    def _readings(self) -> Sequence[Mapping[Process, MonitorCounts]]:
        """By node, of the ranks whose slot ends."""
        ended = self._last.jobs.values() if self._needs_monitor and self._last is not None else ()
        jobs = {job for row in ended for job in row.values()}
        return self._pages.by_node(self._now, [self._jobs[job] for job in jobs])

    def _wake_managers(self) -> None:
        """Every node manager gets its heartbeat, after a delay of its own."""
        own = self._constants
        delays = own.heartbeat_s + self._random.exponential(own.heartbeat_spread_s, own.nodes)
        work_s = own.manager_s + (own.reclassify_s if self._needs_monitor else 0.0)
        at_times = self._now + np.rint(delays * 1e9).astype(np.int64)
        engine.wake_managers(self._views.memory, at_times, ns(work_s))

    def _timer(self, node: int) -> None:
        self._timers[node] += self._slice
        self._tell(node, SliceEnded(cpu_s=self._used(node, self._now), now=self._now / 1e9), self._now)

    def _used(self, node: int, when: int) -> dict[str, float]:
        """By job, CPU seconds on the node up to `when`."""
        used: dict[str, float] = {}
        for p in self._here(node):
            process = self._process[p]
            if process is not None:
                used[process.job] = used.get(process.job, 0.0) + self._cpu_s(p, when)
        return used

    def _cpu_s(self, p: int, when: int) -> float:
        me = self._views.processes[p]
        running = when - int(me[at.ON_SINCE]) if me[at.STATE] == at.RUNNING else 0
        return (int(me[at.CPU]) + running) / 1e9

    def _here(self, node: int) -> list[int]:
        """Numbers of the node's processes."""
        addresses = self._views.occupant[node, self._constants.processors + 1 :]
        return [self._views.process_at(address) for address in addresses.tolist() if address >= 0]

    def _reports(self) -> None:
        """Ranks of jobs that are not scheduled have messages from ranks that are (CMDSCH)."""
        views = self._views
        if views.memory[at.K_REPORTS] == 0:
            return
        for node in np.flatnonzero(views.nodes[:, at.N_FROZEN]).tolist():
            when = int(views.nodes[node, at.N_REQUEST_AT])
            process = self._process[views.process_at(views.nodes[node, at.N_REQUEST])]
            assert process is not None
            used = self._used(node, when) if self._gmet_of_cpu else {}
            event = MessageArrived(process=process, sender_scheduled=True, now=when / 1e9, cpu_s=used)
            self._tell(node, event, when)
            engine.thaw(views.memory, views.node_address(node), when)

    def _tell(self, node: int, event: NodeEvent, when: int) -> None:
        """An event for a node's policy, whose answer takes effect at once."""
        changes = self._policies[node].on(event)
        if not changes:
            return
        self._orders.write([changes])
        if self._kind.own_timer:
            self._share_out(node, self._policies[node], when)
        else:
            engine.obey(self._views.memory, self._views.node_address(node), when)

    def _share_out(self, node: int, policy: NodePolicy, when: int) -> None:
        assert isinstance(policy, MessageDriven)
        shares = self._views.shares[node]
        shares[:, at.S_SHARE] = shares[:, at.S_SCHEDULED] = 0
        for process, order in policy.wanted.items():
            j = self._index[process.job]
            shares[j, at.S_SHARE] = ns(1.0 if order.share is None else order.share)
            shares[j, at.S_SCHEDULED] = int(process.job == policy.scheduled)
        engine.share_out(self._views.memory, self._views.node_address(node), when)

    # -- results -------------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        for policy in self._policies:
            if isinstance(policy, Fcs):
                for process, standing in policy.standings.items():
                    if standing.tslots >= self._judged_after:
                        self._seen.setdefault(process, Counter())[standing.process_class] += 1

    def _outcome(self) -> ClusterOutcome:
        pages = self._pages.read(self._now).tolist()
        times = {name: (self._running[name], when) for name, when in self._finished.items()}
        return outcome_of(self._jobs, times, dict(zip(self._process, pages, strict=True)), self._seen)
