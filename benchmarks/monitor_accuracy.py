"""Accuracy of the monitor against independent measurements at the same edges.

    python benchmarks/monitor_accuracy.py [--iterations 1000] [--microseconds 1000] [--repeat 3]

For every MPI and language found here, two ranks compute by their own CPU clock and exchange with their neighbours. A
library between program and monitor reads the thread's CPU clock at every edge and knows the cost of a reading
(`tests/apples/monitoring/programs/edges.c`). The figures are (monitor - truth) / truth, without corrections of the
monitor's values; median and range over ranks and repetitions. T_cpu is of runs with equally long computing on all
ranks. T_comm is of ranks that wait as long as they compute, because others compute twice as long. The last column is
the largest error of events or calls against the program's own counts. In Python the first use of a call may take so
long that it counts as computing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from monitor_mpis import Mpi, found, run

from apples.monitoring.build import compiler
from apples.monitoring.job import MonitoredJob

PROGRAMS = Path(__file__).resolve().parent.parent / "tests" / "apples" / "monitoring" / "programs"
LANGUAGES = {"C": "known.c", "Fortran": "known.f90", "Fortran 2008": "known_f08.f90", "mpi4py": "known.py"}


def command(mpi: Mpi, source: str, directory: Path) -> list[str] | None:
    """Return the command of the program with this MPI, compiled if necessary; None if that is impossible."""
    path = PROGRAMS / source
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    compiler = mpi.cc if path.suffix == ".c" else mpi.fortran
    if compiler is None:
        return None
    program = directory / f"{source}-{mpi.name.partition(' (')[0].replace(' ', '-')}"
    subprocess.run([compiler, "-O2", "-w", "-o", str(program), str(path)], check=True, cwd=directory)
    return [str(program)]


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


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):+8.3%} ({min(values):+.3%} … {max(values):+.3%})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--microseconds", type=float, default=1000.0)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(
        f"{os.cpu_count()} cores, load {load:.1f}; {arguments.iterations} × {arguments.microseconds:g} us, ring"
    )
    print(f"{'MPI':<20} {'language':<13} {'T_cpu':>36} {'T_comm of who waits':>36}  counts off")
    how = [str(arguments.iterations), f"{arguments.microseconds:g}"]
    with tempfile.TemporaryDirectory() as directory:
        edges = interposer(Path(directory))
        for mpi in found():
            for language, source in LANGUAGES.items():
                program = command(mpi, source, Path(directory))
                if program is None:
                    continue
                cpu, comm, off = [], [], 0
                for _ in range(arguments.repeat):
                    even = errors(mpi, [*program, "ring", *how], edges)
                    uneven = errors(mpi, [*program, "uneven", *how], edges)
                    cpu += [one.cpu for one in even.values()]
                    comm.append(uneven[0].comm)
                    off = max(off, *(one.off for one in (*even.values(), *uneven.values())))
                print(
                    f"{mpi.name:<20} {language:<13} {shown(cpu):>36} {shown(comm):>36}  {off:>10}", flush=True
                )


if __name__ == "__main__":
    main()
