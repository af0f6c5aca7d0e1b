"""Real runs over hosts of a testbed: accuracy of predictions, and gain under load.

    sudo python -m benchmarks testbed_runs accuracy [--runs 62] [--teach 20] [--same 10] [--iterations 60]
    sudo python -m benchmarks testbed_runs gain [--turns 20] [--teach 8] [--iterations 60]
    python -m benchmarks testbed_runs report FILE...

accuracy: unloaded runs of many sizes and pools. The first are training runs for overhead and corrections. The others
    use these and teach nothing themselves. Between them one run is repeated: the noise floor
gain: before each turn, a random number of load generators starts on every host. Then each scheduler runs once, in an
    order that changes, with a pause in which sensors settle

Every run is an `apples-run --launcher ssh` of its own from the testbed's desk. Each becomes a line of JSON in --out as
soon as it ends, so that an interrupted series can be reported, too. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common.hosts import burning, chain, from_desk, names_of, pool_of, settings
from benchmarks.common.report import ROOT, append_line, median, percentile, read_lines, say
from tests.testbed.description import load
from tests.testbed.grid import Testbed

#: The paper's own application, with planes small enough for the link between the sites.
MESH = ("nx=32", "ny=32")
GRID = ROOT / "tests/testbed/wan4.yaml"
SIZES = (128, 160, 192, 224, 256)
#: Sizes under load, where runs take long.
LOADED_SIZES = SIZES[:-1]
SCHEDULERS = ("apples", "default", "smart-user")
#: Numbers of load generators on a host, and their probabilities.
LOADS, LIKELY = (0, 1, 2), (0.5, 0.3, 0.2)


@contextlib.contextmanager
def _copy(state: Path) -> Iterator[Path]:
    """Copy a state, so that a run can learn without changing the original."""
    with tempfile.TemporaryDirectory(prefix="testbed-runs-") as directory:
        yield Path(shutil.copytree(state, Path(directory) / "state"))


def _pools(hosts: list[str]) -> list[list[str]]:
    """Return all hosts, all but one, and each site alone."""
    sites = [[h for h in hosts if h[0] == site] for site in sorted({h[0] for h in hosts})]
    return [hosts, *([h for h in hosts if h != out] for out in hosts), *sites]


def report(*files: Path) -> None:
    """Print figures of all series in the lines of files."""
    lines = read_lines(files)
    tests = [line for line in lines if line["part"] == "test"]
    if tests:
        errors = [_error(line) for line in tests]
        sizes = [abs(error) for error in errors]
        say(
            f"\n{len(tests)} unloaded runs: mean error {statistics.fmean(sizes):.1%}, median {median(sizes):.1%}, mean "
            f"signed {statistics.fmean(errors):+.1%}; within bounds: {sum(map(_bounds, tests))} (should be 8 of 10)"
        )
        for key in ("size", "pool"):
            for value in sorted({str(line[key]) for line in tests}):
                part = [abs(_error(line)) for line in tests if str(line[key]) == value]
                say(f"  {key} {value}: {statistics.fmean(part):.1%} of {len(part)}")
        say(f"  a row of one host: mean deviation from run to run {_row_spread(tests):.1%}")
    same = [_observed(line) for line in lines if line["part"] == "same"]
    if same:
        stray = statistics.fmean(abs(t / median(same) - 1) for t in same)
        say(f"noise floor: {len(same)} times the same run: {median(same):.2f} s, mean deviation {stray:.1%}")
    turns: dict[int, dict[str, dict[str, Any]]] = {}
    for line in lines:
        if line["part"] == "gain":
            turns.setdefault(line["turn"], {})[line["scheduler"]] = line
    whole = [turn for turn in turns.values() if len(turn) == len(SCHEDULERS)]
    for rival in SCHEDULERS[1:] if whole else ():
        gains = sorted(1 - _observed(turn["apples"]) / _observed(turn[rival]) for turn in whole)
        deciles = " ".join(f"{percentile(gains, q / 10):.0%}" for q in range(0, 11, 2))
        say(
            f"\n{len(whole)} loaded turns against {rival}: mean gain {statistics.fmean(gains):.1%}, median "
            f"{median(gains):.1%}; 0, 20, … 100 %: {deciles}"
        )
        for turn in whole:
            lost = _observed(turn["apples"]) / _observed(turn[rival]) - 1
            if lost > 0:
                runs = "; ".join(
                    f"{s} {chain(turn[s]['run'])} {_observed(turn[s]):.2f} s" for s in ("apples", rival)
                )
                say(
                    f"  lost by {lost:.1%} at size {turn['apples']['size']}, {turn['apples']['load']}: {runs}"
                )


def _row_spread(lines: list[dict[str, Any]]) -> float:
    """Return the mean deviation of a host's time per row from its own median, over runs."""
    seconds: dict[str, list[float]] = {}
    for line in lines:
        for rank in line["run"]["hosts"]:
            seen = rank["observed"]
            seconds.setdefault(rank["host"], []).append(seen["compute_s"] / rank["rows"] / seen["iterations"])
    return statistics.fmean(abs(s / median(of) - 1) for of in seconds.values() for s in of)


def _observed(line: dict[str, Any]) -> float:
    return float(line["run"]["observed_s"])


def _error(line: dict[str, Any]) -> float:
    return _observed(line) / float(line["run"]["predicted_s"]) - 1


def _bounds(line: dict[str, Any]) -> bool:
    return bool(line["run"]["low_s"] <= _observed(line) <= line["run"]["high_s"])


class Runs:
    """Runs from the desk of a testbed that is up, each of that many iterations and recorded in a file."""

    def __init__(self, bed: Testbed, iterations: int, out: Path, state: Path) -> None:
        self.bed, self.state, self.hosts, self._out = bed, state, names_of(bed), out
        self._values = settings(*MESH, f"iterations={iterations}")

    def run(
        self, size: int, pool: list[str], scheduler: str = "apples", state: Path | None = None, **facts: Any
    ) -> None:
        """Make one run. facts: further keys of its line."""
        words = [f"{size}", "--launcher", "ssh", "-H", pool_of(pool), "--json", "--scheduler", scheduler]
        began = time.time()
        ended = from_desk(self.bed, state or self.state, "apples-run", *words, *self._values)
        run = json.loads(ended.stdout)
        line = {"size": size, "pool": pool, "scheduler": scheduler, "began": began, **facts, "run": run}
        append_line(self._out, line)
        say(
            f"{facts['part']:8} {scheduler:10} {size:4} {','.join(pool):12} {chain(run):32} "
            f"{run['predicted_s']:6.2f} {run['observed_s']:6.2f} s {_error(line):+.1%}"
        )


@contextlib.contextmanager
def runs_on(iterations: int, out: Path | None) -> Iterator[Runs]:
    """Yield runs on the testbed, and report them at the end."""
    out = out or Path(tempfile.mkdtemp(prefix="testbed-runs-")) / "runs.jsonl"
    with Testbed(load(GRID)) as bed, tempfile.TemporaryDirectory(prefix="testbed-runs-") as state:
        yield Runs(bed, iterations, out, Path(state))
    report(out)


def accuracy(
    *,
    runs: int = 62,
    teach: int = 20,
    same: int = 10,
    iterations: int = 60,
    seed: int = 1,
    out: Path | None = None,
) -> None:
    """Make unloaded runs.

    iterations: of every run
    out: lines of JSON, one a run
    """
    with runs_on(iterations, out) as made:
        pools = _pools(made.hosts)
        for k in range(teach):
            made.run(SIZES[k % len(SIZES)], pools[k % len(pools)], part="teach")
        cases = [(size, pool) for size in SIZES for pool in pools]
        random.Random(seed).shuffle(cases)
        again = {round(runs * k / same) for k in range(same)}
        for k in range(runs):
            if k in again:
                with _copy(made.state) as state:
                    made.run(SIZES[-1], made.hosts, state=state, part="same")
            size, pool = cases[k % len(cases)]
            with _copy(made.state) as state:
                made.run(size, pool, state=state, part="test")


def gain(
    *, turns: int = 20, teach: int = 8, iterations: int = 60, seed: int = 1, out: Path | None = None
) -> None:
    """Run all schedulers under load.

    iterations: of every run
    out: lines of JSON, one a run
    """
    rng = random.Random(seed)
    with runs_on(iterations, out) as made:
        for k in range(teach):
            made.run(SIZES[k % len(SIZES)], made.hosts, part="teach")
        for turn in range(turns):
            generators = dict(zip(made.hosts, rng.choices(LOADS, LIKELY, k=len(made.hosts)), strict=True))
            size = rng.choice(LOADED_SIZES)
            with burning(made.bed, generators):
                for scheduler in rng.sample(SCHEDULERS, len(SCHEDULERS)):
                    made.run(size, made.hosts, scheduler, part="gain", turn=turn, load=generators)


PARTS = (accuracy, gain, report)
