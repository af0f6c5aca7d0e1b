"""Cost of the monitor per MPI call, in nanoseconds: the fastest of many rounds, with it and without.

    python benchmarks/monitor_cost.py [--calls 20000] [--repeat 5]

MPI_Test and MPI_Wait on no request do next to nothing, so that the difference is the monitor. The same program calls
MPI_X, which the monitor intercepts, and PMPI_X, which it does not. Target: at most 80 ns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from monitor_mpis import found, run

from apples.monitoring.job import MonitoredJob

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "apples" / "monitoring" / "programs" / "cost.c"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ns, median and range of {arguments.repeat}"
    )
    print(f"{'MPI':<20} {'a call that does not wait':>28} {'a call that may wait':>28}")
    with tempfile.TemporaryDirectory() as directory:
        for number, mpi in enumerate(found()):
            if mpi.cc is None:
                continue
            program = Path(directory) / f"cost-{number}"
            subprocess.run([mpi.cc, "-O2", "-w", "-o", str(program), str(SOURCE)], check=True, cwd=directory)
            light, blocking = [], []
            for _ in range(arguments.repeat):
                base = {**os.environ, **mpi.environment}
                with MonitoredJob(base=base) as job:
                    said = run(
                        mpi.ranks(1, [str(program), str(arguments.calls)]), {**base, **job.environment}
                    )
                test, test_bare, wait, wait_bare = map(float, said.split())
                light.append(test - test_bare)
                blocking.append(wait - wait_bare)
            cells = [f"{statistics.median(v):.0f} ({min(v):.0f} … {max(v):.0f})" for v in (light, blocking)]
            print(f"{mpi.name:<20} {cells[0]:>28} {cells[1]:>28}", flush=True)


if __name__ == "__main__":
    main()
