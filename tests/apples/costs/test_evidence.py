"""Costs: measured once, kept, corrected by runs; stated ones where nothing can be measured."""

from dataclasses import replace

import pytest

from apples.costs.benchmark import rank_counts
from apples.costs.costs import costs_of
from apples.costs.evidence import LARGEST_SLAB_BYTES
from apples.errors import LaunchError
from apples.model.grid import Host
from apples.model.runrequest import RunRequest
from apples.model.template import Costs, Overhead
from apples.run.loop import AttemptLoop
from apples.testing import finished

STATED = Costs(seconds_per_row={"old": {1: 0.5}}, overhead=Overhead(constant_s=9.0, source="the file"))


def application(b, size=64, **settings):
    return RunRequest(template=b.toy, settings=settings, size=size)


def evidence(b, **more):
    return b.agent.evidence(application(b, **more))


def costs(b, **more):
    return b.priced(application(b, **more)).costs


def known(b):
    """The costs without measuring anything."""
    return costs_of(evidence(b), evidence(b).slab())


def calibrate(b, **more):
    of = evidence(b, **more)
    b.measuring(application(b, **more)).calibrate(of, of.slab())


def test_benchmark_is_run_once_for_each_type_and_count(bench):
    b = bench(Host(name="a", slots=1), Host(name="b", slots=3), Host(name="c", slots=2, cpu_type="other"))
    first = costs(b)
    assert b.platform.benchmarked == [("b", 1, 8), ("b", 2, 8), ("b", 3, 8), ("c", 1, 8), ("c", 2, 8)]
    assert first.seconds_per_row == {"default": dict.fromkeys((1, 2, 3), 1e-3), "other": {1: 1e-3, 2: 1e-3}}
    assert costs(b) == first
    assert len(b.platform.benchmarked) == 5


def test_only_what_is_missing_is_measured(bench):
    b = bench(Host(name="a", slots=2))
    costs(b)
    b.platform.pool = bench(Host(name="a", slots=4)).platform.pool
    b.platform.benchmarked.clear()
    costs(b, size=128)
    assert b.platform.benchmarked == [("a", 4, 32)]


def test_benchmark_that_fails_keeps_those_before_it(bench):
    b = bench(Host(name="a", slots=4))
    measure = b.platform.benchmark

    def fail_at_four(request):
        if request.ranks == 4:
            raise LaunchError("the benchmark of toy on a failed: rank 3 was killed")
        return measure(request)

    b.platform.benchmark = fail_at_four
    with pytest.raises(LaunchError, match="rank 3 was killed"):
        costs(b)
    b.platform.benchmark = measure
    costs(b)
    assert [ranks for _, ranks, _ in b.platform.benchmarked] == [1, 2, 4]


def test_calibrating_measures_anew(bench):
    b = bench()
    costs(b)
    b.platform.row_s = 2e-3
    calibrate(b)
    assert costs(b).seconds_per_row == {"default": {1: 2e-3, 2: 2e-3}}


def test_calibrating_measures_the_larger_slabs_of_plans_anew(bench):
    b = bench(Host(name="a", slots=2))
    for height in (None, 64, 256):
        b.priced(application(b), height=height)
    b.platform.benchmarked.clear()
    calibrate(b)
    assert [(ranks, rows) for _, ranks, rows in b.platform.benchmarked] == [
        (1, 32),
        (2, 32),
        (1, 64),
        (2, 64),
    ]


def test_calibrating_measures_both_sizes_around_the_slabs(bench):
    b = bench(Host(name="a"))
    calibrate(b, size=40)
    assert b.platform.benchmarked == [("a", 1, 32), ("a", 1, 64)]


def test_what_is_known_is_told_without_measuring(bench):
    b = bench()
    assert known(b).seconds_per_row == {}
    assert b.platform.benchmarked == []
    measured = costs(b)
    assert known(b) == measured


def test_hosts_out_of_reach_have_the_costs_of_the_file(bench):
    b = bench(Host(name="here"), Host(name="there", cpu_type="old"), stated={"toy": STATED})
    b.platform.beyond = ("there",)
    found = costs(b)
    assert found.seconds_per_row == {"default": {1: 1e-3}, "old": {1: 0.5}}
    assert (found.overhead.constant_s, found.overhead.source) == (9.0, "the file")


def test_what_was_measured_stands_above_what_is_stated(bench):
    b = bench(Host(name="here", cpu_type="old"), stated={"toy": STATED})
    assert costs(b).seconds_per_row == {"old": {1: 1e-3}}


def test_file_that_states_no_overhead_leaves_the_measured_one(bench):
    b = bench(Host(name="here"), stated={"toy": Costs(seconds_per_row={"old": {1: 0.5}})})
    assert costs(b).overhead.constant_s == 0.5
    assert costs(b).overhead.source == "start-up of the benchmark"


def test_nothing_known_at_all_is_no_cost_at_all(bench):
    b = bench(Host(name="there"))
    b.platform.beyond = ("there",)
    assert costs(b).seconds_per_row == {}


def test_type_within_reach_is_measured_there(bench):
    b = bench(Host(name="there", slots=8), Host(name="here", slots=2))
    b.platform.beyond = ("there",)
    costs(b)
    assert {host for host, _, _ in b.platform.benchmarked} == {"here"}


def test_another_application_option_or_world_is_another_key(bench):
    b = bench()
    key = evidence(b).key
    assert key == evidence(b, iterations="99").key, "iterations do not change a row"
    assert evidence(b).slab() != evidence(b, size=4096).slab()
    b.platform.name = "elsewhere"
    assert key != evidence(b).key


@pytest.mark.parametrize(
    ("size", "slots", "rows"),
    [(64, 2, 32), (1, 4, 1), (90, 1, 64), (91, 1, 128), (1000, 34, 32), (10**6, 1, 400), (10**23, 1, 400)],
)
def test_slabs_of_benchmarks(bench, size, slots, rows):
    b = bench(Host(name="a", slots=slots))
    assert LARGEST_SLAB_BYTES / b.toy.bytes_per_row == 400
    assert evidence(b, size=size).slab().rows == rows


def test_sizes_limited_by_memory_stay_as_they_are(bench):
    b = bench(Host(name="a"))
    b.toy.bytes_per_row = LARGEST_SLAB_BYTES / 2500
    for height in (256, 512, 1024, 2048, 10**6):
        largest = b.priced(application(b, size=10**6), height=height).evidence
    assert largest.slab().rows == 2500
    assert largest.slab(2500).rows == 2048
    assert largest.near(2500) == [512, 1024, 2048]
    assert largest.near(2048) == [512, 1024, 2500]


def test_costs_between_two_sizes_need_the_benchmarks_of_both(bench):
    b = bench(Host(name="a"))
    b.priced(application(b, size=40))
    assert b.platform.benchmarked == [("a", 1, 32)]
    b.priced(application(b, size=40), between=True)
    assert b.platform.benchmarked == [("a", 1, 32), ("a", 1, 64)]
    b.platform.costs_vary_with_slab = False
    b.priced(application(b, size=80), between=True)
    assert b.platform.benchmarked == [("a", 1, 32), ("a", 1, 64)]


def test_slabs_of_benchmarks_keep_the_limit_of_rows(bench):
    b = bench(Host(name="a"))
    work = b.toy.workload
    b.toy.workload = lambda size, options: replace(work(size, options), max_rows=100)
    assert evidence(b, size=95).slab().rows == 100


def test_slabs_of_an_application_without_known_memory(bench):
    b = bench(Host(name="a"))
    b.toy.bytes_per_row = 0.0
    assert evidence(b, size=10**6).slab().rows == 2**20


@pytest.mark.parametrize(
    ("slots", "counts"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (12, [1, 2, 4, 8, 12])]
)
def test_rank_counts(slots, counts):
    assert rank_counts(slots) == counts


def row_s(b, **more):
    """Seconds of a row on host a."""
    return costs(b, **more).row_seconds("default", 1, "a")


def run_of(b, compute_s, size=64):
    """A finished run of the toy on the bench, whose ranks each computed so long, in the history."""
    request = RunRequest(size=size, template=b.toy)
    decision = b.agent.decide(request)
    b.toy.recorded = b.observed(decision.plan, compute_s)
    AttemptLoop(b.agent, request).run(decision)


def test_costs_machine_half_as_fast_settle_after_two_runs(bench, observed):
    b = bench(Host(name="a"), Host(name="b"), script=[finished(1.0)] * 20)
    b.observed = observed
    for _ in range(6):
        run_of(b, 32 * 10 * 1e-3)
    for _ in range(2):
        run_of(b, 32 * 10 * 2e-3)
    assert row_s(b) == pytest.approx(2e-3, rel=0.05)


def test_costs_one_disturbed_run_changes_little(bench, observed):
    b = bench(Host(name="a"), Host(name="b"), script=[finished(1.0)] * 20)
    b.observed = observed
    for seconds in (1e-3, 1e-3, 1e-3, 2e-3, 1e-3):
        run_of(b, 32 * 10 * seconds)
        assert row_s(b) == pytest.approx(1e-3, rel=0.1)


def test_runs_on_slabs_of_one_size_correct_those_of_the_next(bench, observed):
    b = bench(Host(name="a"), Host(name="b"), script=[finished(1.0)] * 9)
    b.observed = observed
    for _ in range(8):
        run_of(b, 32 * 10 * 1.3e-3)
    assert [row_s(b, size=size) for size in (64, 128, 1024)] == [
        pytest.approx(1.3e-3, rel=0.05),
        pytest.approx(1.3e-3, rel=0.1),
        1e-3,
    ]


@pytest.mark.parametrize(("size", "near"), [(1, [2, 4]), (64, [8, 16, 64, 128]), (256, [32, 64, 256])])
def test_slabs_of_like_sizes(bench, size, near):
    b = bench(Host(name="a"), Host(name="b"))
    for height in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        of = b.priced(application(b, size=size), height=height).evidence
    assert of.near(of.slab().rows) == near
