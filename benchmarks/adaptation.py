"""Gain and cost of in-run adaptation: real runs over hosts of a testbed, with a load that starts during the run.

    sudo python -m benchmarks adaptation step [--turns 5] [--iterations 800] [--burners 1] [--hosts 2] [--code wave2d]
    sudo python -m benchmarks adaptation cost [--turns 10] [--iterations 300] [--hosts 2]
    sudo python -m benchmarks adaptation hosts [--turns 5] [--iterations 400] [--burners 2]
    python -m benchmarks adaptation calls [--iterations 800]

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

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from apples.hosts.steering import PROGRESS, FileTail
from benchmarks.common.hosts import (
    DESK,
    burn,
    burning,
    chain,
    compile_with_client,
    compiled,
    make_testbed,
    pool_of,
    put_out,
)
from benchmarks.common.report import BIN, append_line, in_turns, say, spread
from tests.testbed.grid import Testbed

#: By number of hosts: the CPU of each host, and the default of its share.
HOSTS = {2: ({"e1": 0, "w1": 1}, 0.8), 4: ({"e1": 0, "e2": 1, "w1": 1, "w2": 0}, 0.4)}
#: Rows of a run, by application: an iteration of each takes about as long as a time slice or longer.
SIZES = {"mhd3d": 128, "wave2d": 4000}
#: Settings that look at the pool more often than the defaults.
LOOKS = "hosts: {look_every_s: 3, wait_s: 5, looks: 2}\n"
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

    def __init__(self, bed: Testbed, scratch: Path, options: SimpleNamespace) -> None:
        self.bed, self.scratch, self.iterations = bed, scratch, options.iterations
        self._application = ["-a", "mhd3d", "-s", f"nx={options.cells}", "-s", f"ny={options.cells}"]
        if options.code == "wave2d":
            self._application = ["--app", str(compiled(scratch))]
        self._size = options.size or SIZES[options.code]
        self._keep: Path | None = options.keep
        #: Whether the run uses all hosts, without a choice by the planner.
        self._fixed = options.fixed
        self.hosts = list(HOSTS[options.hosts][0])

    def start(self, adapt: str, progress: Path | None) -> subprocess.Popen[str]:
        """Start a run and return its process. `progress`: its progress file, None for no progress reports."""
        temporary = self.scratch / uuid.uuid4().hex[:8]
        temporary.mkdir()
        variables = [f"APPLES_STATE={self.scratch / 'state'}", f"TMPDIR={temporary}"]
        if progress is not None:
            variables += [f"STENCIL_APP_PROGRESS={progress}", "STENCIL_APP_REPORT_EVERY=0.5"]
        words = ["env", *variables, str(BIN / "apples-run"), str(self._size), *self._application]
        words += ["-s", f"iterations={self.iterations}", "--launcher", "ssh", "-H", pool_of(self.hosts)]
        words += ["--adapt", adapt, "--json"]
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
            append_line(self._keep, kept)
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


@contextlib.contextmanager
def runs_on(hosts: int, cpu: float | None = None, **options: Any) -> Iterator[Runs]:
    """Yield runs on that many hosts at two sites. cpu : of a CPU, for each host"""
    usual = {"code": "mhd3d", "size": None, "cells": 32, "keep": None, "fixed": True}
    cpus, share = HOSTS[hosts]
    described = [
        {"name": name, "site": "east" if name[0] == "e" else "west", "cpu": cpu or share, "cpuset": at}
        for name, at in cpus.items()
    ]
    sites = {"east": {}, "west": {"rate": "200mbit", "delay": "2ms"}}
    os.environ.pop("STENCIL_APP_PROGRESS", None)
    with (
        tempfile.TemporaryDirectory(prefix="adaptation-") as scratch,
        make_testbed("adapt", described, defaults={"rate": "1gbit"}, sites=sites) as bed,
    ):
        runs = Runs(bed, Path(scratch), SimpleNamespace(**{**usual, "hosts": hosts, **options}))
        # Kernels are compiled and costs measured once, before any comparison.
        ended(runs.start("off", None))
        yield runs


def step(
    *,
    turns: int = 5,
    iterations: int = 800,
    hosts: int = 2,
    burners: int = 1,
    cpu: float | None = None,
    code: Literal["mhd3d", "wave2d"] = "mhd3d",
    size: int | None = None,
    cells: int = 32,
    keep: Path | None = None,
    seed: int = 1,
) -> None:
    """Compare runs with a load in the middle: with adaptation, without it, and with a plan that includes the load.

    hosts: 2 or 4
    cpu: share of a CPU that each host has (0.8 of two, 0.4 of four)
    size: rows (128 of mhd3d, 4000 of wave2d)
    cells: of a row, along x and along y
    keep: append what the ranks report to this file, a run a line
    """
    rng = random.Random(seed)
    against: dict[str, list[float]] = {"fresh": [], "off": []}
    with runs_on(hosts, cpu, iterations=iterations, code=code, size=size, cells=cells, keep=keep) as runs:
        for turn in range(turns):
            host = rng.choice(runs.hosts)
            after_s: dict[str, float] = {}
            for way in rng.sample(("slabs", "off", "fresh"), 3):
                if way == "fresh":
                    with burning(runs.bed, {host: burners}):
                        after_s[way] = iteration_s(runs.told("off", f"on {host}").lines[1:])
                    continue
                run = runs.loaded(way, host, burners)
                after_s[way] = iteration_s(run.lines[run.at :])
                if way == "slabs":
                    before_s = iteration_s(run.lines[1 : run.at])
                    moved = "; ".join(f"{m['iteration']}: {m['rows_after']}" for m in run.document["moves"])
            for other, values in against.items():
                values.append(after_s["slabs"] / after_s[other])
            say(
                f"{turn + 1:3} load on {host}: iteration before it {1e3 * before_s:6.1f} ms; after it off "
                f"{1e3 * after_s['off']:6.1f}, slabs {1e3 * after_s['slabs']:6.1f}, fresh plan "
                f"{1e3 * after_s['fresh']:6.1f} ms; slabs/fresh {against['fresh'][-1]:.3f}  moves {moved or 'none'}"
            )
    for other, values in against.items():
        say(f"slabs / {other}: median {spread(values)}")


def cost(
    *,
    turns: int = 10,
    iterations: int = 800,
    hosts: int = 2,
    code: Literal["mhd3d", "wave2d"] = "mhd3d",
    seed: int = 1,
) -> None:
    """Compare pairs of runs without a load."""
    values = []
    with runs_on(hosts, iterations=iterations, code=code) as runs:

        def run(way: str) -> dict[str, Any]:
            return ended(runs.start(way, None))

        ran = in_turns(
            {way: lambda way=way: run(way) for way in ("slabs", "off")}, turns, random.Random(seed)
        )
    for turn, (slabs, off) in enumerate(zip(ran["slabs"], ran["off"], strict=True), 1):
        values.append(slabs["observed_s"] / off["observed_s"])
        say(
            f"{turn:3} off {off['observed_s']:7.2f} s, slabs {slabs['observed_s']:7.2f} s, ratio {values[-1]:.4f}, "
            f"{len(slabs['moves'])} moves"
        )
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    say(f"slabs / off: median {spread(values, '.4f')}, mean {statistics.fmean(values):.4f} ± {error:.4f}")


def hosts(*, turns: int = 5, iterations: int = 400, burners: int = 2, seed: int = 1) -> None:
    """Compare runs while the load moves from the host that the plan left out to the host that it took."""
    rng, values = random.Random(seed), []
    with runs_on(2, iterations=iterations, fixed=False) as runs:
        for turn in range(turns):
            host = rng.choice(runs.hosts)
            ran = {way: runs.swapped(way, host, burners) for way in rng.sample(("hosts", "off"), 2)}
            values.append(ran["hosts"].rest_s / ran["off"].rest_s)
            document = ran["hosts"].document
            attempts = "; then ".join(f"{a['ended']} on {chain(a)}" for a in document["attempts"])
            say(
                f"{turn + 1:3} others leave {host} for the other: from then to the end off {ran['off'].rest_s:6.1f} s "
                f"on {chain(ran['off'].document)}, hosts {ran['hosts'].rest_s:6.1f} s ({attempts or chain(document)}), "
                f"ratio {values[-1]:.3f}"
            )
    say(f"hosts / off: median {spread(values)}")


def calls(*, iterations: int = 800) -> None:
    """Run the program that times the client's calls, as under `--adapt slabs`."""
    with tempfile.TemporaryDirectory(prefix="adaptation-") as name:
        source, program = Path(name, "calls.c"), Path(name, "calls")
        source.write_text(CALLS, encoding="ascii")
        compile_with_client(source, program)
        steering = {"STENCIL_APP_PROGRESS": f"{name}/progress", "STENCIL_APP_SLABS": f"{name}/slabs"}
        command = [str(BIN / "mpiexec"), "-n", "2", str(program), str(iterations)]
        subprocess.run(command, check=True, env=os.environ | steering)


PARTS = (step, cost, hosts, calls)
