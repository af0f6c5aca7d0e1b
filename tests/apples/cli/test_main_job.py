"""`apples-run 64` with real ranks on this machine, and what the commands say of it afterwards."""

import json
import re

import pytest

from apples.costs.store import History


def test_bare_machine(first_run):
    command, state = first_run
    assert command.code == 0, command.err
    assert re.fullmatch(r"heat 64x32x32: iteration 20, residual \S+, checksum \w+\n", command.out)
    assert "(0 earlier measurements)" in command.err
    assert "benchmark of heat on" in command.err
    table = command.err[command.err.index("host ") :].splitlines()
    assert table[0].split() == ["host", "rank", "rows", "predicted", "observed", "waited"]
    ranks = [line.split() for line in table[1:] if re.match(r"\S+ +\d+ +\d+ ", line)]
    assert sum(int(rank[2]) for rank in ranks) == 64
    assert re.search(r"^predicted \S+ s  \(likely ", command.err, re.MULTILINE)
    assert re.search(r"^observed  \S+ s, prediction \S+% too (long|short)$", command.err, re.MULTILINE)
    assert command.survivors() == []
    assert sorted(p.name for p in state.iterdir() if "-" not in p.name) == [
        "fingerprints.key",
        "history.db",
        "weather.db",
    ]


def test_second_run_predicts_from_history(run, known, small):
    second = run("apples-run", *small, "--explain", state=known)
    assert second.code == 0
    assert int(re.search(r"\((\d+) earlier measurements\)", second.err)[1]) > 0
    assert "benchmark" not in second.err
    assert "overhead: fitted to 1 run" in second.err


def test_one_json_document(run, known, small):
    ended = run("apples-run", *small, "--json", state=known)
    document = json.loads(ended.out)
    assert ended.code == 0
    assert document["predicted_s"] > 0
    assert document["observed_s"] > 0
    assert sum(entry["rows"] for entry in document["hosts"]) == 64
    assert all(entry["observed"]["iterations"] == 20 for entry in document["hosts"])
    assert "heat 64x32x32: iteration 20" in ended.err
    shown = json.loads(run("apples", "history", document["record"], "--json", state=known).out)
    assert (shown["id"], shown["outcome"]["observed_s"]) == (document["record"], document["observed_s"])


def test_json_lines_are_events(run, known, small):
    ended = run("apples-run", *small, "--json-lines", "-q", state=known)
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert [event["event"] for event in events] == ["plan", "attempt", "run"]
    assert "observed_s" not in events[0]
    assert events[1]["number"] == 1
    assert events[1]["ended"] == events[2]["ended"] == "finished"
    assert re.fullmatch(r"heat .*\n", ended.err)


def test_quiet_leaves_only_the_programs_own_output(run, known, small):
    ended = run("apples-run", *small, "-q", "--label", state=known)
    assert ended.err == ""
    assert re.fullmatch(r"\[?0\]?:? ?heat 64x32x32: iteration 20, .*\n", ended.out)


def test_dry_run_runs_nothing(run, known, small):
    plan = run("apples-run", *small, "--dry-run", "--explain", "-v", state=known)
    assert plan.code == 0
    assert plan.out.splitlines()[0].split()[:4] == ["host", "rank", "rows", "compute"]
    assert "why (" in plan.out
    assert re.search(r"command: \S*mpiexec .* -m stencil_app heat --slabs", plan.err)
    document = json.loads(run("apples-run", *small, "--dry-run", "--json", "-q", state=known).out)
    assert "observed_s" not in document
    assert sum(entry["rows"] for entry in document["hosts"]) == 64
    assert len(History(known / "history.db").records()) == 1


def test_time_limit(run, known, small):
    ended = run("apples-run", *small, "-t", "2", "--set", "iterations=100000000", state=known)
    assert ended.code == 124
    assert "the run hit its time limit after 2" in ended.err
    assert ended.err.endswith("apples-run: the run was ended at its time limit of 2 s\n")
    assert ended.survivors() == []
    assert "time limit" in run("apples", "history", state=known).out


def test_one_row_is_one_rank(run, known):
    words = ("1", "--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=3")
    ended = run("apples-run", *words, state=known)
    assert ended.code == 0
    assert "running heat 1 on 1 rank, 1 host" in ended.err


def test_rank_that_fails_gives_its_exit_code(run, known, small):
    ended = run("apples-run", *small, "--set", "output=/nowhere/at/all.npy", state=known)
    assert ended.code not in (0, 125)
    assert "/nowhere/at/all" in ended.err
    assert re.search(r"apples-run: rank \d on \S+ ", ended.err)
    assert "failed" in run("apples", "history", state=known).out


def test_history_of_the_first_run(run, known):
    table = run("apples", "history", state=known).out.splitlines()
    assert table[0].split() == ["run", "what", "scheduler", "ranks", "predicted", "observed", "error"]
    assert table[2].startswith("mean absolute error of 1 finished run: ")
    run_id = table[1].split()[0]
    one = run("apples", "history", run_id, state=known).out
    assert one.startswith(f"run {run_id}: heat 64, apples, finished\nhost ")
    document = json.loads(run("apples", "history", "--json", state=known).out)
    assert [entry["id"] for entry in document["runs"]] == [run_id]


def test_what_is_known_of_costs_is_shown_without_measuring(run, known):
    mesh = ("--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=20")
    shown = run("apples", "calibrate", "64", *mesh, "--show", state=known)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"\d µs +\d+\.\d{3}$", shown.out, re.MULTILINE)
    assert "(fitted to 1 run)" in shown.out
    document = json.loads(run("apples", "calibrate", "64", *mesh, "--show", "--json", state=known).out)
    assert document["runs"] == 1
    nothing = run("apples", "calibrate", "4096", *mesh, "--show", state=known)
    assert "no benchmarks of heat are kept for runs near 4096" in nothing.err
    assert "benchmark of heat on" not in nothing.err


@pytest.mark.parametrize("scheduler", ["default", "smart-user", "paper"])
def test_mock_grid(run, scheduler):
    ended = run("apples-run", "1000", "--mock", "--json", "--scheduler", scheduler)
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert (document["application"], document["world"]) == ("pmhd3d", "mock")
    assert document["scheduler"] == scheduler
    assert sum(entry["rows"] for entry in document["hosts"]) == 1000
    assert (len({entry["host"] for entry in document["hosts"]}) == 34) == (scheduler == "default")
    assert document["observed_s"] > 0


def test_hosts_elsewhere_are_planned_for_and_not_run_on(run, tmp_path):
    grid = tmp_path / "far.yaml"
    grid.write_text(
        "name: far\n"
        "hosts: [{name: 'far[1-2]', cpu_type: old, memory: 4GiB}]\n"
        "applications: {heat: {seconds_per_row: {old: 1ms}}}\n"
    )
    plan = run("apples-run", "64", "--app", "heat", "--grid", grid, "--dry-run", "--json")
    note = f"far[1-2] not measured, taken as idle and as {grid} states it"
    assert plan.code == 0
    assert note in json.loads(plan.out)["notes"]
    assert note in plan.err
    refused = run("apples-run", "64", "--app", "heat", "--grid", grid)
    assert refused.code == 125
    assert re.search(r"apples-run: hosts far1, far2 are not this machine", refused.err)
    assert run("apples", "history").out == ""
