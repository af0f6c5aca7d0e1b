"""Small pools of hosts for the planner's tests; every number not given is one that does not matter."""

import importlib.util
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, Overhead, Workload
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import Problem, build

FAST, SLOW = (1e-4, 1e8), (1e-2, 1e6)


class Pool:
    """Factory of snapshots, workloads, costs and problems."""

    def snapshot(
        self,
        availability: Sequence[float],
        *,
        error: Sequence[float] | float = 0.0,
        memory: Sequence[float] | float = math.inf,
        slots: Sequence[int] | int = 1,
        capacity: Sequence[float] | None = None,
        cpu_type: Sequence[str] | None = None,
        sites: Sequence[int] | None = None,
        latency: np.ndarray | None = None,
        bandwidth: np.ndarray | None = None,
    ) -> Snapshot:
        n = len(availability)
        errors, memories = np.broadcast_to(error, n), np.broadcast_to(memory, n)
        place = np.zeros(n) if sites is None else np.array(sites)
        same = place[:, None] == place[None, :]
        types = cpu_type or ["default"] * n
        return Snapshot(
            hosts=tuple(
                Host(name=f"h{i}", slots=int(s), cpu_type=types[i], site=f"s{place[i]:.0f}")
                for i, s in enumerate(np.broadcast_to(slots, n))
            ),
            conditions=tuple(
                Conditions(
                    availability=Estimate(value=a, error=float(errors[i])),
                    memory_bytes=Estimate(value=float(memories[i])),
                    capacity=None if capacity is None else Estimate(value=capacity[i]),
                )
                for i, a in enumerate(availability)
            ),
            latency_s=np.where(same, FAST[0], SLOW[0]) if latency is None else np.array(latency, float),
            bandwidth_Bps=np.where(same, FAST[1], SLOW[1])
            if bandwidth is None
            else np.array(bandwidth, float),
            latency_error_s=np.zeros((n, n)),
            bandwidth_error_Bps=np.zeros((n, n)),
        )

    def workload(self, size: int, **given: object) -> Workload:
        return Workload(application="test", size=size, **given)  # type: ignore[arg-type]

    def costs(self, seconds_per_row: float = 1.0, **overhead: float) -> Costs:
        return Costs(seconds_per_row={"default": {1: seconds_per_row}}, overhead=Overhead(**overhead))

    def problem(
        self,
        snapshot: Snapshot,
        workload: Workload,
        costs: Costs | None = None,
        options: PlanningOptions | None = None,
    ) -> Problem:
        return build(snapshot, workload, costs or self.costs(), options or PlanningOptions())


@pytest.fixture(scope="session")
def pool() -> Pool:
    return Pool()


def _benchmark(name: str) -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def plan_quality() -> ModuleType:
    """The benchmark that compares the planner with brute force."""
    return _benchmark("plan_quality")


@pytest.fixture(scope="session")
def limit_quality() -> ModuleType:
    """The benchmark that compares plans within people's limits with brute force."""
    return _benchmark("limit_quality")
