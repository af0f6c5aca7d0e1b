"""Accuracy of the monitor against independent measurements at the same edges, and its cost per MPI call.

    python -m benchmarks monitor accuracy [--iterations 1000] [--microseconds 1000] [--repeat 3]
    python -m benchmarks monitor cost [--calls 20000] [--repeat 5]

accuracy: for every MPI and language found here, two ranks compute by their own CPU clock and exchange with their
    neighbours. A library between program and monitor reads the thread's CPU clock at every edge and knows the cost of a
    reading (`tests/apples/monitoring/programs/edges.c`). The figures are (monitor - truth) / truth, without corrections
    of the monitor's values; median and range over ranks and repetitions. T_cpu is of runs with equally long computing
    on all ranks. T_comm is of ranks that wait as long as they compute, because others compute twice as long. The last
    column is the largest error of events or calls against the program's own counts. In Python the first use of a call
    may take so long that it counts as computing.
cost: in nanoseconds. MPI_Test and MPI_Wait on no request do next to nothing, so that the difference is the monitor. The
    same program calls MPI_X, which the monitor intercepts, and PMPI_X, which it does not. Target: at most 80 ns.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from apples.monitoring.build import compiler
from apples.monitoring.job import MonitoredJob
from benchmarks.common.mpis import Mpi, installed_mpis, run
from benchmarks.common.report import ROOT, machine, say, spread, table

PROGRAMS = ROOT / "tests" / "apples" / "monitoring" / "programs"
LANGUAGES = {"C": "known.c", "Fortran": "known.f90", "Fortran 2008": "known_f08.f90", "mpi4py": "known.py"}


def interposer(directory: Path) -> Path:
    """Return the library that records every edge independently."""
    made = directory / "edges.so"
    command = [*compiler(), "-O2", "-shared", "-fPIC", "-o", str(made), str(PROGRAMS / "edges.c"), "-ldl"]
    subprocess.run(command, check=True)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """(monitor - truth) / truth of one rank, and the errors of its counts."""

    cpu: float
    comm: float
    off: int


def errors(mpi: Mpi, words: list[str], edges: Path) -> dict[int, Errors]:
    """Return the errors of the ranks of one run."""
    base = {**os.environ, **mpi.environment, "LD_PRELOAD": str(edges)}
    with MonitoredJob(base=base) as job:
        said = run(mpi.ranks(2, words), {**base, **job.environment})
        figures = {f.rank: f for f in job.figures()}
    truths, programs = {}, {}
    for words_said in map(str.split, said.splitlines()):
        if words_said[0] == "edges":
            truths[int(words_said[1])] = [float(word) for word in words_said[2:]]
        else:
            programs[int(words_said[0])] = [int(word) for word in words_said[3:]]
    found = {}
    for rank, (cpu_s, comm_s, seen) in truths.items():
        f, (events, calls) = figures[rank], programs[rank]
        found[rank] = Errors(
            cpu=f.t_cpu_s / cpu_s - 1,
            comm=f.t_comm_s / comm_s - 1,
            off=max(abs(f.c_comm - events), abs(f.calls - calls), abs(calls - int(seen))),
        )
    return found


def command(mpi: Mpi, source: str, directory: str) -> list[str] | None:
    """Return the command of a program with this MPI, compiled if necessary; None if that is impossible."""
    path = PROGRAMS / source
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    compiler = mpi.cc if path.suffix == ".c" else mpi.fortran
    if compiler is None:
        return None
    program = f"{directory}/{source}-{mpi.name.partition(' (')[0].replace(' ', '-')}"
    subprocess.run([compiler, "-O2", "-w", "-o", program, str(path)], check=True, cwd=directory)
    return [program]


def accuracy(*, iterations: int = 1000, microseconds: float = 1000.0, repeat: int = 3) -> None:
    """Compare the monitor's times and counts with independent ones, in every language."""
    say(f"{machine()}; {iterations} × {microseconds:g} us, ring")
    rows = []
    words = [str(iterations), f"{microseconds:g}"]
    with tempfile.TemporaryDirectory() as directory:
        edges = interposer(Path(directory))
        for mpi, (language, source) in itertools.product(installed_mpis(), LANGUAGES.items()):
            program = command(mpi, source, directory)
            if program is None:
                continue
            cpu, comm, off = [], [], 0
            for _ in range(repeat):
                even = errors(mpi, [*program, "ring", *words], edges)
                uneven = errors(mpi, [*program, "uneven", *words], edges)
                cpu += [one.cpu for one in even.values()]
                comm.append(uneven[0].comm)
                off = max(off, *(one.off for one in (*even.values(), *uneven.values())))
            rows.append((mpi.name, language, spread(cpu, "+.3%"), spread(comm, "+.3%"), off))
    table(("MPI", "language", "T_cpu", "T_comm of who waits", "counts off"), rows, widths=(20, 13, 30, 30))


def cost(*, calls: int = 20000, repeat: int = 5) -> None:
    """Print the monitor's nanoseconds for a call that does not wait, and for one that may."""
    say(f"{machine()}; ns, median and range of {repeat}")
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for mpi in installed_mpis():
            program = command(mpi, "cost.c", directory)
            if program is None:
                continue
            light, blocking = [], []
            for _ in range(repeat):
                with MonitoredJob(base={**os.environ, **mpi.environment}) as job:
                    text = run(mpi.ranks(1, [*program, str(calls)]), {**mpi.environment, **job.environment})
                test, test_bare, wait, wait_bare = map(float, text.split())
                light.append(test - test_bare)
                blocking.append(wait - wait_bare)
            rows.append((mpi.name, spread(light, ".0f"), spread(blocking, ".0f")))
    table(("MPI", "a call that does not wait", "a call that may wait"), rows, widths=(20,))


PARTS = (accuracy, cost)
