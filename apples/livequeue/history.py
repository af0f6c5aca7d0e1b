"""Accuracy of each source of run time estimates over all jobs of a queue."""

from pathlib import Path

from apples.livequeue.core import job_of
from apples.livequeue.records import LOST
from apples.livequeue.store import Store
from apples.queueing.scoring import EstimateScore, Scoreboard


def scores(path: Path) -> dict[str, EstimateScore]:
    """Return the score of each source, best first: estimates at submission against the time processors were held.

    Raises:
        HistoryError: there is no queue at this path.
    """
    store = Store(path)
    board = Scoreboard("history", {})
    for record in store.past():
        if record.held_s is not None and record.freed_s is not None and record.outcome != LOST:
            board.restore(record.id, record.estimates)
            board.ended(job_of(record), record.held_s, record.freed_s)
    store.close()
    return board.scores()
