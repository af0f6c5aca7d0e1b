"""`apples-run --policy`: the run registers, daemons come and go with it, and what happened is told and kept."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from apples.costs.store import History
from tests.testbed.localcluster import LocalCluster

SMALL = ("64", "--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=20")


@pytest.fixture
def place():
    """A directory whose path is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="policy-"))
    yield directory
    shutil.rmtree(directory)


def test_run_starts_what_it_needs_and_it_goes_again(run, start, known, place):
    socket = place / "n.sock"
    done = run(
        "apples-run", *SMALL, "--policy", "gang", "--json", state=known, APPLES_NODE_SOCKET=str(socket)
    )
    assert done.code == 0, done.err
    shared = json.loads(done.out)["sharing"]
    assert (shared["policy"], shared["daemons_started"], shared["slots_before"]) == ("gang", True, 0)
    assert [rank["rank"] for rank in shared["ranks"]] == list(range(len(shared["ranks"])))
    assert shared["ranks"]
    assert "starting a node manager" in done.err
    assert shared in [record.sharing for record in History(known / "history.db").records()]
    # they carry the environment of the run, and are given the second that they take to notice
    assert done.survivors() == []
    assert not socket.exists()


def test_run_joins_what_is_there_and_says_how_it_was(run, known, place):
    with LocalCluster(place, {"a": "0"}, policy="uncoordinated") as cluster:
        cluster.start_node("a", managed=False)
        done = run(
            "apples-run",
            *SMALL,
            "--policy",
            "uncoordinated",
            state=known,
            APPLES_NODE_SOCKET=str(cluster.socket("a")),
        )
        assert done.code == 0, done.err
        assert "policy uncoordinated, node a: no other job there" in done.err
        assert any(line.startswith("rank 0") for line in done.err.splitlines())
        assert cluster.ask("a", "status")["processes"] == []


def test_plan_knows_of_turns_that_are_given_away(run, known, place):
    with LocalCluster(place, {"a": "0"}, policy="gang") as cluster:
        cluster.start()
        for job in "xy":
            cluster.spin(job, 0, 1, "a")
        cluster.wait(lambda: (cluster.ask("a", "status") or {}).get("slots") == 2)
        environment = {"APPLES_NODE_SOCKET": str(cluster.socket("a")), "state": known}
        done = run("apples-run", *SMALL, "--policy", "gang", "--dry-run", "--json", **environment)
        document = json.loads(done.out)
        (host,) = document["snapshot"]["hosts"]
        assert host["availability"]["value"] <= 1 / 3
        assert any("gives 2 turns away already" in note for note in document["notes"])


def test_another_policy_than_the_one_that_runs_is_refused(run, known, place):
    with LocalCluster(place, {"a": "0"}, policy="uncoordinated") as cluster:
        cluster.start_node("a", managed=False)
        done = run(
            "apples-run", *SMALL, "--policy", "gang", state=known, APPLES_NODE_SOCKET=str(cluster.socket("a"))
        )
        assert done.code == 5
        assert "runs policy uncoordinated, not gang; ask for --policy uncoordinated, or end it" in done.err


def test_run_joins_the_node_manager_by_itself(run, known, place):
    with LocalCluster(place, {"a": "0"}, policy="uncoordinated") as cluster:
        cluster.start_node("a", managed=False)
        here = {"APPLES_NODE_SOCKET": str(cluster.socket("a")), "APPLES_POLICY": "auto"}
        done = run("apples-run", *SMALL, state=known, **here)
        assert done.code == 0, done.err
        assert "policy uncoordinated, node a: no other job there" in done.err
        left_out = run("apples-run", *SMALL, "--policy", "none", state=known, **here)
        assert "policy uncoordinated" not in left_out.err


def test_run_goes_on_without_a_policy_that_needs_a_compiler(run, known, place):
    with LocalCluster(place, {"a": "0"}, policy="spin-block") as cluster:
        cluster.start_node("a", managed=False)
        here = {"APPLES_NODE_SOCKET": str(cluster.socket("a")), "APPLES_POLICY": "auto"}
        done = run("apples-run", *SMALL, state=known, CC="/nowhere/cc", **here)
        assert done.code == 0, done.err
        assert "does not take part in policy spin-block of this machine: CC is '/nowhere/cc'" in done.err
