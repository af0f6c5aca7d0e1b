"""A scenario without any noise, load or traffic, in which every time can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from apples.model.grid import Grid, Host, LinkRule
from apples.simulation.mock_grid import MockGrid
from apples.simulation.scenario import (
    ApplicationTruth,
    CpuTruth,
    HostTruth,
    LoadTruth,
    NetworkTruth,
    RegimeTruth,
    Scenario,
    SensorTruth,
    StartupTruth,
    TrafficTruth,
)
from apples.simulation.window import Chain

ROW_S = 0.01
LATENCY_S = 0.001
BANDWIDTH_BPS = 1e6


@pytest.fixture
def quiet() -> Scenario:
    silence = TrafficTruth(mean_stay_s=100.0, busy_share=0.0, busy_most=0.0, quiet_most=0.0)
    return Scenario(
        name="quiet",
        grid="none",
        hosts=HostTruth(
            cpu_types={
                "one": CpuTruth(cpus=1, seconds_per_row=ROW_S, memory_bytes=100e6, system_bytes=20e6),
                "two": CpuTruth(cpus=2, seconds_per_row=ROW_S, memory_bytes=100e6, system_bytes=20e6),
            },
            hardware_seed=1,
            speed_spread=0.0,
            run_spread=0.0,
            sweep_spread=0.0,
            bus_slowdown=0.0,
            paging_slowdown=100.0,
        ),
        application=ApplicationTruth(
            name="toy",
            iterations=10,
            messages=1.0,
            bytes_exchanged=1000.0,
            bytes_per_row=1e6,
            bytes_fixed=0.0,
            max_rows=500,
        ),
        network=NetworkTruth(
            efficiency=1.0,
            link_spread=0.0,
            uplink_Bps=1e6,
            message_s=0.0,
            transfer_spread=0.0,
            stall_probability=0.0,
            stall_s=0.0,
            host_traffic=silence,
            uplink_traffic=silence,
        ),
        startup=StartupTruth(
            start_wait_s=1.0,
            start_cpu_s=1.0,
            start_spread=0.0,
            lookup_s=0.1,
            lookup_spread=1e-6,
            finish_s=0.5,
        ),
        loads={
            "none": LoadTruth(
                regimes=(RegimeTruth(mean_stay_s=1e9, interval_s=None, duration_s=1.0),),
                brief_interval_s=1e12,
                brief_duration_s=1.0,
                process_bytes=0.0,
                process_bytes_spread=0.0,
            )
        },
        sensors=SensorTruth(
            host_period_s=10.0,
            network_period_s=60.0,
            cpu_window_s=10.0,
            cpu_error=0.0,
            memory_error=0.0,
            latency_error=0.0,
            bandwidth_error=0.0,
            history_s=120.0,
        ),
    )


def host_grid(count: int, *, cpu_type: str = "one", sites: int = 1, slots: int = 1) -> Grid:
    hosts = tuple(
        Host(name=f"h{i}", cpu_type=cpu_type, site=f"s{i % sites}", slots=slots) for i in range(count)
    )
    return Grid(name="toy", hosts=hosts, links=(LinkRule(latency_s=LATENCY_S, bandwidth_Bps=BANDWIDTH_BPS),))


@pytest.fixture
def quiet_grid(quiet: Scenario) -> Callable[..., MockGrid]:
    def build(
        count: int, scenario: Scenario = quiet, *, load: str = "none", seed: int = 1, **shape
    ) -> MockGrid:
        return MockGrid(host_grid(count, **shape), scenario, load=load, seed=seed)

    return build


@pytest.fixture
def chain() -> Callable[..., Chain]:
    """Ranks with so many rows, the i-th on the i-th host unless said otherwise."""

    def build(
        grid: MockGrid, *rows: float, hosts: list[int] | None = None, bytes_per_row: float = 0.0
    ) -> Chain:
        where = np.array(list(range(len(rows))) if hosts is None else hosts)
        heights = np.array(rows, dtype=float)
        work = heights * grid.machines.sweep_s[where]
        return Chain(hosts=where, work_s=work, memory_bytes=heights * bytes_per_row)

    return build


@pytest.fixture
def competitors() -> Callable[..., None]:
    """Other people's processes on one host."""

    def put(grid: MockGrid, host: int, count: int, begin: float, end: float, memory: float = 0.0) -> None:
        each = np.full(count, memory / count)
        grid._load[host].add(np.full(count, begin), np.full(count, end), each)

    return put
