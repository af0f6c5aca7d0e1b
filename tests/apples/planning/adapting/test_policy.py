"""When rows move: after a load that stays, not after noise, and never after a load that comes and goes."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.planning.adapting.policy import PATIENCE, AdaptationInputs, SlabPolicy
from apples.planning.adapting.settings import SlabSettings
from tests.apples.planning.adapting.machine import Machine
from tests.apples.samples import a_stretch

EVEN = [5e-4] * 4
MIXED = [3e-4, 5e-4, 8e-4, 4e-4]


def steady(t):
    return [1.0] * 4


def step(at_s, factor, rank=1):
    return lambda t: [factor if r == rank and t > at_s else 1.0 for r in range(4)]


def periodic(period_s, duty, factor, phase=0.0):
    return lambda t: [factor if r == 1 and (t / period_s + phase) % 1 < duty else 1.0 for r in range(4)]


@pytest.mark.parametrize("row_s", [EVEN, MIXED])
def test_constant_load_moves_nothing(row_s):
    without, adapted, moves = Machine(row_s, steady, iterations=600).both()
    assert (adapted, moves) == (without, [])


@pytest.mark.parametrize("seed", range(6))
def test_noise_of_a_tenth_moves_nothing(seed):
    assert Machine(MIXED, steady, noise=0.1, iterations=1000, seed=seed).both()[2] == []


@pytest.mark.covering("noise", "factor", "row_s")
@pytest.mark.parametrize("row_s", [EVEN, MIXED])
@pytest.mark.parametrize("factor", [1.3, 2.0, 4.0, 0.4])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_step_is_followed_at_once_and_nearly_as_well_as_by_knowing_it(row_s, factor, noise):
    machine = Machine(row_s, step(10.0, factor), noise=noise, iterations=1500)
    _, adapted, moves = machine.both()
    assert 1 <= len(moves) <= 2
    begins = moves[0][0]
    assert 10.0 < begins < (16.0 if noise == 0 else 25.0)
    best = machine.best(20.0)
    rest = dataclasses.replace(machine, load=lambda t: machine.load(20.0))
    an_iteration_s = rest.run(None)[0] / rest.iterations
    assert rest.plan == best
    before_s = dataclasses.replace(machine, load=steady).run(None)[0] / machine.iterations
    left = machine.iterations - 10.0 / before_s
    assert adapted - 10.0 <= 1.15 * left * an_iteration_s


@pytest.mark.parametrize("row_s", [EVEN, MIXED])
def test_load_that_goes_again_is_followed_back(row_s):
    machine = Machine(row_s, lambda t: [2.0 if r == 1 and 10 < t < 60 else 1.0 for r in range(4)])
    without, adapted, moves = machine.both()
    rows = moves[-1][1]
    assert max(np.multiply(rows, row_s)) < 1.05 * max(np.multiply(machine.plan, row_s))
    assert adapted < without


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    period_s=st.floats(0.1, 150),
    duty=st.floats(0.05, 0.95),
    factor=st.floats(1.1, 5),
    phase=st.floats(0, 1),
    move_s=st.tuples(st.floats(0.0, 0.3), st.floats(0, 1e-3)),
)
def test_load_that_comes_and_goes_never_costs_more_than_a_little(period_s, duty, factor, phase, move_s):
    load = periodic(period_s, duty, factor, phase)
    without, adapted, _ = Machine(EVEN, load, move_s=move_s, iterations=1500).both()
    assert adapted <= 1.03 * without


def test_move_that_costs_more_than_it_saves_is_not_made():
    dear = Machine(EVEN, step(10.0, 2.0), iterations=400, move_s=(0.0, 0.0))
    policy = SlabPolicy(
        AdaptationInputs(
            rows=dear.plan, hosts=tuple("abcd"), caps=(400.0,) * 4, bytes_per_row=1e9, bandwidth_Bps=1e6
        )
    )
    assert dear.run(policy)[1] == []


def test_dear_move_waits_until_the_load_has_lasted():
    machine = Machine(EVEN, step(10.0, 2.0), iterations=3000)
    inputs = AdaptationInputs(rows=machine.plan, hosts=tuple("abcd"), caps=(400.0,) * 4, collective_s=5.0)
    (first, _), *_ = machine.run(SlabPolicy(inputs))[1]
    assert first > 10.0 + 5.0 / 0.45  # as long as it takes to save what it costs


def test_limits_of_memory_hold():
    machine = Machine(EVEN, step(5.0, 3.0), iterations=800)
    inputs = AdaptationInputs(
        rows=machine.plan, hosts=tuple("abcd"), caps=(110.0, 400.0, 110.0, 400.0), min_rows=60
    )
    *_, (_, rows) = machine.run(SlabPolicy(inputs))[1]
    assert rows[0] <= 110
    assert rows[2] <= 110
    assert rows[1] == 60
    assert sum(rows) == 400


def hear(policy, rows, row_s, count, start=0, **more):
    found = [policy.hear(a_stretch(rows, row_s, 10 * (start + k), **more)) for k in range(count)]
    return [proposal for proposal in found if proposal is not None]


def inputs(**more):
    return AdaptationInputs(rows=(50, 50), hosts=("a1", "a2"), caps=(100.0, 100.0), **more)


def test_proposal_says_what_is_wrong_what_it_gains_and_what_it_costs():
    policy = SlabPolicy(inputs(row_s=(1e-3, 1e-3), share=(0.4, 0.4)))
    (proposal,) = hear(policy, (50, 50), (1e-3, 3e-3), 6)
    assert proposal.rows == (75, 25)
    assert proposal.why == "a2 is slower than planned (0.40 → 0.13 of a CPU)"
    assert proposal.rest_s == pytest.approx(1000 * 0.15)
    assert proposal.gain_s == pytest.approx(1000 * (0.15 - 0.075))
    assert proposal.cost_s == 0.05


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"row_s": (1e-3, 6e-3), "share": (math.nan, math.nan)}, "a2 is faster than planned (2.00 of it)"),
        ({}, "a2 is the slowest"),
    ],
)
def test_proposal_names_a_host_in_any_case(more, why):
    (proposal,) = hear(SlabPolicy(inputs(**more)), (50, 50), (1e-3, 3e-3), 6)
    assert proposal.why == why


def test_nothing_is_proposed_again_while_an_order_is_out_and_a_move_starts_afresh():
    policy = SlabPolicy(inputs())
    assert len(hear(policy, (50, 50), (1e-3, 3e-3), 10)) == 1
    assert hear(policy, (75, 25), (1e-3, 3e-3), 20, moved_s=None) == []
    assert policy.rows == (75, 25)


def test_what_a_move_cost_prices_the_next():
    policy = SlabPolicy(inputs())
    hear(policy, (50, 50), (1e-3, 3e-3), 6)
    policy.hear(a_stretch((75, 25), (1e-3, 3e-3), 70, moved_s=0.5))
    (proposal,) = hear(policy, (75, 25), (1e-3, 20e-3), 20)
    moved = proposal.rows[0] - 75
    assert proposal.cost_s == pytest.approx(0.05 + 0.5 / 25 * moved)


@pytest.mark.parametrize("how", ["refused", "unheard"])
def test_slabs_that_were_refused_or_not_taken_are_offered_again_on_more_evidence_only(how):
    policy = SlabPolicy(inputs())
    assert len(hear(policy, (50, 50), (1e-3, 3e-3), 6)) == 1
    if how == "refused":
        more = 1
        policy.hear(a_stretch((50, 50), (1e-3, 3e-3), 70, refused="no memory"))
    else:
        more = PATIENCE + 1
        assert len(hear(policy, (50, 50), (1e-3, 3e-3), more)) == 1
        return
    assert len(hear(policy, (50, 50), (1e-3, 3e-3), 10)) == 1
    assert more == 1


def test_where_nobody_knows_what_is_left_it_is_as_much_as_there_was():
    policy = SlabPolicy(inputs())
    (proposal,) = hear(policy, (50, 50), (1e-3, 3e-3), 20, left=None)
    assert proposal.rest_s < 100


def test_settings_shape_the_answer():
    lazy = SlabPolicy(inputs(), SlabSettings(minimum_gain=0.6))
    assert hear(lazy, (50, 50), (1e-3, 3e-3), 40) == []
    slow = SlabPolicy(inputs(), SlabSettings(least_reports=16))
    assert len(hear(slow, (50, 50), (1e-3, 3e-3), 16)) == 0


def test_move_that_does_not_keep_its_promise_is_undone():
    """Load that comes and goes within a report cannot be seen in means, but in what becomes of a move."""
    machine = Machine(EVEN, periodic(0.5, 0.25, 2.0), iterations=700, move_s=(0.0, 0.0))
    without, adapted, moves = machine.both()
    assert [rows for _, rows in moves] == [(105, 85, 105, 105), machine.plan]
    assert adapted <= 1.01 * without
