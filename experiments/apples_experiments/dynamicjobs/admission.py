"""Admission control of the simulated machine.

`RowQueues` decides which job starts in which row of the matrix. The job gets the first free processors of the row. The
matrix here makes the same decisions as the machine manager's. Under spin-block, which has no time slices, the matrix
only limits the number of jobs and their processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from apples.coscheduling.matrix import MatrixColumn, OusterhoutMatrix
from apples.queueing.jobs import QueueJob
from apples_experiments.cluster.admission import Placement
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.workload import BspJob
from apples_experiments.dynamicjobs.rows import RowQueues


class AdmissionQueue:
    """An `apples_experiments.cluster.admission.AdmissionControl` for a matrix of `mpl` rows.

    requests: requested run time by job, s.
    increment_s: see `RowQueues`.
    """

    def __init__(
        self, machine: ClusterConstants, requests: Mapping[str, float], *, mpl: int, increment_s: float
    ) -> None:
        names = {str(node): machine.processors for node in range(machine.nodes)}
        self._columns = [
            MatrixColumn(node, processor) for node, count in names.items() for processor in range(count)
        ]
        self._matrix = OusterhoutMatrix(names, mpl=mpl)
        self._rows = RowQueues(mpl=mpl, processors=len(self._columns), increment_s=increment_s)
        self._requests, self._mpl = requests, mpl
        self._names: list[str] = []
        self._ids: dict[str, int] = {}

    @property
    def mpl(self) -> int:
        """Return the number of rows of the matrix."""
        return self._mpl

    def submitted(self, job: BspJob, now_s: float) -> None:
        """Add a submitted job."""
        number = len(self._names)
        self._names.append(job.name)
        self._ids[job.name] = number
        request_s = self._requests[job.name]
        self._rows.submit(QueueJob(id=number, procs=len(job.nodes), request_s=request_s, submit_s=now_s))

    def ended(self, job: str, now_s: float) -> None:
        """Remove a job whose last rank has ended."""
        moved = self._matrix.remove(job)
        self._rows.end(self._ids[job], {self._ids[other.job]: other.slot for other in moved})

    def admit(self, now_s: float) -> Sequence[Placement]:
        """Return the placements of the jobs that start now."""
        placements = []
        procs = {job.id: job.procs for job in self._rows.waiting}
        for number, row in self._rows.start(now_s):
            name = self._names[number]
            taken = self._matrix.row(row) if row < self._matrix.slots else {}
            free = islice((column for column in self._columns if column not in taken), procs[number])
            nodes = tuple(column.node for column in free)
            allotment = self._matrix.add(name, nodes, slot=row)
            assert allotment is not None
            assert allotment.slot == row
            placements.append(Placement(name, tuple(map(int, nodes)), row))
        return placements
