"""A mock grid as a platform: simulated hosts with sensors, forecasts, benchmarks, a launcher and a clock.

`open_mock` opens one from a scenario, a seed and optionally another grid. Snapshots are made of forecasts, and these of
sensor readings up to the present only. The same seed gives a bit-identical platform; runs change it by taking time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from apples.errors import ConfigError
from apples.model.config import configs_dir, find_config
from apples.model.grid import Grid, Host, Snapshot
from apples.model.gridfile import load_grid, load_grid_file
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.model.snapshots import from_forecasts, without
from apples.model.template import Benchmark, BenchmarkRequest, Workload
from apples.platforms.platform import Platform, PlatformSetup
from apples.simulation import mock_sensors
from apples.simulation.mock_grid import MockGrid
from apples.simulation.mock_launcher import check_hosts, run_on_grid
from apples.simulation.mock_sensors import MockSensors
from apples.simulation.scenario import Scenario, load_scenario
from nws.base.records import copied
from nws.base.wording import counted
from nws.series import CPU
from nws.testing import InMemoryWeather

#: Scenario of grids without one of their name.
ANY_GRID = "workstations"

#: Scenario, load and seed without options.
DEFAULT_SCENARIO, DEFAULT_LOAD, DEFAULT_SEED = "centurion", "loaded", 1

#: Midnight of 1 January 2000 UTC: the platform's second 0, so that its times read like times.
EPOCH = 946_684_800.0
#: Streams of chance of the observers, apart from those of the truth (`mock_grid`).
_SENSORS, _BENCHMARKS = 101, 102


class MockPlatform(Platform):
    """Simulated hosts of a grid.

    truth : true speeds and loads, for experiments that let time pass or hosts fail; never an input of plans
    weather : forecasts from the sensors up to the last `snapshot`
    """

    name = "mock"
    several_hosts = True
    starts_programs = shares_hosts = costs_vary_with_slab = can_cut_two_axes = False
    options: ClassVar[Mapping[str, str]] = {
        "scenario": "true speeds and loads (YAML)",
        "load": "loaded (default) or unloaded",
        "seed": "seed (default 1)",
    }

    def __init__(self, pool: Grid, scenario: Scenario, *, load: str, seed: int) -> None:
        super().__init__(pool)
        self.scenario = scenario
        self.truth = MockGrid(pool, scenario, load=load, seed=seed)
        self.weather = InMemoryWeather()
        self._benchmark_rng = np.random.default_rng([seed, _BENCHMARKS])
        rng = np.random.default_rng([seed, _SENSORS])
        self._sensors = MockSensors(self.truth, rng, since=-scenario.sensors.history_s)

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return a mock grid on the hosts of the grid, or of the file that its scenario names."""
        scenario, file, grid = setup.options.get("scenario"), None, setup.grid
        if grid is None:
            scenario = scenario or DEFAULT_SCENARIO
            file = load_grid_file(find_config(load_scenario(scenario)[0].grid))
            grid = file.grid
        seed = setup.options.get("seed", str(DEFAULT_SEED))
        if not seed.isdecimal():
            raise ConfigError(f"seed {seed}: expected a whole number of 0 or more")
        load = setup.options.get("load", DEFAULT_LOAD)
        truth, pool = _scenario_and_pool(scenario, setup.restrict(grid))
        platform = cls(pool, truth, load=load, seed=int(seed))
        platform.grid_file = file
        return platform

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError` if a host of the plan is unknown or dead."""
        check_hosts(self.truth, request)

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the ranks' own command."""
        return list(request.command)

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run the plan in simulated time."""
        return run_on_grid(self.truth, request, notify)

    def now(self) -> float:
        """Return seconds since the epoch, in simulated time."""
        return EPOCH + self.truth.now

    def rest(self, seconds: float) -> None:
        """Let simulated seconds pass; the sensors continue to measure."""
        self.truth.advance(seconds)

    def observe(self) -> None:
        """Give the forecasters all readings up to now."""
        for reading in self._sensors.read(self.truth.now):
            self.weather.record_many(reading.series, EPOCH + reading.t, reading.values)

    def snapshot(self, notify: Notify) -> Snapshot:
        """Return the forecasts of every host and link now."""
        notify(f"mock grid {self.pool.name}: reading the sensors of {counted(len(self.pool.hosts), 'host')}")
        self.observe()
        source = f"forecasts of the sensors of mock grid {self.pool.name}"
        forecasts = self.weather.forecasts(now=self.now(), of=CPU)
        found = from_forecasts(self.pool, forecasts, now=self.now(), source=source)
        absent = self._dropped | dict.fromkeys(self.truth.dead(), "it does not answer")
        return without(found, absent)

    def checkpoint_s(self, path: Path, size_bytes: float) -> float:
        """Return the seconds in which all ranks together write so many bytes."""
        return size_bytes / self.scenario.storage_Bps

    def machine(self, host: Host) -> str:
        """Return the key of a host's benchmarks: its CPU type in this scenario."""
        return f"mock {self.scenario.name} {host.cpu_type}"

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Return the benchmark of a dedicated run on one host; raise `LaunchError`."""
        return self.measure(request.template.workload(1, request.options), request.host, request.ranks)

    def measure(self, workload: Workload, host: Host, ranks: int) -> Benchmark:
        """Return the benchmark of a workload's application; its size does not matter. Raise `LaunchError`."""
        return mock_sensors.measure(self.truth, host, workload, ranks=ranks, rng=self._benchmark_rng)

    def workload(self, size: int) -> Workload:
        """Return a run of the scenario's own application."""
        own = self.scenario.application
        messages, sent_bytes = own.messages * own.iterations, own.bytes_exchanged * own.iterations
        return copied(
            Workload, own, application=own.name, size=size, messages=messages, bytes_exchanged=sent_bytes
        )


def open_mock(
    scenario: str | Path | None = None, *, seed: int, load: str = "loaded", grid: Grid | None = None
) -> MockPlatform:
    """Return the mock grid of a scenario under one of its loads.

    Args:
        scenario: A file, or a name in `configs/mock/`; without it the one of the grid's name, else `workstations`.
        seed: Seed of all random numbers.
        load: A load of the scenario.
        grid: Other hosts than those of the scenario's own grid file.

    Raises:
        ConfigError: The files have problems, or the scenario lacks a CPU type or the load.
    """
    truth, pool = _scenario_and_pool(scenario, grid)
    return MockPlatform(pool, truth, load=load, seed=seed)


def _scenario_and_pool(scenario: str | Path | None, grid: Grid | None) -> tuple[Scenario, Grid]:
    if scenario is None:
        named = "" if grid is None else grid.name
        scenario = named if named and (configs_dir() / "mock" / f"{named}.yaml").is_file() else ANY_GRID
    truth, path = load_scenario(scenario)
    if grid is None:
        beside = path.parent / truth.grid
        grid = load_grid(beside if beside.is_file() else find_config(truth.grid))
    return truth, grid
