"""Users' own codes over hosts of a testbed: gain of the first planned run after `apples app check` over even pieces.

    sudo python benchmarks/own_codes.py [--code wave-c|lammps|meep|petsc] [--shares 0.9,0.45] [--pairs 10] [--balance]
                                        [--accuracy 20 [--training-runs 3] [--in-turn] [--repeats]]
                                        [--learn 10 [--series 3]] [--size ROWS] [--iterations N]
                                        [--set ...] [--weight 1024]

The hosts have these shares of a CPU, at most two of them on a CPU. The check measures the code once. Each pair then
runs both ways in changing order, from a copy of the state right after the check, so that no run has learnt from
another. Prints a line for each pair, then the median ratio even / planned, its range, the ideal (the sum of shares
over the number of hosts times the smallest), the share of the ideal gain that was reached, and the mean error of the
predictions.

`--balance` (LAMMPS): every run is cut into two `run` commands of half the steps, and each pair has a third run, from
even pieces, that LAMMPS corrects itself with `fix balance ... weight time`. Compared are the times of the loops of the
second halves, when that has settled.

`--accuracy N`: N planned runs of mixed sizes and iteration counts, from 0.7 to 1.4 times those of the pairs and never
those of the check, each from a copy of one state: that after the check and `--training-runs` runs of the pairs' size
and length. With `--in-turn` all have one state: as in use, a prediction builds on all runs before it, and none on its
own run. Prints the mean of |predicted - observed| / observed. `--repeats` makes a run of the pairs' size and length
after each of them, also from that state: equal runs, whose scatter no prediction made before them can undercut.

`--learn N`: N runs from one state, so that each learns from those before; `--series` repeats that, each time from the
state after the check. Prints the errors of the first and the last run.

Sizes and iteration counts are chosen so that start-up is a small part and the arrays stay small: hosts on one machine
share its memory bus and last cache, which hosts of their own do not, so a larger problem slows them down together.
A host that has used its share is stopped for up to 10 ms, which an iteration must exceed for shares to act like speeds.
`--weight` raises the CPU weight of the whole testbed above that of the machine's other processes, so that the shares
hold on a machine in use. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testbed.description import parse
from tests.testbed.grid import Testbed

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
DESK = "desk"
#: Range of sizes and iteration counts of the runs whose predictions are compared, relative to those of the pairs.
MIXED = (0.7, 1.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """An example. file : its application file.  build : command.  size, iterations : of a run, unless named"""

    file: str
    size: int
    iterations: int
    build: tuple[str, ...] = ()


CODES = {
    "wave-c": Code(
        file="wave2d.yaml",
        size=600,
        iterations=8000,
        build=(str(BIN / "mpicc"), "-O2", "-o", "wave2d", "wave2d.c"),
    ),
    "lammps": Code(file="melt.yaml", size=40, iterations=600),
    "meep": Code(file="dipole.yaml", size=120, iterations=600),
    "petsc": Code(file="diffusion.yaml", size=600, iterations=4000, build=("make", "diffusion")),
}
SCHEDULERS = ("apples", "default")

#: The last line of LAMMPS's input, and both halves that replace it; `own` lets LAMMPS balance itself.
LAST_RUN = "run ${steps}\n"
HALVES = """variable own index 0
variable half equal floor(${steps}/2)
if "${own} > 0" then "fix own all balance 20 1.05 shift z 10 1.02 weight time 1.0"
run ${half}
run ${half}
"""
LOOP = re.compile(r"^Loop time of ([\d.]+) on ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that ended well. loop_s : time of LAMMPS's last loop, NaN of other codes"""

    rows: tuple[int, ...]
    predicted_s: float
    observed_s: float
    loop_s: float

    @property
    def error(self) -> float:
        """Return |predicted - observed| / observed."""
        return abs(self.predicted_s - self.observed_s) / self.observed_s

    def __str__(self) -> str:
        rows = ",".join(map(str, self.rows))
        return f"rows {rows:12} {self.observed_s:6.2f} s (predicted {self.predicted_s:6.2f} s)"


class Runs:
    """Runs of one code from the desk of a testbed that is up. grid : file of hosts and links, None for all hosts"""

    def __init__(
        self, testbed: Testbed, file: Path, options: argparse.Namespace, grid: Path | None = None
    ) -> None:
        self._testbed, self._file, self._options = testbed, file, options
        self._pool = ("-H", ",".join(f"{h.name}:1" for h in testbed.spec.hosts if h.name != DESK))
        if grid is not None:
            self._pool = ("-g", str(grid))

    def check(self, state: Path) -> str:
        """Measure the code; return the text of the check."""
        words = ("apples", "app", "check", str(self._file), str(self._options.size))
        return self.called(state, *words).stdout

    def run(
        self,
        state: Path,
        scheduler: str,
        *,
        scale: tuple[float, float] = (1.0, 1.0),
        file: Path | None = None,
    ) -> Ran:
        """Return a run. scale : of size and iterations.  file : another application file"""
        size, iterations = (
            round(n * by) for n, by in zip((self._options.size, self._options.iterations), scale, strict=True)
        )
        words = (str(size), "--app", str(file or self._file), "--scheduler", scheduler, "--json")
        ended = self.called(state, "apples-run", *words, iterations=iterations)
        document = json.loads(ended.stdout)
        loops = LOOP.findall(ended.stderr)
        return Ran(
            rows=tuple(rank["rows"] for rank in document["hosts"]),
            predicted_s=document["predicted_s"],
            observed_s=document["observed_s"],
            loop_s=float(loops[-1]) if loops else math.nan,
        )

    def called(
        self, state: Path, program: str, *words: str, iterations: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this package over the pool; end the benchmark if it fails."""
        settings = (*self._options.set, f"iterations={iterations or self._options.iterations}")
        given = [word for pair in settings for word in ("-s", pair)]
        command = [str(BIN / program), *words, "--launcher", "ssh", *self._pool, *given]
        ended = self._testbed.run(DESK, "env", f"APPLES_STATE={state}", *command, timeout_s=900)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
        return ended


def described(shares: list[float]) -> dict[str, object]:
    """Return the description of a testbed of a desk and hosts with these shares, spread over two CPUs."""
    hosts = [{"name": f"h{n}", "cpu": share, "cpuset": n % 2} for n, share in enumerate(shares, 1)]
    return {"name": "owncodes", "defaults": {"memory": "2G"}, "hosts": [{"name": DESK, "cpu": 0.5}, *hosts]}


def weigh(testbed: Testbed, weight: int) -> None:
    """Set the CPU weight of all hosts together, beside the machine's other processes (1024: that of one of them)."""
    hosts = [path for host in testbed.spec.hosts for path in testbed.groups.directories(host.name)]
    # Sensors on a host see the weight of its own group, so that has to be the same.
    for directory in [*testbed.groups.directories(), *hosts]:
        for file, value in (("cpu.shares", weight), ("cpu.weight", max(1, weight * 100 // 1024))):
            if (directory / file).exists():
                (directory / file).write_text(str(value))


def spread(values: list[float]) -> str:
    """Return median and range of ratios."""
    return f"median {statistics.median(values):.3f}, from {min(values):.3f} to {max(values):.3f}"


def compare(runs: Runs, work: Path, options: argparse.Namespace, ideal: float, own_file: Path | None) -> None:
    """Run planned and even pieces in turn, and with --balance LAMMPS's own; print each pair and the ratios."""
    ways: dict[str, tuple[str, Path | None]] = {scheduler: (scheduler, None) for scheduler in SCHEDULERS}
    if own_file is not None:
        ways["own"] = ("default", own_file)
    ratios, own_ratios, errors = [], [], []
    for pair in range(options.pairs):
        ran = {}
        for way in sorted(ways, reverse=bool(pair % 2)):
            # The third way has even pieces whatever it has learnt, and is not measured anew for each pair.
            state = work / ("state-own" if way == "own" else f"state-{pair}-{way}")
            if not state.exists():
                shutil.copytree(work / "state", state)
            scheduler, file = ways[way]
            ran[way] = runs.run(state, scheduler, file=file)
        planned, even = (ran[way] for way in SCHEDULERS)
        ratios.append(even.observed_s / planned.observed_s)
        errors += [planned.error, even.error]
        line = f"{pair:3} planned {planned}  even {even}  ratio {ratios[-1]:.3f}"
        if own_file is not None:
            own = ran["own"].loop_s
            own_ratios.append(own / planned.loop_s)
            line += f"  second loop: planned {planned.loop_s:.2f} s, own balance {own:.2f} s, "
            line += f"even {even.loop_s:.2f} s  ratio {own_ratios[-1]:.3f}"
        print(line, flush=True)
    median = statistics.median(ratios)
    print(
        f"{options.code}: even / planned {spread(ratios)}, ideal {ideal:.3f}, {len(ratios)} pairs; "
        f"{median / ideal:.1%} of the ideal ratio, {(median - 1) / (ideal - 1):.1%} of the ideal gain; "
        f"mean error of {len(errors)} predictions {statistics.mean(errors):.1%}"
    )
    if own_ratios:
        print(f"{options.code}: second loop, own balance / planned {spread(own_ratios)}")


def accuracy(runs: Runs, work: Path, options: argparse.Namespace) -> None:
    """Make planned runs of mixed sizes and iteration counts; print the errors of their predictions."""
    low, high = MIXED
    steps = [low + (high - low) * (n + 0.5) / options.accuracy for n in range(options.accuracy)]
    draw = random.Random(20)
    scales = list(zip(draw.sample(steps, len(steps)), draw.sample(steps, len(steps)), strict=True))
    # No run has the size of the check.
    scales = [(high if round(options.size * by) == options.size else by, steps) for by, steps in scales]
    trained = Path(shutil.copytree(work / "state", work / "trained"))
    for _ in range(options.training_runs):
        print(f"training run {runs.run(trained, 'apples')}", flush=True)
    errors, equal = [], []
    for number, scale in enumerate(scales):
        state = trained if options.in_turn else Path(shutil.copytree(trained, work / f"accuracy-{number}"))
        ran = runs.run(state, "apples", scale=scale)
        errors.append(ran.error)
        print(
            f"accuracy {number:3} size {round(options.size * scale[0]):5} iterations "
            f"{round(options.iterations * scale[1]):6} {ran}  error {ran.error:.1%}",
            flush=True,
        )
        if options.repeats:
            equal.append(runs.run(Path(shutil.copytree(trained, work / f"repeat-{number}")), "apples"))
            print(f"repeat   {number:3} {equal[-1]}  error {equal[-1].error:.1%}", flush=True)
    print(
        f"{options.code}: mean error of {len(errors)} predictions {statistics.mean(errors):.1%}, "
        f"median {statistics.median(errors):.1%}, largest {max(errors):.1%}"
    )
    if equal:
        usual_s = statistics.median(ran.observed_s for ran in equal)
        off = [abs(usual_s - ran.observed_s) / ran.observed_s for ran in equal]
        print(
            f"{options.code}: {len(equal)} equal runs, median {usual_s:.2f} s, differ from it by "
            f"{statistics.mean(off):.1%} in the mean, at most {max(off):.1%}; mean error of their predictions "
            f"{statistics.mean(ran.error for ran in equal):.1%}"
        )


def learn(runs: Runs, work: Path, options: argparse.Namespace) -> None:
    """Make series of runs that learn from those before them; print the errors of the first and the last."""
    ends = []
    for series in range(options.series):
        state = Path(shutil.copytree(work / "state", work / f"learning-{series}"))
        errors = []
        for number in range(options.learn):
            ran = runs.run(state, "apples")
            errors.append(ran.error)
            print(f"series {series + 1} run {number + 1:2} {ran}  error {ran.error:.1%}", flush=True)
        ends.append((errors[0], errors[-1]))
    first, last = (statistics.mean(errors) for errors in zip(*ends, strict=True))
    print(
        f"{options.code}: mean error of first runs {first:.1%}, of runs {options.learn} {last:.1%}, {len(ends)} series"
    )


def halved(code: Path) -> Path:
    """Cut LAMMPS's run into halves; return an application file with which LAMMPS balances itself."""
    deck, own = code / "in.melt", code / "own.yaml"
    text = deck.read_text()
    if not text.endswith(LAST_RUN):
        sys.exit(f"{deck} does not end with {LAST_RUN!r}, which --balance replaces")
    deck.write_text(text.removesuffix(LAST_RUN) + HALVES)
    options = '-var, steps, "{{ iterations }}"'
    file = (code / CODES["lammps"].file).read_text()
    if options not in file:
        sys.exit(f"the application file has no {options!r}, after which --balance adds a variable")
    own.write_text(file.replace(options, options + ', -var, own, "1"') + "pieces: even\n")
    return own


def arguments() -> argparse.Namespace:
    """Return the options; size and iterations by the code unless they are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--code", choices=sorted(CODES), default="wave-c")
    parser.add_argument("--shares", default="0.9,0.45")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--balance", action="store_true")
    parser.add_argument("--accuracy", type=int, default=0)
    parser.add_argument("--training-runs", type=int, default=0)
    parser.add_argument("--in-turn", action="store_true")
    parser.add_argument("--repeats", action="store_true")
    parser.add_argument("--learn", type=int, default=0)
    parser.add_argument("--series", type=int, default=1)
    parser.add_argument("--size", type=int)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--weight", type=int, default=1024)
    options = parser.parse_args()
    if options.balance and options.code != "lammps":
        parser.error("--balance is for --code lammps")
    if (options.repeats or options.in_turn or options.training_runs) and not options.accuracy:
        parser.error("--repeats, --in-turn and --training-runs are for --accuracy")
    options.size = options.size or CODES[options.code].size
    options.iterations = options.iterations or CODES[options.code].iterations
    return options


def main() -> None:
    options = arguments()
    shares = [float(share) for share in options.shares.split(",")]
    code = CODES[options.code]
    with tempfile.TemporaryDirectory(prefix="own-codes-") as directory:
        work = Path(directory)
        shutil.copytree(ROOT / "examples" / options.code, work / "code")
        if code.build:
            subprocess.run(code.build, cwd=work / "code", check=True)
        with Testbed(parse(described(shares))) as testbed:
            weigh(testbed, options.weight)
            own_file = halved(work / "code") if options.balance else None
            runs = Runs(testbed, work / "code" / code.file, options)
            print(runs.check(work / "state"), flush=True)
            if options.accuracy:
                accuracy(runs, work, options)
            if options.learn:
                learn(runs, work, options)
            if options.pairs:
                compare(runs, work, options, sum(shares) / len(shares) / min(shares), own_file)


if __name__ == "__main__":
    main()
