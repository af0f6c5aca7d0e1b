"""Small pools of hosts for the planner's tests; every number not given is one that does not matter."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from apples.model.cut import Axes
from apples.model.grid import Conditions, Estimate, Host, Snapshot
from apples.model.template import Costs, LinearConstraint, Overhead, Workload
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import build

FAST, SLOW = (1e-4, 1e8), (1e-2, 1e6)


class Pool:
    """Factory of snapshots, workloads, costs and problems."""

    def snapshot(
        self,
        availability,
        *,
        error=0.0,
        memory=math.inf,
        slots=1,
        capacity=None,
        cpu_type=None,
        sites=None,
        latency=None,
        bandwidth=None,
    ):
        """One host for each CPU share; other values are of each host, or of each pair, or one for all."""
        n = len(availability)
        errors, memories, counts, types, site = (
            np.broadcast_to(value, n) for value in (error, memory, slots, cpu_type or "default", sites or 0)
        )
        same = np.equal.outer(site, site)
        return Snapshot(
            hosts=tuple(
                Host(name=f"h{i}", slots=int(counts[i]), cpu_type=str(types[i]), site=f"s{site[i]}")
                for i in range(n)
            ),
            conditions=tuple(
                Conditions(
                    availability=Estimate(value=a, error=float(errors[i])),
                    memory_bytes=Estimate(value=float(memories[i])),
                    capacity=None if capacity is None else Estimate(value=capacity[i]),
                )
                for i, a in enumerate(availability)
            ),
            latency_s=np.where(same, FAST[0], SLOW[0])
            if latency is None
            else np.full((n, n), latency, float),
            bandwidth_Bps=np.where(same, FAST[1], SLOW[1])
            if bandwidth is None
            else np.full((n, n), bandwidth, float),
            latency_error_s=np.zeros((n, n)),
            bandwidth_error_Bps=np.zeros((n, n)),
        )

    def workload(self, size, *, axes=None, constraints=(), **given):
        """axes : cut, width and least width.  constraints : or their names, coefficients and bounds"""
        if isinstance(axes, tuple):
            axes = Axes(cut=axes[0], width=axes[1], min_width=1)
        limits = [c if isinstance(c, LinearConstraint) else self.constraint(*c) for c in constraints]
        return Workload(application="test", size=size, axes=axes, constraints=tuple(limits), **given)

    def constraint(self, name, coefficients, bound):
        return LinearConstraint(name=name, coefficients=coefficients, bound=bound)

    def costs(self, row_s=1.0, *, benchmarks=None, **given):
        """Costs with these fields, or fields of their overhead."""
        overhead = {name: given.pop(name) for name in list(given) if name in Overhead.__dataclass_fields__}
        benchmarks = {"default": {1: row_s}} if benchmarks is None else benchmarks
        return Costs(seconds_per_row=benchmarks, overhead=Overhead(**overhead), **given)

    def problem(self, snapshot, workload, costs=None, options=None):
        return build(snapshot, workload, costs or self.costs(), options or PlanningOptions())


@pytest.fixture(scope="session")
def pool():
    return Pool()


def _benchmark(name):
    path = Path(__file__).parents[3] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def plan_quality():
    """The benchmark that compares the planner with brute force."""
    return _benchmark("plan_quality")


@pytest.fixture(scope="session")
def limit_quality():
    """The benchmark that compares plans within people's limits with brute force."""
    return _benchmark("limit_quality")
