"""Real runs over hosts of a testbed: accuracy of predictions, and gain of the planner under load.

    sudo python benchmarks/testbed_runs.py accuracy [--runs 62] [--teach 20] [--same 10] [--iterations 60]
    sudo python benchmarks/testbed_runs.py gain [--turns 20] [--teach 8] [--iterations 60]
    python benchmarks/testbed_runs.py report FILE...

accuracy: unloaded runs of many sizes and pools. The first are training runs for overhead and corrections. The others
    use these and teach nothing themselves. Between them one run is repeated: the noise floor
gain: before each turn, a random number of load generators starts on every host. Then each scheduler runs once, in an
    order that changes, with a pause in which sensors settle

Every run is an `apples-run --launcher ssh` of its own from the testbed's desk. Each becomes a line of JSON in --out as
soon as it ends, so that an interrupted series can be reported, too. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.burners import burning
from tests.testbed.description import load
from tests.testbed.grid import Testbed

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
GRID = ROOT / "tests/testbed/wan4.yaml"
DESK = "desk"
#: The paper's own application, with planes small enough for the link between the sites.
MESH = ("nx=32", "ny=32")
SIZES = (128, 160, 192, 224, 256)
#: Sizes under load, where runs take long.
LOADED_SIZES = SIZES[:-1]
SCHEDULERS = ("apples", "default", "smart-user")
#: Numbers of load generators on a host, and their probabilities.
LOADS, LIKELY = (0, 1, 2), (0.5, 0.3, 0.2)


class Runs:
    """Runs from the desk of a testbed that is up, each of that many iterations and recorded in a file."""

    def __init__(self, testbed: Testbed, iterations: int, out: Path, state: Path) -> None:
        self.testbed, self.state = testbed, state
        self.settings = (*MESH, f"iterations={iterations}")
        self.hosts = [h.name for h in testbed.spec.hosts if h.name != DESK]
        self._out = out

    def costs(self) -> None:
        """Print a line with the costs of rows, as measured and as corrected by runs."""
        pool = ",".join(f"{h}:1" for h in self.hosts)
        for size in SIZES:
            words = [f"{size}", "-a", "mhd3d", "--launcher", "ssh", "-H", pool, "--show", "--json"]
            words += [w for pair in self.settings for w in ("-s", pair)]
            state = f"APPLES_STATE={self.state}"
            ended = self.testbed.run(DESK, "env", state, str(BIN / "apples"), "calibrate", *words)
            if ended.returncode != 0:
                sys.exit(f"apples calibrate {' '.join(words)}:\n{ended.stderr}")
            self._write({"part": "costs", "size": size, "costs": json.loads(ended.stdout)})

    def _write(self, line: dict[str, Any]) -> None:
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def run(self, size: int, pool: list[str], scheduler: str = "apples", **facts: Any) -> dict[str, Any]:
        """Return one run; ends the program if it fails. `facts`: further keys of its line."""
        words = [f"{size}", "--launcher", "ssh", "-H", ",".join(f"{h}:1" for h in pool), "--json"]
        words += ["--scheduler", scheduler, *(w for pair in self.settings for w in ("-s", pair))]
        state = f"APPLES_STATE={self.state}"
        began = time.time()
        ended = self.testbed.run(DESK, "env", state, str(BIN / "apples-run"), *words, timeout_s=600)
        if ended.returncode != 0:
            sys.exit(f"apples-run {' '.join(words)} ended with {ended.returncode}:\n{ended.stderr}")
        document = json.loads(ended.stdout)
        line = {"size": size, "pool": pool, "scheduler": scheduler, "began": began, **facts, "run": document}
        self._write(line)
        predicted, observed = document["predicted_s"], document["observed_s"]
        print(
            f"{facts.get('part', ''):8} {scheduler:10} {size:4} {','.join(pool):12} {chain(document):32} "
            f"{predicted:6.2f} {observed:6.2f} s {observed / predicted - 1:+.1%}",
            flush=True,
        )
        return line


def accuracy(runs: Runs, options: argparse.Namespace) -> None:
    rng = random.Random(options.seed)
    pools = _pools(runs.hosts)
    for k in range(options.teach):
        runs.run(SIZES[k % len(SIZES)], pools[k % len(pools)], part="teach")
    taught, cases = runs.state, [(s, p) for s in SIZES for p in pools]
    rng.shuffle(cases)
    again = {round(options.runs * k / options.same) for k in range(options.same)}
    for k in range(options.runs):
        if k in again:
            with _copy(taught) as runs.state:
                runs.run(SIZES[-1], runs.hosts, part="same")
        size, pool = cases[k % len(cases)]
        with _copy(taught) as runs.state:
            runs.run(size, pool, part="test")
    runs.state = taught


def gain(runs: Runs, options: argparse.Namespace) -> None:
    rng = random.Random(options.seed)
    for k in range(options.teach):
        runs.run(SIZES[k % len(SIZES)], runs.hosts, part="teach")
    for turn in range(options.turns):
        load = dict(zip(runs.hosts, rng.choices(LOADS, LIKELY, k=len(runs.hosts)), strict=True))
        size = rng.choice(LOADED_SIZES)
        with burning(runs.testbed, load):
            for scheduler in rng.sample(SCHEDULERS, len(SCHEDULERS)):
                runs.run(size, runs.hosts, scheduler, part="gain", turn=turn, load=load)
    runs.costs()


@contextlib.contextmanager
def _copy(state: Path) -> Iterator[Path]:
    """Copy a state, so that a run can learn without changing the original."""
    with tempfile.TemporaryDirectory(prefix="testbed-runs-") as directory:
        yield Path(shutil.copytree(state, Path(directory) / "state"))


def _pools(hosts: list[str]) -> list[list[str]]:
    """Return all hosts, all but one, and each site alone."""
    sites = [[h for h in hosts if h[0] == site] for site in sorted({h[0] for h in hosts})]
    return [hosts, *([h for h in hosts if h != out] for out in hosts), *sites]


def report(lines: list[dict[str, Any]]) -> None:
    """Print figures of all series found in the lines."""
    tests = [line for line in lines if line["part"] == "test"]
    if tests:
        errors = [_error(line) for line in tests]
        print(f"\n{len(tests)} unloaded runs: mean error {statistics.fmean(map(abs, errors)):.1%}, ", end="")
        print(
            f"median {statistics.median(map(abs, errors)):.1%}, mean signed {statistics.fmean(errors):+.1%}"
        )
        inside = sum(_bounds(line) for line in tests)
        print(f"ended between their bounds: {inside} of {len(tests)} (should be 8 of 10)")
        for key in ("size", "pool"):
            for value in sorted({str(line[key]) for line in tests}):
                part = [abs(_error(line)) for line in tests if str(line[key]) == value]
                print(f"  {key} {value}: {statistics.fmean(part):.1%} of {len(part)}")
    same = [_observed(line) for line in lines if line["part"] == "same"]
    if same:
        middle = statistics.median(same)
        spread = statistics.fmean(abs(t / middle - 1) for t in same)
        print(f"noise floor: {len(same)} times the same run: {middle:.2f} s, mean deviation {spread:.1%}")
    if tests:
        pairs, stray = _repeated(tests)
        print(
            f"  {pairs} test runs of a size that chose the same hosts as others: mean deviation {stray:.1%}"
        )
        print(f"  a row of one host: mean deviation from run to run {_row_spread(tests):.1%}")
    turns: dict[int, dict[str, dict[str, Any]]] = {}
    for line in lines:
        if line["part"] == "gain":
            turns.setdefault(line["turn"], {})[line["scheduler"]] = line
    _report_gains([turn for turn in turns.values() if len(turn) == len(SCHEDULERS)])


def _repeated(lines: list[dict[str, Any]]) -> tuple[int, float]:
    """Return the number of repeated runs on the same hosts, and the mean deviation of their errors from their mean."""
    errors: dict[tuple[Any, ...], list[float]] = {}
    for line in lines:
        hosts = sorted(h["host"] for h in line["run"]["hosts"])
        errors.setdefault((line["size"], *hosts), []).append(_error(line))
    several = [found for found in errors.values() if len(found) > 1]
    # The mean is estimated from the same n values, so deviations are scaled by sqrt(n / (n - 1)).
    strays = [
        abs(e - statistics.fmean(found)) * (len(found) / (len(found) - 1)) ** 0.5
        for found in several
        for e in found
    ]
    return len(strays), statistics.fmean(strays) if strays else float("nan")


def _row_spread(lines: list[dict[str, Any]]) -> float:
    """Return the mean deviation of a host's time per row from its own median, over runs."""
    seconds: dict[str, list[float]] = {}
    for line in lines:
        for rank in line["run"]["hosts"]:
            seen = rank["observed"]
            seconds.setdefault(rank["host"], []).append(seen["compute_s"] / rank["rows"] / seen["iterations"])
    strays = [abs(s / statistics.median(found) - 1) for found in seconds.values() for s in found]
    return statistics.fmean(strays)


def _report_gains(turns: list[dict[str, dict[str, Any]]]) -> None:
    for rival in SCHEDULERS[1:] if turns else ():
        gains = sorted(1 - _observed(turn["apples"]) / _observed(turn[rival]) for turn in turns)
        deciles = " ".join(f"{gains[round(q / 10 * (len(gains) - 1))]:.0%}" for q in range(0, 11, 2))
        print(
            f"\n{len(turns)} loaded turns against {rival}: mean gain {statistics.fmean(gains):.1%}, ", end=""
        )
        print(f"median {statistics.median(gains):.1%}; 0, 20, … 100 %: {deciles}")
        for turn in turns:
            lost = _observed(turn["apples"]) / _observed(turn[rival]) - 1
            if lost > 0:
                load = " ".join(f"{h}:{n}" for h, n in turn["apples"]["load"].items())
                chains = "; ".join(
                    f"{s} {chain(turn[s]['run'])} {_observed(turn[s]):.2f} s" for s in ("apples", rival)
                )
                print(f"  lost by {lost:.1%} at size {turn['apples']['size']}, load {load}: {chains}")


def _observed(line: dict[str, Any]) -> float:
    return float(line["run"]["observed_s"])


def _error(line: dict[str, Any]) -> float:
    return _observed(line) / float(line["run"]["predicted_s"]) - 1


def _bounds(line: dict[str, Any]) -> bool:
    return bool(line["run"]["low_s"] <= _observed(line) <= line["run"]["high_s"])


def chain(run: dict[str, Any]) -> str:
    """Return hosts and rows of a run or an attempt."""
    return " ".join(f"{h['host']}:{h['rows']}" for h in run["hosts"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Real runs over hosts of a testbed.")
    parser.add_argument("part", choices=["accuracy", "gain", "report"])
    parser.add_argument("files", nargs="*", type=Path, help="with report: lines of earlier series")
    parser.add_argument("--runs", type=int, default=62)
    parser.add_argument("--teach", type=int, default=20)
    parser.add_argument("--same", type=int, default=10)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=60, help="of every run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--grid", type=Path, default=GRID)
    parser.add_argument("--out", type=Path, help="lines of JSON, one a run")
    options = parser.parse_args()
    # SIGTERM must unwind, so that the hosts end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    files = options.files
    if options.part != "report":
        os.chdir(ROOT)
        out = options.out or Path(tempfile.mkdtemp(prefix="testbed-runs-")) / "runs.jsonl"
        with Testbed(load(options.grid)) as bed, tempfile.TemporaryDirectory(prefix="testbed-runs-") as state:
            {"accuracy": accuracy, "gain": gain}[options.part](
                Runs(bed, options.iterations, out, Path(state)), options
            )
        files = [out]
    report([json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()])


if __name__ == "__main__":
    main()
