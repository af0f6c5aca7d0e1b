"""The step loop of mhd against the memory bandwidth of this machine: a triad.

    python -m benchmarks mhd_roofline mhd [--cells 64 128] [--zones 4e6] [--rounds 5] [--turns 5] [--json]

1. The MHD blast of 64³ and 128³ on 1 and on 2 ranks, alternating with the triad in the same processes.
2. The speedup of two ranks, in alternating turns: one rank, two ranks, and two independent runs, each with half of the
   mesh. The independent runs show the upper bound of the machine. Best rounds are compared, and beside them medians.
3. Start-up: a compile into an empty cache, and a start from the cache.

Zone-cycles a second are given by the clock and by the CPU time of a rank's loop. On a machine with other work (the load
average is printed) only the CPU time measures the code. Targets are 2.4e6 on one rank at a triad of 40 GB/s, in
proportion elsewhere; 1.9 times that on two. Prints medians and the 10th and 90th
percentile over rounds; of the triad the best round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter, thread_time
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.common.report import BIN, print_document, table


def triad_kernel() -> Callable[..., None]:
    """Return the compiled triad."""
    from stencil_app.jit import kernel

    def triad(a: Any, b: Any, c: Any, s: float) -> None:
        for i in range(a.size):
            a[i] = b[i] + s * c[i]

    compiled: Callable[..., None] = kernel(
        "void(float64[::1], float64[::1], float64[::1], float64)", cache=False
    )(triad)
    return compiled


def start_ranks(count: int, part: str, *numbers: int) -> subprocess.Popen[str]:
    """Start ranks that measure, by a part of this benchmark."""
    words = [sys.executable, "-m", "benchmarks", "mhd_roofline", part, *map(str, numbers)]
    return subprocess.Popen(
        [str(BIN / "mpiexec"), "-n", str(count), *words], stdout=subprocess.PIPE, text=True
    )


def launch(ranks: int, cells: int, rows: int, cycles: int, rounds: int) -> subprocess.Popen[str]:
    """Start ranks of mhd."""
    return start_ranks(ranks, "mhd-ranks", cells, rows, cycles, rounds)


TRIAD_BYTES = 32
TRIAD_ELEMENTS = 2**23
#: Target of zone-cycles a second, for each GB/s of the triad.
AIM_PER_GBPS = 2.4e6 / 40.0


def mhd_ranks(cells: int, rows: int, cycles: int, rounds: int) -> None:
    """Measure in every rank of the world; rank 0 prints wall and CPU seconds of each round, and of its triad."""
    from stencil_app.mesh.decomposition import even
    from stencil_app.mesh.slab import Slab
    from stencil_app.mhd.case import entry
    from stencil_app.mhd.equations import MhdProblem
    from stencil_app.options import parse_all
    from stencil_app.running.mpi import world
    from stencil_app.running.runtime import Controls, StopRequest, begin, iterate
    from stencil_app.running.timing import Stopwatch

    compiled = triad_kernel()
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


def rounds_of(started: subprocess.Popen[str]) -> np.ndarray[Any, Any]:
    """Return float64[rounds, 3]: seconds by the clock, CPU seconds, seconds of the triad."""
    said, _ = started.communicate()
    if started.returncode:
        sys.exit(f"a mhd_ranks ended with {started.returncode}")
    return np.array(json.loads(said))


def mhd_row(ranks: int, cells: int, rows: int, arguments: SimpleNamespace) -> dict[str, Any]:
    """Return one row of the report."""
    cycles = max(2, round(arguments.zones / (cells * cells * rows)))
    table = rounds_of(launch(ranks, cells, rows, cycles, arguments.rounds))
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


def scaling(cells: int, arguments: SimpleNamespace) -> dict[str, Any]:
    """Return zone-cycles a second over those of one rank, of two ranks and of two halves apart: median, 10 % and 90 %.

    From the best rounds of a turn, as all such figures, and from their medians. The medians include the noise of the
    machine that makes one rank wait for another.
    """
    cycles, rounds = max(2, round(arguments.zones / cells**3)), arguments.rounds
    gains: dict[str, list[float]] = {}
    for _ in range(arguments.turns):
        one = rounds_of(launch(1, cells, cells, cycles, rounds))[:, 0]
        two = rounds_of(launch(2, cells, cells, cycles, rounds))[:, 0]
        halves = [launch(1, cells, cells // 2, cycles, rounds + 1) for _ in range(2)]
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
    code = "import stencil_app.mhd.equations"
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


def mhd(
    *,
    cells: tuple[int, ...] = (64, 128),
    zones: float = 4e6,
    rounds: int = 5,
    turns: int = 5,
    json: bool = False,
) -> None:
    """Measure the step loop of mhd.

    cells: along each axis, from the smallest mesh on
    zones: zone-cycles in a round, 2 cycles at least
    turns: of one rank, two ranks and two halves
    """
    arguments = SimpleNamespace(zones=zones, rounds=rounds, turns=turns)
    load_before = os.getloadavg()[0]
    rows = [mhd_row(ranks, n, n, arguments) for n in cells for ranks in (1, 2)]
    one, two = rows[-2:]
    triad = max(row["triad_GBps"] for row in rows if row["ranks"] == 1)
    by_cpu = "zone_cycles_per_cpu_s_of_a_rank"
    report = {
        "load_average": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "aim_on_one_rank": round(AIM_PER_GBPS * triad),
        **scaling(cells[-1], arguments),
        "two_ranks_over_one_by_cpu_time": round(2 * two[by_cpu] / one[by_cpu], 3),
        **starts(turns),
    }
    if json:
        report = {"runs": rows, **report}
    else:
        columns = ("ranks", "mesh", "zone-cycles/s", "10 %, 90 %", "per CPU second", "triad GB/s")
        table(columns, [tuple(row.values()) for row in rows], widths=(5, 14, 13, 20))
    print_document(report, as_json=json)


PARTS = (mhd, mhd_ranks)
