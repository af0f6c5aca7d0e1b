"""A mock grid with everything an agent needs round it: sensors, forecasts, benchmarks, a launcher, a clock.

`open_mock` is the way in: a scenario, a seed and perhaps another grid. The agent gets snapshots made from
forecasts, which are made from sensor readings up to the present and nothing else. The same seed gives the same
platform to the last bit; runs change it only by taking time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from apples.launching.launcher import Notify
from apples.model.config import configs_dir, find_config
from apples.model.grid import Grid, Host, Snapshot
from apples.model.gridfile import load_grid
from apples.model.snapshots import from_forecasts, without
from apples.model.template import Benchmark, BenchmarkRequest, Workload
from apples.simulation import mock_benchmark
from apples.simulation.mock_grid import MockGrid
from apples.simulation.mock_launcher import MockLauncher
from apples.simulation.mock_sensors import MockSensors
from apples.simulation.scenario import Scenario, load_scenario
from nws.testing import InMemoryWeather

#: Midnight of 1 January 2000 UTC: the platform's second 0, so that its times read like times.
EPOCH = 946_684_800.0
#: Streams of chance of the observers, apart from those of the truth (`mock_grid`).
_SENSORS, _BENCHMARKS = 101, 102


class MockPlatform:
    """A platform (`apples.platforms.platform.Platform`) that is simulated.

    grid : the hosts.  truth : what is true of them, for experiments to let time pass and hosts die; never for plans
    weather : forecasts from the sensors, up to the last `snapshot`.  launcher : runs plans and takes their time
    """

    name = "mock"

    def __init__(self, grid: Grid, scenario: Scenario, *, load: str, seed: int) -> None:
        self.grid, self.scenario = grid, scenario
        self.truth = MockGrid(grid, scenario, load=load, seed=seed)
        self.launcher = MockLauncher(self.truth)
        self.weather = InMemoryWeather()
        self._dropped: dict[str, str] = {}
        self._benchmark_rng = np.random.default_rng([seed, _BENCHMARKS])
        rng = np.random.default_rng([seed, _SENSORS])
        self._sensors = MockSensors(self.truth, rng, since=-scenario.sensors.history_s)

    def now(self) -> float:
        """Seconds since the epoch, in this platform's time."""
        return EPOCH + self.truth.now

    def rest(self, seconds: float) -> None:
        """Let time pass; the sensors go on reading."""
        self.truth.advance(seconds)

    def observe(self) -> None:
        """Give the weather all readings up to now."""
        for reading in self._sensors.read(self.truth.now):
            self.weather.record_many(reading.series, EPOCH + reading.t, reading.values)

    def snapshot(self, notify: Notify) -> Snapshot:
        """What the forecasters expect of every host and link now."""
        notify(f"mock grid {self.grid.name}: reading the sensors of {len(self.grid.hosts)} hosts")
        self.observe()
        source = f"forecasts of the sensors of mock grid {self.grid.name}"
        found = from_forecasts(self.grid, self.weather.forecasts(), now=self.now(), source=source)
        absent = self._dropped | dict.fromkeys(self.truth.dead(), "it does not answer")
        return without(found, absent)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """These hosts are no part of the pool any more, each for a reason."""
        self._dropped |= hosts

    def write_s(self, path: Path, size_bytes: float) -> float:
        """Seconds that all ranks together take to write so much."""
        return size_bytes / self.scenario.storage_Bps

    def machine(self, host: Host) -> str:
        """What a benchmark of this host holds for: its CPU type in this scenario."""
        return f"mock {self.scenario.name} {host.cpu_type}"

    def reaches(self, host: Host) -> bool:
        """Every host of a mock grid can be benchmarked."""
        return True

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """What a dedicated run of the application on one host measures; raises `LaunchError`."""
        return self.measure(request.template.workload(1, request.options), request.host, request.ranks)

    def measure(self, workload: Workload, host: Host, ranks: int) -> Benchmark:
        """Benchmark of a workload's application, whatever its size; raises `LaunchError`."""
        return mock_benchmark.measure(self.truth, host, workload, ranks=ranks, rng=self._benchmark_rng)

    def workload(self, size: int) -> Workload:
        """A run of the scenario's own application."""
        own = self.scenario.application
        return Workload(
            application=own.name,
            size=size,
            iterations=own.iterations,
            messages=own.messages * own.iterations,
            bytes_exchanged=own.bytes_exchanged * own.iterations,
            bytes_per_row=own.bytes_per_row,
            bytes_fixed=own.bytes_fixed,
            max_rows=own.max_rows,
            min_rows=own.min_rows,
        )


#: Scenario for grids that have none of their own name.
ANY_GRID = "workstations"


def open_mock(
    scenario: str | Path | None = None, *, seed: int, load: str = "loaded", grid: Grid | None = None
) -> MockPlatform:
    """Platform of a scenario (a file, or a name in `configs/mock/`) under one of its loads.

    grid : other hosts than the scenario's own grid file names. Without a scenario it is the one of the grid's
    name, else `workstations`. Raises `ConfigError` with every problem of the files, or when the scenario knows
    nothing of a CPU type or of the load.
    """
    if scenario is None:
        named = "" if grid is None else grid.name
        own = configs_dir() / "mock" / f"{named}.yaml"
        scenario = named if named and own.is_file() else ANY_GRID
    truth, path = load_scenario(scenario)
    if grid is None:
        beside = path.parent / truth.grid
        grid = load_grid(beside if beside.is_file() else find_config(truth.grid))
    return MockPlatform(grid, truth, load=load, seed=seed)
