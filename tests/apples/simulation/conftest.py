"""A scenario without any noise, load or traffic, in which every time can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from apples.model.grid import Grid, Host, LinkRule
from apples.simulation.mock_grid import MockGrid
from apples.simulation.scenario import Scenario, load_scenario
from apples.simulation.window import Chain
from tests.transcripts import GOLDEN

LATENCY_S = 0.001
BANDWIDTH_BPS = 1e6


@pytest.fixture
def quiet() -> Scenario:
    return load_scenario(GOLDEN / "apples" / "simulation" / "quiet.yaml")[0]


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
