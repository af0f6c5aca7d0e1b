"""Finished runs move the costs: rows of kinds of hosts and of hosts, messages, and the start."""

from dataclasses import replace

import numpy as np
import pytest

from apples.costs.posterior import learn
from apples.costs.runs import TrainingRuns, finished_runs, training_run, without_overhead
from apples.model.grid import OFFERED
from apples.model.plan import Outcome, Record
from apples.model.template import Costs, Overhead
from tests.apples.samples import a_plan, an_assignment, an_observation

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
    together=False,
    seen=None,
    planned=None,
):
    """A run on `ranks` hosts (or slots of one), planned with COSTS; ranks computed `slowdown` times as long.

    extra_s : instead of `observed_s`, what the run took beyond its computation
    slow : ranks that computed 1.4 times as long as the others.  exchange : predicted and observed of each, seconds
    waits : of each rank, in the reduction.  latency_s : between hosts.  outside_s : before and after the ranks' own
        time.  corrected : factor on BM by which it was planned
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
    return Record(
        id="run",
        started_at=at,
        world="mock",
        key="pmhd3d",
        plan=plan,
        outcome=outcome if ended else None,
        snapshot={"hosts": hosts, "links": {"usual": {"latency_s": latency_s}, "pairs": []}},
        workload={"iterations": 1, "messages": messages, "bytes_per_row": row_bytes},
    )


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


def lessons(records, *, since=None, benchmarks=COSTS):
    """Runs, numbered, and the benchmarks they say something of."""
    runs = [replace(run, id=f"{n:03}") for n, run in enumerate(records)]
    return TrainingRuns(runs=finished_runs(runs), benchmarks=benchmarks, since=since)


def row_s(records, host="h0", **more):
    """Seconds of a row on a host after these runs, in units of the benchmark."""
    return learn(lessons(records, **more)).costs.row_seconds("node", 1, host) / BM


def test_rows_no_run_have_the_benchmarks_cost_and_an_error():
    costs = learn(lessons([])).costs
    assert costs.seconds_per_row == COSTS.seconds_per_row
    assert 0.02 < costs.row_error < 0.1 < costs.host_errors[""] < 0.15


@pytest.mark.parametrize(
    ("runs", "least", "most"),
    [
        ([{"slowdown": 1.02}], 1.0, 1.02),
        ([{"slowdown": 1.3}], 1.05, 1.25),
        ([{"slowdown": 1.3}] * 8, 1.25, 1.31),
        ([{"slowdown": 1.0}] * 6 + [{"slowdown": 2.0}], 1.0, 1.1),
        ([{"slowdown": 1.0}] * 6 + [{"slowdown": 2.0}] * 2, 1.85, 2.1),
        ([{"slowdown": 1.0}] * 6 + [{"slowdown": 2.0}] + [{"slowdown": 1.0}] * 2, 0.97, 1.05),
    ],
    ids=["hardly off", "one run", "eight agree", "disturbed", "changed", "disturbed and back"],
)
def test_rows_move_by_what_runs_are_worth(runs, least, most):
    assert least <= row_s([a_run(1000, 10, **facts) for facts in runs]) <= most


def test_hosts_of_a_kind_share_what_one_shows():
    slow = [a_run(1000, 4, slow=(0,), seen=None) for _ in range(8)]
    costs = learn(lessons(slow)).costs
    assert costs.row_seconds("node", 1, "h0") / BM == pytest.approx(1.4, rel=0.06)
    assert costs.row_seconds("node", 1, "h1") / BM == pytest.approx(1.0, rel=0.06)
    assert costs.row_seconds("node", 1, "never seen") / BM < 1.15
    assert costs.host_errors["h1"] < costs.host_errors[""]


def test_runs_before_the_benchmark_say_nothing_of_rows():
    old = [a_run(1000, 10, slowdown=2.0, at=1.0)] * 5
    assert row_s(old, since={"node": 2.0}) == 1.0


def test_runs_on_offered_shares_say_little_of_rows():
    def offered(run):
        entries = [
            {**host, "availability": {"value": 1.0, "method": OFFERED}} for host in run.snapshot["hosts"]
        ]
        return replace(run, snapshot={**run.snapshot, "hosts": entries})

    runs = [a_run(1000, 1, 3 * BM * 1000, slowdown=1.5) for _ in range(3)]
    assert row_s(map(offered, runs)) < row_s(runs)


def test_start_of_known_overhead_is_within_its_error():
    truth, draw, inside = Overhead(constant_s=16.0, per_rank2_s=0.094), np.random.default_rng(3), []
    benchmarks = replace(COSTS, overhead=Overhead(constant_s=15.0, per_rank2_s=0.08, error_s=1.5))
    runs = []
    for _ in range(30):
        ranks = int(draw.integers(4, 26))
        over_s = truth.seconds(1000, ranks) + draw.normal(0, 0.5)
        runs.append(a_run(1000, ranks, extra_s=over_s))
        overhead = learn(lessons(runs, benchmarks=benchmarks)).costs.overhead
        left_s = truth.seconds(1000, 13) - overhead.seconds(1000, 13)
        inside.append(abs(left_s) < 1.2816 * overhead.error(1000, 13))
    assert sum(inside) > 24
    assert overhead.seconds(1000, 13) == pytest.approx(truth.seconds(1000, 13), rel=0.03)
    assert overhead.source == "fitted to 30 runs"


@pytest.mark.parametrize("name", ["start_cpu_s", "message_cpu_s", "reduction_hops", "communication"])
def test_costs_beside_rows_are_never_negative(name):
    runs = [a_run(1000, 4, 51.0, messages=100.0, exchange=(2.0, 0.0), waits=(0.0,) * 4) for _ in range(9)]
    assert 0 <= getattr(learn(lessons(runs)).costs, name) <= 0.3


def test_waits_of_the_last_rank_are_the_price_of_messages():
    runs = [a_run(400, 2, 200.0, waits=(5.0, 2.0), messages=1000.0) for _ in range(6)]
    assert learn(lessons(runs)).costs.message_cpu_s == pytest.approx(2e-3, rel=0.35)


def test_whole_time_alone_moves_programs_without_records():
    whole = [a_run(1000, 10, observed_s=26.0) for _ in range(6)]
    blind = [replace(run, outcome=replace(run.outcome, observations=())) for run in whole]
    costs = learn(lessons(blind)).costs
    assert costs.overhead.seconds(1000, 10) + costs.row_seconds("node", 1, "h0") * 100 == pytest.approx(
        26, rel=0.15
    )
