"""The examples: each application file gives the result of its code's own even run, with pieces that differ."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from apples.applications.described import read_program
from apples.launching.deployment import deploy
from apples.model.cut import Box

EXAMPLES = Path(__file__).parent.parent / "examples"
BIN = Path(sys.executable).parent
OPENMPI = ("mpirun.openmpi", "--oversubscribe")
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Example:
    """An example. build : compiles it.  needs : programs or files without which it is skipped

    even : the code's own command for an even run of two ranks.  result : finds the lines to compare
    size, rows : of the run.  most_lines : of the application file
    directory : of the example, if it is not its name.  boxes : of a run on two axes
    """

    file: str
    result: str
    even: tuple[str, ...]
    launcher: tuple[str, ...] = (str(BIN / "mpiexec"),)
    build: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    size: int = 30
    rows: tuple[int, ...] = (10, 20)
    most_lines: int = 30
    without: tuple[str, ...] = ()
    directory: str = ""
    boxes: tuple[Box, ...] = ()


ALL = {
    "wave-c": Example(
        file="wave2d.yaml",
        build=(str(BIN / "mpicc"), "-O2", "-o", "wave2d", "wave2d.c"),
        needs=("gcc", str(BIN / "mpicc")),
        even=("./wave2d", "--nx", "2000", "--ny", "30", "--steps", "20"),
        result="checksum",
        most_lines=12,
    ),
    "heat-fortran": Example(
        file="heat.yaml",
        build=("mpif90.mpich", "-O2", "-o", "heat", "heat.f90"),
        needs=("mpif90.mpich", "mpiexec.mpich", "gfortran"),
        launcher=("mpiexec.mpich",),
        even=("./heat", "2000", "30", "20"),
        result="highest",
    ),
    "diffusion-mpi4py": Example(
        file="diffusion.yaml",
        even=(sys.executable, "diffusion.py", "--ny", "30", "--steps", "20"),
        result="highest",
        without=("rows.txt",),
    ),
    "lammps": Example(
        file="melt.yaml",
        needs=("lmp", "mpirun.openmpi"),
        launcher=OPENMPI,
        even=("lmp", "-in", "in.melt", "-var", "nz", "10", "-var", "steps", "20"),
        # Sums in another order: LAMMPS prints 8 digits of them.
        result=r"^ +20 .*",
        size=10,
        rows=(3, 7),
        without=("balance.in",),
    ),
    "meep": Example(
        file="dipole.yaml",
        needs=("mpirun.openmpi", "/usr/lib/python3/dist-packages/meep"),
        launcher=OPENMPI,
        even=("/usr/bin/python3", "dipole.py", "--planes=30", "--steps=20"),
        result="dipole: ",
    ),
    "petsc": Example(
        file="diffusion.yaml",
        build=("make",),
        needs=("mpirun.openmpi", "mpicc.openmpi", "make", "/usr/include/petsc"),
        launcher=OPENMPI,
        even=(
            "./diffusion",
            "-planes",
            "30",
            "-steps",
            "20",
            "-da_processors_x",
            "1",
            "-da_processors_y",
            "1",
        ),
        result="diffusion: ",
    ),
    "petsc-two-axes": Example(
        file="plate.yaml",
        directory="petsc",
        build=("make",),
        needs=("mpirun.openmpi", "mpicc.openmpi", "make", "/usr/include/petsc"),
        launcher=OPENMPI,
        even=("./plate", "-rows", "30", "-width", "512", "-fields", "4", "-steps", "20"),
        result="plate: ",
        rows=(30, 30),
        boxes=(Box(x=0, y=0, width=200, height=30), Box(x=200, y=0, width=312, height=30)),
    ),
}


def output_of(command, directory, **environment):
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **ROOT_MAY, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-1000:]
    return done.stdout


def result_of(example, output):
    found = [line for line in output.splitlines() if re.search(example.result, line)]
    assert found, output
    return found


def absent(example):
    """Return what the example needs and is not here; None if it can be built and run."""
    for name in example.needs:
        if shutil.which(name) is None and not Path(name).exists() and not Path("/usr/lib", name).exists():
            return name
    return None


@pytest.mark.mpi
@pytest.mark.parametrize("name", ALL)
def test_example_result_equals_its_own_even_run(name, tmp_path):
    example = ALL[name]
    if missing := absent(example):
        pytest.skip(f"{missing} is not installed")
    directory = tmp_path / name
    shutil.copytree(EXAMPLES / (example.directory or name), directory)
    if example.build:
        output_of(example.build, directory)
    program = read_program(directory / example.file)
    iterations = {"iterations": "20"}
    start = program.start(example.rows, tmp_path, iterations, boxes=example.boxes)
    deploy(start, print)
    uneven = output_of([*example.launcher, "-n", "2", *start.command], directory, **start.environment)
    for file in example.without:
        (directory / file).unlink()
    if name == "lammps":
        (directory / "balance.in").write_text("processors 1 1 2\n")
    even = output_of([*example.launcher, "-n", "2", *example.even], directory)
    assert result_of(example, uneven) == result_of(example, even)


@pytest.mark.parametrize("name", ALL)
def test_example_file_is_short(name):
    lines = (EXAMPLES / (ALL[name].directory or name) / ALL[name].file).read_text().splitlines()
    assert len(lines) <= ALL[name].most_lines
