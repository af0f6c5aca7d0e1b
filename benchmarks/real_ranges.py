"""Real runs under changing load: how often the predicted ranges hold, against another planner in turns.

    sudo python -m benchmarks real_ranges local|ssh|slurm [--code wave2d] [--turns 60] [--other BIN] [--out FILE]
        [--states DIR]
    python -m benchmarks real_ranges report FILE...

Load generators start and stop on every host, each by a clock of its own with periods of 15 to 60 s. In each turn both
planners run the same size, one after the other in random order, each with a state of its own, so that it learns from
its own earlier runs only. `--other` names the directory with the commands of another installation; without it the other
planner is this one with `--horizon next`, which plans with forecasts of the next measurement. A series can be made in
parts: with the same --states and --out and another --seed it goes on.

local: on this machine, 1 to 2 ranks.  ssh: from the desk of tests/testbed/wan4.yaml to its four hosts
slurm: from the login node of a cluster of four nodes; the load runs beside Slurm's jobs

The code is mhd3d, or with `--code wave2d` the C program of examples/wave-c, whose ranks need next to no CPU time to
start. Runs last about 5 to 20 s. ssh and slurm need root, as tests/testbed does. `report` prints for both planners the
share of runs within the range (80 % expected), apart for the first ten, and errors of the prediction relative to the
observed time; then the ratio of the median absolute errors, with the middle 80 % of its bootstrap over turns, and the
ratio of run times.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.common.hosts import DESK, burner, compiled, make_testbed, names_of, pool_of, switching
from benchmarks.common.report import BIN, ROOT, append_line, read_lines, say, spread
from tests.testbed.description import load
from tests.testbed.grid import Testbed
from tests.testbed.slurm import Node, Partition, Slurm


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One code: its sizes, and settings by launcher for runs of 5 to 20 s on hosts with and without load.

    app : None for the C program, which is compiled first
    """

    app: str | None
    sizes: tuple[int, ...]
    settings: dict[str, tuple[str, ...]]


CODES = {
    "mhd3d": Code(
        app="mhd3d",
        sizes=(96, 128, 160),
        settings={
            "local": ("nx=64", "ny=64", "iterations=50"),
            "ssh": ("nx=32", "ny=32", "iterations=90"),
            "slurm": ("nx=32", "ny=32", "iterations=90"),
        },
    ),
    "wave2d": Code(
        app=None,
        sizes=(3000, 4000, 5000),
        settings={"local": ("iterations=250",), "ssh": ("iterations=200",), "slurm": ("iterations=200",)},
    ),
}
#: The network module of MPICH in all runs: releases of this package choose different ones over hosts.
NETWORK = {"MPIR_CVAR_CH4_NETMOD": "ucx"}
#: Seconds between a start and a stop of a load generator.
PERIODS_S = (15.0, 60.0)
#: Runs that are reported apart: before them, ranges are not calibrated by earlier runs.
FIRST = 10
#: Runs at the end that are reported as the latest.
LATEST = 30
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where runs start, and where load generators can.

    hosts: empty for this machine alone.  command: returns the command line that runs a command where runs start
    start: starts the load generator of that number.  loads: their number
    """

    launcher: str
    hosts: tuple[str, ...]
    command: Callable[[Sequence[str]], list[str]]
    start: Callable[[int], subprocess.Popen[bytes]]
    loads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """One of the two planners. bin: directory of its commands.  options: its own.  state: directory of its state"""

    name: str
    bin: Path
    options: tuple[str, ...]
    state: Path


def one_run(place: Place, planner: Planner, code: Code, size: int) -> dict[str, Any]:
    """Return the document of a run; end the program if it fails."""
    words = [str(planner.bin / "apples-run"), f"{size}", "--app", f"{code.app}", "--json", *planner.options]
    # Without a limit, an allocation ends soon after the predicted time.
    words += ["--time-limit", "10m"]
    words += [word for setting in code.settings[place.launcher] for word in ("-s", setting)]
    if place.hosts:
        words += ["--launcher", place.launcher, "-H", pool_of(place.hosts)]
    variables = [
        f"{name}={value}" for name, value in (NETWORK | {"APPLES_STATE": str(planner.state)}).items()
    ]
    command = place.command(["env", *variables, *words])
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    if ended.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stderr}")
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def report(lines: list[dict[str, Any]]) -> None:
    """Print the figures of each launcher and code found in the lines."""
    kinds = [(line["launcher"], line.get("code", "mhd3d")) for line in lines]
    for kind in dict.fromkeys(kinds):
        own = [line for line, its in zip(lines, kinds, strict=True) if its == kind]
        print(f"\n{', '.join(kind)}, observed {spread([line['run']['observed_s'] for line in own], '.1f')} s")
        for planner in ("this", "other"):
            runs = [line["run"] for line in own if line["planner"] == planner]
            if runs:
                _report_planner(planner, runs)
        turns: dict[tuple[int, int], dict[str, dict[str, Any]]] = {}
        for line in own:
            turns.setdefault((line["seed"], line["turn"]), {})[line["planner"]] = line["run"]
        both = [(turn["this"], turn["other"]) for turn in turns.values() if len(turn) == 2]
        if len(both) > 1:
            pairs = [(abs(_error(this)), abs(_error(other))) for this, other in both]
            low, high = _bootstrap(pairs)
            print(
                f"  {len(pairs)} turns: median absolute error {_ratio(pairs):.2f} times the other's "
                f"({low:.2f} … {high:.2f})"
            )
            longer = [math.log(this["observed_s"] / other["observed_s"]) for this, other in both]
            print(
                f"  runs {math.exp(statistics.fmean(longer)):.2f} times as long as the other's in the geometric mean "
                f"(standard error of the logarithm {statistics.stdev(longer) / math.sqrt(len(longer)):.2f})"
            )


def _report_planner(name: str, runs: list[dict[str, Any]]) -> None:
    def inside(some: list[dict[str, Any]]) -> str:
        held = sum(map(_held, some))
        return f"{held} of {len(some)} ({held / len(some):.0%})" if some else "none"

    errors = [_error(run) for run in runs]
    width = statistics.median((run["high_s"] - run["low_s"]) / run["predicted_s"] for run in runs)
    print(
        f"  {name:5} inside: {inside(runs)}, first {FIRST}: {inside(runs[:FIRST])}, later: {inside(runs[FIRST:])}, "
        f"latest {LATEST}: {inside(runs[FIRST:][-LATEST:])}"
    )
    print(
        f"        error: median absolute {statistics.median(map(abs, errors)):.1%}, mean signed "
        f"{statistics.fmean(errors):+.1%}; median width {width:.2f} of the prediction"
    )


def _held(run: dict[str, Any]) -> bool:
    return bool(run["low_s"] <= run["observed_s"] <= run["high_s"])


def _error(run: dict[str, Any]) -> float:
    return float(run["predicted_s"] / run["observed_s"] - 1)


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    this, other = ([pair[k] for pair in pairs] for k in range(2))
    return statistics.median(this) / statistics.median(other)


def _bootstrap(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the 10th and 90th percentile of the ratio over resampled turns."""
    rng = random.Random(0)
    found = sorted(_ratio(rng.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    return found[_RESAMPLES // 10], found[-_RESAMPLES // 10]


@contextlib.contextmanager
def local() -> Iterator[Place]:
    """Give this machine, with one load generator for each CPU."""
    yield Place(
        launcher="local", hosts=(), command=list, start=lambda _: burner([]), loads=os.cpu_count() or 1
    )


@contextlib.contextmanager
def on_testbed(launcher: str) -> Iterator[Place]:
    """Give a testbed that is up; with a cluster on it for `slurm`."""
    if launcher == "ssh":
        desk, up = DESK, Testbed(load(ROOT / "tests/testbed/wan4.yaml"))
    else:
        # CPU share of each node of the cluster, and the CPU it is pinned to.
        nodes = (("n1", 0.5, 0), ("n2", 0.32, 1), ("n3", 0.5, 1), ("n4", 0.32, 0))
        hosts = [{"name": name, "cpu": cpu, "cpuset": at} for name, cpu, at in nodes]
        desk, up = "head", make_testbed("ranges", hosts, desk="head")
    with up as bed:
        names = tuple(names_of(bed, desk))
        if launcher == "slurm":
            # A run gets one CPU of a node; the benchmark of releases before this one needs two.
            cluster = [Node(name=name, cpus=2, memory_mb=900) for name in names]
            Slurm(bed, desk, cluster, [Partition(name="all", nodes=names, settings="Default=YES")]).up()
        yield Place(
            launcher=launcher,
            hosts=names,
            command=lambda words: bed.command(desk, words),
            start=lambda number: burner(bed.command(names[number], [])),
            loads=len(names),
        )


def main(
    part: Literal["local", "ssh", "slurm", "report"],
    *files: Path,
    code: Literal["mhd3d", "wave2d"] = "mhd3d",
    turns: int = 60,
    other: Path | None = None,
    out: Path | None = None,
    states: Path | None = None,
    seed: int = 1,
) -> None:
    """Run both planners in turns under changing load, and report.

    files: with report, lines of earlier series
    other: directory with the commands of another installation
    out: lines of JSON, one a run; appended
    states: directory of the planners' states, kept
    """
    if part == "report":
        report(read_lines(files))
        return
    work = Path(tempfile.mkdtemp(prefix="real-ranges-"))
    out, states = (out or work / "runs.jsonl").absolute(), (states or work).absolute()
    chosen = CODES[code]
    if chosen.app is None:
        chosen = replace(chosen, app=str(compiled(work)))
    choices = {"this": (BIN, ()), "other": (other.absolute(), ()) if other else (BIN, ("--horizon", "next"))}
    planners = [
        Planner(name=name, bin=bin, options=words, state=states / part / code / name)
        for name, (bin, words) in choices.items()
    ]
    os.chdir(ROOT)
    say(f"lines in {out}")
    rng, clock = random.Random(seed), random.Random(seed + 1)
    try:
        with (
            local() if part == "local" else on_testbed(part) as place,
            switching(place.start, place.loads, PERIODS_S, clock),
        ):
            for turn in range(turns):
                size = rng.choice(chosen.sizes)
                for planner in rng.sample(planners, len(planners)):
                    line = {
                        "launcher": part,
                        "code": code,
                        "planner": planner.name,
                        "seed": seed,
                        "turn": turn,
                    }
                    line |= {"size": size, "began": time.time()}
                    run = one_run(place, planner, chosen, size)
                    append_line(out, {**line, "run": run})
                    say(
                        f"{turn:3} {planner.name:6} {size:4} {run['low_s']:6.2f} … {run['high_s']:6.2f}, "
                        f"{run['predicted_s']:6.2f}: {run['observed_s']:6.2f} s {'' if _held(run) else 'outside'}"
                    )
    finally:
        if out.exists():
            report(read_lines([out]))
