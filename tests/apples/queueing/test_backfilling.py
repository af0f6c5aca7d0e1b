"""EASY and conservative backfilling: the compiled pass against the plain one, and what must hold whatever comes."""

import pytest
from hypothesis import given, settings, strategies as st

from apples.queueing.settings import QueueSettings

_MANY = settings(max_examples=120, deadline=None)


@pytest.mark.parametrize("priority", ["fcfs", "sjf", "wfp", "procs * 3 - wait / 7"])
def test_compiled_pass_is_easy(easy, priority):
    plain, scores, works, live = easy

    @_MANY
    @given(works())
    def hold(trace):
        started = live(trace, 8, QueueSettings(priority=priority)).run()
        assert started == plain(trace, 8, scores[priority])

    hold()


@pytest.mark.parametrize("priority", ["fcfs", "sjf", "wfp"])
def test_reserved_job_never_starts_later_than_promised(easy, priority):
    """However many overtake it, as long as nobody of a higher priority comes; requests are upper bounds."""
    _, _, works, live = easy

    @_MANY
    @given(works())
    def hold(trace):
        run = live(trace, 8, QueueSettings(priority=priority))
        run.run()
        for (_, one, _), (_, other, from_top) in zip(run.passes, run.passes[1:], strict=False):
            if one is not None and other is not None and one.job == other.job and not from_top:
                assert other.at_s <= one.at_s
        if priority == "fcfs":
            promised = [(one.job.id, one.at_s) for _, one, _ in run.passes if one is not None]
            assert all(run.starts[job] <= at for job, at in promised)

    hold()


@pytest.mark.parametrize("priority", ["fcfs", "wfp"])
def test_under_conservative_backfilling_everybody_is_promised_a_start(easy, priority):
    _, _, works, live = easy

    @_MANY
    @given(works())
    def hold(trace):
        run = live(trace, 8, QueueSettings(backfill="conservative", priority=priority))
        promised = {}
        step = run.step

        def watched(now):
            step(now)
            for job in run.queue.waiting:
                at = run.queue.planned_start_s(job.id)
                if at is not None:
                    assert at <= promised.get(job.id, at)
                    promised[job.id] = at

        run.step = watched
        run.run()
        assert all(run.starts[job] <= at for job, at in promised.items())

    hold()


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
@pytest.mark.parametrize("overrun", ["request", "increment", "doubling", "half"])
def test_no_job_is_early_and_the_machine_never_overfull(easy, backfill, overrun):
    """Also when estimates are wrong and jobs outlive their requests; and the same input gives the same schedule."""
    _, _, works, live = easy

    @settings(max_examples=40, deadline=None)
    @given(works(over=15), st.sampled_from(["fcfs", "sjf", "wfp", "estimate - wait"]))
    def hold(trace, priority):
        how = QueueSettings(priority=priority, backfill=backfill, overrun=overrun, increment_s=5)
        run = live(trace, 8, how)
        starts = run.run()
        assert all(start >= work.submit for start, work in zip(starts, trace, strict=True))
        assert run.most <= 8
        assert live(trace, 8, how).run() == starts

    hold()
