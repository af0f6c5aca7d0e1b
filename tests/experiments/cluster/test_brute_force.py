"""The engine against a machine that goes step by step: the same ends, the same measurements."""

import pytest

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.policies import CoschedulingConstants, policy_kind
from apples_experiments.cluster import layout as at
from apples_experiments.cluster.simulation import Simulation

STEP = 50_000
CONSTANTS = CoschedulingConstants(
    fcs=FcsConstants(slice_s=0.02, spin_s=150e-6, cslots_min=3, cs_thresh_s=2e-3)
)
POLICIES = ("batch", "gang", "spin-block", "fcs", "uncoordinated")


@pytest.fixture
def both(step_by_step):
    """One case on the engine and step by step, from the same counters and clocks."""

    def run(machine, jobs, policy, step=STEP):
        sim = Simulation(machine, jobs, policy_kind(policy), CONSTANTS, seed=7)
        views = sim._views
        # ranks start 1 ns after the first heartbeat; where there is none, the clocks tick with them
        views.processors[:, at.C_PHASE] = 0 if policy_kind(policy).coordinated else 1
        sim._arrive()
        counters = {}
        for name, p in sim._number.items():
            counters[name] = 1 + 7 * p % 40
            views.processes[p, at.COUNTER] = counters[name]
        managers = [
            int(views.processes[2 * n, at.PROCESSOR] - views.nodes[n, at.N_FIRST]) // at.PROCESSOR_FIELDS
            for n in range(machine.nodes)
        ]
        steps = step_by_step(
            machine, jobs, policy, CONSTANTS, step=step, counters=counters, managers=managers
        )
        return sim.run(), steps.run(60 * 10**9)

    return run


def compare(outcome, steps):
    for rank in steps.ranks:
        seen = outcome.readings[rank.name]
        assert seen.c_comm == rank.c_comm, rank.name
        assert seen.t_cpu_s == pytest.approx(rank.t_cpu / 1e9, abs=1e-4), rank.name
        assert seen.t_comm_s == pytest.approx(rank.t_comm / 1e9, abs=2e-4 * rank.c_comm), rank.name
    for name, job in outcome.jobs.items():
        end = max(r.done for r in steps.ranks if r.name.job == name) / 1e9
        assert job.finished_s == pytest.approx(end, abs=2e-3), name


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.nightly
def test_two_rings_on_two_nodes_of_one_processor(both, machine, ring, policy):
    jobs = [ring("a", iterations=75), ring("b", compute_s=(1e-3, 2.5e-3), iterations=60)]
    compare(*both(machine(), jobs, policy))


# The other policies are compared in the cases below.
@pytest.mark.parametrize(
    "policy",
    [pytest.param(p, marks=[] if p in ("spin-block", "fcs") else pytest.mark.nightly) for p in POLICIES],
)
def test_three_jobs_on_two_nodes_of_two_processors(both, machine, ring, policy):
    """Complementing jobs with one that says nothing: ranks migrate, classes change, F ranks are favoured."""
    nodes = (0, 0, 1, 1)
    jobs = [
        ring("long", nodes, compute_s=(1e-3, 1e-3, 3.1e-3, 3.1e-3), iterations=147),
        ring("silent", (0, 0), compute_s=0.0465, iterations=3, pattern="none"),
        ring("fine", nodes, iterations=80),
    ]
    compare(*both(machine(processors=2), jobs, policy))


@pytest.mark.parametrize("policy", ["gang", "spin-block", "fcs"])
def test_ranks_that_all_wait_for_all(both, machine, ring, policy):
    nodes = (0, 0, 1, 1)
    jobs = [
        ring("a", nodes, compute_s=(1e-3, 1.5e-3, 2e-3, 0.5e-3), iterations=120, pattern="barrier"),
        ring("b", nodes, compute_s=3e-3, iterations=60, pattern="all-to-all"),
    ]
    compare(*both(machine(processors=2), jobs, policy))


# With 2 ms, unlike 1.95 or 2.05 ms, a computation ends in the nanosecond of a tick: which comes first is not the same.
SETS = {"small": 1e-3, "large": 20e-3}


@pytest.mark.parametrize("policy", POLICIES)
def test_ranks_whose_working_sets_throw_out_each_other(both, machine, ring, policy):
    """One set is small and soon back, one is large and never whole."""
    jobs = [
        ring("small", iterations=100, refill_s=SETS["small"]),
        ring("large", compute_s=(1e-3, 3e-3), iterations=60, refill_s=SETS["large"]),
    ]
    compare(*both(machine(), jobs, policy, step=STEP // 2))


# Not spin-block: a set that takes 1 µs longer changes who moves where, and a rank's waits by a tenth and more.
@pytest.mark.parametrize("policy", ["batch", "gang", "fcs", "uncoordinated"])
def test_ranks_that_move_leave_their_working_sets_behind(both, machine, ring, policy):
    nodes = (0, 0, 1, 1)
    jobs = [
        ring("small", nodes, iterations=100, refill_s=SETS["small"]),
        ring("large", nodes, compute_s=(1e-3, 2e-3, 3e-3, 2e-3), iterations=60, refill_s=SETS["large"]),
    ]
    compare(*both(machine(processors=2), jobs, policy))


def test_favoured_rank_goes_first_step_by_step_too(both, machine, ring):
    outcome, _ = both(
        machine(processors=2),
        [
            ring("long", (0, 0, 1, 1), compute_s=(1e-3, 1e-3, 3.1e-3, 3.1e-3), iterations=147),
            ring("silent", (0, 0), compute_s=0.0465, iterations=3, pattern="none"),
        ],
        "fcs",
    )
    assert {c.value for p, c in outcome.classes.items() if p.job == "long" and p.rank < 2} == {"F"}
