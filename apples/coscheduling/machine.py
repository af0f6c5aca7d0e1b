"""The machine manager's decisions: which jobs are in the matrix, and which slot is next (FCS paper, section 2.2).

Jobs that do not fit, or have lost nodes, wait in the order of arrival. There is no backfilling: that is the task
of `apples.queueing`. Every heartbeat is the next row of the matrix; the nodes' policies decide its meaning there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from apples.coscheduling.matrix import Allotment, OusterhoutMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSlot:
    """One slot on all nodes.

    slot : row of the matrix, None if it is empty
    jobs : by node and processor, the job that owns the slot
    fill : by node and processor, a job of another slot that may use a processor that is idle in this one
    """

    slot: int | None
    jobs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    fill: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


_NO_SLOT = MachineSlot(slot=None)


class MachineScheduler:
    """Jobs on the nodes of one machine.

    processors : number of processors by node.  mpl : limit of jobs that share a processor, None for no limit
    """

    def __init__(self, processors: Mapping[str, int], *, mpl: int | None = None) -> None:
        self._matrix = OusterhoutMatrix(processors, mpl=mpl)
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._slot: int | None = None
        #: Slots with jobs, and the jobs of each, cached until the matrix changes: most heartbeats repeat them.
        self._used_slots: list[int] | None = None
        self._slots: dict[int, MachineSlot] = {}

    @property
    def matrix(self) -> OusterhoutMatrix:
        """The matrix of jobs, to be changed through the machine only."""
        return self._matrix

    @property
    def waiting(self) -> tuple[str, ...]:
        """Jobs that wait, in the order of arrival."""
        return tuple(job for job, _ in self._waiting)

    def arrive(self, job: str, nodes: tuple[str, ...], *, slot: int | None = None) -> tuple[Allotment, ...]:
        """Add a job whose rank i runs on `nodes[i]`; return it if it starts at once, else an empty tuple.

        The value of `slot` is its slot before a restart of the manager.

        Raises `apples.coscheduling.matrix.DoesNotFit` for a job that can never run here.
        """
        self._matrix.check(job, nodes)
        if job in self._matrix.allotments or job in self.waiting:
            raise ValueError(f"job {job} is here already")
        self._waiting.append((job, nodes))
        return self._admit({job: slot} if slot is not None else {})

    def leave(self, job: str) -> tuple[Allotment, ...]:
        """Remove a job that runs or waits; return the jobs that start because of it."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] != job)
        self._matrix.remove(job)
        self._changed()
        return self._admit({})

    def set_node(self, node: str, processors: int) -> tuple[Allotment, ...]:
        """Add or change a node; return the jobs that start because of it."""
        self._matrix.set_node(node, processors)
        self._changed()
        return self._admit({})

    def remove_node(self, node: str) -> tuple[str, ...]:
        """Remove a node; return the jobs with processes there, which stay until they `leave`."""
        self._changed()
        return self._matrix.remove_node(node)

    def next_slot(self) -> MachineSlot:
        """Return the next slot in turn."""
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
        """Return the jobs of a slot by node and processor."""
        if slot not in self._slots:
            self._slots[slot] = self._describe(slot)
        return self._slots[slot]

    def _changed(self) -> None:
        """Drop cached slots after a change of the matrix."""
        self._used_slots = None
        self._slots.clear()

    def _admit(self, slots: Mapping[str, int]) -> tuple[Allotment, ...]:
        admitted = []
        while self._waiting:
            job, nodes = self._waiting[0]
            if not self._matrix.processors.keys() >= set(nodes):
                # One of its nodes is lost; the job waits for that node, or until it leaves.
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
