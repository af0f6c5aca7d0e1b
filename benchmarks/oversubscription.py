"""More ranks than cores, with and without `--wait block`: the speedup of a job whose ranks do not poll.

    python benchmarks/oversubscription.py [--ranks 4] [--repeat 3] [--seconds 3]

Runs the synthetic job at 1 ms and the heat application under every MPI found here, alternating, and prints the median
elapsed times and the ratio. MPICH 4 polls. MPICH 5 gives up its core while it waits (sched_yield). So does Open MPI 4
if its mpiexec knows of more ranks than cores; this benchmark prevents that. Other programs on a busy machine use the
time that a blocking job gives up, so only figures of an otherwise idle machine are meaningful.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

from monitor_mpis import Mpi, found, run

from apples.coscheduling.events import Wait
from apples.monitoring.job import MonitoredJob

APP = [sys.executable, "-m", "stencil_app"]

#: Without this, Open MPI would notice that there are more ranks than cores.
POLLING = {"OMPI_MCA_mpi_yield_when_idle": "0"}


def once(mpi: Mpi, ranks: int, words: list[str], wait: Wait | None) -> float:
    """Return elapsed seconds of one run: of the loop if the program reports it, else of the whole."""
    base = {**os.environ, **mpi.environment, **POLLING, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = mpi.ranks(ranks, [*APP, *words])
    started = time.perf_counter()
    if wait is None:
        said = run(command, base)
    else:
        with MonitoredJob(wait=wait, base=base) as job:
            said = run(command, {**base, **job.environment})
    return float(json.loads(said)["elapsed_s"]) if words[0] == "bsp" else time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of the synthetic job, alone")
    arguments = parser.parse_args()
    rate = json.loads(run([*APP, "bsp", "--iterations", "1", "--json"], dict(os.environ)))["rate"]
    jobs = {
        "bsp 1 ms": f"bsp --granularity 1ms --seconds {arguments.seconds}s --rate {rate} --json".split(),
        "heat": ["heat", "--size", "48", "--nx", "64", "--ny", "64", "--iterations", "400"],
    }
    print(f"{os.cpu_count()} cores, {arguments.ranks} ranks, median of {arguments.repeat}; seconds")
    print(f"{'MPI':<20} {'job':<10} {'as MPI':>9} {'poll':>9} {'block':>9} {'gain':>7}")
    for mpi in found():
        for job, words in jobs.items():
            times: dict[Wait | None, list[float]] = {None: [], Wait.POLL: [], Wait.SPIN_BLOCK: []}
            for _ in range(arguments.repeat):
                for wait, seconds in times.items():
                    seconds.append(once(mpi, arguments.ranks, words, wait))
            as_mpi, poll, block = (statistics.median(seconds) for seconds in times.values())
            print(
                f"{mpi.name:<20} {job:<10} {as_mpi:>9.2f} {poll:>9.2f} {block:>9.2f} {as_mpi / block:>6.1f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
