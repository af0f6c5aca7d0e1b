"""Connects the policies of all nodes with the simulator's memory: events in, orders out.

The driver uses the protocol of the real node manager: `NodePolicy.on(event)`, then `NodePolicy.wanted()`. Orders take
effect at once after an event of one node. After a heartbeat they take effect when the node's manager has run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from apples.coscheduling.classes import ProcessClass
from apples.coscheduling.events import Heartbeat, Measured, MessageArrived, NodeEvent, Process, SliceEnded
from apples.coscheduling.machine import MachineSlot
from apples.coscheduling.nodestate import NodePolicy, changes
from apples.coscheduling.policies import CoschedulingConstants, PolicyKind
from apples_experiments.cluster import engine, layout as at
from apples_experiments.cluster.building import Views, ns
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.nodemanagers import MonitorPages, OrderWriter
from apples_experiments.cluster.workload import BspJob

_CLASSES_SAMPLED_EVERY = 10


class PolicyDriver:
    """The policies of all nodes.

    names : process by number, None for a system process.  numbers : number by process.  index : number by job
    policies : by node.  class_counts : by process, how often each class was seen
    """

    def __init__(
        self,
        machine: ClusterConstants,
        kind: PolicyKind,
        constants: CoschedulingConstants,
        views: Views,
        *,
        names: Sequence[Process | None],
        index: Mapping[str, int],
    ) -> None:
        self._machine, self._kind, self._views = machine, kind, views
        self._names, self._index = names, index
        self.numbers = {process: p for p, process in enumerate(names) if process is not None}
        self.policies: list[NodePolicy] = [kind.node(constants) for _ in range(machine.nodes)]
        self.needs_monitor = self.policies[0].needs_monitor
        self.pages = MonitorPages(views, names)
        self._orders = OrderWriter(views, self.numbers, machine.favoured_nice)
        self._counts_cpu = constants.message_driven.gmet_of == "cpu"
        self._judged_after = constants.fcs.cslots_min
        self._node_names = [str(n) for n in range(machine.nodes)]
        self._heartbeats = 0
        self.class_counts: dict[Process, Counter[ProcessClass]] = {}

    def notify(self, node: int, event: NodeEvent, when: int) -> None:
        """Pass an event to a node's policy. New orders take effect at once."""
        policy = self.policies[node]
        before = policy.wanted()
        policy.on(event)
        after = policy.wanted()
        if not changes(before, after):
            return
        self._orders.write([after])
        if self._kind.own_timer:
            self._share_out(node, policy, when)
        else:
            engine.obey(self._views.memory, self._views.node_address(node), when)

    def heartbeat(self, slot: MachineSlot, ended: Iterable[BspJob], now: int) -> None:
        """Begin a slot on every node, for node managers that run later. `ended`: owners of the slot that ends."""
        self._heartbeats += 1
        readings, orders = self.pages.by_node(now, ended if self.needs_monitor else ()), []
        for name, policy, seen in zip(self._node_names, self.policies, readings, strict=True):
            policy.on(
                Heartbeat(
                    slot=slot.slot,
                    jobs=slot.jobs.get(name, {}),
                    fill=slot.fill.get(name, {}),
                    readings=seen,
                    now=now / 1e9,
                )
            )
            orders.append(policy.wanted())
        self._orders.write(orders)

    def sample_classes(self) -> None:
        """Count the classes of all processes that were judged already, at every tenth heartbeat."""
        if self._heartbeats % _CLASSES_SAMPLED_EVERY == 0:
            for policy in self.policies:
                for process, known in policy.classifications.items():
                    if known.tslots >= self._judged_after:
                        self.class_counts.setdefault(process, Counter())[known.process_class] += 1

    def end_slice(self, node: int, now: int) -> None:
        """Report to a node's policy that its time slice is over."""
        self.notify(node, SliceEnded(cpu_s=self._used(node, now), now=now / 1e9), now)

    def measure(self, jobs: Iterable[BspJob], now: int) -> None:
        """Report the counts of all processes of these jobs to the policies of their nodes."""
        for node, seen in enumerate(self.pages.by_node(now, jobs)):
            if seen:
                self.notify(node, Measured(readings=seen, now=now / 1e9), now)

    def report_messages(self) -> None:
        """Report messages from scheduled senders that ranks of other jobs have received (CMDSCH)."""
        views = self._views
        if views.memory[at.K_REPORTS] == 0:
            return
        for node in np.flatnonzero(views.nodes[:, at.N_FROZEN]).tolist():
            when = int(views.nodes[node, at.N_REQUEST_AT])
            process = self._names[views.process_at(views.nodes[node, at.N_REQUEST])]
            assert process is not None
            used = self._used(node, when) if self._counts_cpu else {}
            event = MessageArrived(process=process, sender_scheduled=True, now=when / 1e9, cpu_s=used)
            self.notify(node, event, when)
            engine.thaw(views.memory, views.node_address(node), when)

    def _used(self, node: int, when: int) -> dict[str, float]:
        """Return CPU seconds on the node up to `when`, by job."""
        used: dict[str, float] = {}
        addresses = self._views.occupant[node, self._machine.processors + 1 :]
        for p in [self._views.process_at(address) for address in addresses.tolist() if address >= 0]:
            process = self._names[p]
            if process is not None:
                used[process.job] = used.get(process.job, 0.0) + self._cpu_s(p, when)
        return used

    def _cpu_s(self, p: int, when: int) -> float:
        record = self._views.processes[p]
        running = when - int(record[at.ON_SINCE]) if record[at.STATE] == at.RUNNING else 0
        return (int(record[at.CPU]) + running) / 1e9

    def _share_out(self, node: int, policy: NodePolicy, when: int) -> None:
        shares = self._views.shares[node]
        shares[:, at.S_SHARE] = shares[:, at.S_SCHEDULED] = 0
        for process, order in policy.wanted().items():
            j = self._index[process.job]
            shares[j, at.S_SHARE] = ns(1.0 if order.share is None else order.share)
            shares[j, at.S_SCHEDULED] = int(process.job == policy.scheduled)
        engine.share_out(self._views.memory, self._views.node_address(node), when)
