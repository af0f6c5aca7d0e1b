"""Lost packets and slow directions: from the grid file or a measurement to the price of an exchange."""

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.hosts.speed import LinkSpeed
from apples.model.grid import Grid, Host, Snapshot
from apples.model.gridfile import load_grid
from apples.model.snapshotdocument import snapshot_document
from apples.model.snapshots import from_forecasts
from apples.model.template import Costs, Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import build
from apples.planning.tcp import retransmission_wait_s, throughput_Bps
from apples.platforms.platform import link_forecasts
from tests.transcripts import text_of

WORK = Workload(application="w", size=100, messages=1000, bytes_exchanged=1e6)
COSTS = Costs(seconds_per_row={"default": {1: 1.0}})
GRID = text_of("apples/planning/losses_grid.txt")


def test_wait_is_that_of_simulated_timeouts():
    """Each packet is lost with probability p; a repetition waits twice as long as the one before, 64 times at most."""
    rng = np.random.default_rng(5)
    for p in (0.01, 0.2, 0.5):
        losses = rng.geometric(1 - p, 400_000) - 1
        waits = np.array([sum(2 ** min(k, 6) for k in range(n)) for n in range(losses.max() + 1)])[losses]
        wait = float(retransmission_wait_s(np.array(p), np.array(0.05)))
        assert wait == pytest.approx(waits.mean() * 0.25, rel=0.05)


def test_transfer_is_bound_by_loss_and_round_trip():
    loss, trip = np.array([0.0, 1e-4, 1e-2]), np.array([0.1, 0.1, 0.1])
    found = throughput_Bps(np.full(3, 1e9), loss, trip)
    assert found == pytest.approx([1e9, 1448 / 0.1 * 1.2247 * 100, 1448 / 0.1 * 1.2247 * 10], rel=1e-3)
    assert throughput_Bps(np.array(1e4), np.array(0.01), np.array(1e-3)) == 1e4


def test_each_direction_has_its_own_price(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    snapshot = Snapshot.nominal(load_grid(path))
    problem = build(snapshot, WORK, COSTS, PlanningOptions())
    lost = 1000 * float(retransmission_wait_s(np.array(0.02), np.array(6e-3)))
    pace = float(throughput_Bps(np.array(1e7), np.array(0.02), np.array(6e-3)))
    there = 1000 * 1e-3 + 1e6 / pace + lost
    assert problem.side[0, 1] == pytest.approx(there)
    assert problem.side[1, 0] == pytest.approx(1000 * 5e-3 + 1.0)
    plan = make_plan(snapshot, WORK, COSTS)
    assert {a.host: a.communicate_s for a in plan.assignments} == pytest.approx({"a": there, "b": 6.0})
    assert plan.links == (
        f"a → b loses 0.02 of its packets: {lost + 1e6 / pace - 0.1:.3g} s of retransmissions",
    )
    listed = {p["from"]: p.get("loss") for p in snapshot_document(snapshot)["links"]["pairs"]}
    assert listed in ({"a": 0.02}, {"a": 0.02, "b": None})


def test_measured_loss_reaches_the_snapshot():
    links = [LinkSpeed(source="a", target="b", latency_s=1e-3, bandwidth_Bps=1e7, lost=0.03)]
    grid = Grid(name="g", hosts=(Host(name="a"), Host(name="b")))
    snapshot = from_forecasts(grid, link_forecasts(links, 5.0, "one look"), now=5.0, source="test")
    assert (snapshot.loss[0, 1], snapshot.loss[1, 0]) == (0.03, 0.0)
    clean = [LinkSpeed(source="a", target="b", latency_s=1e-3, bandwidth_Bps=1e7, lost=0.0)]
    assert from_forecasts(grid, link_forecasts(clean, 5.0, "one look"), now=5.0, source="test").loss is None


def test_loss_of_all_packets_is_refused(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.replace("0.02", "1.0"))
    with pytest.raises(ConfigError, match="loss"):
        load_grid(path)
