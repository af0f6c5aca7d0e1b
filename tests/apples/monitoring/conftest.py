"""The library built once, the MPIs of this machine, and programs compiled for each; skipped where there is none."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apples.monitoring.job import MonitoredJob

PROGRAMS = Path(__file__).with_name("programs")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LIMIT_S = 90


@dataclass(frozen=True)
class Mpi:
    """One MPI library: how its ranks are started and its programs compiled."""

    name: str
    launcher: tuple[str, ...]
    cc: str | None
    fortran: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    unchecked: bool = False

    def command(self, ranks, *words):
        return [*self.launcher, "-n", str(ranks), *map(str, words)]


def _wheel():
    beside = Path(sys.executable).parent
    cc = beside / "mpicc"
    return Mpi("mpich-wheel", (str(beside / "mpiexec"),), str(cc) if cc.exists() else None, unchecked=True)


def _system(name, launcher, compilers, **more):
    program = shutil.which(launcher[0])
    if program is None:
        return None
    cc, fortran = (shutil.which(compiler) for compiler in compilers)
    return Mpi(name, (program, *launcher[1:]), cc, fortran, **more)


def find_mpi(name):
    if name == "mpich-wheel":
        return _wheel()
    if name == "mpich":
        return _system("mpich", ("mpiexec.mpich",), ("mpicc.mpich", "mpifort.mpich"))
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return _system(
        "openmpi",
        ("mpiexec.openmpi", "--oversubscribe"),
        ("mpicc.openmpi", "mpifort.openmpi"),
        environment={**allowed, "MPI4PY_MPIABI": "openmpi"},
    )


@pytest.fixture(params=["mpich-wheel", "mpich", "openmpi"])
def mpi(request, tmp_path):
    found = find_mpi(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed on this machine (Debian: mpich, openmpi-bin)")
    if found.name == "mpich":
        # mpi4py looks for MPICH's library under its usual name, which Debian has changed.
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "libmpi.so.12").symlink_to(LIBRARIES / "libmpich.so.12")
        found.environment.update(LD_LIBRARY_PATH=str(tmp_path / "lib"), MPI4PY_MPIABI="mpich")
    return found


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiles a test program for an MPI, once in a session."""
    directory = tmp_path_factory.mktemp("programs")

    def compile_for(mpi, source):
        fortran = source.endswith(".f90")
        compiler = mpi.fortran if fortran else mpi.cc
        if compiler is None or not shutil.which("gfortran" if fortran else "gcc"):
            pytest.skip(f"no compiler for {source} with {mpi.name} on this machine")
        program = directory / f"{mpi.name}-{source}"
        if not program.exists():
            command = [compiler, "-O1", "-w", "-pthread", "-o", str(program), str(PROGRAMS / source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
            assert done.returncode == 0, done.stderr
        return [str(program)]

    return compile_for


@pytest.fixture
def pages_directory(tmp_path):
    directory = tmp_path / "pages"
    directory.mkdir(mode=0o700)
    return directory


class Started:
    """A job that runs under the monitor."""

    @staticmethod
    def kill(pid):
        kill_rank(pid)

    def __init__(self, job, process):
        self.job, self.process = job, process

    def page_figures(self, ranks, until):
        """Figures of all ranks as soon as they are there and `until` holds of them."""
        waiting = threading.Event()
        for _ in range(LIMIT_S * 50):
            figures = self.job.figures()
            if len(figures) == ranks and until(figures):
                return figures
            if self.process.poll() is not None:
                break
            waiting.wait(0.02)
        pytest.fail(f"not reached; the last figures were {self.job.figures()}")

    def end(self):
        """Output once it has ended by itself."""
        said, errors = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, said + errors
        return said, errors


@pytest.fixture
def start(library, pages_directory, tmp_path):
    """Starts a command of an MPI under the monitor; whatever is left of it is killed in the end."""
    started = []

    def begin(mpi, ranks, command, wait=None, name="job", **environment):
        base = {**os.environ, **mpi.environment, **environment}
        job = MonitoredJob(name, wait=wait, base=base, directory=pages_directory)
        process = subprocess.Popen(
            mpi.command(ranks, *command),
            env={**base, **job.environment},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(Started(job, process))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            for figures in one.job.figures():
                kill_rank(figures.pid)
            one.process.kill()
        one.process.communicate(timeout=LIMIT_S)


def kill_rank(pid):
    """Kill a rank, and remove the shared memory that MPI cannot remove any more."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    for segment in set(re.findall(r"/dev/shm/(?:mpich_shm|vader_segment)\S*", maps)):
        Path(segment).unlink(missing_ok=True)


@pytest.fixture
def python_known():
    return [sys.executable, str(PROGRAMS / "known.py")]
