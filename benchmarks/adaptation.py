"""Gain and cost of in-run adaptation: real runs over hosts of a testbed, with a load that starts during the run.

    sudo python benchmarks/adaptation.py step [--turns 5] [--iterations 800] [--burners 1] [--hosts 2] [--code wave2d]
    sudo python benchmarks/adaptation.py cost [--turns 10] [--iterations 300] [--hosts 2]
    sudo python benchmarks/adaptation.py hosts [--turns 5] [--iterations 400] [--burners 2]
    python benchmarks/adaptation.py calls [--iterations 800]

step: Each turn has three runs, in an order that changes. In two of them, with --adapt slabs and with --adapt off, a
    busy process starts on one host, inside its limits, after a quarter of the iterations. The benchmark compares the
    time of an iteration from then to the end, including the detection of the load and the moves. The third run is
    planned after that process has started: it gives the iteration time of a fresh plan
cost: Nothing changes. Pairs of runs with and without --adapt slabs, in an order that changes
hosts: Busy processes run on one host from before the run, so that the plan leaves this host out. After a quarter of
    the iterations they move to the other host. With --adapt hosts the run ends with a checkpoint and continues on the
    free host. The benchmark compares it with --adapt off, from then to the end
calls: Two ranks on this machine compute for 10 ms an iteration and exchange a row, with the client of users' programs.
    Prints for each rank the time inside the client's calls as a share of the run

The application is mhd3d, with `--code wave2d` the C program `examples/wave-c/wave2d-moving.c` with 2000 cells in a row.
Two hosts have a CPU each, minus the share of the desk and the link. Four hosts share two CPUs by quotas. A rank that
waits polls and uses up its quota, so quotas unbalance more than the load. Every run is an `apples-run --launcher ssh`
of its own from the testbed's desk. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from apples.client import include
from apples.hosts.steering import PROGRESS, FileTail
from benchmarks.burners import burn, burning, put_out
from benchmarks.testbed_runs import DESK, chain
from tests.testbed.description import parse
from tests.testbed.grid import Testbed

BIN = Path(sys.executable).parent
#: By number of hosts: the CPU of each host, and the default of its share.
HOSTS = {2: ({"e1": 0, "w1": 1}, 0.8), 4: ({"e1": 0, "e2": 1, "w1": 1, "w2": 0}, 0.4)}
#: Rows of a run, by application: an iteration of each takes about as long as a time slice or longer.
SIZES = {"mhd3d": 128, "wave2d": 4000}
#: Settings that look at the pool more often than the defaults.
LOOKS = "hosts: {look_every_s: 3, wait_s: 5, looks: 2}\n"
WAVE = Path(__file__).parents[1] / "examples" / "wave-c"
#: A program whose ranks add up the time inside the client's calls.
CALLS = r"""
#include <apples.h>
#include <stdio.h>
#include <stdlib.h>
static double spent, began;
#define TIMED(call) (began = MPI_Wtime(), call, spent += MPI_Wtime() - began)
int main(int argc, char **argv) {
    int rank, ranks, moves = 0, steps = atoi(argv[1]);
    double row[2000] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    apples_run run;
    apples_begin(&run, MPI_COMM_WORLD, 100);
    double start = MPI_Wtime();
    for (int s = 0; s < steps; s++) {
        TIMED(apples_exchange(&run));
        MPI_Sendrecv_replace(row, 2000, MPI_DOUBLE, !rank, 0, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        TIMED(apples_compute(&run));
        double until = MPI_Wtime() + 0.01;
        while (MPI_Wtime() < until) row[0] += 1e-9;
        TIMED(moves += apples_step(&run, s + 1, steps - s - 1));
    }
    double whole = MPI_Wtime() - start;
    apples_end(&run);
    printf("rank %d: %.2f us of client calls in an iteration of %.2f ms: %.3f %% (%d moves)\n", rank,
           1e6 * spent / steps, 1e3 * whole / steps, 100 * spent / whole, moves);
    MPI_Finalize();
}
"""


def spec(count: int, share: float | None) -> dict[str, Any]:
    """Return that many hosts at two sites, and the desk. `share`: of a CPU, for each host."""
    cpus, usual = HOSTS[count]
    hosts = [
        {
            "name": name,
            "site": "east" if name[0] == "e" else "west",
            "cpu": usual if share is None else share,
            "cpuset": cpu,
        }
        for name, cpu in cpus.items()
    ]
    return {
        "name": f"adapt-{uuid.uuid4().hex[:6]}",
        "defaults": {"memory": "1G", "rate": "1gbit"},
        "sites": {"east": {}, "west": {"rate": "200mbit", "delay": "2ms"}},
        "hosts": [*hosts, {"name": DESK, "site": "east"}],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A run with progress reports.

    at: number of lines in its first quarter
    rest_s: seconds from there to its end
    """

    lines: list[dict[str, Any]]
    at: int
    rest_s: float
    document: dict[str, Any]


class Runs:
    """Runs from the desk of a testbed that is up."""

    def __init__(self, bed: Testbed, scratch: Path, options: argparse.Namespace) -> None:
        self.bed, self.scratch, self.iterations = bed, scratch, options.iterations
        self._application = ["-a", "mhd3d", "-s", f"nx={options.cells}", "-s", f"ny={options.cells}"]
        if options.code == "wave2d":
            self._application = ["--app", str(compiled(scratch))]
        self._size = SIZES[options.code] if options.size is None else options.size
        self._keep: Path | None = options.keep
        #: Whether the run uses all hosts, without a choice by the planner.
        self._fixed = options.part != "hosts"
        self.hosts = list(HOSTS[options.hosts][0])

    def start(self, adapt: str, progress: Path | None) -> subprocess.Popen[str]:
        """Start a run and return its process. `progress`: its progress file, None for no progress reports."""
        temporary = self.scratch / uuid.uuid4().hex[:8]
        temporary.mkdir()
        variables = [f"APPLES_STATE={self.scratch / 'state'}", f"TMPDIR={temporary}"]
        if progress is not None:
            variables += [f"STENCIL_APP_PROGRESS={progress}", "STENCIL_APP_REPORT_EVERY=0.5"]
        pool = ",".join(f"{host}:1" for host in self.hosts)
        words = ["env", *variables, str(BIN / "apples-run"), str(self._size), *self._application]
        words += [
            "-s",
            f"iterations={self.iterations}",
            "--launcher",
            "ssh",
            "-H",
            pool,
            "--adapt",
            adapt,
            "--json",
        ]
        if self._fixed:
            words += ["-n", str(len(self.hosts)), "--checkpoint", "off", "--attempts", "1"]
        elif adapt == "hosts":
            looks = self.scratch / "looks.yaml"
            looks.write_text(LOOKS, encoding="ascii")
            words += ["--adapt-settings", str(looks)]
        process = subprocess.Popen(
            self.bed.command(DESK, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.temporary = temporary
        return process

    def told(self, adapt: str, load: str, then: Callable[[], None] = lambda: None) -> Told:
        """Return one run with progress reports.

        Args:
            load: description of the load.
            then: called after a quarter of the iterations.
        """
        progress = self.scratch / f"{uuid.uuid4().hex[:8]}.jsonl"
        # Without adaptation our own application reports only to a file that is named to it.
        named = adapt == "off" and "--app" not in self._application
        process = self.start(adapt, progress if named else None)
        tail: FileTail | None = FileTail(str(progress)) if named else None
        lines: list[dict[str, Any]] = []
        at = 0
        since: float | None = None
        while process.poll() is None:
            time.sleep(0.05)
            if tail is None:
                found = list(self.temporary.glob(f"apples-run-*/{PROGRESS}"))
                tail = FileTail(str(found[0])) if found else None
                continue
            lines += map(json.loads, tail.lines())
            if since is None and lines and lines[-1]["iteration"] >= self.iterations // 4:
                at, since = len(lines), time.monotonic()
                then()
        over = time.monotonic()
        if tail is not None:
            lines += map(json.loads, tail.lines())
        document = ended(process)
        if since is None:
            sys.exit("the run was over before anybody heard of its first quarter; give it more --iterations")
        rest_s = over - since
        if self._keep is not None:
            kept = {"adapt": adapt, "load": load, "at": at, "rest_s": rest_s, "lines": lines, "run": document}
            with self._keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept) + "\n")
        return Told(lines=lines, at=at, rest_s=rest_s, document=document)

    def loaded(self, adapt: str, host: str, burners: int) -> Told:
        """Return one run; that many busy processes start on one of its hosts after a quarter of the iterations."""
        with burning(self.bed, {}) as load:
            return self.told(adapt, f"comes to {host}", lambda: load.extend(burn(self.bed, host, burners)))

    def swapped(self, adapt: str, host: str, burners: int) -> Told:
        """Return one run; the busy processes move from one host to the other after a quarter of the iterations."""
        other = next(name for name in self.hosts if name != host)
        with burning(self.bed, {host: burners}) as load:

            def swap() -> None:
                put_out(self.bed, load)
                load.extend(burn(self.bed, other, burners))

            return self.told(adapt, f"goes from {host} to {other}", swap)


def compiled(directory: Path) -> Path:
    """Compile the C program whose rows move; return its application file in the directory."""
    compile_with_client(WAVE / "wave2d-moving.c", directory / "wave2d-moving")
    return Path(shutil.copy(WAVE / "wave2d-moving.yaml", directory))


def compile_with_client(source: Path, program: Path) -> None:
    command = [str(BIN / "mpicc"), "-O2", f"-I{include()}", "-o", str(program), str(source)]
    subprocess.run(command, check=True)


def calls(scratch: Path, iterations: int) -> None:
    """Run the program that times the client's calls, as under `--adapt slabs`."""
    source, program = scratch / "calls.c", scratch / "calls"
    source.write_text(CALLS, encoding="ascii")
    compile_with_client(source, program)
    steering = {
        "STENCIL_APP_PROGRESS": str(scratch / "progress"),
        "STENCIL_APP_SLABS": str(scratch / "slabs"),
    }
    command = [str(BIN / "mpiexec"), "-n", "2", str(program), str(iterations)]
    subprocess.run(command, check=True, env=os.environ | steering)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the document of a run; ends the program if it failed."""
    out, err = process.communicate()
    if process.returncode != 0:
        sys.exit(err)
    document: dict[str, Any] = json.loads(out)
    return document


def iteration_s(lines: list[dict[str, Any]]) -> float:
    """Return seconds of an iteration over some lines, moves included."""
    return float(sum(line["seconds"] for line in lines) / sum(line["iterations"] for line in lines))


def step(runs: Runs, options: argparse.Namespace) -> None:
    """Compare runs with a load in the middle: with adaptation, without it, and with a plan that includes the load."""
    rng = random.Random(options.seed)
    against: dict[str, list[float]] = {"fresh": [], "off": []}
    for turn in range(options.turns):
        host = rng.choice(runs.hosts)
        found: dict[str, float] = {}
        moved = ""
        for way in rng.sample(("slabs", "off", "fresh"), 3):
            if way == "fresh":
                with burning(runs.bed, {host: options.burners}):
                    found[way] = iteration_s(runs.told("off", f"on {host}").lines[1:])
                continue
            run = runs.loaded(way, host, options.burners)
            found[way] = iteration_s(run.lines[run.at :])
            if way == "slabs":
                before = iteration_s(run.lines[1 : run.at])
                moved = "; ".join(f"{m['iteration']}: {m['rows_after']}" for m in run.document["moves"])
        against["fresh"].append(found["slabs"] / found["fresh"])
        against["off"].append(found["slabs"] / found["off"])
        print(
            f"{turn + 1:3} load on {host}: iteration before it {1e3 * before:6.1f} ms; after it off "
            f"{1e3 * found['off']:6.1f}, slabs {1e3 * found['slabs']:6.1f}, fresh plan {1e3 * found['fresh']:6.1f} ms; "
            f"slabs/fresh {against['fresh'][-1]:.3f}  moves {moved or 'none'}",
            flush=True,
        )
    for other, ratios in against.items():
        print(
            f"slabs / {other}: median {statistics.median(ratios):.3f}, {min(ratios):.3f} … {max(ratios):.3f}"
        )


def cost(runs: Runs, options: argparse.Namespace) -> None:
    """Compare pairs of runs without a load."""
    rng = random.Random(options.seed)
    ratios = []
    for turn in range(options.turns):
        found = {way: ended(runs.start(way, None)) for way in rng.sample(("slabs", "off"), 2)}
        seconds = {way: document["observed_s"] for way, document in found.items()}
        ratios.append(seconds["slabs"] / seconds["off"])
        moves = len(found["slabs"]["moves"])
        print(
            f"{turn + 1:3} off {seconds['off']:7.2f} s, slabs {seconds['slabs']:7.2f} s, ratio {ratios[-1]:.4f}, "
            f"{moves} moves",
            flush=True,
        )
    spread = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    print(
        f"slabs / off: median {statistics.median(ratios):.4f}, mean {statistics.fmean(ratios):.4f} ± {spread:.4f}, "
        f"{min(ratios):.4f} … {max(ratios):.4f}"
    )


def hosts(runs: Runs, options: argparse.Namespace) -> None:
    """Compare runs while the load moves from the host that the plan left out to the host that it took."""
    rng = random.Random(options.seed)
    ratios = []
    for turn in range(options.turns):
        host = rng.choice(runs.hosts)
        found = {way: runs.swapped(way, host, options.burners) for way in rng.sample(("hosts", "off"), 2)}
        rest_s = {way: run.rest_s for way, run in found.items()}
        ratios.append(rest_s["hosts"] / rest_s["off"])
        document = found["hosts"].document
        attempts = "; then ".join(f"{a['ended']} on {chain(a)}" for a in document["attempts"])
        print(
            f"{turn + 1:3} others leave {host} for the other: from then to the end off {rest_s['off']:6.1f} s on "
            f"{chain(found['off'].document)}, hosts {rest_s['hosts']:6.1f} s ({attempts or chain(document)}), "
            f"ratio {ratios[-1]:.3f}",
            flush=True,
        )
    print(f"hosts / off: median {statistics.median(ratios):.3f}, {min(ratios):.3f} … {max(ratios):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("step", "cost", "hosts", "calls"))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--iterations", type=int, help="of every run (400 in part hosts, else 800)")
    parser.add_argument("--hosts", type=int, choices=HOSTS, default=2)
    parser.add_argument("--burners", type=int, help="processes of others (2 in part hosts, else 1)")
    parser.add_argument(
        "--cpu", type=float, help="share of a CPU that each host has (0.8 of two, 0.4 of four)"
    )
    parser.add_argument("--code", choices=("mhd3d", "wave2d"), default="mhd3d")
    parser.add_argument("--size", type=int, help="rows (128 of mhd3d, 4000 of wave2d)")
    parser.add_argument("--cells", type=int, default=32, help="cells of a row, along x and along y")
    parser.add_argument("--keep", type=Path, help="append what the ranks told to this file, a run a line")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.part == "hosts" and (options.hosts != 2 or options.code != "mhd3d"):
        parser.error("part hosts has two hosts, and the application mhd3d")
    usual = (
        {"iterations": 400, "burners": 2} if options.part == "hosts" else {"iterations": 800, "burners": 1}
    )
    vars(options).update({name: value for name, value in usual.items() if getattr(options, name) is None})
    os.environ.pop("STENCIL_APP_PROGRESS", None)
    # SIGTERM must unwind, so that the hosts end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if options.part == "calls":
        with tempfile.TemporaryDirectory(prefix="adaptation-") as scratch:
            calls(Path(scratch), options.iterations)
        return
    bed = Testbed(parse(spec(options.hosts, options.cpu)))
    with tempfile.TemporaryDirectory(prefix="adaptation-") as scratch:
        bed.up()
        try:
            runs = Runs(bed, Path(scratch), options)
            # kernels are compiled and costs measured once, before any comparison
            ended(runs.start("off", None))
            {"step": step, "cost": cost, "hosts": hosts}[options.part](runs, options)
        finally:
            bed.down()


if __name__ == "__main__":
    main()
