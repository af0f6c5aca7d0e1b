"""What the jobs of a queue have taught: how near each source of estimates came, over all that ever ran."""

from __future__ import annotations

from pathlib import Path

from apples.livequeue.core import job_of
from apples.livequeue.records import LOST
from apples.livequeue.store import Store
from apples.queueing.scoring import EstimateScore, Scoreboard


def scores(path: Path) -> dict[str, EstimateScore]:
    """By source, the best first: what was said at submission against how long processors were held.

    Raises `HistoryError` where there is no queue.
    """
    store = Store(path)
    board = Scoreboard("history", {})
    for record in store.past():
        if record.held_s is not None and record.freed_s is not None and record.outcome != LOST:
            board.recall(record.id, record.said)
            board.ended(job_of(record), record.held_s, record.freed_s)
    store.close()
    return board.scores()
