import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from stencil_app.heat import HEAT
from stencil_app.heat.diffusion import HeatProblem
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.jacobi2d.laplace import JacobiProblem
from stencil_app.options import parse_all

Ranks = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", autouse=True)
def alone():
    """A world of one rank, in this process. MPI starts once, with handlers that Python does not know of."""
    from stencil_app.running.mpi import world

    alone = world()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    return alone


@pytest.fixture
def heat():
    """Heat on a small mesh; options as on the command line."""

    def make(size: int = 6, sweeps: int | None = 1, **texts: str) -> HeatProblem:
        values, problems = parse_all(HEAT.options, {"nx": "9", "ny": "5", **texts})
        assert not problems
        return HeatProblem(size, values, sweeps)

    return make


@pytest.fixture
def jacobi():
    def make(size: int = 6, sweeps: int | None = 1, **texts: str) -> JacobiProblem:
        values, problems = parse_all(JACOBI2D.options, {"nx": "13", **texts})
        assert not problems
        return JacobiProblem(size, values, sweeps)

    return make


def command_line(ranks: int, words: tuple[object, ...]) -> list[str]:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    return [str(mpiexec), "-n", str(ranks), sys.executable, "-m", "stencil_app", *map(str, words)]


def _give_up(comm: object, error: BaseException) -> None:
    raise error


def in_this_process(words: tuple[object, ...], directory: Path) -> subprocess.CompletedProcess[str]:
    """The program as one rank, without the second that a process of its own would take to start."""
    from stencil_app.cli import main
    from stencil_app.running import mpi

    arguments = ["stencil-app", *map(str, words)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with (
            contextlib.chdir(directory),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", arguments),
            mock.patch.object(mpi, "abort", _give_up),
        ):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture
def stencil_app(tmp_path: Path, program_signals: None) -> Ranks:
    """Run the program on so many ranks (0: in this process, where it is one), in an empty directory."""

    def run(ranks: int, *words: object) -> subprocess.CompletedProcess[str]:
        if ranks == 0:
            return in_this_process(words, tmp_path)
        return subprocess.run(
            command_line(ranks, words),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
