"""Processors that running jobs hold, each for itself or together with a guest (`apples.livequeue.occupancy`).

The queue's pass sees a running job and its guest as one job that holds the processors until both have ended. If the
holder ends first, its guest holds the processors alone.

Admission of guests: waiting jobs that start beside a running job, on the processors which that job holds.

Both jobs must allow it, and both must keep their speed (`apples.coscheduling.fitting`). A guest takes no free
processor, and it may keep those of the other job longer only within a reservation of its own. So no reservation moves.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from apples.coscheduling.fitting import SideBySide, fit
from apples.livequeue.queuehosts import Machine
from apples.livequeue.records import JobRecord
from apples.queueing.configuration import QueueFile
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import Beliefs, QueueJob
from nws.base.records import copied


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJob:
    """A job that waits for processors or holds some.

    duties: Duty cycle of each rank, or one for all ranks. Empty: the job does not share its processors.
    end_s: Expected end, of a waiting job if it starts now; s on the queue's clock.
    reserved_s: Start of the waiting job's own reservation, infinite without one.
    """

    id: int
    procs: int
    duties: tuple[float, ...]
    end_s: float = 0.0
    reserved_s: float = math.inf


def guests(
    waiting: Iterable[SharingJob], holders: Sequence[SharingJob], *, only_first: bool
) -> list[tuple[int, int]]:
    """Return (guest, holder) of each waiting job that starts beside a running one; at most one guest for each.

    A guest has at most as many processors as the holder. It ends by the holder's expected end; or its reservation
    begins by then, and it has as many processors. Of several holders, the one with the smallest slow-down is chosen.

    Args:
        waiting: All waiting jobs, in order of priority.
        holders: Running jobs that share their processors and have no guest.
        only_first: Reservations count for the first in line only, until a job that stays in the queue is first.
    """
    guests_of_host = []
    available = {holder.id: holder for holder in holders}
    reserved = True
    for job in waiting:
        if not available:
            break
        chosen = _best(job, available.values(), reserved=reserved) if job.duties else None
        if chosen is None:
            reserved = reserved and not only_first
        else:
            guests_of_host.append((job.id, chosen))
            del available[chosen]
    return guests_of_host


def _best(job: SharingJob, holders: Iterable[SharingJob], *, reserved: bool) -> int | None:
    """Return the holder beside which the job fits best, the lowest id of equals; None if it fits nowhere."""
    fitting = []
    for holder in holders:
        within = reserved and job.reserved_s <= holder.end_s and job.procs == holder.procs
        if job.procs <= holder.procs and (within or job.end_s <= holder.end_s):
            both = _fit(holder.duties, job.duties, holder.procs, job.procs)
            if both.fits:
                fitting.append((max(both.first, both.second), holder.id))
    return min(fitting)[1] if fitting else None


@lru_cache(maxsize=4096)
def _fit(holder: tuple[float, ...], guest: tuple[float, ...], procs: int, guest_procs: int) -> SideBySide:
    if len(holder) == len(guest) == 1:
        # The first processor is as loaded as every other one that both use.
        return fit(holder, guest, 1)
    return fit(_of_ranks(holder, procs), _of_ranks(guest, guest_procs), procs)


def _of_ranks(duties: tuple[float, ...], ranks: int) -> tuple[float, ...]:
    return duties * ranks if len(duties) == 1 else duties


class Occupancy:
    """Running jobs in the queue's memory. `guests`: guest by holder."""

    def __init__(
        self, jobs: Mapping[int, JobRecord], queue: JobQueue, chosen: QueueFile, machine: Machine
    ) -> None:
        """Find the guests among jobs that are in the system. Running jobs are added to the queue with `resume`.

        Args:
            jobs: Waiting and running jobs, which the caller changes.
            queue: The queue in memory.
            chosen: The policy.
            machine: Hosts and their processors.
        """
        self._jobs, self._queue, self._chosen, self._machine = jobs, queue, chosen, machine
        self.guests = {r.beside: r.id for r in jobs.values() if r.beside is not None and r.beside in jobs}

    def is_guest(self, record: JobRecord) -> bool:
        """Return whether another job holds the processors of this one."""
        return record.beside in self._jobs

    def guest_of(self, job_id: int) -> JobRecord | None:
        """Return the guest of a job, or None."""
        return self._jobs.get(self.guests.get(job_id, 0))

    def beliefs(self, record: JobRecord) -> Beliefs:
        """Return the run times that the policy assumes for a job."""
        return self._chosen.estimates.switches().beliefs(record.request_s, record.estimate_s)

    def held_s(self, record: JobRecord, run_s: Callable[[JobRecord], float]) -> float:
        """Return the time from a job's start until it and its guest end, s. `run_s`: returns a job's run time."""
        guest = self.guest_of(record.id)
        if guest is None or guest.start_s is None or record.start_s is None:
            return run_s(record)
        return max(run_s(record), guest.start_s - record.start_s + run_s(guest))

    def resume(self, record: JobRecord, expected_s: float | None) -> None:
        """Add a running job that is no guest to the queue in memory. `expected_s`: None for the assumed end."""
        assert record.start_s is not None
        beliefs = replace(
            self.beliefs(record), running_s=self.held_s(record, lambda job: self.beliefs(job).running_s)
        )
        # If the machine has shrunk since the start, the job occupies all processors until it ends.
        job = replace(
            job_of(record),
            procs=min(record.procs, self._machine.processors),
            request_s=self.held_s(record, lambda job: job.request_s),
        )
        self._queue.resume(job, beliefs, record.start_s, expected_s)

    def release(self, record: JobRecord) -> None:
        """Release the processors of a job that has been removed from `jobs`, as far as no other job uses them."""
        if record.beside is not None and self.is_guest(record):
            del self.guests[record.beside]
            self._queue.end(record.beside)
            self.resume(self._jobs[record.beside], None)
            return
        self._queue.end(record.id)
        guest = self.guest_of(record.id)
        if guest is not None:
            del self.guests[record.id]
            self.resume(guest, None)

    def admitted(self, now_s: float) -> list[tuple[int, int]]:
        """Return (guest, holder) of each waiting job that starts beside a running one now."""
        if not self._chosen.queue.oversubscribe:
            return []
        holders = [self._running(record) for record in self._jobs.values() if self._shares(record)]
        if not holders or not any(r.duties and r.start_s is None for r in self._jobs.values()):
            return []
        only_first = self._chosen.queue.backfill != "conservative"
        return guests(self._waiting(now_s, only_first=only_first), holders, only_first=only_first)

    def admit(self, guest: JobRecord) -> None:
        """Remove a guest that starts from the waiting jobs. Its holder's processors are held until both end."""
        assert guest.beside is not None
        expected_s, holder = self._expected_end(guest.beside), self._jobs[guest.beside]
        assert holder.start_s is not None
        self.guests[holder.id] = guest.id
        span_s = self.held_s(holder, lambda job: self.beliefs(job).running_s)
        self._queue.end(guest.id)
        self._queue.end(holder.id)
        self.resume(holder, max(expected_s, holder.start_s + span_s))

    def place(self, job: JobRecord, beside: int | None) -> tuple[dict[str, int], tuple[int, ...]]:
        """Return processors by host and CPUs of this host for a job that starts: those of job `beside`, if any."""
        if beside is None:
            running = [r for r in self._jobs.values() if r.start_s is not None and not self.is_guest(r)]
            hosts = self._machine.share((r.hosts for r in running), job.procs)
            return hosts, self._machine.cpus_for(hosts, (r.cpus for r in running), job.affinity)
        holder, hosts = self._jobs[beside], {}
        for host, procs in holder.hosts.items():
            part = min(procs, job.procs - sum(hosts.values()))
            if part > 0:
                hosts[host] = part
        return hosts, replace(self._machine, cpus=holder.cpus).cpus_for(hosts, (), job.affinity)

    def _shares(self, record: JobRecord) -> bool:
        """Return whether a job can have a guest: it shares processors of hosts that are still there, and has none."""
        slots = self._machine.slots
        return (
            record.start_s is not None
            and len(record.duties) > 0
            and record.id not in self.guests
            and not self.is_guest(record)
            and sum(record.hosts.values()) == record.procs
            and all(procs <= slots.get(host, 0) for host, procs in record.hosts.items())
        )

    def _running(self, record: JobRecord) -> SharingJob:
        return SharingJob(
            id=record.id, procs=record.procs, duties=record.duties, end_s=self._expected_end(record.id)
        )

    def _waiting(self, now_s: float, *, only_first: bool) -> Iterator[SharingJob]:
        """Yield the waiting jobs in order of priority. The first in line has a reservation (EASY) or all have one."""
        for job in self._queue.order(now_s):
            record = self._jobs[job.id]
            reserved_s = -math.inf if only_first else self._queue.planned_start_s(job.id)
            yield SharingJob(
                id=job.id,
                procs=job.procs,
                duties=record.duties,
                end_s=now_s + self.beliefs(record).running_s,
                reserved_s=math.inf if reserved_s is None else reserved_s,
            )

    def _expected_end(self, job_id: int) -> float:
        expected_s = self._queue.expected_end_s(job_id)
        assert expected_s is not None
        return expected_s


def job_of(record: JobRecord) -> QueueJob:
    """Return the record as a job of the queue and the estimators."""
    return copied(QueueJob, record, submit_s=record.submitted_s)
