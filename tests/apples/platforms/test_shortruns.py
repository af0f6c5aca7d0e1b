"""Short runs of programs with meshes of one size, of few numbers of ranks, that hang or that ignore their pieces."""

import json
import os
import random
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from apples.cli.run import run
from apples.cli.toolbox import toolbox
from apples.errors import ConfigError, LaunchError
from apples.model.grid import Host
from apples.model.plan import Outcome, RankStatus
from apples.model.template import Application, BenchmarkRequest, Deployment, Workload
from apples.monitoring.counters import MonitorState
from apples.platforms import shortruns
from apples.platforms.programcosts import ENOUGH_CPU_S, STEADY_CPU_S, benchmark_of, cpu_growth_s
from tests.transcripts import recorded, text_of

FAKE_SSH = Path(__file__).parents[1] / "hosts" / "fake_ssh.sh"
PROGRAM = text_of("apples/platforms/picky.c")
FILE = text_of("apples/platforms/picky.txt")


def called(command, *words):
    """The result of a command in this process; its error is raised."""
    return CliRunner().invoke(
        command, [str(word) for word in words], catch_exceptions=False, standalone_mode=False
    )


@pytest.fixture
def picky(tmp_path, monkeypatch, library, mpi_programs):
    """A function that compiles a program with a condition on rows, and writes its file, measured in a moment."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").symlink_to(FAKE_SSH)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, least in (("ENOUGH_CPU_S", 0.03), ("STEADY_CPU_S", 0.03)):
        monkeypatch.setattr(shortruns, name, least)

    def write(condition, more="", hangs="0"):
        text = f"#define CONDITION {condition}\n#define HANGS {hangs}\n{PROGRAM}"
        program = mpi_programs("own", text, tmp_path.name)
        Path("picky.yaml").write_text(FILE.replace("PROGRAM", program) + more)
        return program

    return write


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("condition", "more", "hosts", "ranks"),
    [
        ("sum == 600", "sizes: 600\n", None, {1, 2}),
        ("ranks > 1", "min_ranks: 2\n", None, {2}),
        ("(ranks & (ranks - 1)) == 0", "ranks: powers of two\n", "alpha:3", {1, 2}),
    ],
)
def test_picky_program_is_checked_planned_and_run_at_once(picky, condition, more, hosts, ranks):
    picky(condition, more)
    where = ("--launcher", "ssh", "-H", hosts) if hosts else ()
    benchmarks = json.loads(called(toolbox, "app", "check", "picky.yaml", 600, *where, "--json").stdout)
    measured = {b["ranks"] for of in benchmarks["benchmarks"].values() for b in of}
    assert measured == {n for n in ranks if hosts or n in (min(ranks), len(os.sched_getaffinity(0)))}
    ran = json.loads(called(run, 600, "--app", "picky.yaml", *where, "--json").stdout)
    assert ran["ended"] == "finished"
    assert len(ran["hosts"]) in ranks
    assert sum(rank["rows"] for rank in ran["hosts"]) == 600


@pytest.mark.mpi
def test_program_that_hangs_ends_by_its_limit(picky, tmp_path):
    program = picky("1", hangs="rows[0] != rows[ranks - 1]")
    stated = (
        r"pieces 32, 96 failed: .* time limit .*; rank 0 with 32 rows was running, rank 1 with 96 rows was running; "
        r"its output ended with: rank 0 waits in step 0"
    )
    with pytest.raises(LaunchError, match=stated):
        called(toolbox, "app", "check", "picky.yaml", 64, "-t", 1)
    assert not list(tmp_path.glob("apples-benchmark-*"))
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if program.encode() in _bytes(p)]


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def request(rows=32, size=None, ranks=1, template=None, **demands):
    """A benchmark request, and the workload of its program."""
    work = Workload(application="toy", size=size or rows * ranks, **demands)
    template = template or Application(
        name="toy",
        summary="",
        check=lambda options: None,
        workload=lambda size, options: work,
        price_key=str,
        start=lambda *given, **more: Deployment(command=("true",)),
        short_iterations=10,
    )
    return BenchmarkRequest(
        template=template, options={}, host=Host(name="here"), ranks=ranks, rows=rows, size=size
    ), work


@recorded("apples/platforms/short_run_pieces.txt", "given", "ranks", "uneven")
def test_pieces_keep_size_and_limits(answered, given, ranks, uneven):
    asked, work = request(**given)
    answered(str(shortruns.pieces_of(asked, work, ranks, uneven=uneven)))


class Simulated:
    """A platform whose ranks take CPU time by a formula of rank, rows, iterations and all rows."""

    several_hosts = False

    def __init__(self, cost, seed):
        self.cost, self.random, self.pages = cost, random.Random(seed), []

    def run(self, launch, notify):
        rows, iterations = self.started
        even = sum(rows) / len(rows)
        self.pages = [
            SimpleNamespace(
                rank=rank,
                ranks=len(rows),
                t_cpu_s=(cpu_s := self.cost(rank, n, iterations, even) * self.random.uniform(0.98, 1.02)),
                cpu_s=cpu_s,
                sent=iterations,
                c_comm=iterations,
                iterations=iterations,
                neighbours=[],
                mpi="",
                state=MonitorState.FINALIZED,
            )
            for rank, n in enumerate(rows)
        ]
        seconds = max(page.cpu_s for page in self.pages)
        statuses = tuple(RankStatus(rank=rank, host="here", exit_code=0) for rank in range(len(rows)))
        return Outcome(ended="finished", exit_code=0, observed_s=seconds, statuses=statuses)


PROGRAMS = {
    # Seconds by rank, rows, iterations, even rows.
    "plain": (lambda rank, rows, n, even: 0.1 + rows * n * 1e-4, False),
    "fixed work of each rank": (lambda rank, rows, n, even: (rows + 20) * n * 1e-4, False),
    "root reads input": (lambda rank, rows, n, even: 2.0 * (rank == 0) + rows * n * 1e-4, False),
    "root reads much input": (lambda rank, rows, n, even: 8.0 * (rank == 0) + rows * n * 1e-4, False),
    "root writes each iteration": (lambda rank, rows, n, even: (rows + 60 * (rank == 0)) * n * 1e-4, False),
    "last rank writes": (lambda rank, rows, n, even: (rows + 60 * (rank > 0)) * n * 1e-4, False),
    "reads by rows": (lambda rank, rows, n, even: 0.02 * rows + rows * n * 1e-4, False),
    "caches": (lambda rank, rows, n, even: rows**0.85 * n * 2e-4, False),
    "divides evenly": (lambda rank, rows, n, even: 0.1 + even * n * 1e-4, True),
    "divides evenly, root reads": (lambda rank, rows, n, even: 2.0 * (rank == 0) + even * n * 1e-4, True),
    "divides evenly, root writes": (lambda rank, rows, n, even: (even + 9 * (rank == 0)) * n * 1e-4, True),
    "root does all": (lambda rank, rows, n, even: 0.1 + 2 * even * (rank == 0) * n * 1e-4, True),
}


@pytest.fixture
def simulated(monkeypatch, library):
    """Measures a program of `PROGRAMS` on a simulated platform."""
    monkeypatch.setattr(shortruns, "learn_mpi", lambda launch, library: False)

    def measure(program, size=None, seed=0):
        platform = Simulated(PROGRAMS[program][0], seed)
        monkeypatch.setattr(shortruns, "figures_of", lambda run_dir, job: platform.pages)

        def start(rows, run_dir, options, **more):
            platform.started = rows, int(options["iterations"])
            return Deployment(command=("true",))

        benchmark, _ = request(size=size)
        shortruns.observed_benchmark(
            platform, replace(benchmark, template=replace(benchmark.template, start=start))
        )

    return measure


@pytest.mark.covering("program", "size")
@pytest.mark.parametrize("size", [None, 600])
@pytest.mark.parametrize("program", PROGRAMS)
def test_only_programs_that_ignore_pieces_are_refused(simulated, program, size):
    stated = "the program ignores its pieces: with"
    for seed in range(3):
        with pytest.raises(ConfigError, match=stated) if PROGRAMS[program][1] else nullcontext():
            simulated(program, size, seed)


def test_benchmark_seemingly_ignored_pieces_run_longer(simulated, monkeypatch):
    """Start-ups that differ on a busy host look like ignored pieces in the first pair of runs."""
    pairs = []

    def ignores(short, long):
        pairs.append(long.iterations)
        return len(pairs) == 1

    monkeypatch.setattr(shortruns, "ignores_pieces", ignores)
    simulated("plain")
    first, second = pairs
    assert second == 4 * first


def test_benchmark_takes_the_cost_of_a_row_from_a_cpu_second(simulated, monkeypatch):
    grown = []

    def noted(name, short, long):
        grown.append(cpu_growth_s(short, long))
        return benchmark_of(name, short, long)

    monkeypatch.setattr(shortruns, "benchmark_of", noted)
    monkeypatch.setattr(shortruns, "ENOUGH_CPU_S", ENOUGH_CPU_S)
    monkeypatch.setattr(shortruns, "STEADY_CPU_S", STEADY_CPU_S)
    simulated("plain")
    # The iterations for it are extrapolated from a fifth of a second.
    assert min(grown) > 0.6
