"""How often to write checkpoints: Young's rule against a simulated process of failures, and its limits."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from apples.costs.store import launches_of
from apples.model.plan import Outcome, unplanned
from apples.run import intervals
from tests.apples.samples import a_record, an_attempt, an_observation

DAY = 86400.0
costs = st.floats(0.01, 60.0)
means = st.floats(3600.0, 100 * DAY)


def simulated_s(work_s, every_s, cost_s, failures):
    """Seconds for `work_s` of work with a checkpoint after each `every_s`; failures throw it back to the last."""
    now = done = 0.0
    failure = next(failures)
    while done < work_s:
        step = min(every_s, work_s - done)
        end = now + step + (cost_s if done + step < work_s else 0.0)
        if failure < end:
            now = failure
            failure = now + next(failures)
        else:
            now, done = end, done + step
    return now


def exponential(mean_s, seed):
    chance = random.Random(seed)
    while True:
        yield chance.expovariate(1.0 / mean_s)


@pytest.mark.parametrize(("cost_s", "mean_s"), [(1.0, 5000.0), (10.0, 20000.0), (0.2, 900.0)])
def test_rule_is_best_among_its_neighbours_in_a_simulated_process(cost_s, mean_s):
    work_s = 400 * mean_s
    best = intervals.young_s(cost_s, mean_s)

    def took(every_s):
        return sum(simulated_s(work_s, every_s, cost_s, exponential(mean_s, seed)) for seed in range(4))

    chosen = took(best)
    for factor in (0.25, 0.5, 2.0, 4.0):
        assert chosen < took(factor * best)


@given(costs, means, st.floats(0.2, 5.0))
def test_no_other_interval_loses_less_to_first_order(cost_s, mean_s, factor):
    def lost_share(work_s):
        return cost_s / work_s + work_s / (2.0 * mean_s)

    best = intervals.young_s(cost_s, mean_s)
    least = lost_share(best)
    assert least <= lost_share(factor * best) * (1 + 1e-12)
    assert least == pytest.approx(math.sqrt(2 * cost_s / mean_s))


@given(costs, st.floats(1.0, 100 * DAY))
def test_checkpoints_alone_never_take_more_than_a_small_share(cost_s, mean_s):
    work_s = intervals.interval_s(cost_s, mean_s)
    assert cost_s / (work_s + cost_s) <= intervals.MOST_SHARE * (1 + 1e-12)
    assert work_s >= intervals.young_s(cost_s, mean_s)


@given(st.floats(1e-3, 1e6), st.floats(1e-6, 1e3), st.integers(1, 10**6))
def test_interval_is_a_whole_number_of_iterations_within_the_run(work_s, one_s, left):
    every = intervals.in_iterations(work_s, one_s, left)
    assert every is None or 1 <= every < left
    if every is not None and every > 1:
        assert abs(every * one_s - work_s) <= 0.5 * one_s * (1 + 1e-9)


def test_run_of_unknown_pace_has_no_interval():
    assert intervals.in_iterations(10.0, 0.0, 100) is None
    assert intervals.in_iterations(math.inf, 1.0, 100) is None


def record(*outcomes, **more):
    plan = unplanned(["a1", "a2"], scheduler="test", application="toy")
    attempts = tuple(an_attempt(plan, outcome, number=k) for k, outcome in enumerate(outcomes, 1))
    return a_record(plan, outcomes[-1], attempts=attempts, **more)


def launches(*records):
    """The launches of these records, as the history returns them."""
    return [launch for one in records for launch in launches_of(one)]


def ran(observed_s, lost=(), checkpoints=0, checkpoint_s=0.0):
    seen = an_observation(host="a1", checkpoints=checkpoints, checkpoint_s=checkpoint_s)
    return Outcome(
        ended="failed" if lost else "finished",
        exit_code=0,
        observed_s=observed_s,
        lost=dict.fromkeys(lost, "was lost"),
        observations=(seen,),
    )


def test_host_has_its_own_rate_and_those_of_a_plan_add_up():
    rates = intervals.rates_from(
        launches(record(ran(10 * DAY, lost=["a2"]), ran(20 * DAY)), record(ran(30 * DAY)))
    )
    assert rates == pytest.approx({"a1": 1 / (90 * DAY), "a2": 2 / (90 * DAY)})
    assert intervals.mtbf_of(["a1", "a2"], rates) == pytest.approx(30 * DAY)
    assert intervals.mtbf_of(["new"], rates) == pytest.approx(intervals.PRIOR_S)
    assert intervals.mtbf_of([], rates) == math.inf


def test_runs_of_before_there_were_attempts_count_too():
    old = replace(record(ran(30 * DAY)), attempts=())
    assert intervals.rates_from(launches(old, replace(old, outcome=None)))["a1"] == pytest.approx(
        1 / (60 * DAY)
    )


def test_cost_of_a_checkpoint_is_learnt_and_goes_with_its_bytes():
    options = {"checkpoint_bytes": 1e6}
    kept = [record(ran(1.0, checkpoints=4, checkpoint_s=s), options=options) for s in (0.4, 0.8, 80.0)]
    assert intervals.cost_from(launches(*kept), 2e6) == pytest.approx(0.4)
    assert intervals.cost_from(launches(record(ran(1.0))), 2e6) is None
    assert intervals.cost_from(launches(record(ran(1.0, checkpoints=1, checkpoint_s=1.0))), 2e6) is None


@settings(max_examples=50)
@given(st.integers(0, 20), st.floats(0.0, 400 * DAY), st.integers(1, 20))
def test_more_losses_never_make_a_host_more_trusted(lost, seconds, more):
    assert intervals.failure_rate(lost, seconds) < intervals.failure_rate(lost + more, seconds)
    assert intervals.failure_rate(lost, seconds + DAY) < intervals.failure_rate(lost, seconds)
