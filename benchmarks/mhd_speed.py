"""Speed of the step loop of magnetohydrodynamics: zone-cycles a second beside the memory bandwidth of the machine.

    python benchmarks/mhd_speed.py [--cells 64,128] [--zones 4e6] [--rounds 5] [--turns 5] [--json]

The benchmark has four parts:

1. The MHD blast of 64³ and 128³ on 1 and on 2 ranks, alternating with a triad a = b + s·c (32 bytes an element,
   write-allocate counted) in the same processes. The slowest rank of a round counts.
2. Slabs of 16 rows of the largest mesh on one rank: the cost of a zone over that in the cube.
3. The speedup of two ranks, in alternating turns: one rank, two ranks, and two independent runs, each with half of the
   mesh. The independent runs show the upper bound of the machine. Best rounds are compared, and beside them medians.
4. Start-up: a compile into an empty cache, and a start from the cache.

Zone-cycles a second are given by the clock and by the CPU time of a rank's loop. On a machine with other work (the load
average is printed) only the CPU time measures the code. Targets are 2.4e6 on one rank at a triad of 40 GB/s, in
proportion elsewhere; 1.9 times that on two; 1.4 times the cost in thin slabs. Prints medians and the 10th and 90th
percentile over rounds; of the triad the best round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

TRIAD_ELEMENTS = 2**23
TRIAD_BYTES = 32
#: Target of zone-cycles a second, for each GB/s of the triad.
AIM_PER_GBPS = 2.4e6 / 40.0


def worker(cells: int, rows: int, cycles: int, rounds: int) -> None:
    """Measure in every rank of the world; rank 0 prints wall and CPU seconds of each round, and of its triad."""
    from stencil_app.jit import kernel
    from stencil_app.mesh.decomposition import even
    from stencil_app.mesh.slab import Slab
    from stencil_app.mhd.case import entry
    from stencil_app.mhd.problem import MhdProblem
    from stencil_app.options import parse_all
    from stencil_app.running.mpi import world
    from stencil_app.running.runtime import Controls, begin, iterate
    from stencil_app.running.stop import StopRequest
    from stencil_app.running.timing import Stopwatch

    def triad(a: Any, b: Any, c: Any, s: float) -> None:
        for i in range(a.size):
            a[i] = b[i] + s * c[i]

    compiled = kernel("void(float64[::1], float64[::1], float64[::1], float64)", cache=False)(triad)
    comm = world()
    problem = entry("blast")
    values, _ = parse_all(problem.options, {"n": str(cells), "nz": str(rows)})
    mhd = MhdProblem(problem.make(values), {"problem": "blast", **values})
    slab = Slab(mhd, even(mhd.size, comm.size), comm)
    state = begin(slab, None)
    a, b, c = (np.full(TRIAD_ELEMENTS // comm.size, float(n)) for n in range(3))
    table = []
    for number in range(rounds + 1):
        comm.Barrier()
        start = perf_counter()
        compiled(a, b, c, 0.5)
        triad_s = perf_counter() - start
        controls = Controls(iterations=state.iteration + cycles, residual_every=0)
        watch = Stopwatch(0.0)
        comm.Barrier()
        start, cpu = perf_counter(), thread_time()
        iterate(slab, state, controls, watch=watch, stop=StopRequest())
        mine = (perf_counter() - start, thread_time() - cpu, triad_s)
        worst = [max(column) for column in zip(*comm.allgather(mine), strict=True)]
        if number:
            table.append(worst)
    if comm.rank == 0:
        print(json.dumps(table))


def launch(ranks: int, cells: int, rows: int, how: tuple[int, int]) -> subprocess.Popen[str]:
    """Start a worker of that many ranks. `how`: cycles in a round, rounds."""
    cycles, rounds = how
    mpiexec = Path(sys.executable).with_name("mpiexec")
    own = [sys.executable, __file__, "--worker", "--cells", str(cells), "--rows", str(rows)]
    own += ["--cycles", str(cycles), "--rounds", str(rounds)]
    return subprocess.Popen([str(mpiexec), "-n", str(ranks), *own], stdout=subprocess.PIPE, text=True)


def rounds_of(started: subprocess.Popen[str]) -> np.ndarray[Any, Any]:
    """Return float64[rounds, 3]: seconds by the clock, CPU seconds, seconds of the triad."""
    said, _ = started.communicate()
    if started.returncode:
        sys.exit(f"a worker ended with {started.returncode}")
    return np.array(json.loads(said))


def run(ranks: int, cells: int, rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return one row of the report."""
    cycles = max(2, round(arguments.zones / (cells * cells * rows)))
    table = rounds_of(launch(ranks, cells, rows, (cycles, arguments.rounds)))
    zones = cells * cells * rows * cycles
    wall, cpu = zones / table[:, 0], zones / table[:, 1]
    return {
        "ranks": ranks,
        "mesh": f"{cells}x{cells}x{rows}",
        "zone_cycles_per_s": round(float(np.median(wall))),
        "percentiles_10_90": [round(float(p)) for p in np.percentile(wall, [10, 90])],
        "zone_cycles_per_cpu_s_of_a_rank": round(float(np.median(cpu)) / ranks),
        "triad_GBps": round(TRIAD_BYTES * TRIAD_ELEMENTS / float(np.min(table[:, 2])) / 1e9, 2),
    }


def scaling(cells: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return zone-cycles a second over those of one rank, of two ranks and of two halves apart: median, 10 % and 90 %.

    From the best rounds of a turn, as all such figures, and from their medians. The medians include the noise of the
    machine that makes one rank wait for another.
    """
    cycles, rounds = max(2, round(arguments.zones / cells**3)), arguments.rounds
    gains: dict[str, list[float]] = {}
    for _ in range(arguments.turns):
        one = rounds_of(launch(1, cells, cells, (cycles, rounds)))[:, 0]
        two = rounds_of(launch(2, cells, cells, (cycles, rounds)))[:, 0]
        halves = [launch(1, cells, cells // 2, (cycles, rounds + 1)) for _ in range(2)]
        apart = [rounds_of(half)[:rounds, 0] for half in halves]
        for name, of in (("best", np.min), ("median", np.median)):
            whole = float(of(one))
            gains.setdefault(f"two_ranks_over_one_{name}", []).append(whole / float(of(two)))
            together = sum(whole / 2 / float(of(half)) for half in apart)
            gains.setdefault(f"two_halves_apart_over_one_{name}", []).append(together)
    return {
        name: [round(float(np.percentile(values, p)), 3) for p in (50, 10, 90)]
        for name, values in gains.items()
    }


def starts(times: int) -> dict[str, float]:
    """Return seconds of a compile into an empty cache and of a start from the cache, wall and CPU; medians."""
    code = "import stencil_app.mhd.problem"
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", *("cached",) * times):
            before, start = os.times(), perf_counter()
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            elapsed, after = perf_counter() - start, os.times()
            cpu = after.children_user - before.children_user + after.children_system - before.children_system
            found.setdefault(f"{name}_start_s", []).append(elapsed)
            found.setdefault(f"{name}_start_cpu_s", []).append(cpu)
    return {name: round(float(np.median(values)), 2) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", default="64,128", help="cells along each axis, from the smallest mesh on")
    parser.add_argument("--zones", type=float, default=4e6, help="zone-cycles in a round, 2 cycles at least")
    parser.add_argument("--rows", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--cycles", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each run")
    parser.add_argument("--turns", type=int, default=5, help="turns of one rank, two ranks and two halves")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    meshes = [int(cells) for cells in arguments.cells.split(",")]
    if arguments.worker:
        worker(meshes[0], arguments.rows, arguments.cycles, arguments.rounds)
        return
    load_before = os.getloadavg()[0]
    rows = [run(ranks, cells, cells, arguments) for cells in meshes for ranks in (1, 2)]
    one, two = rows[-2:]
    thin = run(1, meshes[-1], 16, arguments)
    triad = max(row["triad_GBps"] for row in rows if row["ranks"] == 1)

    def ratio(upper: dict[str, Any], lower: dict[str, Any], key: str) -> float:
        return round(upper[key] / lower[key], 3)

    by_cpu = "zone_cycles_per_cpu_s_of_a_rank"
    report = {
        "runs": [*rows, thin],
        "load_average": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "aim_on_one_rank": round(AIM_PER_GBPS * triad),
        **scaling(meshes[-1], arguments),
        "two_ranks_over_one_by_cpu_time": round(2 * ratio(two, one, by_cpu), 3),
        "slab_of_16_rows_costs": ratio(one, thin, by_cpu),
        **starts(arguments.turns),
    }
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    print("ranks  mesh            zone-cycles/s   (10 % - 90 %)          per CPU second   triad GB/s")
    for row in report["runs"]:
        low, high = row["percentiles_10_90"]
        print(
            f"{row['ranks']:5d}  {row['mesh']:14s}  {row['zone_cycles_per_s']:13.3e}   ({low:.2e} - {high:.2e})"
            f"   {row['zone_cycles_per_cpu_s_of_a_rank']:14.3e}   {row['triad_GBps']:10.1f}"
        )
    for name, value in report.items():
        if name != "runs":
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
