"""Users' own codes over hosts of a testbed: gain of the first planned run after `apples app check` over even pieces.

    sudo python benchmarks/own_codes.py [--code wave-c|lammps|meep|petsc] [--shares 0.9,0.45] [--pairs 10]
                                        [--size 600] [--set ...] [--learn 10] [--weight 1024]

The hosts have these shares of a CPU, at most two of them on a CPU. The check measures the code once. Each pair then
runs both ways in changing order, from a copy of the state right after the check, so that no run has learnt from
another. Prints a line for each pair, then the median ratio even / planned, its range, the ideal (the sum of shares
over the number of hosts times the smallest), and the mean error of the predictions. `--learn N` then runs N times from
one state, so that each run learns from those before. `--weight` raises the CPU weight of the whole testbed above that
of the machine's other processes, so that the shares hold on a machine in use. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testbed.description import parse
from tests.testbed.grid import Testbed

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
DESK = "desk"
#: Code → its application file, and the command that builds it.
CODES = {
    "wave-c": ("wave2d.yaml", [str(BIN / "mpicc"), "-O2", "-o", "wave2d", "wave2d.c"]),
    "lammps": ("melt.yaml", []),
    "meep": ("dipole.yaml", []),
    "petsc": ("diffusion.yaml", ["make"]),
}
SCHEDULERS = ("apples", "default")


class Runs:
    """Runs of one code from the desk of a testbed that is up. grid : file of hosts and links, None for all hosts"""

    def __init__(
        self, testbed: Testbed, file: Path, options: argparse.Namespace, grid: Path | None = None
    ) -> None:
        self._testbed, self._file, self._size = testbed, file, str(options.size)
        self._pool = ("-H", ",".join(f"{h.name}:1" for h in testbed.spec.hosts if h.name != DESK))
        if grid is not None:
            self._pool = ("-g", str(grid))
        self._settings = [word for pair in options.set for word in ("-s", pair)]

    def check(self, state: Path) -> str:
        """Measure the code; return the text of the check."""
        return self.called(state, "apples", "app", "check", str(self._file), self._size).stdout

    def run(self, state: Path, scheduler: str) -> dict[str, object]:
        """Return the document of a run."""
        words = ("apples-run", self._size, "--app", str(self._file), "--scheduler", scheduler, "--json")
        document: dict[str, object] = json.loads(self.called(state, *words).stdout)
        return document

    def called(self, state: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this package over the pool; end the benchmark if it fails."""
        command = [str(BIN / program), *words, "--launcher", "ssh", *self._pool, *self._settings]
        ended = self._testbed.run(DESK, "env", f"APPLES_STATE={state}", *command, timeout_s=600)
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


def error_of(document: dict[str, object]) -> float:
    """Return the relative error of the prediction of a run."""
    predicted, observed = (float(str(document[key])) for key in ("predicted_s", "observed_s"))
    return abs(predicted - observed) / observed


def line_of(document: dict[str, object]) -> str:
    """Return rows, observed and predicted seconds of a run."""
    hosts = document["hosts"]
    assert isinstance(hosts, list)
    rows = ",".join(str(rank["rows"]) for rank in hosts)
    predicted, observed = (float(str(document[key])) for key in ("predicted_s", "observed_s"))
    return f"rows {rows:12} {observed:6.2f} s (predicted {predicted:6.2f} s)"


def compare(runs: Runs, checked: Path, work: Path, pairs: int) -> tuple[list[float], list[float]]:
    """Run planned and even pieces in turn; return even / planned of each pair and the errors of all predictions."""
    ratios, errors = [], []
    for pair in range(pairs):
        ran = {}
        for scheduler in SCHEDULERS if pair % 2 else SCHEDULERS[::-1]:
            state = Path(shutil.copytree(checked, work / f"state-{pair}-{scheduler}"))
            ran[scheduler] = runs.run(state, scheduler)
        planned, even = (float(str(ran[s]["observed_s"])) for s in SCHEDULERS)
        ratios.append(even / planned)
        errors += [error_of(ran[s]) for s in SCHEDULERS]
        print(
            f"{pair:3} planned {line_of(ran['apples'])}  even {line_of(ran['default'])}  ratio {even / planned:.3f}",
            flush=True,
        )
    return ratios, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--code", choices=sorted(CODES), default="wave-c")
    parser.add_argument("--shares", default="0.9,0.45")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--size", type=int, default=600)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--learn", type=int, default=0)
    parser.add_argument("--weight", type=int, default=1024)
    options = parser.parse_args()
    shares = [float(share) for share in options.shares.split(",")]
    name, build = CODES[options.code]
    with tempfile.TemporaryDirectory(prefix="own-codes-") as directory:
        work = Path(directory)
        shutil.copytree(ROOT / "examples" / options.code, work / "code")
        if build:
            subprocess.run(build, cwd=work / "code", check=True)
        with Testbed(parse(described(shares))) as testbed:
            weigh(testbed, options.weight)
            runs, checked = Runs(testbed, work / "code" / name, options), work / "state"
            print(runs.check(checked), flush=True)
            ratios, errors = compare(runs, checked, work, options.pairs)
            for number in range(options.learn):
                ran = runs.run(checked, "apples")
                print(f"learning, run {number + 1:2} {line_of(ran)}  error {error_of(ran):.1%}", flush=True)
    if ratios:
        ideal = sum(shares) / len(shares) / min(shares)
        print(
            f"{options.code}: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}, "
            f"ideal {ideal:.3f}, {len(ratios)} pairs; "
            f"mean error of {len(errors)} predictions {statistics.mean(errors):.1%}"
        )


if __name__ == "__main__":
    main()
