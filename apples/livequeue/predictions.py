"""Expected ends, and reservations of conservative backfilling, in the store: both must survive a restart."""

from collections.abc import Callable, Iterable

from apples.livequeue.store import Store
from apples.queueing.jobs import QueueJob
from apples.queueing.queue import JobQueue


class StoredPredictions:
    """Instants by job as the store has them, in s. `ends`: of running jobs. `plans`: starts of waiting jobs."""

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}
        self.plans: dict[int, float] = {}

    def write(self, store: Store, queue: JobQueue, backfill: str) -> None:
        """Write the predictions that have changed, within a transaction."""
        waiting = queue.waiting if backfill == "conservative" else ()
        store.set_predictions(
            expected=_changed(self.ends, queue.running, queue.expected_end_s),
            planned=_changed(self.plans, waiting, queue.planned_start_s),
        )


def _changed(
    stored: dict[int, float], jobs: Iterable[QueueJob], predict: Callable[[int], float | None]
) -> list[tuple[float, int]]:
    """Return (instant, job) of each prediction that differs from the stored one, and remember them."""
    found = []
    for job in jobs:
        at = predict(job.id)
        if at is not None and stored.get(job.id) != at:
            found.append((at, job.id))
            stored[job.id] = at
    return found
