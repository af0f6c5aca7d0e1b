"""What finished runs teach: the overhead, and how far benchmarks are off."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.costs.corrections import correct, corrections, outdated, with_growth_of_runs
from apples.costs.costs import learned_costs
from apples.costs.overhead import fit_overhead, message_costs, start_costs, startup_overhead
from apples.costs.regression import weighted_median
from apples.costs.runs import HALF_LIFE_RUNS, TrainingRuns, finished_runs, training_run, without_overhead
from apples.model.grid import OFFERED
from apples.model.plan import Assignment, Attempt, Outcome, Plan, RankObservation, Record
from apples.model.template import PAPER_OVERHEAD, Benchmark, Costs, Overhead
from apples.planning.jitter import mean_wait

BM = 0.195
COSTS = Costs(seconds_per_row={"node": {1: BM, 2: 2 * BM}})


def a_run(
    size,
    ranks,
    observed_s,
    *,
    slowdown=1.0,
    availability=1.0,
    slots=1,
    ended="finished",
    at=0.0,
    slow=(),
    exchange=(0.0, 0.0),
    setup_s=0.0,
    waits=(),
    messages=0.0,
    latency_s=0.0,
    outside_s=0.0,
):
    """A run on `ranks` hosts (or slots of one), planned with COSTS; ranks computed `slowdown` times as long.

    slow : ranks that computed 1.4 times as long as the others.  exchange : predicted and observed of each, seconds
    waits : of each rank, in the reduction.  latency_s : between hosts.  outside_s : before and after the ranks' own
        time
    """
    per_host = {1: BM, 2: 2 * BM}[slots]
    compute = per_host * size / ranks / availability
    assignments = tuple(
        Assignment(
            rank=r,
            host=f"h{r // slots}",
            slot=r % slots,
            rows=size // ranks,
            compute_s=compute,
            communicate_s=exchange[0],
            overhead_s=0.0,
        )
        for r in range(ranks)
    )
    observations = tuple(
        RankObservation(
            rank=r,
            host=f"h{r // slots}",
            rows=size // ranks,
            iterations=1,
            setup_s=setup_s,
            compute_s=compute * slowdown * (1.4 if r in slow else 1.0),
            communicate_s=exchange[1] * (1.0 if r in slow or not slow else 9.0),
            wait_s=waits[r] if waits else 0.0,
            total_s=observed_s - outside_s,
        )
        for r in range(ranks)
    )
    plan = Plan(
        scheduler="apples",
        application="pmhd3d",
        size=size,
        model="paper",
        assignments=assignments,
        predicted_s=compute,
        low_s=compute,
        high_s=compute,
    )
    hosts = [
        {
            "host": f"h{h}",
            "cpu_type": "node",
            "slots": slots,
            "availability": {"value": availability},
            "capacity": None,
        }
        for h in range(-(-ranks // slots))
    ]
    outcome = Outcome(ended=ended, exit_code=0, observed_s=observed_s, observations=observations)
    return Record(
        id="run",
        started_at=at,
        world="mock",
        key="pmhd3d",
        plan=plan,
        outcome=outcome,
        snapshot={"hosts": hosts, "links": {"usual": {"latency_s": latency_s}, "pairs": []}},
        workload={"iterations": 1, "messages": messages},
    )


def lessons(records, since=None, *, benchmarks=COSTS):
    """Runs, and the benchmarks they say something of."""
    return TrainingRuns(runs=finished_runs(records), benchmarks=benchmarks, since=since)


def fitted_to(records, costs=None, **more):
    """The overhead fitted to the runs of these records."""
    return fit_overhead(finished_runs(records), costs, **more)


def starts_of(records, *row_s):
    return start_costs(finished_runs(records), *row_s)


def messages_of(records):
    return message_costs(finished_runs(records))


def runs_under(overhead, count, *, noise=0.0, disturbed=0.0, seed=0):
    """Runs of sizes and counts as in the paper whose overhead is `overhead`, some of them disturbed by load."""
    rng = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        size, ranks = 1000 * int(rng.integers(1, 7)), 2 * int(rng.integers(2, 14))
        extra = overhead.seconds(size, ranks) * (1 + noise * rng.standard_normal())
        if rng.random() < disturbed:
            extra += rng.uniform(20, 100)
        records.append(a_run(size, ranks, BM * size / ranks + extra))
    return records


def test_papers_overhead_is_found_again_from_106_runs_a_sixth_of_them_disturbed():
    fitted = fitted_to(runs_under(PAPER_OVERHEAD, 106, noise=0.02, disturbed=0.17), COSTS)
    assert fitted.constant_s == pytest.approx(16, rel=0.05)
    assert fitted.per_row_s == pytest.approx(-1.5e-3, rel=0.1)
    assert fitted.per_rank_s == 0
    assert fitted.per_rank2_s == pytest.approx(0.094, rel=0.02)
    assert fitted.source == "fitted to 106 runs"
    assert 0 < fitted.error_s < 3


def test_one_run_can_carry_a_constant_only():
    fitted = fitted_to([a_run(1000, 10, 100 * BM + 12.0)])
    assert fitted.constant_s == pytest.approx(12.0)
    assert (fitted.per_row_s, fitted.per_rank_s, fitted.per_rank2_s) == (0, 0, 0)
    assert fitted.error_s > 0


def test_many_runs_of_one_kind_still_carry_a_constant_only():
    fitted = fitted_to([a_run(1000, 10, 100 * BM + extra) for extra in (11.0, 12.0, 13.0, 12.0)])
    assert fitted.constant_s == pytest.approx(12.0, abs=0.5)
    assert (fitted.per_row_s, fitted.per_rank_s, fitted.per_rank2_s) == (0, 0, 0)


def test_of_two_runs_that_disagree_the_newer_is_believed():
    fitted = fitted_to([a_run(1000, 10, 100 * BM + 130.0), a_run(1000, 10, 100 * BM + 20.0)])
    assert fitted.constant_s == pytest.approx(20.0)
    assert fitted.error_s > 50


def test_terms_the_runs_cannot_carry_come_from_what_was_believed():
    prior = Overhead(constant_s=1.0, per_rank_s=0.5)
    fitted = fitted_to([a_run(1000, 10, 100 * BM + 7.0)], COSTS, prior=prior)
    assert fitted.per_rank_s == 0.5
    assert fitted.seconds(1000, 10) == pytest.approx(7.0)


def test_without_finished_runs_the_prior_stands():
    prior = Overhead(constant_s=3.0)
    failed = a_run(1000, 10, 5.0, ended="failed")
    never_started = replace(failed, outcome=None)
    assert fitted_to([failed, never_started], prior=prior) == prior
    assert fitted_to([]) == Overhead()


def test_newer_runs_count_more():
    old = [a_run(1000, 10, 100 * BM + 5.0)] * 60
    new = [a_run(1000, 10, 100 * BM + 9.0)] * 45
    assert fitted_to(old + new).constant_s == pytest.approx(9.0)
    assert fitted_to(new + old).constant_s == pytest.approx(5.0)


def test_new_regime_is_followed_although_most_runs_are_old():
    old = [a_run(1000, 10, 100 * BM)] * 120
    new = [a_run(1000, 10, 100 * BM + 9.0)] * 40
    assert fitted_to(old + new).constant_s == pytest.approx(9.0)


def test_run_faster_than_predicted_never_makes_a_prediction_negative():
    fitted = fitted_to([a_run(1000, 10, 50 * BM)])
    assert fitted.seconds(1000, 10) == 0.0
    assert fitted.seconds(100_000, 1) >= 0.0


@settings(deadline=None, max_examples=20)
@given(
    constant=st.floats(5, 50),
    per_row=st.floats(-5e-4, 5e-3),
    per_rank2=st.floats(0.02, 0.2),
    seed=st.integers(0, 1000),
)
def test_known_coefficients_are_recovered_under_noise(constant, per_row, per_rank2, seed):
    truth = Overhead(constant_s=constant, per_row_s=per_row, per_rank2_s=per_rank2)
    fitted = fitted_to(runs_under(truth, 60, noise=0.01, disturbed=0.1, seed=seed), COSTS)
    for size in (1000, 3000, 6000):
        for ranks in (6, 16, 26):
            assert fitted.seconds(size, ranks) == pytest.approx(truth.seconds(size, ranks), rel=0.06)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 13), st.floats(0.01, 500)), min_size=1, max_size=25),
    st.floats(0, 50),
)
def test_fit_is_never_worse_than_no_fit_on_the_median_of_its_runs(runs, believed):
    records = [a_run(1000 * size, 2 * ranks, observed) for size, ranks, observed in runs]
    prior = Overhead(constant_s=believed)
    fitted = fitted_to(records, prior=prior)

    def median_miss(overhead):
        misses = [
            abs(observed - BM * 1000 * size / (2 * ranks) - overhead.seconds(1000 * size, 2 * ranks))
            for size, ranks, observed in runs
        ]
        age = np.arange(len(runs))[::-1]
        return weighted_median(np.array(misses), 0.5 ** (age / HALF_LIFE_RUNS))

    assert median_miss(fitted) <= median_miss(prior) + 1e-9
    # More ranks never look cheaper to start: a planner would run away with it.
    assert fitted.per_rank_s >= 0
    assert fitted.per_rank2_s >= 0
    assert np.isfinite(fitted.error_s)


def test_runs_that_agree_move_a_benchmark_all_the_way():
    records = [a_run(1000, 10, 30.0, slowdown=1.3) for _ in range(10)]
    corrected = correct(lessons(records))
    assert corrected.row_seconds("node", 1) == pytest.approx(1.3 * BM, rel=0.01)
    assert corrected.row_seconds("node", 2) == pytest.approx(2 * 1.3 * BM, rel=0.01)


def test_one_run_slightly_off_moves_next_to_nothing_and_one_far_off_most_of_the_way():
    (slight,) = corrections(lessons([a_run(1000, 10, 30.0, slowdown=1.02)])).types.values()
    (far,) = corrections(lessons([a_run(1000, 10, 30.0, slowdown=1.5)])).types.values()
    assert 1 < slight.factor < 1.005
    assert 1.4 < far.factor < 1.5


def test_runs_that_contradict_each_other_move_less_than_runs_that_agree():
    agree = [a_run(1000, 10, 30.0, slowdown=1.2)] * 6
    differ = [a_run(1000, 10, 30.0, slowdown=s) for s in (0.7, 1.2, 1.9, 0.8, 1.7, 1.2)]
    (agreed,) = corrections(lessons(agree)).types.values()
    (disputed,) = corrections(lessons(differ)).types.values()
    assert abs(disputed.factor - 1) < abs(agreed.factor - 1)


def test_low_availability_is_no_fault_of_the_benchmark():
    records = [a_run(1000, 10, 60.0, availability=0.5)] * 5
    assert correct(lessons(records)) == COSTS


def test_ranks_that_share_a_host_are_held_against_the_benchmark_for_sharing():
    records = [a_run(1000, 10, 60.0, slots=2, slowdown=1.25)] * 10
    (found,) = corrections(lessons(records)).types.values()
    assert found.factor == pytest.approx(1.25, rel=0.02)
    assert found.runs == 10


def test_what_was_learnt_is_not_learnt_twice():
    """Once planned with corrected costs, the same runs still say the same of the first benchmark."""
    first = [a_run(1000, 10, 30.0, slowdown=1.3)] * 5
    later = [
        replace(
            r,
            plan=replace(
                r.plan, assignments=tuple(replace(a, compute_s=a.compute_s * 1.3) for a in r.plan.assignments)
            ),
        )
        for r in first
    ]
    assert correct(lessons(first + later)).row_seconds("node", 1) == pytest.approx(1.3 * BM, rel=0.01)


def test_machines_that_did_not_run_keep_their_benchmark():
    costs = Costs(seconds_per_row={**COSTS.seconds_per_row, "idle": {1: 1.0}})
    corrected = correct(lessons([a_run(1000, 10, 30.0, slowdown=1.3)] * 3, benchmarks=costs))
    assert corrected.seconds_per_row["idle"] == {1: 1.0}
    assert correct(lessons([], benchmarks=costs)) == costs


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0.2, 5), min_size=1, max_size=12))
def test_correction_lies_between_no_correction_and_the_median(slowdowns):
    (found,) = corrections(lessons([a_run(1000, 10, 30.0, slowdown=s) for s in slowdowns])).types.values()
    ratios = sorted(slowdowns)
    assert min(1.0, ratios[0]) - 1e-9 <= found.factor <= max(1.0, ratios[-1]) + 1e-9


def test_host_slower_than_its_kind_is_priced_by_itself():
    corrected = correct(lessons([a_run(1000, 5, 30.0, slowdown=1.1, slow=(2,))] * 10))
    assert corrected.row_seconds("node", 1, "h0") == pytest.approx(1.1 * BM, rel=0.01)
    assert corrected.row_seconds("node", 1, "h2") == pytest.approx(1.4 * 1.1 * BM, rel=0.01)
    assert corrected.row_seconds("node", 1, "new") == pytest.approx(1.1 * BM, rel=0.01)


def test_host_that_was_slow_once_is_hardly_blamed():
    runs = [a_run(1000, 5, 30.0) for _ in range(9)] + [a_run(1000, 5, 30.0, slow=(2,))]
    assert correct(lessons(runs)).row_seconds("node", 1, "h2") == pytest.approx(BM, rel=0.01)


def test_runs_before_a_benchmark_say_nothing_of_it():
    runs = [a_run(1000, 5, 30.0, slowdown=1.5, at=10.0)] * 5 + [a_run(1000, 5, 30.0, at=20.0)] * 5
    assert correct(lessons(runs, {"node": 15.0})) == COSTS
    assert corrections(lessons(runs, {"node": 5.0})).types["node"].runs == 10


def test_benchmark_that_the_newest_runs_contradict_alike_is_outdated():
    usual = [a_run(1000, 5, 30.0)] * 12
    throttled = [a_run(1000, 5, 30.0, slowdown=1.5)] * 3
    (found,) = outdated(correct(lessons(usual + throttled)), lessons(usual + throttled)).values()
    assert found.factor == pytest.approx(1.5, rel=0.02)
    assert found.runs == 3


@pytest.mark.parametrize(
    "newest",
    [
        [1.5, 1.5],
        [1.5, 1.0, 1.5],
        [1.5, 0.6, 1.5],
        [1.1, 1.1, 1.1],
    ],
    ids=["too few", "not all", "not alike", "too little"],
)
def test_benchmark_is_not_outdated_by(newest):
    runs = [a_run(1000, 5, 30.0)] * 12 + [a_run(1000, 5, 30.0, slowdown=s) for s in newest]
    assert outdated(correct(lessons(runs)), lessons(runs)) == {}


def test_what_runs_have_taught_already_outdates_nothing():
    runs = [a_run(1000, 5, 30.0, slowdown=1.5)] * 8
    assert outdated(correct(lessons(runs)), lessons(runs)) == {}


def test_correct_ignores_the_spare_time_of_ranks_that_wait_on_a_shared_cpu():
    def runs(share, waited):
        compute = 200 * BM / share
        one = a_run(800, 4, 60.0, availability=share, slowdown=0.8, waits=(waited * compute,) * 4)
        return lessons([one] * 8)

    # With half of a CPU, rows that took 0.8 and 0.2 of waiting may have cost as much as the benchmark says.
    assert correct(runs(0.5, 0.2)).row_seconds("node", 1) == pytest.approx(BM)
    assert correct(runs(0.5, 0.0)).row_seconds("node", 1) == pytest.approx(0.8 * BM, rel=0.01)
    assert correct(runs(1.0, 0.2)).row_seconds("node", 1) == pytest.approx(0.8 * BM, rel=0.01)


def with_cpu_times(run, cpu_s):
    """The same run, the CPU time of each rank's sweeps measured."""
    observations = [replace(seen, cpu_s=cpu_s) for seen in run.outcome.observations]
    return replace(run, outcome=replace(run.outcome, observations=tuple(observations)))


@pytest.mark.parametrize("factor", [0.7, 0.9, 1.1])
def test_correct_takes_cpu_times_where_they_were_measured(factor):
    # Half of a CPU: rows took 0.6 of what they were expected to, and the rest of the time was waiting.
    expected_s = 200 * BM / 0.5
    run = a_run(800, 4, 2 * expected_s, availability=0.5, slowdown=0.6, waits=(0.9 * expected_s,) * 4)
    told = [with_cpu_times(run, factor * 200 * BM)] * 8
    assert correct(lessons(told)).row_seconds("node", 1) == pytest.approx(factor * BM, rel=0.02)
    # Rows took at least the time that they took, whatever share of a CPU was forecast.
    assert correct(lessons([with_cpu_times(run, 1.0)] * 8)).row_seconds("node", 1) == pytest.approx(
        0.6 * BM, rel=0.02
    )


def test_exchanges_that_computing_hides_are_priced_as_they_were_waited_for():
    runs = [a_run(1000, 4, 60.0, exchange=(10.0, 2.5))] * 6
    assert correct(lessons(runs)).communication == pytest.approx(0.25, rel=0.01)
    hidden = [a_run(1000, 4, 60.0, exchange=(10.0, 0.0))] * 6
    assert correct(lessons(hidden)).communication == pytest.approx(0.01, rel=0.01)
    assert correct(lessons([a_run(1000, 4, 60.0)] * 6)).communication == 1.0


def test_who_waits_for_a_slow_neighbour_does_not_say_what_exchanges_cost():
    runs = [a_run(1000, 4, 60.0, slow=(1,), exchange=(10.0, 2.5))] * 6
    assert correct(lessons(runs)).communication == pytest.approx(0.25, rel=0.01)


def test_what_was_learnt_of_exchanges_is_not_learnt_twice():
    first = [a_run(1000, 4, 60.0, exchange=(10.0, 2.5))] * 3
    later = [a_run(1000, 4, 60.0, exchange=(2.5, 2.5))] * 3
    later = [replace(r, plan=replace(r.plan, communication=0.25)) for r in later]
    assert correct(lessons(first + later)).communication == pytest.approx(0.25, rel=0.01)
    priced = correct(lessons(first + later))
    observed = 250 * BM + 2.5 + 7.0
    told = [replace(r, outcome=replace(r.outcome, observed_s=observed)) for r in first + later]
    assert fitted_to(told, priced).seconds(1000, 4) == pytest.approx(7.0, rel=0.02)


def test_runs_with_long_exchanges_say_more_of_them_than_many_with_next_to_none():
    runs = [
        *[a_run(1000, 4, 60.0, exchange=(0.01, 0.1))] * 6,
        *[a_run(1000, 4, 60.0, exchange=(10.0, 2.5))] * 3,
    ]
    assert correct(lessons(runs)).communication == pytest.approx(0.25, rel=0.02)


def test_boxes_start_as_their_cells_not_as_their_rows():
    record = a_run(100, 2, 20.0, availability=0.5)
    halves = tuple(replace(a, part_of_row=0.5) for a in record.plan.assignments)
    boxes = replace(record, plan=replace(record.plan, assignments=halves))
    starting = replace(COSTS, start_row_cpu_s=0.01)
    more = [
        without_overhead(training_run(each), starting) - without_overhead(training_run(each), COSTS)
        for each in (record, boxes)
    ]
    assert more == pytest.approx([50 * 0.01 / 0.5, 25 * 0.01 / 0.5])


def test_startup_of_benchmarks_gives_a_constant_and_a_part_per_rank():
    several = [
        Benchmark(ranks=r, seconds_per_row=1.0, startup_s=0.4 + 0.1 * r, bytes_per_row=0.0) for r in (1, 2, 4)
    ]
    overhead = startup_overhead(several)
    assert overhead.constant_s == pytest.approx(0.4)
    assert overhead.per_rank_s == pytest.approx(0.1)
    assert startup_overhead(several[:1]).constant_s == pytest.approx(0.5)
    assert startup_overhead([]) == Overhead()


def in_attempts(record, *firsts):
    """The same run, as the run loop records it when it began at these iterations."""
    attempts = tuple(
        Attempt(
            number=number,
            started_at=0.0,
            first_iteration=first,
            iterations=1,
            plan=record.plan,
            outcome=record.outcome,
        )
        for number, first in enumerate(firsts, 1)
    )
    return replace(record, attempts=attempts)


def test_runs_that_were_tried_again_or_resumed_teach_nothing():
    plain = [a_run(1000, 10, 1000 * BM / 10 + 5.0), a_run(2000, 10, 2000 * BM / 10 + 5.0)]
    broken = a_run(1000, 10, 500.0, slowdown=3.0)
    for odd in (in_attempts(broken, 0, 50), in_attempts(broken, 50)):
        assert fitted_to([*plain, odd], COSTS) == fitted_to(plain, COSTS)
        assert corrections(lessons([*plain, odd])) == corrections(lessons(plain))
    once = [in_attempts(record, 0) for record in plain]
    assert fitted_to(once, COSTS) == fitted_to(plain, COSTS)


def test_checkpoints_are_not_taken_for_overhead():
    bare = [a_run(1000 * k, 10, 1000 * k * BM / 10 + 5.0) for k in (1, 2, 3)]

    def with_checkpoints(record, seconds):
        outcome = record.outcome
        seen = tuple(replace(o, checkpoint_s=seconds, checkpoints=3) for o in outcome.observations)
        later = outcome.observed_s + seconds
        return replace(record, outcome=replace(outcome, observations=seen, observed_s=later))

    kept = [with_checkpoints(record, 7.0 * k) for k, record in enumerate(bare)]
    assert fitted_to(kept, COSTS).seconds(1000, 10) == pytest.approx(fitted_to(bare, COSTS).seconds(1000, 10))


# Slabs of other sizes: their benchmark says 2 · BM of a row where ours says BM.

WIDER = Costs(seconds_per_row={"node": {1: 2 * BM, 2: 4 * BM}})


def on_wider_slabs(count, **facts):
    """Runs that their own benchmark prices right but for `slowdown`, and ours only by half."""
    slowdown = 2 * facts.pop("slowdown", 1.0)
    runs = [
        replace(a_run(400, 4, 2 * BM * 100 + 3.0, slowdown=slowdown, **facts), id=f"{k:02}")
        for k in range(count)
    ]
    return lessons(runs, benchmarks=WIDER)


def test_slab_size_that_never_ran_believes_its_neighbours():
    wider = on_wider_slabs(8, slow=(1,), slowdown=1.2)
    costs = correct(lessons([]), [wider])
    assert costs.row_seconds("node", 1, "h0") == pytest.approx(1.2 * BM, rel=0.01)
    assert costs.row_seconds("node", 1, "h1") == pytest.approx(1.2 * 1.4 * BM, rel=0.01)


def test_what_two_benchmarks_differ_by_by_chance_is_not_taught_on():
    little_more = Costs(seconds_per_row={"node": {1: 1.06 * BM, 2: 2.12 * BM}})
    runs = [replace(a_run(400, 4, 1.06 * BM * 100 + 3.0, slowdown=1.06), id=f"{k:02}") for k in range(8)]
    costs = correct(lessons([]), [lessons(runs, benchmarks=little_more)])
    assert costs.row_seconds("node", 1) == pytest.approx(1.06 * BM, rel=0.01)


def test_what_slabs_differ_by_is_asked_of_each_count_of_ranks():
    theirs = Costs(seconds_per_row={"node": {1: 1.02 * BM, 2: 4 * BM, 4: 8 * BM}})
    shared = [
        replace(a_run(400, 4, 1.3 * 4 * BM * 100, slots=2, slowdown=1.3 * 2), id=f"{k:02}") for k in range(8)
    ]
    costs = correct(lessons([]), [lessons(shared, benchmarks=theirs)])
    assert costs.row_seconds("node", 2) == pytest.approx(1.3 * 2 * BM, rel=0.01)


def on_growing_slabs(rows, exponent, *, seed=1):
    """Runs whose rows cost more in larger slabs than benchmarks say, by this exponent, and scatter by 2 %."""
    draw = np.random.default_rng(seed)
    return [
        replace(
            a_run(2 * n, 2, 9.0, slowdown=1.2 * (n / 64) ** exponent * (1 + 0.02 * draw.standard_normal())),
            id=f"{k:02}",
        )
        for k, n in enumerate(rows)
    ]


def test_runs_show_how_costs_grow_with_the_rows_of_a_slab():
    rows = [40, 45, 50, 57, 64, 72, 80, 90] * 2
    flat = replace(
        COSTS, slab_rows=64.0, slab_limits=(32.0, 128.0), growth={"node": {1: (0.0, 0.0), 2: (0.0, 0.0)}}
    )
    own, _ = with_growth_of_runs(lessons(on_growing_slabs(rows, 0.5), benchmarks=flat))
    costs = correct(own)
    for n in (45, 64, 90):
        assert costs.at(n).row_seconds("node", 1) == pytest.approx(1.2 * (n / 64) ** 0.5 * BM, rel=0.03)
    scattered = lessons(on_growing_slabs(rows, 0.0), benchmarks=flat)
    assert with_growth_of_runs(scattered) == (scattered, []), "chance shows no growth"
    few = lessons(on_growing_slabs([40, 90] * 8, 0.5), benchmarks=flat)
    assert with_growth_of_runs(few) == (few, []), "two sizes are too few"


def test_growth_of_runs_moves_the_benchmarks_of_other_sizes():
    flat = replace(
        COSTS, slab_rows=64.0, slab_limits=(32.0, 128.0), growth={"node": {1: (0.0, 0.0), 2: (0.0, 0.0)}}
    )
    other = replace(flat, slab_rows=32.0, slab_limits=(16.0, 64.0))
    large = lessons(on_growing_slabs([57, 64, 72, 80, 90], 0.5), benchmarks=flat)
    small = lessons(on_growing_slabs([28, 32, 36, 40], 0.5, seed=2), benchmarks=other)
    _, (moved,) = with_growth_of_runs(large, [small])
    assert moved.benchmarks.row_seconds("node", 1) == pytest.approx(0.5**0.5 * BM, rel=0.03)
    assert moved.benchmarks.at(64).row_seconds("node", 1) == pytest.approx(BM, rel=0.03)


def test_runs_on_slabs_of_this_size_know_better():
    wider = on_wider_slabs(8, slowdown=1.2)
    own = [a_run(200, 4, 20.0, slowdown=0.9)] * 8
    assert correct(lessons(own), [wider]).row_seconds("node", 1) == pytest.approx(0.9 * BM, rel=0.01)
    found = corrections(lessons(own), [wider]).types["node"]
    assert (found.factor, found.runs) == (pytest.approx(0.9, rel=0.01), 16)


def test_one_run_on_slabs_of_this_size_moves_little_of_what_eight_others_taught():
    wider = on_wider_slabs(8, slowdown=1.2)
    own = [a_run(200, 4, 20.0, slowdown=1.15)]
    assert correct(lessons(own), [wider]).row_seconds("node", 1) == pytest.approx(1.19 * BM, rel=0.01)


def test_exchanges_and_overhead_are_believed_from_neighbours_too():
    wider = on_wider_slabs(8, exchange=(2.0, 0.5))
    costs = learned_costs(lessons([]), [wider], 1)
    assert costs.communication == pytest.approx(0.25, rel=0.02)
    assert costs.overhead.seconds(200, 4) == pytest.approx(3.0 - 0.5, abs=0.1)
    assert costs.overhead.source == "fitted to 8 runs"


def test_runs_of_other_lengths_teach_no_overhead():
    wider = on_wider_slabs(8)
    assert learned_costs(lessons([]), [wider], 100).overhead == Overhead()


def test_start_that_benchmarks_have_shown_is_not_paid_twice():
    shown = replace(COSTS, overhead=Overhead(constant_s=5.0))
    runs = [a_run(400, 4, 100 * BM + 9.0, setup_s=1.5)] * 4
    costs = learned_costs(lessons(runs, benchmarks=shown), [], iterations := 100)
    assert runs[0].workload["iterations"] != iterations
    assert costs.overhead.constant_s + costs.start_cpu_s == pytest.approx(5.0)


def starting(availability, observed_s, setup_s):
    """A run that computes for 100 · BM / availability."""
    return a_run(400, 4, observed_s, availability=availability, setup_s=setup_s)


def test_what_ranks_compute_before_the_first_iteration_is_told_by_busy_and_idle_runs_alike():
    runs = [
        starting(1.0, 9.0, 1.5),
        starting(0.5, 9.0, 3.0),
        starting(0.1, 9.0, 15.0),
        starting(1.0, 9.0, 7.0),
    ]
    assert starts_of(runs) == (pytest.approx(1.5), 0.0)
    assert starts_of([a_run(400, 4, 9.0)]) == (0.0, 0.0)


def test_start_on_a_busy_cpu_takes_longer_and_the_overhead_is_the_rest():
    runs = [
        starting(share, 100 * BM / share + 1.5 / share + 4.0, 1.5 / share) for share in (1.0, 0.5, 0.25, 1.0)
    ]
    costs = learned_costs(lessons(runs), [], 1)
    assert costs.start_cpu_s == pytest.approx(1.5)
    assert costs.overhead.constant_s == pytest.approx(4.0)


def late(availability, least_s, observed_s=9.0, latency_s=0.0):
    """Four ranks, 10 messages; the second is whom the others wait for, and waits `least_s` itself."""
    return a_run(
        400,
        4,
        observed_s,
        availability=availability,
        waits=(5.0, least_s, 7.0, 6.0),
        messages=10.0,
        latency_s=latency_s,
    )


def test_what_messages_cost_is_told_by_the_rank_that_all_wait_for():
    assert messages_of([late(1.0, 0.2), late(0.5, 0.4), late(0.1, 2.0)]) == (pytest.approx(0.02), 0.0, 0.0)


def test_message_costs_take_waits_for_exchanges_beyond_the_links():
    runs = [
        a_run(
            400, 4, 9.0, availability=share, exchange=(0.5, 0.5 + 2 / share), waits=(0.0,) * 4, messages=100.0
        )
        for share in (1.0, 0.5, 0.25)
    ]
    assert messages_of(runs) == (pytest.approx(0.02), 0.0, 0.0)
    assert correct(lessons(runs)).communication == 1.0


def test_waits_for_changing_loads_are_no_cost_of_messages():
    runs = [late(share, 0.2 / share + 3.0) for share in (1.0, 0.5, 0.25)]
    runs = [replace(run, plan=replace(run.plan, lateness_s=4.0, waiting_s=3.0)) for run in runs]
    assert messages_of(runs) == (pytest.approx(0.02), 0.0, 0.0)


def waiting(*waits_s, observed_s=200.0):
    """Two ranks that wait so long for a thousand messages; the second has half of a CPU."""
    run = a_run(400, 2, observed_s, waits=waits_s, messages=1000.0)
    run.snapshot["hosts"][1]["availability"] = {"value": 0.5}
    return run


def jittery(gap_s, jitter_s, **others):
    """The same where the second waits `gap_s` longer at each message, and both because of jitter."""
    least_s = mean_wait(jitter_s, gap_s)
    return waiting(1000 * least_s, 1000 * (least_s + gap_s), **others)


def test_waits_from_jitter_are_no_cost_of_messages():
    # The first two runs were planned badly: the slower rank hardly waited, which is no measure of balanced plans.
    runs = [jittery(gap_s, 3e-3) for gap_s in (4e-3, 5e-3, 2e-4)]
    assert messages_of(runs) == (pytest.approx(0.0), 0.0, pytest.approx(3e-3))
    # No run of ranks that needed nearly equally long shows jitter.
    assert messages_of(runs[:2])[2] == 0.0
    # As much waiting at every gap is a cost of messages.
    assert messages_of([waiting(1.0, 1.0 + gap_s) for gap_s in (4.0, 5.0, 0.2)]) == (
        pytest.approx(1e-3),
        0.0,
        0.0,
    )


def test_jitter_and_costs_of_messages_are_found_together():
    each_s = [mean_wait(3e-3, gap_s) + 1e-3 for gap_s in (4e-3, 5e-3, 2e-4, 1e-3)]
    runs = [
        waiting(1e3 * s, 1e3 * (s + gap_s)) for s, gap_s in zip(each_s, (4e-3, 5e-3, 2e-4, 1e-3), strict=True)
    ]
    cpu_s, hops, jitter_s = messages_of(runs)
    assert (hops, cpu_s) == (0.0, pytest.approx(1e-3, rel=0.3))
    assert cpu_s + mean_wait(jitter_s, 0.0) == pytest.approx(1e-3 + mean_wait(3e-3, 0.0), rel=0.1)


def test_balanced_runs_alone_show_no_jitter():
    runs = [waiting(least_s, least_s + 0.01) for least_s in (1.0, 1.3, 1.5)]
    assert messages_of(runs)[2] == 0.0


def test_waits_from_jitter_are_no_overhead_as_well():
    # By their costs the second rank computes twice as long as the first, which leaves little to wait for.
    slower_s, faster_s = 400 * BM, 200 * BM
    expected_s = slower_s + mean_wait(30.0, slower_s - faster_s)
    runs = [jittery(gap_s, 30e-3, observed_s=expected_s + 4.0) for gap_s in (40e-3, 2e-3, 1e-3)]
    costs = replace(COSTS, jitter_s=30e-3)
    assert without_overhead(training_run(runs[0]), costs) == pytest.approx(expected_s)
    assert fitted_to(runs, costs).constant_s == pytest.approx(4.0)
    assert learned_costs(lessons(runs), [], 1).jitter_s == pytest.approx(30e-3)


def test_used_up_share_is_no_cost_of_messages():
    # Half of a CPU: sweeps with 60 s of CPU time took 100 s; for 20 s of the waits there was no CPU to be had.
    run = a_run(400, 4, 150.0, availability=0.5, waits=(30.0, 22.0, 40.0, 35.0), messages=100.0)
    seen = [replace(one, compute_s=100.0, cpu_s=60.0) for one in run.outcome.observations]
    run = replace(run, outcome=replace(run.outcome, observations=tuple(seen)))
    assert messages_of([run]) == (pytest.approx(0.02 * 0.5), 0.0, 0.0)


def test_start_costs_grow_with_the_rows_of_a_rank_as_memory_does():
    def run(ranks, row_bytes):
        ran = a_run(480, ranks, 9.0, setup_s=1.0 + 0.002 * 480 / ranks)
        return replace(ran, workload={**ran.workload, "bytes_per_row": row_bytes})

    ranks = (1, 2, 3, 4, 6, 8)
    assert starts_of([run(n, 2e6) for n in ranks]) == (pytest.approx(1.0), pytest.approx(0.002))
    assert starts_of([run(n, 1e4) for n in ranks])[1] == 0.0
    assert starts_of([run(n, 1e4) for n in ranks], 0.002) == (pytest.approx(1.0), 0.002)
    assert starts_of([run(n, 1e4) for n in ranks], 1.0) == (0.0, 1.0), "never less than nothing"
    assert starts_of([], 0.002) == (0.0, 0.002)


def test_reductions_that_cross_a_slow_link_are_told_from_busy_cpus():
    runs = [
        late(share, 10 * (0.02 / share + 5 * latency_s), latency_s=latency_s)
        for share in (1.0, 0.5, 0.25)
        for latency_s in (0.0, 0.002, 0.01)
    ]
    assert messages_of(runs) == (pytest.approx(0.02), pytest.approx(5.0), 0.0)


def in_short_iterations(share, least_s=0.0, overhead_s=0.0):
    """Four ranks that get on only while all have their CPUs, planned as such; each waits for messages besides."""
    compute_s = 100 * BM / share
    waits_s = compute_s * (share**-3 - 1)
    run = a_run(
        400,
        4,
        compute_s + waits_s + least_s + overhead_s,
        availability=share,
        waits=(waits_s + 5.0, waits_s + least_s, waits_s + 7.0, waits_s + 6.0),
        messages=10.0,
    )
    chain = tuple(replace(a, communicate_s=waits_s) for a in run.plan.assignments)
    return replace(
        run,
        plan=replace(run.plan, model="exchange", assignments=chain),
        workload={**run.workload, "iterations": 10**9},
    )


def test_what_short_iterations_wait_for_cpus_is_not_taken_for_messages():
    runs = [in_short_iterations(share, 0.2 / share, 4.0) for share in (1.0, 0.5, 0.8, 1.0)]
    assert messages_of(runs) == (pytest.approx(0.02), 0.0, 0.0)
    costs = learned_costs(
        lessons(runs, benchmarks=Costs(seconds_per_row={"node": {1: BM / 10**9}})), [], 10**9
    )
    assert costs.communication == 1.0
    assert costs.overhead.constant_s == pytest.approx(4.0)


def test_runs_within_a_host_keep_the_price_between_hosts():
    apart = [late(share, 0.2 / share) for share in (1.0, 0.5, 0.25)]
    together = [
        replace(
            run, plan=replace(run.plan, assignments=[replace(a, host="h0") for a in run.plan.assignments])
        )
        for run in apart
    ]
    known = replace(COSTS, message_cpu_s=0.05)
    assert learned_costs(lessons(together, benchmarks=known), [], 1).message_cpu_s == 0.05
    assert learned_costs(lessons(apart, benchmarks=known), [], 1).message_cpu_s == pytest.approx(0.02)


def test_runs_without_messages_or_neighbours_tell_nothing_of_them():
    assert messages_of([a_run(400, 4, 9.0, waits=(1.0,) * 4)]) is None
    assert messages_of([a_run(100, 1, 9.0, waits=(1.0,), messages=10.0)]) is None


def test_messages_on_a_busy_cpu_take_longer_and_the_overhead_is_the_rest():
    runs = [late(share, 0.2 / share, 100 * BM / share + 0.2 / share + 4.0) for share in (1.0, 0.5, 0.25, 1.0)]
    costs = learned_costs(lessons(runs), [], 1)
    assert costs.message_cpu_s == pytest.approx(0.02)
    assert costs.overhead.constant_s == pytest.approx(4.0)


def test_what_passes_before_ranks_look_at_the_clock_counts_as_far_as_it_grows_with_the_load():
    def run(share):
        return a_run(
            400,
            4,
            BM * 100 / share + 1.5 / share + 0.9 + 0.25 / share,
            availability=share,
            setup_s=1.5 / share,
            outside_s=0.9 + 0.25 / share,
        )

    assert starts_of([run(1.0), run(1.0), run(0.5)])[0] == pytest.approx(1.5)
    assert starts_of([run(s) for s in (1.0, 0.5, 0.4, 0.25, 0.2)])[0] == pytest.approx(1.75)


def test_shares_that_hardly_differ_show_no_cost_of_the_start():
    def run(share, outside_s):
        return a_run(400, 4, 20.0, availability=share, setup_s=0.1, outside_s=outside_s)

    # Chance alone, whose slope would be 2,000 s for each second by which a CPU is slower.
    runs = [run(0.45 - n * 1e-6, 1.0 + n * 0.01) for n in range(6)]
    assert starts_of(runs)[0] < (0.1 + 1.05) * 0.45


def test_runs_on_offered_shares_teach_no_cost_of_rows():
    def offered(run):
        (host,) = run.snapshot["hosts"]
        entry = {**host, "availability": {"value": 1.0, "method": OFFERED}}
        return replace(run, snapshot={**run.snapshot, "hosts": [entry]})

    # the host gives a third of its CPU, which the first runs take for slow rows
    first = [offered(a_run(1000, 1, 3 * BM * 1000, slowdown=3.0)) for _ in range(3)]
    then = [a_run(1000, 1, 3 * BM * 1000, availability=1 / 3) for _ in range(3)]
    assert learned_costs(lessons(first), [], 1).seconds_per_row["node"][1] > 1.5 * BM
    assert learned_costs(lessons([*first, *then]), [], 1).seconds_per_row["node"][1] == pytest.approx(
        BM, rel=0.05
    )
    assert learned_costs(lessons(first), [lessons(then)], 1).seconds_per_row["node"][1] == pytest.approx(
        BM, rel=0.05
    )
