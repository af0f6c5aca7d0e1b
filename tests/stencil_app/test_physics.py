"""Every physics, run by hand: exact solutions, orders of convergence, and any cut gives the same bits."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stencil_app.heat.diffusion import HeatProblem
from stencil_app.jacobi2d.laplace import JacobiProblem
from stencil_app.mesh.decomposition import Decomposition


def start(problem, heights):
    slabs = Decomposition(heights)
    problem.fit(slabs)
    pairs = []
    for rank, rows in enumerate(heights):
        first = slabs.first_row(rank)
        field, other = (problem.layout.allocate(rows) for _ in range(2))
        problem.initialise(problem.layout.interior(field), first)
        problem.dress(field, first)
        problem.dress(other, first)
        pairs.append([field, other, first])
    return pairs


def iterate(problem, pairs, iterations):
    """What the runtime does, with ghost planes copied in one process."""
    last, g = len(pairs) - 1, problem.layout.ghost_rows
    while iterations:
        for rank, (field, _, _) in enumerate(pairs):
            if rank > 0 or problem.periodic:
                field[:g] = pairs[rank - 1][0][-2 * g : -g]
            if rank < last or problem.periodic:
                field[-g:] = pairs[(rank + 1) % len(pairs)][0][g : 2 * g]
        count = min(iterations, problem.sweeps)
        iterations -= count
        for pair in pairs:
            problem.sweep(*pair, count)
            if count % 2:
                pair[0], pair[1] = pair[1], pair[0]
    return np.concatenate([problem.layout.interior(field) for field, _, _ in pairs])


@pytest.mark.parametrize("boundary", ["fixed", "periodic", "insulated"])
def test_heat_decays_as_the_exact_mode_with_second_order(heat, boundary):
    errors = []
    for n in (8, 16, 32):
        problem = heat(n, nx=str(n), ny=str(n), boundary=boundary, courant="0.6")
        steps = round(0.02 / problem.step)
        pairs = start(problem, (n,))
        before = problem.layout.interior(pairs[0][0]).copy()
        wave_number = 2 * np.pi if problem.periodic else np.pi
        exact = before * np.exp(-3.0 * wave_number**2 * problem.step * steps)
        errors.append(np.abs(iterate(problem, pairs, steps) - exact).max() / np.abs(exact).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx(2.0, abs=0.25)


@pytest.mark.parametrize("boundary", ["fixed", "periodic", "insulated"])
def test_one_heat_step_is_the_seven_point_formula(heat, boundary):
    problem = heat(4, boundary=boundary, initial="random")
    pairs = start(problem, (4,))
    u = problem.layout.interior(pairs[0][0]).copy()
    mode = {"fixed": "constant", "periodic": "wrap", "insulated": "edge"}[boundary]
    p = np.pad(u, 1, mode=mode)
    c, wx, wy, wz = problem.weights
    expected = c * u + wx * (p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:])
    expected += wy * (p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]) + wz * (p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1])
    assert iterate(problem, pairs, 1) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("boundary", ["periodic", "insulated"])
def test_heat_is_neither_made_nor_lost_without_cold_walls(heat, boundary):
    problem = heat(6, boundary=boundary, initial="gaussian")
    pairs = start(problem, (6,))
    before = problem.layout.interior(pairs[0][0]).sum()
    assert iterate(problem, pairs, 200).sum() == pytest.approx(before, rel=1e-13)


def test_jacobi_converges_to_the_harmonic_function_with_second_order(jacobi):
    errors = []
    for n in (7, 15, 31):
        problem = jacobi(n // 2, nx=str(n))
        field = iterate(problem, start(problem, (n // 2,)), 8 * n * n)
        errors.append(np.abs(field - problem.harmonic()).max())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.15)


def test_jacobi_on_uneven_meshes_keeps_the_hot_side_hot(jacobi):
    problem = jacobi(5, nx="40", boundary="hot", initial="random")
    field = iterate(problem, start(problem, (5,)), 8000)[:, 0]
    assert (np.diff(field[:, 20]) > 0).all()
    assert field == pytest.approx(field[:, ::-1], abs=1e-12)
    assert 0 < field.min() < field.max() < 1


CUTS = st.lists(st.integers(1, 5) | st.integers(16, 19), min_size=1, max_size=4)
SWEEPS = st.sampled_from([None, 1, 2, 4, 8, 16])
# Lines so long and so many that several sweeps run in several blocks, and no whole number of vectors.
HEAT_VALUES = {"nx": 91, "ny": 33, "initial": "random", "courant": 0.7}


@settings(deadline=None, max_examples=40)
@given(CUTS, SWEEPS, st.integers(1, 20), st.sampled_from(["fixed", "periodic", "insulated"]))
def test_heat_bits_equal_for_any_cut_and_sweeps(heights, sweeps, iterations, boundary):
    one, problem = (HeatProblem(sum(heights), {**HEAT_VALUES, "boundary": boundary}, n) for n in (1, sweeps))
    whole = iterate(one, start(one, (sum(heights),)), iterations)
    assert (iterate(problem, start(problem, tuple(heights)), iterations) == whole).all()


@settings(deadline=None, max_examples=40)
@given(CUTS, SWEEPS, st.integers(1, 20))
def test_jacobi_bits_equal_for_any_cut_and_sweeps(heights, sweeps, iterations):
    values = {"nx": 3001, "boundary": "hot", "initial": "random"}
    one, problem = (JacobiProblem(sum(heights), values, n) for n in (1, sweeps))
    whole = iterate(one, start(one, (sum(heights),)), iterations)
    assert (iterate(problem, start(problem, tuple(heights)), iterations) == whole).all()


@pytest.mark.parametrize("initial", ["mode", "gaussian", "random"])
def test_initial_values_do_not_depend_on_the_cut(heat, initial):
    problem = heat(9, initial=initial)
    whole, parts = (iterate(problem, start(problem, heights), 0) for heights in ((9,), (1, 3, 5)))
    assert (whole == parts).all()
