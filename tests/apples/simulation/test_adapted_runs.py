"""Whole runs that go on elsewhere: agent, run loop and controller over the mock grid, from plan to record."""

from dataclasses import replace

import pytest

from apples.applications.catalogue import known_by_model
from apples.cli.assemble import controllers
from apples.costs.store import History
from apples.model.runrequest import Resilience, RunRequest
from apples.platforms.mock import MockPlatform
from apples.run.agent import Agent
from apples.run.loop import AttemptLoop
from tests.apples.simulation.conftest import host_grid


@pytest.fixture
def run(quiet, competitors, tmp_path):
    """A run of two ranks in a pool of four hosts, under these loads: host → begin and end."""

    def go(adapt, **loads):
        from apples.planning.adapting.settings import AdaptSettings

        scenario = replace(quiet, application=replace(quiet.application, iterations=600, bytes_per_row=1e3))
        platform = MockPlatform(host_grid(4), scenario, load="none", seed=1)
        for host, (begin, end) in loads.items():
            competitors(platform.truth, int(host[1]), 3, begin, end)
        said: list[str] = []
        agent = Agent(platform, History(tmp_path / adapt / "history.db"), said.append)
        resilience = Resilience(attempts=3, file=tmp_path / "run.ck", own=True, needed=True)
        template = known_by_model("toy", platform.workload, "the scenario")
        wanted = None if adapt == "off" else AdaptSettings()
        request = RunRequest(
            size=100,
            template=template,
            overrides={"ranks": 2},
            resilience=resilience,
            make_controller=controllers(platform, wanted, said.append, hosts=adapt == "hosts"),
        )
        loop = AttemptLoop(agent, request)
        return loop.run(loop.decide()), said

    return go


#: Two hosts are taken at first; then the run's own are.
LOADS = {"h2": (-200.0, 60.0), "h3": (-200.0, 60.0), "h0": (60.0, 1e5), "h1": (60.0, 1e5)}


@pytest.mark.nightly
def test_run_whose_hosts_are_taken_goes_on_on_those_that_are_free(run):
    record, said = run("hosts", **LOADS)
    assert record.outcome.finished, record.outcome.message
    first, second = record.attempts
    assert (first.plan.hosts, second.plan.hosts) == (("h0", "h1"), ("h2", "h3"))
    assert first.outcome.ended == "adapted"
    assert second.first_iteration == first.outcome.kept_iterations
    assert second.first_iteration + second.iterations == 600
    assert any(line.startswith("going on on h[2-3] from a checkpoint") for line in said), said
    stayed, _ = run("off", **LOADS)
    assert len(stayed.attempts) == 1
    assert record.outcome.observed_s < 0.6 * stayed.outcome.observed_s


def test_one_whose_hosts_are_as_planned_stays(run):
    record, _ = run("hosts")
    assert len(record.attempts) == 1
    assert record.outcome.moves == ()


def test_record_with_moves_is_no_run_of_its_plan(run):
    record, _ = run("slabs", h1=(60.0, 1e5))
    assert len(record.outcome.moves) >= 1
    assert not record.whole
