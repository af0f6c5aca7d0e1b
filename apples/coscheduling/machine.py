"""The machine manager's decisions: which jobs are in, where, and whose slot is next (FCS paper, section 2.2).

Jobs that do not fit, or whose nodes are away, wait in the order of arrival; none overtakes (the queue with its
backfilling is another room's business). Every beat is the next row of the matrix. What the nodes make of a beat is
theirs to decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from apples.coscheduling.matrix import Allotment, OusterhoutMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSlot:
    """One slot begins everywhere.

    slot : row of the matrix, None when it is empty
    jobs : by node and processor, whose slot it is
    fill : by node and processor, jobs of other slots that may use processors that are idle in this one
    """

    slot: int | None
    jobs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    fill: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


_NO_SLOT = MachineSlot(slot=None)


class MachineScheduler:
    """Jobs on the nodes of one machine.

    processors : by node, how many it has.  mpl : the most jobs that share a processor, None for any number
    """

    def __init__(self, processors: Mapping[str, int], *, mpl: int | None = None) -> None:
        self._matrix = OusterhoutMatrix(processors, mpl=mpl)
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._slot: int | None = None
        #: Slots with jobs and what a beat of each says, kept until the matrix changes: most beats bring nothing new.
        self._used_slots: list[int] | None = None
        self._slots: dict[int, MachineSlot] = {}

    @property
    def matrix(self) -> OusterhoutMatrix:
        """Who stands where; to be changed through the machine only."""
        return self._matrix

    @property
    def waiting(self) -> tuple[str, ...]:
        """Jobs that are not in yet, first come first."""
        return tuple(job for job, _ in self._waiting)

    def arrive(self, job: str, nodes: tuple[str, ...], *, slot: int | None = None) -> tuple[Allotment, ...]:
        """A job whose rank i runs on `nodes[i]`; returns it if it is in at once, nothing if it has to wait.

        slot : the slot it had before the manager was restarted

        Raises `apples.coscheduling.matrix.DoesNotFit` for a job that can never run here.
        """
        self._matrix.check(job, nodes)
        if job in self._matrix.allotments or job in self.waiting:
            raise ValueError(f"job {job} is here already")
        self._waiting.append((job, nodes))
        return self._admit({job: slot} if slot is not None else {})

    def leave(self, job: str) -> tuple[Allotment, ...]:
        """A job is gone, waiting or not; returns those that are in because of it."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] != job)
        self._matrix.remove(job)
        self._changed()
        return self._admit({})

    def set_node(self, node: str, processors: int) -> tuple[Allotment, ...]:
        """A node has come or changed; returns the jobs that are in because of it."""
        self._matrix.set_node(node, processors)
        self._changed()
        return self._admit({})

    def remove_node(self, node: str) -> tuple[str, ...]:
        """A node is gone; returns the jobs with processes there, which stay until they `leave`."""
        self._changed()
        return self._matrix.remove_node(node)

    def next_slot(self) -> MachineSlot:
        """The next slot in turn."""
        if self._used_slots is None:
            self._used_slots = [slot for slot in range(self._matrix.slots) if self._matrix.row(slot)]
        slots = self._used_slots
        if not slots:
            self._slot = None
            return _NO_SLOT
        last = -1 if self._slot is None else self._slot
        self._slot = next((slot for slot in slots if slot > last), slots[0])
        return self.slot_jobs(self._slot)

    def slot_jobs(self, slot: int) -> MachineSlot:
        """What a beat of this slot says."""
        if slot not in self._slots:
            self._slots[slot] = self._describe(slot)
        return self._slots[slot]

    def _changed(self) -> None:
        """The matrix has."""
        self._used_slots = None
        self._slots.clear()

    def _admit(self, slots: Mapping[str, int]) -> tuple[Allotment, ...]:
        admitted = []
        while self._waiting:
            job, nodes = self._waiting[0]
            if not self._matrix.processors.keys() >= set(nodes):
                # A node of it has gone meanwhile; it waits for that one, or until it leaves.
                break
            allotment = self._matrix.add(job, nodes, slot=slots.get(job))
            if allotment is None:
                break
            self._waiting.popleft()
            admitted.append(allotment)
        if admitted:
            self._changed()
        return tuple(admitted)

    def _describe(self, slot: int) -> MachineSlot:
        jobs: dict[str, dict[int, str]] = {}
        for column, job in self._matrix.row(slot).items():
            jobs.setdefault(column.node, {})[column.processor] = job
        fill: dict[str, dict[int, str]] = {}
        for allotment in self._matrix.also_runs(slot):
            for column in allotment.columns:
                fill.setdefault(column.node, {})[column.processor] = allotment.job
        return MachineSlot(slot=slot, jobs=jobs, fill=fill)
