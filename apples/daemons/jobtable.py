"""Table of the jobs on the whole machine: reports of the nodes become arrivals and departures of jobs.

A job arrives when all its processes have registered on any nodes. It leaves when all have ended, or when a node of it
was lost for `FORGET_S`. The nodes' state is authoritative: a node that reconnects reports its processes, and a new
manager gets everything from the nodes, slots included. For `SETTLE_S` it admits only jobs that had a slot before. Time
is an argument. Paper: FCS section 2.2 (the machine manager).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apples.coscheduling.machine import MachineScheduler
from apples.daemons.nodemessages import JobState, JobView, MatrixRow, MatrixView, ProcessEntry

#: A node that is away for so long takes its jobs out of the matrix, seconds.
FORGET_S = 3.0
#: After its start a manager waits so long for jobs that stood somewhere, before it takes new ones in, seconds.
SETTLE_S = 1.5


@dataclass(slots=True, kw_only=True)
class _Job:
    """State of one job.

    nodes : node by rank.  ended : ranks that have ended
    slot : its last row in the matrix, None if it had none.  arrived : it was passed to the machine
    """

    ranks: int
    uid: int
    nodes: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    slot: int | None = None
    arrived: bool = False

    @property
    def complete(self) -> bool:
        return len(self.nodes) == self.ranks

    @property
    def over(self) -> bool:
        return all(rank in self.ended for rank in self.nodes)


class JobTable:
    """Jobs and nodes. `mpl`: limit of rows, None for none.  `version`: counts the changes that nodes must learn"""

    def __init__(self, mpl: int | None, now: float) -> None:
        self.machine = MachineScheduler({}, mpl=mpl)
        self.version = 0
        self.settled = False
        self._started = now
        self._jobs: dict[str, _Job] = {}
        self._here: dict[str, int] = {}
        self._away: dict[str, float] = {}

    def joined(
        self,
        node: str,
        processors: int,
        processes: Iterable[ProcessEntry],
        placed: Mapping[str, JobView],
        now: float,
    ) -> list[tuple[str, str]]:
        """Add a node that has connected, perhaps again; return the jobs that are refused, each with the reason.

        processes : registered there, with job, rank, ranks, uid.  placed : its jobs that had a slot in a matrix
        """
        # It is back in time: its jobs have kept their rows.
        self._away.pop(node, None)
        self._here[node] = processors
        # First, so that its jobs can be placed below.
        self.machine.set_node(node, processors)
        self.version += 1
        held: dict[str, set[int]] = {}
        refused = {}
        for entry in processes:
            why = self._enter(node, entry)
            if why is not None:
                refused[entry.job] = why
            else:
                held.setdefault(entry.job, set()).add(entry.rank)
        for name, job in list(self._jobs.items()):
            was = placed.get(name)
            if was is not None and name in held:
                self._remember(job, was, node)
            for rank, where in job.nodes.items():
                # It has ended while the node was away, and its report of that was lost.
                if where == node and rank not in held.get(name, ()):
                    job.ended.add(rank)
            self._settle_job(name, job, now)
        return list(refused.items())

    def lost(self, node: str, now: float) -> None:
        """Remove a node that does not answer; its jobs stay for a while."""
        if self._here.pop(node, None) is not None:
            self._away[node] = now
            # Its jobs stay in their rows for a while: a cut of the network often mends.
            self.machine.remove_node(node)
            self.version += 1

    def registered(self, node: str, entry: ProcessEntry, now: float) -> str | None:
        """Add a process that has registered on a node; return the reason if its job is refused, else None."""
        why = self._enter(node, entry)
        if why is None:
            self._settle_job(entry.job, self._jobs[entry.job], now)
        return why

    def ended(self, node: str, name: str, rank: int, now: float) -> None:
        """Remove a process that has ended or was deregistered."""
        job = self._jobs.get(name)
        if job is not None and job.nodes.get(rank) == node:
            job.ended.add(rank)
            if not job.complete:
                # The job was never complete: the next process that registers as this rank counts.
                del job.nodes[rank]
                job.ended.discard(rank)
            self._settle_job(name, job, now)

    def tick(self, now: float) -> None:
        """Handle the passage of time."""
        if not self.settled and now - self._started >= SETTLE_S:
            self.settled = True
            self.version += 1
            for name, job in list(self._jobs.items()):
                self._settle_job(name, job, now)
        # A list, because the mapping changes on the way.
        for node in [node for node, since in self._away.items() if now - since >= FORGET_S]:
            del self._away[node]
            for name, job in list(self._jobs.items()):
                if node in job.nodes.values():
                    self._take_out(name, job)
                    job.nodes = {rank: where for rank, where in job.nodes.items() if where != node}
                    # A rank that was forgotten may register again, and has not ended then.
                    job.ended &= set(job.nodes)
                    self._settle_job(name, job, now)

    def view(self, node: str) -> MatrixView:
        """Return the part of the matrix that one node needs."""
        machine, jobs = self.machine, {}
        for name, job in self._jobs.items():
            if job.arrived and node in job.nodes.values():
                allotment = machine.matrix.allotments.get(name)
                columns = () if allotment is None else allotment.columns
                where = tuple(job.nodes[rank] for rank in range(job.ranks))
                jobs[name] = JobView(
                    slot=None if allotment is None else allotment.slot,
                    nodes=where,
                    processors={
                        rank: columns[rank].processor if columns else 0
                        for rank, name_of_node in enumerate(where)
                        if name_of_node == node
                    },
                )
        rows = {}
        for slot in range(machine.matrix.slots):
            beat = machine.slot_jobs(slot)
            rows[slot] = MatrixRow(jobs=beat.jobs.get(node, {}), fill=beat.fill.get(node, {}))
        return MatrixView(version=self.version, settled=self.settled, rows=rows, jobs=jobs)

    def describe(self) -> dict[str, JobState]:
        """Return the state of each job."""
        allotments, waiting = self.machine.matrix.allotments, self.machine.waiting
        return {
            name: JobState(
                state="in" if name in allotments else "waits" if name in waiting else "gathers",
                slot=allotments[name].slot if name in allotments else None,
                ranks=job.ranks,
                registered=len(job.nodes),
                ended=len(job.ended),
                nodes=sorted(set(job.nodes.values())),
                uid=job.uid,
            )
            for name, job in self._jobs.items()
        }

    def _enter(self, node: str, entry: ProcessEntry) -> str | None:
        name, rank = entry.job, entry.rank
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = _Job(ranks=entry.ranks, uid=entry.uid)
        if job.uid != entry.uid:
            return f"a job {name} of user {job.uid} is known; choose another name"
        if job.ranks != entry.ranks:
            return f"job {name} is known with {job.ranks} ranks, not {entry.ranks}; choose another name"
        # Two runs of one name would count as one job.
        where = job.nodes.get(rank)
        if where not in (None, node):
            return f"rank {rank} of job {name} is on {where}; choose another name"
        job.nodes[rank] = node
        job.ended.discard(rank)
        return None

    def _remember(self, job: _Job, was: JobView, node: str) -> None:
        """Restore a job's slot from before a restart. Unreported ranks have ended, unless their node is lost."""
        if job.arrived or len(was.nodes) != job.ranks:
            return
        job.slot = was.slot
        for rank, where in enumerate(was.nodes):
            if rank not in job.nodes:
                job.nodes[rank] = where
                # That node has reported already, and this rank was not among its processes.
                if where in self._here and where != node:
                    job.ended.add(rank)

    def _settle_job(self, name: str, job: _Job, now: float) -> None:
        """Let a job arrive or leave, if its state demands it."""
        if job.over:
            self._take_out(name, job)
            del self._jobs[name]
            return
        if job.arrived or not job.complete or not all(node in self._here for node in job.nodes.values()):
            return
        # Until the manager is settled, only jobs that had a row come in, or they would find theirs taken.
        if self.settled or job.slot is not None:
            job.arrived = True
            self.version += 1
            where = tuple(job.nodes[rank] for rank in range(job.ranks))
            self.machine.arrive(name, where, slot=job.slot, user=job.uid)

    def _take_out(self, name: str, job: _Job) -> None:
        if job.arrived:
            allotment = self.machine.matrix.allotments.get(name)
            # Remembered: if its node comes back, the job gets its row again.
            job.slot = None if allotment is None else allotment.slot
            job.arrived = False
            self.version += 1
            self.machine.leave(name)
