"""The controller of real runs over simulated ones: rows move, and that takes simulated time."""

from dataclasses import replace

import pytest

from apples.model.progress import CheckpointAndEnd, NewSlabs
from apples.planning.adapting.policy import AdaptationInputs
from apples.planning.adapting.settings import AdaptSettings
from apples.run.adaptation import SlabController
from tests.apples.simulation.test_mock_launcher import request, run


class Scripted:
    """Answers report after report from a list."""

    report_every_s = 0.0

    def __init__(self, grid, *orders):
        self.grid, self.orders = grid, list(orders)
        self.heard, self.clocks = [], []

    def hear(self, told):
        self.heard.append(told)
        self.clocks.append(self.grid.now)
        return self.orders.pop(0) if self.orders else None

    def ended(self):
        return ()


def make_controller(launch, controller, *, iterations=10, bytes_per_row=0.0):
    workload = replace(
        launch.workload, iterations=iterations, messages=float(iterations), bytes_per_row=bytes_per_row
    )
    return replace(launch, controller=controller, workload=workload)


def test_sweep_is_told_and_adds_up(quiet_grid):
    grid = quiet_grid(2)
    watching = Scripted(grid)
    outcome = run(grid, make_controller(request(100, 50), watching))
    assert [told.iteration for told in watching.heard] == list(range(1, 11))
    assert [told.left for told in watching.heard] == list(range(9, -1, -1))
    assert {told.rows for told in watching.heard} == {(100, 50)}
    computed = sum(told.compute_s[0] for told in watching.heard)
    assert computed == pytest.approx(outcome.observations[0].compute_s)
    assert sum(told.seconds for told in watching.heard) < outcome.observed_s


def test_worlds_clock_shows_the_runs_present_to_whoever_looks(quiet_grid):
    grid = quiet_grid(2)
    watching = Scripted(grid)
    outcome = run(grid, make_controller(request(100, 50), watching))
    assert 0 < watching.clocks[0] < watching.clocks[-1] < outcome.observed_s == grid.now


def test_run_that_is_left_alone_is_the_same_to_the_last_bit(quiet_grid):
    alone = run(quiet_grid(2), request(100, 50))
    grid = quiet_grid(2)
    assert run(grid, make_controller(request(100, 50), Scripted(grid))) == alone


def test_rows_move_and_the_run_is_faster_from_then_on(quiet_grid):
    grid = quiet_grid(2)
    watching = Scripted(grid, None, NewSlabs(rows=(75, 75)))
    outcome = run(grid, make_controller(request(100, 50), watching))
    assert outcome.observed_s < run(quiet_grid(2), request(100, 50)).observed_s
    told = watching.heard[2]
    assert (told.rows, told.moves) == ((75, 75), 1)
    assert told.moved_s > 0
    assert told.compute_s[0] == pytest.approx(told.compute_s[1])
    assert watching.heard[3].moved_s is None


def test_what_moves_takes_the_time_of_the_busiest_link(quiet_grid):
    took = []
    for bytes_per_row in (0.0, 2e6):
        grid = quiet_grid(3)
        watching = Scripted(grid, NewSlabs(rows=(60, 50, 40)))
        run(grid, make_controller(request(50, 50, 50), watching, bytes_per_row=bytes_per_row))
        took.append(watching.heard[1].moved_s)
    # the host in the middle sends to both sides at once
    link_Bps = grid.machines.bandwidth_Bps[0, 1] / 2
    assert took[1] - took[0] == pytest.approx(10 * 1e6 / link_Bps)


def test_wish_for_a_checkpoint_and_the_end_leaves_what_was_done(quiet_grid):
    grid = quiet_grid(2)
    outcome = run(
        grid, make_controller(request(100, 50), Scripted(grid, None, None, CheckpointAndEnd(why="test")))
    )
    assert (outcome.ended, outcome.exit_code, outcome.kept_iterations) == ("adapted", 143, 3)
    assert outcome.message == "the run was ended to go on with another plan"
    assert grid.now == outcome.observed_s


def test_policy_of_real_runs_follows_a_simulated_load(quiet_grid, competitors):
    def loaded():
        grid = quiet_grid(2)
        competitors(grid, 1, 1, 30.0, 1e6)
        return grid

    launch = request(100, 100)
    said = []
    inputs = AdaptationInputs(rows=(100, 100), hosts=("h0", "h1"), caps=(200.0, 200.0))
    controller = SlabController(inputs, AdaptSettings(), said.append)
    outcome = run(loaded(), make_controller(launch, controller, iterations=200))
    (move,) = outcome.moves
    assert move.after[0] == pytest.approx(133, abs=4)
    assert move.took_s is not None
    assert said[0].startswith("h1 is the slowest: moving 3")

    class Silent:
        report_every_s = 1e9

        def hear(self, told):
            raise AssertionError

        def ended(self):
            return ()

    without = run(loaded(), make_controller(launch, Silent(), iterations=200))
    assert outcome.observed_s < 0.75 * without.observed_s
