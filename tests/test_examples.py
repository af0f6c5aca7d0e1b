"""The examples: each application file gives the result of its code's own even run, with pieces that differ."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml

from apples.applications.described import read_program
from apples.launching.deployment import deploy
from apples.model.cut import Box
from tests.transcripts import text_of

EXAMPLES = Path(__file__).parent.parent / "examples"
BIN = Path(sys.executable).parent
ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Example:
    """An example. build : compiles it.  needs : programs or files without which it is skipped

    even : the code's own command for an even run of two ranks.  result : finds the lines to compare
    rows : of the run.  most_lines : of the application file
    directory : of the example, if it is not its name.  boxes : of a run on two axes
    """

    file: str
    result: str
    even: tuple[str, ...]
    launcher: tuple[str, ...] = (str(BIN / "mpiexec"),)
    build: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    rows: tuple[int, ...] = (10, 20)
    most_lines: int = 30
    without: tuple[str, ...] = ()
    directory: str = ""
    boxes: tuple[Box, ...] = ()


TABLE = text_of("examples.yaml").replace("BIN/", f"{BIN}/").replace("PYTHON", sys.executable)
ALL = msgspec.convert(yaml.safe_load(TABLE), dict[str, Example])


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
