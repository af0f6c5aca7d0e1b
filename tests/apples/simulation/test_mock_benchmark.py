"""Dedicated runs find what a row costs on an idle host, with no other job there and as memory allows."""

from dataclasses import replace

import numpy as np
import pytest

from apples.errors import LaunchError
from apples.model.template import Workload
from apples.simulation.mock_sensors import dedicated, measure

TOY = Workload(application="toy", size=1, iterations=10, messages=10.0, bytes_per_row=1e6, max_rows=500)


def benchmark(grid, workload=TOY, ranks=1):
    return measure(grid, grid.grid.hosts[0], workload, ranks=ranks, rng=np.random.default_rng(1))


def test_idle_host_gives_the_true_cost(quiet_grid):
    found = benchmark(quiet_grid(2))
    assert found.seconds_per_row == pytest.approx(0.01)
    assert found.bytes_per_row == 1e6
    assert found.startup_s == pytest.approx(2.0 + 0.5 + (0.25 + 0.5) / 2, abs=1e-3)


def test_nobody_else_is_there_and_the_grid_is_left_alone(quiet_grid, competitors):
    grid = quiet_grid(2)
    competitors(grid, 0, 4, -100.0, 1e6)
    assert benchmark(grid).seconds_per_row == pytest.approx(0.01)
    assert grid.now == 0.0
    assert dedicated(grid).processes(10.0)[0][0].values.max() == 0


def test_ranks_that_share_a_cpu_are_slower(quiet_grid):
    found = benchmark(quiet_grid(1, slots=2), replace(TOY, bytes_per_row=0.0), ranks=2)
    assert found.seconds_per_row == pytest.approx(0.02)
    assert found.ranks == 2


def test_slabs_stay_within_memory_and_array_limit(quiet_grid):
    assert benchmark(quiet_grid(1), replace(TOY, bytes_per_row=30e6)).seconds_per_row == pytest.approx(0.01)
    assert benchmark(quiet_grid(1), replace(TOY, max_rows=7)).seconds_per_row == pytest.approx(0.01)


def test_dead_host_cannot_be_measured(quiet_grid):
    grid = quiet_grid(1)
    grid.fail_host("h0", 0.0)
    with pytest.raises(LaunchError, match="host h0 does not answer: no benchmark of it can be made"):
        benchmark(grid)
