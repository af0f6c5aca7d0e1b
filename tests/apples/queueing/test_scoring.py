"""Several estimators side by side: one decides, all are judged."""

import pytest

from apples.queueing.estimates import RecentRuns, Scheme, SimilarJobs
from apples.queueing.jobs import QueueJob
from apples.queueing.scoring import Scoreboard


def job(number, model=None):
    return QueueJob(id=number, procs=1, request_s=100.0, submit_s=0.0, user="ann", model_s=model)


def test_one_decides_and_all_are_judged():
    board = Scoreboard(
        "recent", {"recent": RecentRuns(1), "history": SimilarJobs(Scheme(minimum=1, floor=0.5))}
    )
    assert board.estimate(job(1), 0.0).seconds == 100.0
    board.ended(job(1), 20.0, 20.0)
    assert board.estimate(job(2, model=30.0), 21.0).seconds == 20.0
    board.ended(job(2), 40.0, 70.0)
    scores = board.scores()
    assert list(scores) == ["model", "history", "recent", "request"]
    assert scores["model"].jobs == 1
    assert scores["model"].accuracy == pytest.approx(0.75)
    assert scores["recent"].accuracy == pytest.approx((0.2 + 0.5) / 2)
    assert (scores["recent"].under, scores["history"].under) == (0.5, 0.0)
    assert scores["request"].accuracy == pytest.approx(0.3)


def test_job_it_never_heard_of_teaches_and_is_not_judged():
    board = Scoreboard("recent", {"recent": RecentRuns(1)})
    board.ended(job(7), 33.0, 1.0)
    assert board.scores() == {}
    assert board.estimate(job(8), 2.0).seconds == 33.0
