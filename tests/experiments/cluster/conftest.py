"""Small machines and jobs for the simulated cluster."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apples_experiments.cluster.constants import free_of_cost
from apples_experiments.cluster.workload import BspJob

#: Everything in whole tenths of a millisecond, so that a run step by step can follow.
QUIET = free_of_cost(nodes=2, processors=1, ticks_per_s=1000)


@pytest.fixture
def machine():
    """Makes a machine from what differs from a quiet one."""

    def make(**changes):
        return replace(QUIET, **changes)

    return make


@pytest.fixture
def ring():
    """Makes a ring: one rank on each node unless told otherwise."""

    def make(name="ring", nodes=(0, 1), compute_s=1e-3, iterations=1000, **more):
        each = compute_s if isinstance(compute_s, tuple) else (compute_s,) * len(nodes)
        more.setdefault("latency_s", 1e-4)
        return BspJob(name=name, nodes=nodes, compute_s=each, iterations=iterations, **more)

    return make


@pytest.fixture(scope="session")
def step_by_step():
    """The class that runs a machine step by step, from the file beside this one."""
    spec = importlib.util.spec_from_file_location(
        "cluster_brute_force", Path(__file__).with_name("brute_force.py")
    )
    module = sys.modules["cluster_brute_force"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StepByStep
