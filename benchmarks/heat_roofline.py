"""Heat kernel against the memory bandwidth of this machine: its sweep beside a triad, 256³ cells.

    python benchmarks/heat_roofline.py [--cells 256] [--rounds 9] [--launches 3] [--json]

Roofline: the triad a = b + s·c moves 32 bytes per element (two reads, write-allocate, write back). A sweep moves 24
per cell (one read, write-allocate, write back), so at best it does 32/24 of the triad's elements per second. Both are
compiled with the same options and run by 1 and by 2 MPI ranks, alternating in the same processes. In each round the
slowest rank counts. *iteration* is the whole program loop: halo exchange, sweep, reduction, and a residual every 50.
Prints medians, the ratio of each round to the triads around it, and its percentiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

TRIAD_BYTES, SWEEP_BYTES = 32, 24
SWEEPS = 4
ITERATIONS = 50  # with one residual, as the application does by itself


def worker(cells: int, rounds: int) -> None:
    """Measure in every rank of the world; rank 0 prints seconds of each round."""
    from stencil_app.heat import HEAT
    from stencil_app.jit import kernel
    from stencil_app.mesh.decomposition import even
    from stencil_app.mesh.slab import Slab
    from stencil_app.running.mpi import world
    from stencil_app.running.runtime import Controls, State, iterate
    from stencil_app.running.stop import StopRequest
    from stencil_app.running.timing import Stopwatch

    def triad(a: Any, b: Any, c: Any, s: float) -> None:
        for i in range(a.size):
            a[i] = b[i] + s * c[i]

    compiled = kernel("void(float64[::1], float64[::1], float64[::1], float64)", cache=False)(triad)
    comm = world()
    a, b, c = (np.full(cells**3 // comm.size, float(n)) for n in range(3))
    problem = HEAT.make(
        cells, {"nx": cells, "ny": cells, "boundary": "fixed", "initial": "mode", "courant": 0.9}
    )
    slab = Slab(problem, even(cells, comm.size), comm)
    problem.initialise(slab.interior, slab.first_row)
    slab.dress()

    def sweeps() -> None:
        for _ in range(SWEEPS):
            problem.sweep(slab.field, slab.other, slab.first_row)
            slab.swap()

    def triads() -> None:
        for _ in range(SWEEPS):
            compiled(a, b, c, 0.5)

    def iterations() -> None:
        controls = Controls(iterations=ITERATIONS, residual_every=ITERATIONS)
        iterate(slab, State(), controls, watch=Stopwatch(0.0), stop=StopRequest())

    def timed(action: Callable[[], None], count: int) -> float:
        comm.Barrier()
        start = perf_counter()
        action()
        return max(comm.allgather(perf_counter() - start)) / count

    turn = ((triads, SWEEPS), (sweeps, SWEEPS), (iterations, ITERATIONS), (triads, SWEEPS))
    for action, _ in turn:
        action()
    table = [[timed(action, count) for action, count in turn] for _ in range(rounds)]
    if comm.rank == 0:
        print(json.dumps(table))


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one row for each rank count and quantity."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    own = [
        sys.executable,
        __file__,
        "--worker",
        "--cells",
        str(arguments.cells),
        "--rounds",
        str(arguments.rounds),
    ]
    seconds: dict[int, list[list[float]]] = {1: [], 2: []}
    for _ in range(arguments.launches):
        for ranks, table in seconds.items():
            command = [str(mpiexec), "-n", str(ranks), *own]
            table += json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [
        row for ranks, table in seconds.items() for row in rows(ranks, np.array(table), arguments.cells**3)
    ]


def rows(ranks: int, table: np.ndarray[Any, np.dtype[np.float64]], cells: int) -> list[dict[str, Any]]:
    """Return medians and percentiles of one rank count. `table`: [round, (triad, sweep, iteration, triad)] in s."""
    triad_s = table[:, [0, 3]].mean(axis=1)
    found = []
    for name, column in (("sweep", table[:, 1]), ("iteration", table[:, 2])):
        share = SWEEP_BYTES / column / (TRIAD_BYTES / triad_s)
        found.append(
            {
                "ranks": ranks,
                "what": name,
                "triad_GBps": round(TRIAD_BYTES * cells / float(np.median(triad_s)) / 1e9, 2),
                "Gcells_per_s": round(cells / float(np.median(column)) / 1e9, 3),
                "of_roofline": round(float(np.median(share)), 3),
                "percentiles_10_90": [round(float(p), 3) for p in np.percentile(share, [10, 90])],
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=256, help="cells along each axis")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in each launch")
    parser.add_argument("--launches", type=int, default=3, help="launches of each rank count, in turns")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.cells, arguments.rounds)
        return
    found = measure(arguments)
    if arguments.json:
        print(json.dumps({"cells": arguments.cells, "rows": found}, indent=1))
        return
    print(
        f"heat, {arguments.cells}³ cells, double; {SWEEP_BYTES} bytes a cell against a triad of {TRIAD_BYTES}"
    )
    print("ranks  what       triad GB/s  Gcell/s  of roofline  (10 % - 90 %)")
    for row in found:
        low, high = row["percentiles_10_90"]
        print(
            f"{row['ranks']:5d}  {row['what']:9s}  {row['triad_GBps']:10.1f}  {row['Gcells_per_s']:7.3f}"
            f"  {row['of_roofline']:11.1%}  ({low:.1%} - {high:.1%})"
        )


if __name__ == "__main__":
    main()
