"""Admission of guests: waiting jobs that start beside a running job, on the processors which that job holds.

Both jobs must allow it, and both must keep their speed (`apples.coscheduling.fitting`). A guest takes no free
processor, and it may keep those of the other job longer only within a reservation of its own. So no reservation moves.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from apples.coscheduling.fitting import SideBySide, fit


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
    found = []
    available = {holder.id: holder for holder in holders}
    reserved = True
    for job in waiting:
        if not available:
            break
        chosen = _best(job, available.values(), reserved=reserved) if job.duties else None
        if chosen is None:
            reserved = reserved and not only_first
        else:
            found.append((job.id, chosen))
            del available[chosen]
    return found


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
