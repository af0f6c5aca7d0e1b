"""The command: files it leaves, and what it says when something is wrong."""

import csv
import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from stencil_app.errors import DivergedError, UsageError
from stencil_app.mesh.decomposition import even
from stencil_app.mesh.slab import Slab
from stencil_app.mhd.case import entry
from stencil_app.mhd.problems import blast
from stencil_app.mhd.settings import check
from stencil_app.running.runtime import Controls, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch
from tests.transcripts import recorded


def test_solution_has_names_axes_and_time(mhd, tmp_path):
    done = mhd(0, "orszag-tang", "--n", 12, "--until", 0.05, "--out", "f.npz", "--history", "h.csv")
    assert (done.returncode, done.stderr) == (0, "")
    found = np.load(tmp_path / "f.npz")
    names = ["x", "y", "z", "rho", "p", "vx", "vy", "vz", "Bx", "By", "Bz", "time", "cycles"]
    assert found.files == names
    assert found["rho"].shape == (1, 12, 12)
    assert float(found["time"]) == 0.05
    assert found["x"][0] == pytest.approx(1 / 24)
    # the velocity of the vortex: vx changes along y, vy along x
    assert np.abs(found["vx"][0, 2]).mean() > 0.5
    assert np.sign(found["vx"][0, 2]).sum() == -12
    table = list(csv.DictReader((tmp_path / "h.csv").read_text().splitlines()))
    assert float(table[0]["mass"]) == pytest.approx(25 / (36 * np.pi))
    assert int(table[0]["cycle"]) == 0


def test_history_and_files_for_other_programs_are_the_same_for_every_layout(mhd, tmp_path):
    words = ("blast", "--n", 9, "--iterations", 4, "--history-every", 2)
    assert mhd(0, *words, "--history", "0.csv", "--out", "f.npz").returncode == 0
    suffix = "h5" if find_spec("h5py") else "npz"
    assert mhd(3, *words, "--history", "3.csv", "--out", f"g.{suffix}").returncode == 0
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "3.csv").read_text()
    assert len((tmp_path / "0.csv").read_text().splitlines()) == 4
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "g.h5") as file:
        assert (file["Bz"][...] == np.load(tmp_path / "f.npz")["Bz"]).all()
        assert file.attrs["cycles"] == 4
    described = (tmp_path / "g.xdmf").read_text()
    assert "g.h5:/rho" in described
    assert 'Dimensions="10 10 10"' in described


def test_pictures(mhd, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert mhd(0, "blast", "--n", 8, "--iterations", 2, "--out", "f.png").returncode == 0
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_benchmark_measures_slabs_of_one_height(mhd, tmp_path):
    done = mhd(0, "orszag-tang", "--n", 24, "--benchmark", "b.json", "--rows", 6)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = json.loads((tmp_path / "b.json").read_text())
    assert (found["ranks"], found["rows"], found["application"]) == (1, 6, "mhd")
    assert (found["parameters"]["ny"], found["parameters"]["nz"]) == (6, 0)
    assert found["seconds_per_row"] == pytest.approx(found["seconds_per_cell"] * 24)
    assert found["exchange_s"] is None


def test_history_has_the_last_cycle_once(mhd, tmp_path):
    words = ("blast", "--n", 8, "--history", "h.csv", "--history-every", 2, "--checkpoint", "run.ck")
    assert mhd(0, *words, "--iterations", 3).returncode == 0
    assert mhd(0, *words, "--iterations", 3, "--restart", "run.ck").returncode == 0
    assert mhd(0, *words, "--iterations", 4, "--restart", "run.ck").returncode == 0
    table = csv.DictReader((tmp_path / "h.csv").read_text().splitlines())
    assert [int(line["cycle"]) for line in table] == [0, 2, 3, 4]


def test_unknown_problem_names_those_there_are(mhd):
    done = mhd(2, "rotor")
    assert done.returncode == 2
    assert done.stderr.count("no problem 'rotor'; there are alfven-wave, blast, brio-wu,") == 1


def test_negative_pressure_is_refused(mhd, monkeypatch):
    make = blast.make
    monkeypatch.setattr(blast, "make", lambda values: replace(make(values), pressure=lambda x, y, z: x))
    done = mhd(0, "blast", "--n", 8)
    assert done.returncode == 2
    assert done.stderr == (
        "stencil-app: blast: the initial state has 256 cell(s) with density or pressure under 1e-10 in "
        "rows from 0; both must be positive\n"
    )


def test_state_that_is_not_finite_ends_the_run_and_says_where(problem, alone, tmp_path):
    mhd = problem("orszag-tang", n=8)
    slab = Slab(mhd, even(8, 1), alone)
    state = begin(slab, None)
    path = tmp_path / "run.ck"

    def run(until):
        controls = Controls(iterations=until, residual_every=0, checkpoint=path)
        iterate(slab, state, controls, watch=Stopwatch(0.0), stop=StopRequest())

    run(2)
    before = path.read_bytes()
    mhd.layout.cells(slab.field)[3, 5, 0, 2] = np.inf
    with pytest.raises(DivergedError) as caught:
        run(4)
    assert caught.value.exit_code == 5
    (line,) = caught.value.problems
    assert line.startswith("iteration 3, time 0.")
    assert "of the cell at x = 0." in line
    assert "take a smaller --courant" in line
    assert path.read_bytes() == before


def test_floors_are_counted_through_a_restart(monkeypatch, alone, tmp_path):
    from stencil_app.mhd import equations as module
    from tests.stencil_app.mhd.conftest import make

    monkeypatch.setattr(module, "FLOOR", 0.8)
    path = tmp_path / "run.ck"

    def run(until, restart=None):
        slab = Slab(make("blast", n=8, pressure=1, radius=0.3), even(8, 1), alone)
        state = begin(slab, restart)
        controls = Controls(iterations=until, residual_every=0, checkpoint=path)
        iterate(slab, state, controls, watch=Stopwatch(0.0), stop=StopRequest())
        return slab.problem.floored, slab.checksum()

    first = run(8)[0]
    resumed = run(16, restart=path)
    assert 0 < first < resumed[0]
    assert resumed == run(16)


def test_restart_with_another_option_is_refused(mhd):
    words = ("orszag-tang", "--iterations", 2, "--checkpoint", "run.ck")
    assert mhd(0, *words, "--n", 8).returncode == 0
    done = mhd(0, "orszag-tang", "--n", 12, "--iterations", 4, "--restart", "run.ck")
    assert done.returncode == 2
    assert "--restart run.ck: n is 8 in the file and 12 in this run; give --n 8" in done.stderr
    done = mhd(0, "orszag-tang", "--n", 8, "--iterations", 1, "--restart", "run.ck")
    assert "--iterations 1: run.ck is already at cycle 2; give a larger number" in done.stderr


def test_report_of_the_validation_is_one_document(monkeypatch):
    from click.testing import CliRunner

    from apples_experiments import mhd_validation as validation

    validate = validation.validate
    one = validation.Check(problem="p", what="w", figure=2.0, reference=None, limit=1.0)
    monkeypatch.setattr(validation, "checks", lambda **_: iter([one]))
    done = CliRunner().invoke(validate, ["--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["checks"][0]["figure"] == 2.0
    assert "FAIL p: w: 2 (limit 1)" in CliRunner().invoke(validate, []).output
    assert "no such directory" in CliRunner().invoke(validate, ["--data", "/nonexistent"]).output


def test_mirrors_let_no_field_through(mhd):
    done = mhd(0, "blast", "--n", 8, "--boundary", "reflecting")
    assert done.returncode == 2
    assert "a field of up to 0.5774 crosses a reflecting wall" in done.stderr


@recorded("stencil_app/mhd_problems.txt", "name", "ranks", "texts", "file")
def test_options_and_their_problems_are_as_recorded(
    tmp_path, monkeypatch, answered, name, ranks, texts, file
):
    """file : contents of blast.yaml"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blast.yaml").write_text(file)
    try:
        settings = check(entry(name), texts, ranks=ranks, strays=[])
    except UsageError as refusal:
        answered(refusal.problems)
    else:
        slabs = settings.slabs.heights
        answered(f"{settings.case.cells}, {slabs}, {settings.iterations}: {settings.parameters}")


def test_format_whose_package_is_missing_says_which(monkeypatch):
    from stencil_app.mhd import settings

    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"--out f.h5: needs h5py, .*'apples-grid\[hdf5\]', or write .npz"):
        check(entry("blast"), {"out": "f.h5"}, ranks=1, strays=[])
