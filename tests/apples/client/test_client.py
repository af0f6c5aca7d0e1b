"""Programs that move their rows: the same result as without moves, in C, Fortran and Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apples.client import include
from apples.model.progress import parse_progress

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BIN = Path(sys.executable).parent
LINES, STEPS = 60, 400
ROWS = {2: "30,30", 3: "20,20,20"}


def compiled(command, cwd):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def wave(directory, name):
    strict = ["-Wall", "-Wextra", "-Werror"] if name == "wave2d-moving" else []
    source = EXAMPLES / "wave-c" / f"{name}.c"
    compiled([BIN / "mpicc", "-O2", *strict, f"-I{include()}", "-o", name, source], directory)
    arguments = ["--nx", 80, "--ny", LINES, "--steps", STEPS, "--rows", ROWS[2]]
    return [BIN / "mpiexec"], [f"./{name}", *arguments]


def heat(directory, name):
    fortran = shutil.which("mpif90.mpich")
    if fortran is None:
        pytest.skip("no mpif90.mpich; Debian: apt install libmpich-dev gfortran")
    name = name.replace("wave2d", "heat")
    client = []
    if name == "heat-moving":
        compiled(["mpicc.mpich", "-c", include() / "apples_f.c"], directory)
        compiled([fortran, "-std=f2008", "-Wall", "-Werror", "-c", include() / "apples.f90"], directory)
        client = ["apples_f.o", "apples.o"]
    compiled([fortran, "-O2", "-o", name, EXAMPLES / "heat-fortran" / f"{name}.f90", *client], directory)
    return ["mpiexec.mpich"], [f"./{name}", 80, LINES, STEPS]


def diffusion(directory, name):
    program = EXAMPLES / "diffusion-mpi4py" / f"{name.replace('wave2d', 'diffusion')}.py"
    return [BIN / "mpiexec"], [sys.executable, program, "--nx", 80, "--ny", LINES, "--steps", STEPS]


@pytest.fixture(scope="module", params=[wave, heat, diffusion], ids=["C", "Fortran", "Python"])
def commands(request, tmp_path_factory):
    """Launcher and command of the plain and of the moving program, and the directory they are in."""
    directory = tmp_path_factory.mktemp("programs")
    return {name: request.param(directory, name) for name in ("wave2d", "wave2d-moving")}, directory


@pytest.fixture
def program(commands, tmp_path):
    """A function that runs the plain or the moving program and returns its output, stderr and reports."""

    def run(name, offer=None, ranks=2):
        progress, slabs = tmp_path / "progress", tmp_path / "slabs"
        launcher, command = commands[0][name]
        environment = dict(os.environ)
        if offer is not None:
            slabs.write_text(offer)
            environment |= {"STENCIL_APP_PROGRESS": str(progress), "STENCIL_APP_SLABS": str(slabs)}
            environment["STENCIL_APP_REPORT_EVERY"] = "0"
        words = [*launcher, "-n", ranks, *[ROWS[ranks] if word == ROWS[2] else word for word in command]]
        done = subprocess.run(
            [str(word) for word in words],
            cwd=commands[1],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        lines = progress.read_text().splitlines() if progress.exists() else []
        return done.stdout, done.stderr, lines

    return run


def test_moved_rows_change_nothing_of_the_result(program):
    plain, _, _ = program("wave2d")
    moved, stderr, lines = program("wave2d-moving", "13,47")
    assert (moved, stderr) == (plain, "")
    reports = [parse_progress(line) for line in lines]
    assert all(reports)
    assert reports[-1].rows == (13, 47)
    assert reports[-1].moves == 1
    assert sum(report.iterations for report in reports) == reports[-1].iteration <= STEPS


@pytest.mark.covering("commands", "offer")
@pytest.mark.parametrize("offer", ["25,35,0", "0,0,60"])
def test_ranks_without_rows_leave_and_change_nothing(program, offer):
    plain, _, _ = program("wave2d", ranks=3)
    moved, stderr, lines = program("wave2d-moving", offer, ranks=3)
    assert (moved, stderr) == (plain, "")
    reports = [parse_progress(line) for line in lines]
    assert reports[-1].rows == tuple(int(rows) for rows in offer.split(",") if rows != "0")
    assert sum(report.iterations for report in reports) == reports[-1].iteration <= STEPS


@pytest.mark.covering("commands", "offer")
@pytest.mark.parametrize("offer", ["20,20,20", "60,-1", "30,31", "x,59", "", f"{2**63 - 1},{2**63 - 1},62"])
def test_rows_that_cannot_be_taken_are_refused(program, offer):
    # the sum of the last is 60 if it overflows
    ranks = 3 if len(offer) > 9 else 2
    _, stderr, lines = program("wave2d-moving", offer, ranks=ranks)
    reports = [json.loads(line) for line in lines]
    assert {tuple(report["rows"]) for report in reports} == {(60 // ranks,) * ranks}
    assert {report["refused"] for report in reports} - {None} <= {
        told := stderr.partition(": ")[2].partition(";")[0]
    }
    assert bool(told) == bool(offer)


def test_without_an_agent_nothing_is_reported(program):
    plain, _, _ = program("wave2d")
    assert program("wave2d-moving") == (plain, "", [])
