"""Runs jobs on the simulated cluster under a policy of `apples.coscheduling`: `simulate`.

The compiled engine runs between two decisions. At heartbeats, timers, messages, arrivals and ends, the objects of the
daemons decide: one `MachineScheduler`, and a `NodePolicy` for each node. A heartbeat reaches each node after a delay
of its own. Then the node manager needs some processor time, and then it stops and resumes processes. Measurements are
read when the heartbeat is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apples.coscheduling.events import MEASURED_EVERY_S, JobArrived, JobLeft, Process, ProcessLeft
from apples.coscheduling.machine import MachineScheduler, MachineSlot
from apples.coscheduling.matrix import Allotment
from apples.coscheduling.policies import CoschedulingConstants, PolicyKind, policy_kind
from apples_experiments.cluster import engine, layout as at
from apples_experiments.cluster.admission import AdmissionControl, check_limits
from apples_experiments.cluster.building import build, move, ns, place
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.outcome import ClusterOutcome, outcome_of
from apples_experiments.cluster.policydriver import PolicyDriver
from apples_experiments.cluster.workload import BspJob, moved


def simulate(
    machine: ClusterConstants,
    jobs: Sequence[BspJob],
    policy: str,
    *,
    seed: int,
    constants: CoschedulingConstants | None = None,
    at_once: int | None = None,
    degree: int | None = None,
    admission: AdmissionControl | None = None,
) -> ClusterOutcome:
    """Run the jobs to their ends and return their times and measurements.

    Args:
        at_once: Limit of jobs that run at a time, first come first served; None for the policy's own limit.
        degree: Limit of jobs on a node. The next job starts when enough nodes have fewer, on those with the
            fewest; None if jobs stay on their own nodes.
        admission: Queue that decides when and where jobs start, instead of the two limits.

    Raises:
        ConfigError: Unknown policy, jobs that do not fit the machine, a limit below 1, or a degree under a policy
            with a machine manager, which places the jobs.
    """
    kind = policy_kind(policy)
    check_limits(kind, at_once=at_once, degree=degree, admission=admission)
    limits = {"at_once": at_once, "degree": degree if admission is None else admission.mpl}
    constants = constants or CoschedulingConstants()
    return Simulation(machine, jobs, kind, constants, seed=seed, admission=admission, **limits).run()


class Simulation:
    """One run. All times inside are integer nanoseconds."""

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
        admission: AdmissionControl | None = None,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._constants, self._kind = machine, kind
        self._jobs = {job.name: job for job in jobs}
        self._index = {job.name: j for j, job in enumerate(jobs)}
        spin_s = constants.fcs.spin_s
        self._views = build(
            machine, jobs, self._random, spin_s=spin_s, messages=kind.own_timer, degree=degree
        )
        ranks = [Process(job.name, rank) for job in jobs for rank in range(len(job.nodes))]
        self._process: list[Process | None] = [None] * (2 * machine.nodes) + ranks
        self._driver = PolicyDriver(
            machine, kind, constants, self._views, names=self._process, index=self._index
        )
        self._number = self._driver.numbers
        processors = {str(n): machine.processors for n in range(machine.nodes)}
        limit = 1 if kind.exclusive else None
        self._one_row = kind.exclusive and len({job.user for job in jobs}) == 1
        self._manager = MachineScheduler(processors, mpl=limit) if kind.coordinated else None
        self._at_once = at_once if at_once is not None else len(jobs)
        self._degree = degree
        self._admission, self._changed = admission, False
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
        self._next_heartbeat, self._stale = 0, True
        self._next_measure = ns(MEASURED_EVERY_S)
        self._last: MachineSlot | None = None
        self._now = 0
        self._left = {job.name: len(job.nodes) for job in jobs}
        self._reported = np.zeros(len(self._views.processes), bool)

    def run(self) -> ClusterOutcome:
        """Run to the end of the last job."""
        while len(self._finished) < len(self._jobs):
            self._arrive()
            self._now = engine.run(self._views.memory, self._next_decision())
            self._driver.report_messages()
            self._ends()
            for node, when in enumerate(self._timers):
                if when <= self._now:
                    self._timers[node] += self._slice
                    self._driver.end_slice(node, self._now)
            if self._manager is not None and self._now >= self._next_heartbeat:
                self._heartbeat(self._manager)
            if self._kind.measured and self._now >= self._next_measure:
                self._next_measure += ns(MEASURED_EVERY_S)
                self._driver.measure(
                    [self._jobs[name] for name in self._running if name not in self._finished], self._now
                )
        pages = self._driver.pages.read(self._now).tolist()
        times = {name: (self._running[name], when) for name, when in self._finished.items()}
        measured = dict(zip(self._process, pages, strict=True))
        return outcome_of(self._jobs, times, measured, self._driver.class_counts)

    def _next_decision(self) -> int:
        times = [*self._timers]
        if self._kind.measured:
            times.append(self._next_measure)
        if self._manager is not None:
            times.append(self._next_heartbeat)
        if self._arrivals:
            times.append(ns(self._arrivals[0].arrival_s))
        return max(min(times, default=self._now + self._slice), self._now)

    def _heartbeat(self, manager: MachineScheduler) -> None:
        self._next_heartbeat += self._slice
        # With at most one job in the matrix, a heartbeat changes something only after an arrival or an end.
        if not self._stale and (self._one_row or not manager.matrix.allotments):
            return
        self._stale = False
        slot = manager.next_slot()
        last = self._last.jobs.values() if self._last is not None else ()
        ended = {job for row in last for job in row.values()}
        self._driver.heartbeat(slot, [self._jobs[job] for job in ended], self._now)
        self._last = slot
        self._wake_managers()
        self._driver.sample_classes()

    def _wake_managers(self) -> None:
        """Send its heartbeat to every node manager, each with a delay of its own."""
        constants = self._constants
        spread = self._random.exponential(constants.heartbeat_spread_s, constants.nodes)
        work_s = constants.manager_s + (constants.reclassify_s if self._driver.needs_monitor else 0.0)
        at_times = self._now + np.rint((constants.heartbeat_s + spread) * 1e9).astype(np.int64)
        engine.wake_managers(self._views.memory, at_times, ns(work_s))

    # -- arrivals and ends ---------------------------------------------------------------------------------------

    def _arrive(self) -> None:
        while self._arrivals and ns(self._arrivals[0].arrival_s) <= self._now:
            self._waiting.append(self._arrivals.pop(0))
        if self._admission is not None:
            self._ask_queue(self._admission)
        while self._waiting and self._busy() < self._at_once:
            if self._degree is not None and not self._find_nodes(self._waiting[0], self._degree):
                return
            self._admit(self._jobs[self._waiting.pop(0).name])

    def _ask_queue(self, admission: AdmissionControl) -> None:
        """Report submissions to the queue; after these, or ends, start the jobs that it admits."""
        if not (self._waiting or self._changed):
            return
        for job in self._waiting:
            admission.submitted(job, self._now / 1e9)
        self._waiting.clear()
        self._changed = False
        for name, nodes, slot in admission.admit(self._now / 1e9):
            self._move(replace(self._jobs[name], nodes=nodes))
            self._admit(self._jobs[name], slot)

    def _find_nodes(self, job: BspJob, degree: int) -> bool:
        """Move the job to the nodes with the fewest jobs; False if it has to wait."""
        loads = [len(policy.jobs) for policy in self._driver.policies]
        here = moved(job, loads)
        if max(loads[node] for node in here.nodes) >= degree:
            return False
        self._move(here)
        return True

    def _move(self, job: BspJob) -> None:
        self._jobs[job.name] = job
        move(self._views, self._index[job.name], self._number[Process(job.name, 0)], job.nodes)

    def _busy(self) -> int:
        queued = len(self._manager.waiting) if self._manager is not None else 0
        return len(self._running) - len(self._finished) + queued

    def _admit(self, job: BspJob, slot: int | None = None) -> None:
        if self._manager is not None:
            nodes = tuple(map(str, job.nodes))
            self._start_all(self._manager.arrive(job.name, nodes, slot=slot, user=job.user))
            return
        taken: Counter[int] = Counter()
        processors = []
        for node in job.nodes:
            load = int(np.count_nonzero(self._views.occupant[node] >= 0)) - 2
            processors.append((load + taken[node]) % self._constants.processors)
            taken[node] += 1
        self._start(job, tuple(processors))

    def _start_all(self, allotments: Sequence[Allotment]) -> None:
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
                Process(job.name, rank): processors[rank] for rank, n in enumerate(job.nodes) if n == node
            }
            event = JobArrived(job=job.name, processors=here, now=self._now / 1e9, user=job.user)
            self._driver.notify(node, event, self._now)

    def _ends(self) -> None:
        memory, processes, now_s = self._views.memory, self._views.processes, self._now / 1e9
        if memory[at.K_ENDED] == 0:
            return
        memory[at.K_ENDED] = 0
        gone = (processes[:, at.STATE] == at.GONE) & (processes[:, at.FINISHED] > 0) & ~self._reported
        self._reported |= gone
        for p in np.flatnonzero(gone).tolist():
            process = self._process[p]
            assert process is not None
            node = self._jobs[process.job].nodes[process.rank]
            self._driver.notify(node, ProcessLeft(process=process, now=now_s), self._now)
            if process.job not in self._driver.policies[node].jobs:
                self._driver.notify(node, JobLeft(job=process.job, now=now_s), self._now)
            self._left[process.job] -= 1
            if self._left[process.job] == 0:
                self._end(process.job)

    def _end(self, name: str) -> None:
        first = self._number[Process(name, 0)]
        ranks = self._views.processes[first : first + len(self._jobs[name].nodes)]
        self._finished[name] = int(ranks[:, at.FINISHED].max())
        if self._manager is not None:
            self._start_all(self._manager.leave(name))
        if self._admission is not None:
            self._admission.ended(name, self._now / 1e9)
            self._changed = True
