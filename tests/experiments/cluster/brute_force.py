"""A small machine once more, step by step: no events, no looking ahead, no shortcuts, nothing shared with the engine.

In each step every rank that has a processor computes, polls or spins for the length of the step. The local scheduler
is read again from its description: counters of ticks, epochs, goodness. Times are whole nanoseconds.
"""

from dataclasses import dataclass, field

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Heartbeat, JobArrived, JobLeft, Order, Process, ProcessLeft, Wait
from apples.coscheduling.machine import MachineScheduler
from apples.coscheduling.policies import policy_kind

SYSTEM = 1000


def ns(seconds):
    return round(seconds * 1e9)


@dataclass(eq=False)
class Rank:
    """One process; `name` is None for a node manager, which runs for no time at every heartbeat."""

    name: Process | None
    node: int
    cpu: int
    work: int = 0
    counter: int = 0
    iteration: int = 0
    left: int = 0
    waiting: int | None = None
    spin_from: int = 0
    polls: bool = True
    nice: int = 0
    held: bool = False
    asleep: bool = True
    on: bool = False
    queued: int = 0
    t_cpu: int = 0
    t_comm: int = 0
    c_comm: int = 0
    owes: float = 0.0
    brought_then: float = 0.0
    sent: dict = field(default_factory=dict)
    done: int | None = None
    order: Order = field(default_factory=Order)

    @property
    def wants(self):
        return self.done is None and not self.held and not self.asleep


class StepByStep:
    """Jobs on nodes of several processors under a policy, all started at 1 ns past 0 by the first step."""

    def __init__(self, machine, jobs, policy, constants, *, step, counters, managers):
        self.machine, self.jobs, self.step = machine, {job.name: job for job in jobs}, step
        self.spin, self.slice = round(constants.fcs.spin_s * 1e9), round(constants.fcs.slice_s * 1e9)
        self.tick = round(1e9 / machine.ticks_per_s)
        kind = policy_kind(policy)
        self.policies = [kind.node(constants) for _ in range(machine.nodes)]
        self.exclusive, self.manager = kind.exclusive, None
        if kind.coordinated:
            names = {str(n): machine.processors for n in range(machine.nodes)}
            self.manager = MachineScheduler(names, mpl=1 if kind.exclusive else None)
        self.counters, self.stale = counters, False
        self.systems = [Rank(name=None, node=n, cpu=managers[n], left=0) for n in range(machine.nodes)]
        self.ranks, self.slots, self.arrivals = [], [None] * machine.nodes, [0] * machine.nodes
        self.running = {(n, c): None for n in range(machine.nodes) for c in range(machine.processors)}
        self.decided = dict.fromkeys(self.running, 0)
        self.brought = dict.fromkeys(self.running, 0)
        self.finished, self.now = {}, 0

    # -- jobs ---------------------------------------------------------------------------------------------------

    def submit(self):
        for job in self.jobs.values():
            if self.manager is None:
                seen, cpus = {}, []
                for node in job.nodes:
                    here = sum(r.node == node for r in self.ranks) + seen.get(node, 0)
                    cpus.append(here % self.machine.processors)
                    seen[node] = seen.get(node, 0) + 1
                self.start(job, cpus)
            else:
                self.let_in(self.manager.arrive(job.name, tuple(map(str, job.nodes))))

    def let_in(self, allotments):
        for a in allotments:
            self.start(self.jobs[a.job], [column.processor for column in a.columns])
        self.stale = True

    def start(self, job, cpus):
        new = []
        for rank, (node, cpu) in enumerate(zip(job.nodes, cpus, strict=True)):
            name = Process(job.name, rank)
            work = ns(job.compute_s[rank])
            new.append(
                Rank(
                    name, node, cpu, work=work, left=work, counter=self.counters[name], owes=ns(job.refill_s)
                )
            )
        self.ranks += new
        for node in sorted(set(job.nodes)):
            here = {r.name: r.cpu for r in new if r.node == node}
            self.obey(node, self.react(node, JobArrived(job=job.name, processors=here)))

    def react(self, node, event):
        """Pass an event to a node's policy and return the orders that differ from those before it."""
        policy = self.policies[node]
        before = policy.wanted()
        policy.on(event)
        return [(p, order) for p, order in policy.wanted().items() if before.get(p) != order]

    def obey(self, node, changes):
        by_name = {r.name: r for r in self.ranks}
        for process, order in changes:
            rank = by_name[process]
            rank.order = order
        self.carry_out(node)

    def carry_out(self, node):
        here = [r for r in self.ranks if r.node == node and r.done is None]
        for rank in here:
            rank.nice = self.machine.favoured_nice if rank.order.favoured else 0
            rank.polls = rank.order.wait is Wait.POLL
            if not rank.order.run and not rank.held:
                if rank.on:
                    self.take_off(rank)
                rank.held = True
        for rank in here:
            if rank.order.run and rank.held:
                rank.held = False
                if not rank.asleep or self.may_wake(rank):
                    self.enqueue(rank)
            elif rank.nice < 0 and rank.wants and not rank.on:
                self.make_room(rank)
        for cpu in range(self.machine.processors):
            if self.running[node, cpu] is None:
                self.decide(node, cpu)

    # -- the local scheduler ------------------------------------------------------------------------------------

    def goodness(self, rank, cpu, current):
        if rank.name is None:
            return SYSTEM
        if rank.counter == 0:
            return 0
        stay = self.machine.stay_ticks if rank.cpu == cpu else 0
        return rank.counter + stay + (rank is current) + 20 - rank.nice

    def decide(self, node, cpu):
        before = self.running[node, cpu]
        self.decided[node, cpu] = self.now
        mine = [self.systems[node], *(r for r in self.ranks if r.node == node)]
        while True:
            wanting = [r for r in mine if r.wants and (r is before or not r.on)]
            if not wanting:
                best = None
                break
            best = max(wanting, key=lambda r: (self.goodness(r, cpu, before), r.queued))
            if self.goodness(best, cpu, before):
                break
            for rank in mine[1:]:
                rank.counter = rank.counter // 2 + self.machine.quantum_ticks(rank.nice)
        if best is before:
            return None
        if before is not None:
            self.take_off(before)
        if best is not None:
            if best.name is not None:
                self.settle_in(best, cpu)
            best.on, best.cpu = True, cpu
            self.running[node, cpu] = best
        return before

    def take_off(self, rank):
        rank.on, rank.brought_then = False, self.brought[rank.node, rank.cpu]
        self.running[rank.node, rank.cpu] = None

    def settle_in(self, rank, cpu):
        """What of its working set is gone: all on another processor, else as much as others brought in."""
        gone = self.brought[rank.node, cpu] - rank.brought_then
        whole = ns(self.jobs[rank.name.job].refill_s)
        rank.owes = whole if cpu != rank.cpu else min(whole, rank.owes + gone)

    def compute(self, rank):
        """One step, part of which goes into misses while the rank owes some."""
        cold = self.jobs[rank.name.job].cold_slowdown
        misses = min(rank.owes, self.step * cold / (1 + cold))
        rank.owes -= misses
        self.brought[rank.node, rank.cpu] += misses
        rank.left -= self.step - misses
        rank.t_cpu += self.step - misses

    def make_room(self, rank):
        while rank is not None and rank.wants and not rank.on:
            cpu = self.place_for(rank)
            rank = None if cpu is None else self.decide(rank.node, cpu)

    def place_for(self, rank):
        cpus = range(self.machine.processors)
        if self.running[rank.node, rank.cpu] is None:
            return rank.cpu
        idle = [c for c in cpus if self.running[rank.node, c] is None]
        if idle:
            return min(idle, key=lambda c: self.decided[rank.node, c])
        gains = {}
        for c in cpus:
            current = self.running[rank.node, c]
            gains[c] = self.goodness(rank, c, current) - self.goodness(current, c, current)
        best = max(gains, key=gains.get)
        return best if gains[best] > 0 else None

    def enqueue(self, rank):
        rank.asleep = False
        self.arrivals[rank.node] += 1
        rank.queued = self.arrivals[rank.node]
        self.make_room(rank)

    def block(self, rank):
        self.take_off(rank)
        rank.asleep = True
        self.decide(rank.node, rank.cpu)

    # -- time ---------------------------------------------------------------------------------------------------

    def ready(self, rank):
        """When the messages that the rank waits for are there; None if that is not known."""
        job = self.jobs[rank.name.job]
        ranks = [r for r in self.ranks if r.name.job == job.name]
        n = len(ranks)
        if job.pattern == "ring":
            partners = [ranks[(rank.name.rank - 1) % n], ranks[(rank.name.rank + 1) % n]]
        else:
            partners = ranks
        times = [p.sent.get(rank.iteration) for p in [rank, *partners]]
        return None if None in times else max(times) + round(job.latency_s * 1e9)

    def may_wake(self, rank):
        when = self.ready(rank) if rank.waiting is not None else 0
        return when is not None and when <= self.now

    def happens(self, rank):
        """What is due for a rank at this moment; was there anything."""
        job = self.jobs[rank.name.job]
        if rank.asleep and not rank.held and self.may_wake(rank):
            self.enqueue(rank)
            return True
        if not rank.on:
            return False
        if rank.waiting is not None:
            when = self.ready(rank)
            if when is not None and when <= self.now:
                rank.iteration, rank.waiting = rank.iteration + 1, None
                rank.c_comm += 1
                rank.left = rank.work if rank.iteration < job.iterations else 0
                return True
            if not rank.polls and self.now >= rank.waiting + self.spin:
                self.block(rank)
                return True
            return False
        if rank.left > 0:
            return False
        if rank.iteration == job.iterations:
            rank.done = self.now
            self.take_off(rank)
            self.decide(rank.node, rank.cpu)
        elif job.pattern == "none":
            rank.iteration += 1
            rank.left = rank.work if rank.iteration < job.iterations else 0
        else:
            rank.waiting = rank.sent[rank.iteration] = self.now
        return True

    def ticks(self):
        for rank in self.running.values():
            if rank is not None and self.now % self.tick == 0 and self.now > 0:
                rank.counter = max(0, rank.counter - 1)

    def moment(self):
        for node in range(self.machine.nodes):
            for cpu in range(self.machine.processors):
                rank = self.running[node, cpu]
                if rank is not None and rank.counter == 0 and self.now % self.tick == 0:
                    self.make_room(self.decide(node, cpu))
            while any(self.happens(r) for r in self.ranks if r.node == node and r.done is None):
                pass

    def ends(self):
        for rank in [r for r in self.ranks if r.done is not None and r.name not in self.finished]:
            self.finished[rank.name] = rank.done
            policy = self.policies[rank.node]
            changes = self.react(rank.node, ProcessLeft(process=rank.name))
            if rank.name.job not in policy.jobs:
                changes += self.react(rank.node, JobLeft(job=rank.name.job))
            if changes:
                self.obey(rank.node, changes)
            over = all(r.done is not None for r in self.ranks if r.name.job == rank.name.job)
            if over and self.manager is not None:
                self.let_in(self.manager.leave(rank.name.job))

    def beat(self):
        if self.exclusive and not self.stale:
            return
        self.stale = False
        beat = self.manager.next_slot()
        for node in range(self.machine.nodes):
            readings = {
                r.name: MonitorCounts(r.t_cpu / 1e9, r.t_comm / 1e9, r.c_comm)
                for r in self.ranks
                if r.node == node and r.done is None
            }
            name = str(node)
            slot = Heartbeat(
                slot=beat.slot, jobs=beat.jobs.get(name, {}), fill=beat.fill.get(name, {}), readings=readings
            )
            for process, order in self.react(node, slot):
                next(r for r in self.ranks if r.name == process).order = order
            self.enqueue(self.systems[node])
            self.block(self.systems[node])
            self.carry_out(node)

    def run(self, most):
        """Runs to the end of all jobs; fails after `most` nanoseconds."""
        self.submit()
        if self.manager is not None:
            # the first heartbeat is there before the ranks are
            self.beat()
        while len({p.job for p in self.finished}) < len(self.jobs) or len(self.finished) < len(self.ranks):
            assert self.now < most, "the jobs do not come to their ends"
            self.ticks()
            self.moment()
            self.ends()
            if self.manager is not None and self.now % self.slice == 0 and self.now > 0:
                self.beat()
                self.moment()
            for rank in self.ranks:
                if rank.done is None and not rank.held and rank.waiting is not None:
                    rank.t_comm += self.step
                elif rank.on and rank.left > 0:
                    self.compute(rank)
            self.now += self.step
        return self
