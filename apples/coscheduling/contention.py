"""Slots in which processes do not get the processors that the matrix gives them.

The matrix does not know processes of other programs, and a job may have more ranks than its node has processors. A rank
that polls in its own slot then polls away time that its partners need, and coscheduling is worse than no scheduling. A
process was ready for its running time and its time in the run queue; the first as a share of both is measured. A job
whose processes get too little is contended: for some of its slots, its processes share the node with all others and
block when they wait. Then one slot shows whether the processors are free again. After each slot that shows they are
not, the next one comes later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apples.coscheduling.events import Process

#: Least mean share of a process that is coscheduled. The mean halves the weight of a slot with each later one.
LEAST_SHARE = 0.85
#: Own slots for which a job stays contended: the first time, and at most.
FIRST_SLOTS, MOST_SLOTS = 8, 128


@dataclass(slots=True)
class _Standing:
    """One job.

    share : mean so far.  slots : number for which it stays contended, 0 if it is not.  hold : the next such number
    """

    share: float = 1.0
    slots: int = 0
    hold: int = FIRST_SLOTS


class Contention:
    """Contended jobs of one node."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Standing] = {}

    def __contains__(self, job: str) -> bool:
        """Return whether a job is contended."""
        standing = self._jobs.get(job)
        return standing is not None and standing.slots > 0

    def ended(self, owners: Iterable[Process], shares: Mapping[Process, float]) -> bool:
        """Count a slot that has ended, and return whether any job is contended that was not, or the other way round.

        Args:
            owners: Processes that had the slot to themselves.
            shares: By process, running time as a share of the time for which it was ready; without processes that are
                not measured.
        """
        least: dict[str, float] = {}
        for process in owners:
            share, job = shares.get(process), process.job
            if share is not None and share <= least.get(job, 1.0):
                least[job] = share
        changed = False
        for job, share in least.items():
            changed |= self._ended(job, share)
        return changed

    def forget(self, job: str) -> None:
        """Forget a job that has left."""
        self._jobs.pop(job, None)

    def _ended(self, job: str, share: float) -> bool:
        standing = self._jobs.get(job)
        if standing is None:
            standing = self._jobs[job] = _Standing()
        if standing.slots > 0:
            standing.slots -= 1
            # The next slot alone decides.
            standing.share = LEAST_SHARE
            return standing.slots == 0
        standing.share = (standing.share + share) / 2
        if standing.share >= LEAST_SHARE:
            standing.hold = max(standing.hold // 2, FIRST_SLOTS)
            return False
        standing.slots, standing.hold = standing.hold, min(2 * standing.hold, MOST_SLOTS)
        return True
