"""What the monitor says of a program that knows what it does: errors of T_cpu and T_comm, and counts of events.

    python benchmarks/monitor_accuracy.py [--iterations 1000] [--microseconds 1000] [--repeat 3]

For every MPI and language found here: two ranks compute by their own CPU clock and exchange with their neighbours, and
time both themselves. `raw` is (monitor - program) / program, with everything in it that the program needs to read
its clocks; median and range over ranks and repetitions. The last column: by how much events or calls
are off at most (in Python the first use of a call may take so long that it counts as computing).

A Python program cannot time the library's calls, only mpi4py's, which convert their arguments outside the library:
that is computation, and the monitor says so, as of the loop itself, which is not free in Python. How long both take is
measured in runs of the same loop without neighbours and without the monitor, in turn with the others; the second
line of mpi4py has it on the program's side.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from monitor_mpis import Mpi, found, run

from apples.monitoring.job import MonitoredJob

PROGRAMS = Path(__file__).resolve().parent.parent / "tests" / "apples" / "monitoring" / "programs"
LANGUAGES = {"C": "known.c", "Fortran": "known.f90", "Fortran 2008": "known_f08.f90", "mpi4py": "known.py"}


def command(mpi: Mpi, source: str, directory: Path) -> list[str] | None:
    """How the program is run with this MPI, compiled where it must be; None where that cannot be done."""
    path = PROGRAMS / source
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    compiler = mpi.cc if path.suffix == ".c" else mpi.fortran
    if compiler is None:
        return None
    program = directory / f"{source}-{mpi.name.partition(' (')[0].replace(' ', '-')}"
    subprocess.run([compiler, "-O2", "-w", "-o", str(program), str(path)], check=True, cwd=directory)
    return [str(program)]


def around(mpi: Mpi, words: list[str]) -> tuple[float, float]:
    """What Python needs around the work and the library's calls of one run, mean over the ranks.

    CPU seconds in all, and seconds that the program takes for communication.
    """
    said = run(mpi.ranks(2, words), {**os.environ, **mpi.environment})
    cpu_s, comm_s = zip(*(map(float, line.split()) for line in said.splitlines()), strict=True)
    return statistics.mean(cpu_s), statistics.mean(comm_s)


def errors(
    mpi: Mpi, words: list[str], python_s: tuple[float, float] = (0.0, 0.0)
) -> tuple[list[float], list[float], int]:
    """Relative errors of T_cpu and T_comm by rank, and how far the counts are off at most, of one run.

    python_s : computation that the program does not know of, and what of it it takes for communication
    """
    base = {**os.environ, **mpi.environment}
    with MonitoredJob(base=base) as job:
        said = run(mpi.ranks(2, words), {**base, **job.environment})
        figures = {f.rank: f for f in job.figures()}
    cpu, comm, off = [], [], 0
    for line in said.splitlines():
        rank, cpu_s, comm_s, events, calls = line.split()
        f = figures[int(rank)]
        cpu.append(f.t_cpu_s / (float(cpu_s) + python_s[0]) - 1)
        comm.append(f.t_comm_s / (float(comm_s) - python_s[1]) - 1)
        off = max(off, abs(f.c_comm - int(events)), abs(f.calls - int(calls)))
    return cpu, comm, off


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):+8.3%} ({min(values):+.3%} … {max(values):+.3%})"


def show(mpi: str, language: str, runs: list[tuple[list[float], list[float], int]]) -> None:
    """One line of the table."""
    cpu = [value for run_cpu, _, _ in runs for value in run_cpu]
    comm = [value for _, run_comm, _ in runs for value in run_comm]
    off = max(run_off for _, _, run_off in runs)
    print(f"{mpi:<20} {language:<13} {shown(cpu):>36} {shown(comm):>36}  {off:>10}", flush=True)


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
    print(f"{'MPI':<20} {'language':<13} {'T_cpu raw':>36} {'T_comm raw':>36}  counts off")
    with tempfile.TemporaryDirectory() as directory:
        for mpi in found():
            for language, source in LANGUAGES.items():
                program = command(mpi, source, Path(directory))
                if program is None:
                    continue
                how = [str(arguments.iterations), f"{arguments.microseconds:g}"]
                python = language == "mpi4py"
                raw, known = [], []
                for _ in range(arguments.repeat):
                    raw.append(errors(mpi, [*program, "ring", *how]))
                    if python:
                        python_s = around(mpi, [*program, "nobody", *how])
                        known.append(errors(mpi, [*program, "ring", *how], python_s))
                show(mpi.name, language, raw)
                if python:
                    show("", "  with mpi4py", known)


if __name__ == "__main__":
    main()
