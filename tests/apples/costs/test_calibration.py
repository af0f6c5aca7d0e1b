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
from apples.model.plan import Attempt, Outcome, Record
from apples.model.template import PAPER_OVERHEAD, Benchmark, Costs, Overhead
from apples.planning.jitter import mean_wait
from tests.apples.samples import a_plan, an_assignment, an_observation
from tests.transcripts import recorded

BM = 0.2
COSTS = Costs(seconds_per_row={"node": {1: BM, 2: 2 * BM}})


def a_run(
    size=1000,
    ranks=10,
    observed_s=30.0,
    *,
    extra_s=None,
    slowdown=1.0,
    availability=1.0,
    slots=1,
    ended="finished",
    at=0.0,
    slow=(),
    exchange=(0.0, 0.0),
    setup_s=0.0,
    waits=None,
    messages=0.0,
    latency_s=0.0,
    outside_s=0.0,
    row_bytes=0.0,
    corrected=1.0,
    attempts=(),
    together=False,
    seen=None,
    planned=None,
):
    """A run on `ranks` hosts (or slots of one), planned with COSTS; ranks computed `slowdown` times as long.

    extra_s : instead of `observed_s`, what the run took beyond its computation
    slow : ranks that computed 1.4 times as long as the others.  exchange : predicted and observed of each, seconds
    waits : of each rank, in the reduction.  latency_s : between hosts.  outside_s : before and after the ranks' own
        time.  corrected : factor on BM by which it was planned.  attempts : first iterations of its launches
    together : on one host after all.  seen, planned : other fields of all observations, of the plan
    """
    compute = {1: BM, 2: 2 * BM}[slots] * size / ranks / availability
    if extra_s is not None:
        observed_s = compute + extra_s
    slices = [
        {"rank": r, "host": "h0" if together else f"h{r // slots}", "rows": size // ranks}
        for r in range(ranks)
    ]
    assignments = tuple(
        an_assignment(
            **part,
            slot=part["rank"] % slots,
            compute_s=compute * corrected,
            communicate_s=exchange[0],
        )
        for part in slices
    )
    observations = tuple(
        an_observation(
            **part,
            iterations=1,
            setup_s=setup_s,
            compute_s=compute * slowdown * (1.4 if part["rank"] in slow else 1.0),
            communicate_s=exchange[1] * (1.0 if part["rank"] in slow or not slow else 9.0),
            wait_s=waits[part["rank"]] if waits else 0.0,
            total_s=observed_s - outside_s,
        )
        for part in slices
    )
    observations = tuple(replace(one, **(seen or {})) for one in observations)
    plan = a_plan(*assignments, model="paper", predicted_s=compute, **(planned or {}))
    host = {"cpu_type": "node", "slots": slots, "availability": {"value": availability}, "capacity": None}
    hosts = [{"host": f"h{h}", **host} for h in range(-(-ranks // slots))]
    outcome = Outcome(ended=ended, exit_code=0, observed_s=observed_s, observations=observations)
    launches = tuple(
        Attempt(number=n, started_at=0.0, first_iteration=first, iterations=1, plan=plan, outcome=outcome)
        for n, first in enumerate(attempts, 1)
    )
    return Record(
        id="run",
        started_at=at,
        world="mock",
        key="pmhd3d",
        plan=plan,
        outcome=outcome if ended else None,
        snapshot={"hosts": hosts, "links": {"usual": {"latency_s": latency_s}, "pairs": []}},
        workload={"iterations": 1, "messages": messages, "bytes_per_row": row_bytes},
        attempts=launches,
    )


def numbered(rows, prefix="z"):
    """The runs of rows: their number and `a_run`'s arguments."""
    runs = [a_run(**facts) for count, facts in rows for _ in range(count)]
    return [replace(run, id=f"{prefix}{n:03}") for n, run in enumerate(runs)]


def lessons(records, since=None, *, benchmarks=COSTS):
    """Runs, and the benchmarks they say something of."""
    return TrainingRuns(runs=finished_runs(records), benchmarks=benchmarks, since=since)


def factors(costs):
    """What rows cost, over BM: of each type by ranks on a host, and of hosts that differ from their type."""
    for name, table in costs.seconds_per_row.items():
        yield f"{name}: " + ", ".join(f"{seconds / BM:.3g} BM by {n}" for n, seconds in table.items())
    for host, factor in costs.host_factors.items():
        if abs(factor - 1) > 0.01:
            yield f"{host}: {factor:.3g} times that"


@recorded("apples/costs/lessons.txt", "why", "runs", "more")
def test_costs_learned_from_runs_are_as_recorded(answered, why, runs, more):
    """more : other benchmarks, and since when; others, by their factor on BM; iterations; costs of a row's start."""
    tables = {"node": {1: BM, 2: 2 * BM}, **more.get("benchmarks", {})}
    benchmarks = Costs(seconds_per_row=tables, overhead=Overhead(**more.get("overhead", {})))
    benchmarks = replace(benchmarks, message_cpu_s=more.get("message_cpu_s", 0.0))
    own = lessons(numbered(runs), more.get("since"), benchmarks=benchmarks)
    others = [
        lessons(
            numbered(rows, "a"),
            benchmarks=Costs(seconds_per_row={"node": {n: f * BM for n, f in table.items()}}),
        )
        for table, rows in more.get("others", ())
    ]
    costs = learned_costs(own, others, more.get("iterations", 1))
    prior = Overhead(**more.get("prior", {}))
    alone = fit_overhead(own.runs, COSTS, prior=prior)
    start_s, start_row_s = start_costs(own.runs, more.get("start_row_s", 0.0))
    lines = [*factors(costs), f"exchanges take {costs.communication:.3g} of what links explain"]
    for name, one in corrections(own, others).types.items():
        lines.append(f"{name}: a factor of {one.factor:.4g} from {one.runs} runs")
    for name, one in outdated(correct(own, others), own).items():
        lines.append(f"{name} is outdated: {one.factor:.3g} by {one.runs} runs")
    for name, overhead in (("overhead", costs.overhead), ("fitted", alone)):
        terms = (overhead.constant_s, overhead.per_row_s, overhead.per_rank_s, overhead.per_rank2_s)
        lines.append(
            f"{name}: {', '.join(f'{term:.3g}' for term in terms)}: {overhead.seconds(1000, 10):.3g} s,"
            f" error {overhead.error_s:.3g} s, {overhead.source}"
        )
    lines.append(f"starts: {costs.start_cpu_s:.3g} s, alone {start_s:.3g} s and {start_row_s:.3g} s a row")
    messages = [f"{value:.3g}" for value in message_costs(own.runs) or ()]
    lines.append(f"messages: {costs.message_cpu_s:.3g} s, alone {', '.join(messages) or 'unknown'}")
    answered(lines)


def fitted_to(records, costs=None, **more):
    """The overhead fitted to the runs of these records."""
    return fit_overhead(finished_runs(records), costs, **more)


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


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0.2, 5), min_size=1, max_size=12))
def test_correction_lies_between_no_correction_and_the_median(slowdowns):
    (found,) = corrections(lessons([a_run(1000, 10, 30.0, slowdown=s) for s in slowdowns])).types.values()
    ratios = sorted(slowdowns)
    assert min(1.0, ratios[0]) - 1e-9 <= found.factor <= max(1.0, ratios[-1]) + 1e-9


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
