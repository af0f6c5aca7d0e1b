"""`apples simulate-queue`: options, documents, and what it says when something is wrong."""

import gzip
import json

import pytest
from click.testing import CliRunner

from apples.cli.simulate_queue import simulate_queue
from apples_experiments.lublin import generate


@pytest.fixture
def log(tmp_path):
    """A log of 300 jobs of four users on 16 processors, waits known."""
    trace = generate(300, 16, seed=4, request=3.0)
    lines = ["; MaxProcs: 16"]
    for i in range(len(trace)):
        user = i % 4
        lines.append(
            f"{trace.id[i]} {trace.submit[i]:.0f} 5 {trace.run[i]:.0f} {trace.procs[i]} -1 -1 -1 "
            f"{trace.request[i]:.0f} -1 1 {user} {user % 2} -1 -1 -1 -1 -1"
        )
    path = tmp_path / "site.swf.gz"
    path.write_bytes(gzip.compress("\n".join([*lines, "broken", ""]).encode()))
    return path


def call(*arguments):
    return CliRunner().invoke(simulate_queue, [str(a) for a in arguments])


def document(*arguments):
    done = call(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


#: EASY by requests, first come first served.
PLAIN = ("--priority", "fcfs", "--estimates", "request")


def test_one_document(log):
    found = document(log, *PLAIN)
    assert found["version"] == 1
    assert found["trace"]["jobs"] == 300
    assert found["trace"]["dropped"] == {"not 18 numbers": 1}
    assert found["trace"]["mean_wait_in_log_s"] == 5
    assert found["queue"] == {
        "priority": "fcfs",
        "backfill": "easy",
        "backfill_order": None,
        "delay_budget": 86400.0,
        "overrun": "request",
        "increment": 300.0,
        "oversubscribe": True,
    }
    assert set(found["metrics"]) >= {"wait", "response", "slowdown", "bounded_slowdown", "weighted_wait"}
    assert found["metrics"]["estimates"]["not_adjusted"] == 1.0
    assert (
        document(log, *PLAIN, "--delay-budget", "none", "--backfill-order", "priority")["metrics"]
        == found["metrics"]
    )
    default = document(log)
    assert (default["queue"]["priority"], default["estimates"]["source"]) == ("wfp", "ensemble")


def test_starts_of_every_job(log, tmp_path):
    path = tmp_path / "starts.txt"
    call(log, "--starts", path)
    rows = [line.split() for line in path.read_text().splitlines()]
    assert [int(row[0]) for row in rows] == list(range(1, 301))
    assert all(float(start) >= float(submit) for _, submit, start in rows)
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


def test_predict_writes_ranges_and_changes_no_start(log, tmp_path):
    path, starts = tmp_path / "predicted.txt", tmp_path / "starts.txt"
    metrics = document(log, *PLAIN, "--load", "1.5", "--predict", path, "--starts", starts)["metrics"]
    assert metrics == document(log, *PLAIN, "--load", "1.5")["metrics"]
    rows = [[float(word) for word in line.split()] for line in path.read_text().splitlines()]
    assert [row[:3] for row in rows] == [
        [float(word) for word in line.split()] for line in starts.read_text().splitlines()
    ]
    assert all(submit <= low <= median <= high for _, submit, _, median, low, high in rows)
    inside = [low <= start <= high for _, submit, start, _, low, high in rows if start > submit]
    # the first outcomes are learnt from
    assert sum(inside[50:]) / len(inside[50:]) == pytest.approx(0.8, abs=0.1)
    longest = max(start - submit for _, submit, start, *_ in rows)
    assert metrics["wait"]["longest"] == pytest.approx(longest)
    done = call(log, "--predict", path, "--event-order", "pyss")
    assert "no predicted starts" in str(done.exception)


def test_policies_and_estimates_change_the_schedule(log):
    def wait(*more):
        words = (*PLAIN, "--adjust", "selective", "--backfill-order", "priority", *more)
        return document(log, "--load", "1.2", *words)["metrics"]["wait"]["mean"]

    plain = wait()
    assert wait("--priority", "sjf") < plain
    assert wait("--backfill", "none") > plain
    assert wait("--priority", "(wait/estimate)**3*procs") == pytest.approx(wait("--priority", "wfp"))
    assert wait("--estimates", "actual", "--adjust", "regular") != plain
    learnt = ("--estimates", "history", "--key", "user", "--floor", "0")
    assert wait(*learnt, "--adjust", "priority,backfill") == wait(*learnt)
    assert wait(*learnt, "--adjust", "off") == plain
    assert wait("--backfill-order", "area") != plain
    assert wait(*learnt, "--adjust", "running") != plain
    assert (
        wait("--estimates", "recent", "--last", "1", "--adjust", "regular", "--overrun", "doubling") != plain
    )


def test_history_may_come_from_the_log(log):
    found = document(log, "--estimates", "history", "--learn-from", "log", "--key", "all", "--window", "10d")
    assert found["estimates"]["learn_from"] == "log"
    assert found["estimates"]["window"] == 864000.0
    assert found["metrics"]["estimates"]["over"] > 0


def test_sources_of_estimates_are_compared(log):
    found = document(log, "--estimates", "recent")
    assert set(found["estimators"]) == {"request", "history", "recent", "ensemble"}
    assert "estimators" not in document(log, *PLAIN)
    assert "mean accuracy by source: " in call(log, "--estimates", "history").stdout


def test_one_month_and_an_offered_load(log):
    found = document(log, "--month", "0", "--load", "0.5")
    assert found["trace"]["offered_load"] == pytest.approx(0.5)


def test_settings_from_a_file_and_options_before_it(log, tmp_path):
    path = tmp_path / "queue.yaml"
    path.write_text("queue: {priority: wfp, increment: 10m}\nestimates: {source: recent}\n")
    found = document(log, "--config", path, "--priority", "sjf")
    assert (found["queue"]["priority"], found["queue"]["increment"]) == ("sjf", 600.0)
    assert found["estimates"]["source"] == "recent"
    assert document(log, "--config", "queue") == document(log)
