"""Progress reaches the controller, orders reach the ranks: on this machine and over host agents, by real processes."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from apples.hosts import steering
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.termination import GracePeriods
from apples.model.plan import Move
from apples.model.progress import CheckpointAndEnd, NewSlabs
from stencil_app.running import runsteering as application
from tests.transcripts import text_of

QUICK = GracePeriods(together_s=0.2, failure_s=0.3, request_s=20.0, cut_s=1.0)

#: Rank 0 tells how it goes until it has got the slabs it waits for, or is asked to end; the others wait for it.
RANK = text_of("apples/launching/steering_rank.txt")

MOVE = Move(iteration=3, before=(3, 5), after=(4, 4), reason="test", gain_s=1.0, cost_s=0.1)


class Watching:
    """An controller that answers the third report."""

    report_every_s = 0.25

    def __init__(self, order) -> None:
        self.heard: list[int] = []
        self.order = order

    def hear(self, told):
        self.heard.append(told.iteration)
        return self.order if len(self.heard) >= 3 else None

    def ended(self):
        return (MOVE,)


@pytest.fixture(params=["mpiexec", "ssh"])
def run(request, runs, fake_ssh):
    """Launch two ranks under an controller, here or over two host agents."""

    def go(order, *words):
        command = (sys.executable, "-c", RANK, *words)
        if request.param == "mpiexec":
            access, hosts = HostAccess(grace=QUICK, here=True), ["localhost", "localhost"]
        else:
            silence = LivenessTimeouts(connect_s=60.0, lost_s=60.0)
            places = {host: HostAddress(host=host, address=host) for host in ("alpha", "beta")}
            access = HostAccess(addresses=places, grace=QUICK, timeouts=silence)
            hosts = ["beta", "alpha"]
        controller = Watching(order)
        asked = dataclasses.replace(runs.request(*command, hosts=hosts), controller=controller)
        said: list[str] = []
        return mpirun.run(asked, access, said.append), controller, said

    return go


def test_slabs_reach_the_run_and_progress_its_controller(run, capfd):
    outcome, controller, _ = run(NewSlabs(rows=(4, 4)))
    assert outcome.finished, outcome.message
    assert outcome.moves == (MOVE,)
    assert capfd.readouterr().out == "every 0.25 got 4,4\n"
    assert controller.heard[:3] == [1, 2, 3]


def test_run_that_is_to_go_on_elsewhere_ends_as_adapted(run):
    outcome, _, said = run(CheckpointAndEnd(why="a better place is free"))
    assert (outcome.ended, outcome.exit_code) == ("adapted", 143)
    assert outcome.message == "the run was ended to go on with another plan"
    assert "a better place is free" in said


def test_one_whose_checkpoint_fails_then_has_failed(run):
    outcome, _, _ = run(CheckpointAndEnd(why="a better place is free"), "4")
    assert (outcome.ended, outcome.exit_code) == ("failed", 4)
    assert "ended with exit code 4" in outcome.message


def test_rank_that_dies_in_a_move_fails_the_run(run):
    outcome, _, _ = run(NewSlabs(rows=(4, 4)), "dies")
    assert (outcome.ended, outcome.exit_code) == ("failed", 137)
    assert "rank 1 on" in outcome.message


def test_both_sides_mean_the_same_places():
    ours = (steering.PROGRESS_VARIABLE, steering.SLABS_VARIABLE, steering.EVERY_VARIABLE)
    assert ours == (application.PROGRESS_VARIABLE, application.SLABS_VARIABLE, application.EVERY_VARIABLE)


def test_run_without_controller_gets_no_variables(runs):
    assert (
        steering.steered(runs.request("true")).environment.keys() == runs.request("true").environment.keys()
    )


def test_tail_gives_whole_lines_once(tmp_path):
    path = tmp_path / "progress.jsonl"
    tail = steering.FileTail(str(path))
    assert tail.lines() == []
    path.write_text('{"a": 1}\n{"b"')
    assert tail.lines() == [b'{"a": 1}']
    with path.open("a") as file:
        file.write(": 2}\n")
    assert [json.loads(line) for line in tail.lines()] == [{"b": 2}]
    assert tail.lines() == []


def test_offers_replace_each_other_and_clear_removes_them(tmp_path):
    for heights in ("3,5", "4,4"):
        steering.offer(str(tmp_path), heights)
    (tmp_path / steering.PROGRESS).touch()
    assert (tmp_path / steering.SLABS).read_text() == "4,4\n"
    steering.clear(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
