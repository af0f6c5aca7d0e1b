import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stencil_app.heat import HEAT
from stencil_app.heat.problem import HeatProblem
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.jacobi2d.problem import JacobiProblem
from stencil_app.options import parse_all

Ranks = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def alone():
    """A world of one rank, in this process."""
    from stencil_app.mpi import world

    return world()


@pytest.fixture
def heat():
    """Heat on a small mesh; options as on the command line."""

    def make(size: int = 6, **texts: str) -> HeatProblem:
        values, problems = parse_all(HEAT.options, {"nx": "9", "ny": "5", **texts})
        assert not problems
        return HeatProblem(size, values)

    return make


@pytest.fixture
def jacobi():
    def make(size: int = 6, **texts: str) -> JacobiProblem:
        values, problems = parse_all(JACOBI2D.options, {"nx": "13", **texts})
        assert not problems
        return JacobiProblem(size, values)

    return make


def command_line(ranks: int, words: tuple[object, ...]) -> list[str]:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    program = [sys.executable, "-m", "stencil_app", *map(str, words)]
    return program if ranks == 0 else [str(mpiexec), "-n", str(ranks), *program]


@pytest.fixture
def stencil_app(tmp_path: Path) -> Ranks:
    """Run the program on so many ranks (0: without mpiexec), in an empty directory."""

    def run(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
        command = command_line(ranks, words)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run
