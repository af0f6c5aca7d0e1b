"""Accuracy of `apples advise` on left-out sizes and numbers of hosts, beside Extra-P's from the same runs.

    sudo python -m benchmarks advice_accuracy [--codes mhd heat lammps] [--shares 0.42 0.36 ...] [--weight 65536]
                                              [--same 3] [--seed 1] [--launches 5] [--out DIRECTORY]

Real runs over hosts of a testbed with these shares of a CPU. Each code runs once at six sizes on four hosts, and once
on one to six hosts at one size. Each of these runs is predicted by `apples advise` from a state that holds the
benchmarks and some of the other five runs of its axis: as many, evenly spread, that these and all launches of
benchmarks are at most `--launches`; 0 gives it all five. Extra-P (PyPI `extrap`, its basic modeller, with negative
exponents for numbers of hosts) always gets the wall times of all five, the fewest that it accepts. No run learns from
another: each starts from a copy of the state right after the benchmarks. The run at the crossing of both axes is
repeated: the noise floor. `--weight` raises the testbed's CPU weight above that of the machine's other processes.
Runs kept in `--out` are not repeated, only predicted again. Needs root, as tests/testbed does. Prints each prediction,
then medians and the part of runs within their range (8 of 10 should be).
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
import shutil
import statistics
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.common.hosts import from_desk, make_testbed, names_of, pool_of, settings, weigh
from benchmarks.common.report import ROOT, median, say
from tests.testbed.grid import Testbed

#: Hosts of the runs of all sizes, and the place of the size that runs on all numbers of hosts.
HOSTS, MIDDLE = 4, 3
AXES = ("size", "hosts")


@dataclass(frozen=True)
class Code:
    """One code. words : its options of `apples advise` and `apples-run`.  sizes : rows of its runs"""

    words: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def middle(self) -> tuple[int, int]:
        """Return the run at the crossing of both axes."""
        return self.sizes[MIDDLE], HOSTS


SIZES = (80, 112, 144, 176, 208, 256)
CODES = {
    "mhd": Code(("-a", "mhd3d", *settings("nx=32", "ny=32", "iterations=300")), SIZES),
    "heat": Code(("-a", "heat", *settings("nx=384", "ny=384", "iterations=800")), SIZES),
    "lammps": Code(
        ("--app", "lammps/melt.yaml", *settings("iterations=400")),
        (20, 28, 36, 44, 52, 64),
    ),
}


class Pool:
    """The hosts of a testbed that is up, used from its desk."""

    def __init__(self, testbed: Testbed, work: Path) -> None:
        self.testbed, self.work, self.examples = testbed, work, work / "examples"
        shutil.copytree(ROOT / "examples/lammps", self.examples / "lammps", dirs_exist_ok=True)
        self.names = names_of(testbed)

    def call(self, state: Path, *words: str) -> str:
        """Return the output of a command over all hosts; end the program if it fails."""
        # Programs leave files beside their input.
        words = tuple(str(self.examples / w) if w.endswith(".yaml") else w for w in words)
        more = ("--launcher", "ssh", "-H", pool_of(self.names))
        return from_desk(self.testbed, state, *words, *more, timeout_s=300).stdout

    def state(self, of: Path, records: list[Path]) -> Path:
        """Return a copy of a state with these records only."""
        made = Path(tempfile.mkdtemp(dir=self.work, prefix="state-")) / "state"
        shutil.copytree(of, made, ignore=shutil.ignore_patterns("history"))
        (made / "history").mkdir()
        for file in records:
            shutil.copy(file, made / "history")
        return made


def measured(pool: Pool, name: str, options: SimpleNamespace) -> list[dict[str, Any]]:
    """Return the runs of a code in a random order, after its benchmarks; those that are kept are not repeated."""
    code, base, file = CODES[name], pool.work / name, pool.work / f"{name}.json"
    if file.exists():
        runs: list[dict[str, Any]] = json.loads(file.read_text())
    else:
        calibrate(pool, code, base)
        runs = []
    points = [(size, HOSTS) for size in code.sizes]
    points += [(code.middle[0], n) for n in range(1, len(pool.names) + 1) if n != HOSTS]
    points += [code.middle] * (options.same - 1)
    random.Random(options.seed).shuffle(points)
    for size, hosts in points[len(runs) :]:
        state = pool.state(base, [])
        document = json.loads(pool.call(state, "apples-run", str(size), *run_words(code, hosts)))
        (record,) = (state / "history").iterdir()
        kept = f"{name}-{record.name}"
        shutil.copy(record, pool.work / kept)
        again = sum((r["size"], r["hosts"]) == (size, hosts) for r in runs)
        seconds = document["observed_s"]
        runs.append({"size": size, "hosts": hosts, "again": again, "seconds": seconds, "record": kept})
        file.write_text(json.dumps(runs), encoding="utf-8")
        say(f"{name:7} {size:4} on {hosts}: {seconds:6.2f} s")
    return runs


def calibrate(pool: Pool, code: Code, state: Path) -> None:
    """Measure the benchmarks of all sizes: for a user's program those of the middle one serve all."""
    if code.words[0] == "--app":
        pool.call(state, "apples", "app", "check", code.words[1], str(code.middle[0]), *code.words[2:])
        return
    classes = {round(math.log2(size / len(pool.names))): size for size in code.sizes}
    for size in classes.values():
        pool.call(state, "apples", "calibrate", str(size), *code.words)


def run_words(code: Code, hosts: int) -> tuple[str, ...]:
    return (*code.words, "--ranks", str(hosts), "--json")


def targets(code: Code, runs: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Return each axis, run to predict and its training runs."""
    first = [run for run in runs if not run["again"]]
    size, hosts = code.middle
    lines = {
        "size": sorted((r for r in first if r["hosts"] == hosts), key=lambda r: r["size"]),
        "hosts": sorted((r for r in first if r["size"] == size), key=lambda r: r["hosts"]),
    }
    return [(axis, run, [r for r in lines[axis] if r is not run]) for axis in AXES for run in lines[axis]]


def advised(pool: Pool, name: str, target: dict[str, Any], training: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the plan of `apples advise` for a run, from a state with the benchmarks and these runs."""
    state = pool.state(pool.work / name, [pool.work / run["record"] for run in training])
    words = run_words(CODES[name], target["hosts"])
    document = json.loads(pool.call(state, "apples", "advise", str(target["size"]), *words))
    (offer,) = (o for o in document["offers"] if o["ranks"] == target["hosts"])
    return dict(offer)


def fewer(pool: Pool, name: str, training: list[dict[str, Any]], launches: int) -> list[dict[str, Any]]:
    """Return so many of the training runs, evenly spread, that all launches of benchmarks and they are `launches`."""
    if not launches:
        return training
    return evenly(training, max(launches - benchmark_launches(pool, name), 1))


def benchmark_launches(pool: Pool, name: str) -> int:
    """Return the launches that made the benchmarks in a state: a user's program is started four times."""
    kept = len(list((pool.work / name / "benchmarks").iterdir()))
    return 4 if CODES[name].words[0] == "--app" else kept


def evenly(items: list[Any], count: int) -> list[Any]:
    """Return `count` items, evenly spread."""
    return [items[round((k + 0.5) * len(items) / count - 0.5)] for k in range(min(count, len(items)))]


def extrap(axis: str, target: dict[str, Any], training: list[dict[str, Any]]) -> float:
    """Return Extra-P's prediction from the wall times of these runs."""
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.modelers.single_parameter.basic import SingleParameterModeler

    modeler = SingleParameterModeler()
    modeler.allow_negative_exponents = axis == "hosts"
    points = [Measurement(Coordinate(run[axis]), None, None, [run["seconds"]]) for run in training]
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        model = modeler.create_model(points)
    return float(model.hypothesis.function.evaluate(target[axis]))


def predicted(pool: Pool, name: str, runs: list[dict[str, Any]], launches: int) -> list[dict[str, Any]]:
    """Return a line for each left-out run."""
    lines = []
    for axis, target, training in targets(CODES[name], runs):
        offer = advised(pool, name, target, fewer(pool, name, training, launches))
        seconds, other = target["seconds"], extrap(axis, target, training)
        line = {"code": name, "axis": axis, **target, "offer": offer, "extrap": other}
        line |= {
            "error": offer["predicted_s"] / seconds - 1,
            "extrap_error": other / seconds - 1,
            "inside": offer["low_s"] <= seconds <= offer["high_s"],
        }
        lines.append(line)
        say(
            f"{name:7} left out {axis:5} {target['size']:4} on {target['hosts']}: {seconds:6.2f} s, advise "
            f"{offer['predicted_s']:6.2f} s ({offer['low_s']:.2f} … {offer['high_s']:.2f}) {line['error']:+6.1%}, "
            f"Extra-P {other:6.2f} s {line['extrap_error']:+6.1%}"
        )
    return lines


def report(lines: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]]) -> None:
    """Print medians of absolute errors and the coverage of ranges, and the noise floor of each code."""
    for name, ran in runs.items():
        same = [r["seconds"] for r in ran if (r["size"], r["hosts"]) == CODES[name].middle]
        stray = median(abs(s / median(same) - 1) for s in same)
        print(f"{name}: noise floor, {len(same)} equal runs: median deviation {stray:.1%}")
    groups = {f"{c} {a}": [x for x in lines if (x["code"], x["axis"]) == (c, a)] for c in runs for a in AXES}
    groups |= {a: [x for x in lines if x["axis"] == a] for a in AXES} | {"all": lines}
    for label, part in groups.items():
        ours, theirs = (median(abs(x[key]) for x in part) for key in ("error", "extrap_error"))
        inside = statistics.fmean(x["inside"] for x in part)
        print(
            f"{label:14} {len(part):3} left out: median error {ours:5.1%}, Extra-P {theirs:5.1%} "
            f"(ratio {ours / theirs:.2f}), within the range {inside:.0%}"
        )


def main(
    *,
    codes: tuple[str, ...] = ("mhd", "heat", "lammps"),
    shares: tuple[float, ...] = (0.42, 0.36, 0.3, 0.24, 0.18, 0.14),
    weight: int = 65536,
    same: int = 3,
    seed: int = 1,
    launches: int = 5,
    out: Path | None = None,
) -> None:
    """Measure, predict and report.

    out: keep states, records and predictions here
    """
    options, lines, runs = SimpleNamespace(same=same, seed=seed), [], {}
    hosts = [{"name": f"h{n}", "cpu": share, "cpuset": n % 2} for n, share in enumerate(shares, 1)]
    with contextlib.ExitStack() as stack:
        work = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="advice-accuracy-")))
        work.mkdir(exist_ok=True)
        bed = stack.enter_context(make_testbed("advice", hosts, memory="2G"))
        weigh(bed, weight)
        pool = Pool(bed, work)
        for name in codes:
            runs[name] = measured(pool, name, options)
            lines += predicted(pool, name, runs[name], launches)
        (work / "lines.json").write_text(json.dumps(lines, indent=1), encoding="utf-8")
    report(lines, runs)
