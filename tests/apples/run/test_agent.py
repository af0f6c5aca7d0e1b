"""The agent: from a size to a plan to a record, whatever happens on the way."""

import json
import math
import os
import stat
from dataclasses import replace

import pytest

from apples.cli.report import plan_lines
from apples.costs.runs import expected_compute, training_run
from apples.errors import ConfigError, LaunchError
from apples.model.cut import Axes
from apples.model.drained import DrainedHosts
from apples.model.grid import Estimate, Host, Snapshot
from apples.model.limits import Limits
from apples.model.plan import Outcome
from apples.model.runrequest import Benchmarks, RunRequest
from apples.planning.planningoptions import planning_options
from apples.run.agent import SCHEDULERS, Agent
from apples.run.loop import AttemptLoop
from apples.testing import failed, finished
from tests.transcripts import recorded

ALPHA, BETA = Host(name="alpha", slots=2), Host(name="beta", slots=2)


def request_for(bench, size=64, **more):
    return RunRequest(size=size, template=bench.toy, **more)


def run(bench, **more):
    request = request_for(bench, **more)
    return AttemptLoop(bench.agent, request).run(bench.agent.decide(request))


def test_plan_as_a_document(bench):
    b = bench()
    document = b.agent.decide(request_for(b)).document()
    assert (document["version"], document["size"]) == (1, 64)
    assert (document["application"], document["scheduler"]) == ("toy", "apples")
    assert sum(entry["rows"] for entry in document["hosts"]) == 64
    for entry in document["hosts"]:
        parts = entry["predicted"]
        total = parts["compute_s"] + parts["communicate_s"] + parts["overhead_s"]
        assert parts["total_s"] == pytest.approx(total)
    assert document["low_s"] <= document["predicted_s"] <= document["high_s"]
    assert {e["host"] for e in document["taken"]} | {e["host"] for e in document["left_out"]} == {
        "alpha",
        "beta",
    }
    assert all(entry["reason"] for entry in document["taken"] + document["left_out"])
    assert [h["host"] for h in document["snapshot"]["hosts"]] == ["alpha", "beta"]
    assert document["planning"]["candidates"] >= 1
    assert document["planning"]["planning_s"] > 0
    assert document["planning"]["weather_s"] >= 0
    assert "observed_s" not in document
    json.dumps(document, allow_nan=False)


def test_run_as_a_document_adds_what_was_observed(bench, observed):
    b = bench(script=[finished(2.0, ["alpha"])])
    request = request_for(b)
    decision = b.agent.decide(request)
    b.toy.recorded = observed(decision.plan, 0.25)
    record = AttemptLoop(b.agent, request).run(decision)
    document = decision.document(record)
    assert (document["observed_s"], document["ended"], document["exit_code"]) == (2.0, "finished", 0)
    assert document["error"] == pytest.approx(document["predicted_s"] / 2.0 - 1)
    assert (document["record"], document["world"]) == (record.id, "fake")
    assert [e["observed"]["compute_s"] for e in document["hosts"]] == [0.25] * len(document["hosts"])
    assert document["hosts"][0]["exit_code"] == 0
    json.dumps(document, allow_nan=False)


@recorded("apples/run/slabs.txt", "why", "hosts", "size", "row_s", "given")
def test_plan_has_the_costs_of_its_slabs(bench, answered, why, hosts, size, row_s, given):
    """row_s : seconds of a row by rows of the slab measured; a benchmark of other slabs fails"""
    b = bench(*(Host(name=name) for name in hosts))
    measure, workload = b.platform.benchmark, b.toy.workload
    messages, deadline = given.pop("messages", 0), given.pop("deadline", None)

    def measured(request):
        found = measure(request)
        if request.rows not in row_s:
            raise LaunchError("the benchmark of toy on a failed: out of memory")
        return replace(found, seconds_per_row=row_s[request.rows], message_cpu_s=0.05)

    b.platform.benchmark = measured
    b.toy.workload = lambda size, options: replace(workload(size, options), messages=messages)
    overrides = given | ({} if deadline is None else {"limits": Limits(deadline=deadline)})
    decision = b.agent.decide(request_for(b, size=size, overrides=overrides))
    lines = [f"{name} by {ranks}: benchmark of {rows} rows" for name, ranks, rows in b.platform.benchmarked]
    lines += [f"{a.host}: {a.rows} rows, computes {a.compute_s:.4g} s" for a in decision.plan.assignments]
    told = [line for line in b.said if "slabs of" in line]
    answered([*lines, f"judged by slabs of {decision.slab_rows} rows", *told])


def test_run_goes_on_with_the_costs_of_its_slabs(bench):
    b = bench(Host(name="a"), Host(name="b"), Host(name="c"), Host(name="d"))
    request = request_for(b, overrides={"max_ranks": 1})
    first = b.agent.decide(request)
    b.platform.drop({"d": "lost"})
    second = b.agent.decide(request, done=5, after=first)
    assert (second.key, second.slab_rows) == (first.key, 64)
    assert b.platform.benchmarked == [("a", 1, 16), ("a", 1, 64)]


def test_slabs_of_plans_are_not_measured_where_nothing_may_be(bench):
    b = bench(Host(name="a"), Host(name="b"))
    request = request_for(b, overrides={"max_ranks": 1})
    b.priced(request)
    decision = b.agent.decide(replace(request, benchmarks=Benchmarks.NONE))
    assert b.platform.benchmarked == [("a", 1, 32)]
    assert decision.slab_rows == 32


def test_host_too_slow_is_left_out_with_a_reason(bench):
    b = bench(Host(name="fast", slots=2, cpu_type="fast"), Host(name="slow", cpu_type="slow"))
    b.platform.benchmark = lambda r: replace(
        type(b.platform).benchmark(b.platform, r), seconds_per_row=10.0 if r.host.name == "slow" else 1e-3
    )
    document = b.agent.decide(request_for(b)).document()
    (left,) = document["left_out"]
    assert left["host"] == "slow"
    assert {e["host"] for e in document["hosts"]} == {"fast"}


def test_even_pieces_are_priced_and_once_run_observed(bench):
    hosts = Host(name="fast", cpu_type="fast"), Host(name="slow", cpu_type="slow")
    b = bench(*hosts, script=[finished(7.0, ["fast", "slow"])])
    measure = b.platform.benchmark
    b.platform.benchmark = lambda r: replace(
        measure(r), seconds_per_row=0.03 if r.host.name == "slow" else 0.01
    )
    first = b.agent.decide(request_for(b))
    assert [a.rows for a in first.even.assignments] == [32, 32] != [a.rows for a in first.plan.assignments]
    assert first.even.predicted_s > first.plan.predicted_s
    assert first.even_observed_s is None
    evenly = request_for(b, scheduler="default")
    assert b.agent.decide(evenly).even is None
    AttemptLoop(b.agent, evenly).run(b.agent.decide(evenly))
    again = b.agent.decide(request_for(b))
    even = again.document()["even"]
    assert (even["predicted_s"], even["observed_s"]) == (again.even.predicted_s, 7.0)
    assert "(predicted, 7 s observed)" in plan_lines(again)[-1]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_scheduler_places_all_rows(bench, scheduler):
    b = bench()
    plan = b.agent.decide(request_for(b, scheduler=scheduler)).plan
    assert (sum(plan.rows), plan.scheduler) == (64, scheduler)


def test_users_options_are_laid_over_the_schedulers_own(bench):
    b = bench()
    paper = planning_options(request_for(b, scheduler="paper", overrides={"max_ranks": 2}))
    assert (paper.model, paper.allocation, paper.max_ranks) == ("paper", "lp", 2)
    assert len(b.agent.decide(request_for(b, overrides={"ranks": 3})).plan.rows) == 3


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (finished(2.0), 0),
        (failed("rank 1 on beta was killed by signal 9 (KILL)", exit_code=137), 137),
        (Outcome(ended="time limit", exit_code=124, observed_s=5.0, message="too long"), 124),
        (Outcome(ended="interrupted", exit_code=130, observed_s=1.0, message="by you"), 130),
    ],
    ids=lambda value: getattr(value, "ended", ""),
)
def test_end_of_a_run_is_remembered(bench, outcome, code):
    b = bench(script=[outcome])
    record = run(b, settings={"iterations": "20"})
    assert record.outcome.exit_code == code
    (kept,) = b.history.records()
    assert (kept.id, kept.plan, kept.outcome) == (record.id, record.plan, outcome)
    assert (record.world, record.workload["iterations"]) == ("fake", 20)
    assert list(record.options["settings"]) == ["iterations"]
    assert record.snapshot["hosts"][0]["host"] == "alpha"


def test_values_of_variables_are_in_no_file_of_the_state(bench, monkeypatch):
    old = os.umask(0)
    try:
        b = bench(script=[finished(2.0, ["alpha"])])
        monkeypatch.setattr(b.toy, "price_key", lambda options: "('TOKEN', 'of-environment')", raising=False)
        run(b, settings={"iterations": "4321"})
        DrainedHosts(b.history.path.with_name("drained.json")).change(0.0)
    finally:
        os.umask(old)
    state = b.history.path.parent
    assert len(b.history.benchmarks(b.agent.evidence(request_for(b)).key)) == 1
    assert b"iterations" in b"".join(path.read_bytes() for path in state.iterdir())
    assert not any(text in path.read_bytes() for path in state.iterdir() for text in (b"4321", b"TOKEN"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
    assert (stat.S_IMODE(state.stat().st_mode), modes) == (0o700, {0o600})


def test_what_the_launcher_is_given(bench):
    b = bench(script=[finished(2.0)])
    record = run(b, label=True, time_limit_s=9.0, program_output_to_stderr=True)
    (launch,) = b.platform.launcher.requests
    assert (launch.label, launch.time_limit_s, launch.program_output_to_stderr) == (True, 9.0, True)
    assert launch.command == ("toy", ",".join(map(str, record.plan.rows)))
    assert not launch.run_dir.exists(), "the run's own directory is gone with the run"


def test_command_line_is_told_without_running(bench):
    b = bench()
    request = request_for(b)
    assert AttemptLoop(b.agent, request).command_line(b.agent.decide(request))[:2] == ["fake", "-n"]
    assert b.platform.launcher.requests == []


def test_user_hears_what_is_going_on(bench):
    b = bench(Host(name="alpha", slots=1), script=[finished(2.0)])
    run(b)
    assert b.said[:3] == [
        "looking out of the window",
        "benchmark of toy on alpha with 1 rank of 64 rows (once, then kept)",
        "alpha not measured, taken as idle and as lab.yaml states it",
    ]
    assert b.said[3].startswith("running toy 64 on 1 rank, 1 host; predicted ")


def test_second_run_predicts_from_the_first(bench, observed):
    b = bench(script=[finished(7.0)])
    request = request_for(b)
    first = b.agent.decide(request)
    assert first.document()["notes"][0] == "overhead: start-up of the benchmark"
    assert not math.isclose(first.plan.predicted_s, 7.0, rel_tol=0.1)
    b.toy.recorded = observed(first.plan, first.plan.assignments[0].compute_s)
    AttemptLoop(b.agent, request).run(first)
    second = b.agent.decide(request)
    assert second.document()["notes"][0] == "overhead: fitted to 1 run"
    assert second.plan.predicted_s == pytest.approx(7.0, rel=0.05)


def test_long_run_teaches_no_overhead_to_short_ones(bench, observed):
    b = bench(script=[finished(700.0)])
    long_one = replace(request_for(b), settings={"iterations": "1000"})
    first = b.agent.decide(long_one)
    AttemptLoop(b.agent, long_one).run(first)
    assert b.agent.decide(long_one).costs.overhead.source == "fitted to 1 run"
    assert b.agent.decide(request_for(b)).costs.overhead.constant_s == pytest.approx(0.5, abs=0.1)


def test_runs_are_kept_in_the_order_they_were_made_where_worlds_begin_anew(bench):
    b = bench(script=[finished(1.0)] * 8)
    request = request_for(b)
    decision = b.agent.decide(request)
    made = []
    for _ in range(8):
        b.platform.time = 9.5e8
        made.append(AttemptLoop(b.agent, request).run(decision))
    assert len({r.started_at for r in made}) == 1
    assert [r.id for r in b.history.records()] == [r.id for r in made]


def test_run_is_in_the_history_while_it_runs(bench):
    seen = []

    def look(launch):
        seen.extend(b.history.records())
        return finished(2.0)

    b = bench(script=[look])
    record = run(b)
    assert [(r.id, r.outcome) for r in seen] == [(record.id, None)]
    assert [r.outcome.ended for r in b.history.records()] == ["finished"]


@pytest.mark.parametrize(
    ("breaks", "ended", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (SystemExit(143), "interrupted", 143),
        (LaunchError("no memory for processes"), "failed", 125),
        (RuntimeError("a fault of the launcher"), "failed", 125),
    ],
)
def test_launcher_that_breaks_off_leaves_a_record_too(bench, breaks, ended, code):
    def launch(request):
        raise breaks

    b = bench(script=[launch])
    with pytest.raises(type(breaks)):
        run(b)
    (record,) = b.history.records()
    assert (record.outcome.ended, record.outcome.exit_code) == (ended, code)


def test_whoever_listens_hears_of_the_plan_and_of_the_end(bench):
    def launch(request):
        raise LaunchError("no memory for processes")

    b, heard = bench(script=[finished(2.0, ["alpha"]), launch]), []
    b.agent = Agent(
        b.platform, b.history, b.said.append, report=lambda kind, text: heard.append((kind, text))
    )
    run(b)
    with pytest.raises(LaunchError):
        run(b)
    assert [kind for kind, _ in heard] == ["plan made", "run ended"] * 2
    assert heard[0][1].startswith("toy 64 on 4 ranks of alpha,beta, predicted ")
    assert heard[1][1].startswith("toy 64 on alpha,beta: finished after 2 s, predicted ")
    assert heard[3][1].startswith("toy 64 on alpha,beta: failed after ")


def test_notes_of_the_weather_are_notes_of_the_plan(bench):
    b = bench()
    b.platform.weather = replace(Snapshot.nominal(b.platform.pool, memory_bytes=8e9), notes=("b is lost",))
    decision = b.agent.decide(request_for(b))
    assert "b is lost" in decision.document()["notes"]


def test_plan_on_a_busy_pool_names_who_has_the_cpus(bench):
    b = bench()
    idle = Snapshot.nominal(b.platform.pool, memory_bytes=8e9)
    busy = [
        replace(one, availability=Estimate(value=0.002), capacity=Estimate(value=0.004))
        for one in idle.conditions
    ]
    b.platform.weather = replace(idle, conditions=tuple(busy))
    b.platform.competitors = lambda: ["stress (process 12 of ann): 1.9 CPUs"]
    notes = b.agent.decide(request_for(b)).document()["notes"]
    assert "alpha,beta busy: a new process would get 0.002 of a CPU, planned with 0.01; " in notes[-1]
    assert notes[-1].endswith("the CPU time goes to stress (process 12 of ann): 1.9 CPUs")


def test_run_that_may_not_start_leaves_no_record(bench):
    b = bench(script=[LaunchError("hosts beta are not this machine")])
    with pytest.raises(LaunchError, match="not this machine"):
        run(b)
    assert b.history.records() == []


def test_hosts_nobody_measured_are_named(bench):
    b = bench(*(Host(name=f"node{i}") for i in (1, 2, 3)))
    notes = b.agent.decide(request_for(b)).document()["notes"]
    assert notes[1] == "node[1-3] not measured, taken as idle and as lab.yaml states it"


def test_unknown_option_of_the_application(bench):
    b = bench()
    with pytest.raises(ConfigError, match="unknown option speed; legal is iterations"):
        b.agent.decide(request_for(b, settings={"speed": "9"}))
    assert b.said == []


def test_ranks_that_poll_use_up_the_quotas_of_their_hosts(bench):
    bench = bench(Host(name="alpha"), Host(name="beta"))
    bench.platform.row_s = 1e-8
    whole = Snapshot.nominal(bench.platform.pool, memory_bytes=8e9, taken_at=bench.platform.time)
    limited = replace(whole.conditions[1], availability=Estimate(value=0.5, error=0.0), cpu_limit=0.5)
    bench.platform.weather = replace(whole, conditions=(whole.conditions[0], limited))
    sleeping, polling = (
        bench.agent.decide(request_for(bench, polling=polls, overrides={"ranks": 2})).plan
        for polls in (False, True)
    )
    assert len(sleeping.assignments) == len(polling.assignments) == 2
    assert sleeping.assignments[0].communicate_s < polling.assignments[0].communicate_s


def test_run_on_two_axes_is_kept_with_its_boxes(bench, observed):
    b = bench(script=[finished(2.0, ["alpha"])])
    plain = b.toy.workload
    b.toy.workload = lambda size, options: replace(plain(size, options), axes=Axes(cut="columns", width=10))
    request = request_for(b, overrides={"cut": "columns", "ranks": 2})
    decision = b.agent.decide(request)
    b.toy.recorded = observed(decision.plan, 0.25)
    record = AttemptLoop(b.agent, request).run(decision)
    assert b.agent.history.get(record.id).plan == decision.plan
    assert decision.plan.rows == (64, 64)
    # Half of every row costs half of it, in the plan and in what the run teaches.
    expected = expected_compute(training_run(record), decision.costs)
    assert expected == pytest.approx({a.rank: a.compute_s for a in decision.plan.assignments})
    assert sum(a.work for a in decision.plan.assignments) == 64


def test_simulated_run_of_two_axes_takes_slabs(bench):
    b = bench()
    b.platform.can_cut_two_axes = False
    plain = b.toy.workload
    b.toy.workload = lambda size, options: replace(plain(size, options), axes=Axes(cut="columns", width=10))
    decision = b.agent.decide(request_for(b))
    assert decision.plan.cut is None
    assert "slabs, because the mock grid simulates no cut on two axes" in decision.notes
