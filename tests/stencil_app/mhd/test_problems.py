"""Problems against exact answers and reference solutions, on small meshes."""

import numpy as np
import pytest

from apples_experiments import mhd_validation as validation
from apples_experiments.mhd_validation import (
    SLACK,
    checks,
    linear_wave_error,
    orszag_tang,
    ryu_jones_error,
    solved,
)
from stencil_app.mesh.decomposition import even
from stencil_app.mesh.slab import Slab
from stencil_app.mhd.case import Case, entry, names, summary
from stencil_app.mhd.equations import MhdProblem
from stencil_app.mhd.historytable import totals
from stencil_app.mhd.mesh import B1, B3
from stencil_app.running.mpi import world
from stencil_app.running.runtime import Controls, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch


@pytest.mark.parametrize("wave", ["fast", "alfven", "slow", "entropy"])
def test_linear_waves_are_as_good_as_the_reference_both_ways(wave):
    right, left = (linear_wave_error(16, wave, direction) for direction in ("right", "left"))
    assert right <= SLACK * validation.LINEAR_WAVES[wave][16]
    assert left == pytest.approx(right, rel=1e-6)


def test_linear_waves_converge():
    assert linear_wave_error(32, "fast") <= SLACK * validation.LINEAR_WAVES["fast"][32]


def test_all_seven_waves_of_ryu_and_jones_along_every_axis():
    found = [ryu_jones_error(256, axis) for axis in "xyz"]
    for error, cycles in found:
        assert error <= SLACK * validation.RYU_JONES[256]
        assert error == pytest.approx(found[0][0], rel=1e-9)
        assert cycles == found[0][1]


def test_brio_and_wu(reference):
    errors = validation.brio_wu_errors(512, reference("briowu_t0.1_N4096_avg1024.npy"))
    assert (np.array(errors) <= SLACK * np.array(validation.BRIO_WU[512])).all()


def test_wide_tube_is_the_thin_one():
    thin, wide = (solved("ryu-jones", n=32, width=width, axis="z", courant=0.4) for width in (1, 3))
    assert thin[1].iteration <= wide[1].iteration
    rho = validation.centred(wide[0])["rho"]
    assert np.ptp(rho, axis=(1, 2)).max() < 1e-12


def test_vortex_keeps_what_the_equations_keep():
    slab, _, rho = orszag_tang(32)
    assert np.abs(rho - rho[::-1, ::-1]).max() < 1e-12
    now = totals(slab)
    assert now["divergence"] < 1e-12
    slab.problem.initialise(slab.interior, 0)
    slab.dress()
    slab.refresh()
    before = totals(slab)
    for name in ("mass", "energy"):
        assert now[name] == pytest.approx(before[name], rel=1e-12)
    assert max(abs(now[f"momentum_{axis}"]) for axis in "xyz") < 1e-14
    assert slab.problem.floored == 0


@pytest.mark.parametrize("kind", ["travelling", "standing"])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_circular_wave_is_where_it_was_after_a_period(kind, dimensions):
    slab, _ = solved("alfven-wave", n=16, dimensions=dimensions, kind=kind)
    found = validation.centred(slab)
    slab.problem.initialise(slab.interior, 0)
    slab.dress()
    slab.refresh()
    start = validation.centred(slab)
    assert np.abs(found["Bz"] - start["Bz"]).mean() < 0.03
    assert np.abs(found["rho"] - 1).max() < 0.05


@pytest.mark.parametrize(("dimensions", "n", "kept"), [(2, 32, 0.5), (3, 12, 0.1)])
def test_loop_is_carried_round_and_stays_across(dimensions, n, kept):
    slab, _ = solved("field-loop", n=n, dimensions=dimensions)
    found = validation.centred(slab)
    along = 2 * found["Bz"] - found["Bx"] if dimensions == 3 else found["Bz"]
    assert np.abs(along).mean() < (3e-5 if dimensions == 3 else 1e-18)
    energy = sum((found[f"B{axis}"] ** 2).sum() for axis in "xyz")
    slab.problem.initialise(slab.interior, 0)
    slab.dress()
    slab.refresh()
    start = validation.centred(slab)
    assert energy > kept * sum((start[f"B{axis}"] ** 2).sum() for axis in "xyz")


@pytest.mark.parametrize("boundary", ["reflecting", "outflow"])
def test_blast_at_walls_stays_symmetric(boundary):
    slab, state = solved(
        "blast", n=12, boundary=boundary, until=0.25, field=0.0 if boundary == "reflecting" else 1.0
    )
    assert state.time == 0.25
    rho = validation.centred(slab)["rho"]
    assert rho == pytest.approx(rho[::-1, ::-1, ::-1], abs=1e-11)
    now = totals(slab)
    assert now["divergence"] < 1e-12
    if boundary == "reflecting":
        assert now["mass"] == pytest.approx(1.0, rel=1e-13)
        assert max(abs(now[f"momentum_{axis}"]) for axis in "xyz") < 1e-13
        slab.problem.initialise(slab.interior, 0)
        assert now["energy"] == pytest.approx(totals(slab)["energy"], rel=1e-12)


def test_field_along_mirrors_stays_inside():
    """A box that reflects on all sides, closed field lines inside, a hot corner: nothing leaves."""

    def potential(axis, x, y, z):
        return 0.3 * np.sin(np.pi * x) * np.sin(np.pi * y) / np.pi if axis == 2 else 0.0

    case = Case(
        cells=(12, 14, 1),
        lower=(0.0, 0.0, 0.0),
        upper=(1.0, 1.0, 1.0),
        boundaries=("reflecting", "reflecting", "periodic"),
        courant=0.4,
        until=0.4,
        density=lambda x, y, z: 1.0,
        velocity=lambda axis, x, y, z: 0.0,
        pressure=lambda x, y, z: 0.5 + np.exp(-20 * (x * x + y * y)),
        potential=potential,
    )
    mhd = MhdProblem(case, {})
    slab = Slab(mhd, even(14, 1), world())
    state = begin(slab, None)
    assert mhd.bad_start(slab.field, 0) is None
    before = totals(slab)
    iterate(
        slab,
        state,
        Controls(iterations=10**6, until=0.4, residual_every=0),
        watch=Stopwatch(0.0),
        stop=StopRequest(),
    )
    now = totals(slab)
    for name in ("mass", "energy"):
        assert now[name] == pytest.approx(before[name], rel=1e-13)
    assert now["divergence"] < 1e-12
    assert np.abs(slab.field[3:17, B1, 0, [2, 14]]).max() < 1e-14
    assert np.abs(slab.field[[3, 17], B3]).max() < 1e-14


def test_problem_says_what_it_is_and_begins_without_divergence():
    for name in names():
        assert summary(name)
        options = {option.name for option in entry(name).options}
        assert {"n", "nx", "ny", "nz", "courant"} <= options


def test_failed_check_is_seen():
    good, bad = (
        validation.Check(problem="p", what="w", figure=figure, reference=None, limit=1.0)
        for figure in (1.0, np.nan)
    )
    assert good.passed
    assert not bad.passed
    assert bad.document()["passed"] is False
    assert callable(checks)
