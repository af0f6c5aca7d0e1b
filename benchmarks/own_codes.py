"""Users' own codes over hosts of a testbed: planned runs against even pieces, errors of predictions, cuts of PETSc.

    sudo python -m benchmarks own_codes pairs [--code wave-c|lammps|meep|petsc] [--shares 0.9 0.45] [--pairs 10]
                                              [--balance] [--size ROWS] [--iterations N] [--weight 1024]
    sudo python -m benchmarks own_codes two-axes [--case square|long] [--repeat 5] [--weight 1024]

The hosts have these shares of a CPU, at most two of them on a CPU. The check measures the code once.

pairs: each pair runs planned and even pieces in changing order, from a copy of the state right after the check, so that
    no run has learnt from another. Prints a line for each pair, then the median ratio even / planned, its range, the
    ideal (the sum of shares over the number of hosts times the smallest), the share of the ideal gain that was reached,
    and the mean error of the predictions. `--balance` (LAMMPS): every run is cut into two `run` commands of half the
    steps, and each pair has a third run, from even pieces, that LAMMPS corrects itself with `fix balance ... weight
    time`. Compared are the times of the loops of the second halves, when that has settled.
two-axes: PETSc (`examples/petsc/plate.c`) over six hosts: the planner's cut, slabs, the other cut, and even pieces, in
    changing order from copies of one state. *square*: 1200 × 1200 cells with 8 fields, links of 20 Mbit/s. A border
    of a row is 77 kB, 31 ms on the link, and an iteration computes about 15 ms on all hosts. Communication counts.
    *long*: 4800 rows of 300 cells with 8 fields, links of 100 Mbit/s, and speeds that no grid of ranks matches. A
    border of a row is 19 kB, 1.5 ms. Balance counts. All results must be equal, bit for bit.

Sizes and iteration counts are chosen so that start-up is a small part and the arrays stay small: hosts on one machine
share its memory bus and last cache, which hosts of their own do not, so a larger problem slows them down together.
A host that has used its share is stopped for up to 10 ms, which an iteration must exceed for shares to act like speeds.
`--weight` raises the CPU weight of the whole testbed above that of the machine's other processes, so that the shares
hold on a machine in use. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.common.hosts import from_desk, make_testbed, names_of, pool_of, settings, weigh
from benchmarks.common.report import BIN, ROOT, median, ratios, say, spread
from tests.testbed.grid import Testbed


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


@dataclass(frozen=True)
class Case:
    """One problem. shares : of a CPU.  rate : of a host's link for tc.  bandwidth : the same in the grid file"""

    shares: tuple[float, ...]
    rate: str
    bandwidth: str
    settings: tuple[str, ...]
    iterations: int
    size: int


CASES = {
    "square": Case(
        (0.4, 0.3, 0.2, 0.2, 0.3, 0.4),
        "20mbit",
        "20Mbit/s",
        ("width=1200",),
        60,
        1200,
    ),
    "long": Case((0.5, 0.4, 0.3, 0.3, 0.2, 0.1), "100mbit", "100Mbit/s", ("width=300",), 100, 4800),
}
#: Variant → application file, and options of the run. The planner's own choice is not run twice.
VARIANTS = {
    "planner": ("plate.yaml", ()),
    "slabs": ("plate.yaml", ("--cut", "slabs")),
    "rectilinear": ("plate.yaml", ("--cut", "rectilinear")),
    "even slabs": ("plate.yaml", ("--scheduler", "default")),
    "PETSc's own even grid": ("even.yaml", ("--scheduler", "default")),
}
#: PETSc divides both axes evenly without ranges.
RANGES = re.compile(r""", -lx, "[^"]*", -ly, "[^"]*"\]""")


def shape(document: dict[str, object]) -> str:
    """Return rows (× cells) of the ranks of a run."""
    hosts = document["hosts"]
    assert isinstance(hosts, list)
    boxes = [f"{h['rows']}×{h['box']['width']}" if h["box"] else str(h["rows"]) for h in hosts]
    return " ".join(boxes)


class Runs:
    """Runs of one code from the desk of a testbed that is up. pool : options that name the hosts"""

    def __init__(
        self, bed: Testbed, file: Path, size: int, iterations: int, pool: tuple[str, ...] = ()
    ) -> None:
        self.file, self.size, self.iterations = file, size, iterations
        self._bed, self._pool, self.values = bed, pool or ("-H", pool_of(names_of(bed))), list[str]()

    def call(
        self, state: Path, program: str, *words: str, by: float = 1.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this package over the pool. by : factor of the iterations"""
        pairs = settings(*self.values, f"iterations={round(self.iterations * by)}")
        return from_desk(self._bed, state, program, *words, "--launcher", "ssh", *self._pool, *pairs)

    def check(self, state: Path) -> None:
        """Measure the code and print the text of the check."""
        say(self.call(state, "apples", "app", "check", str(self.file), str(self.size)).stdout)

    def run(
        self,
        state: Path,
        scheduler: str,
        *,
        scale: tuple[float, float] = (1.0, 1.0),
        file: Path | None = None,
    ) -> Ran:
        """Return a run. scale : of size and iterations.  file : another application file"""
        words = ("--app", str(file or self.file), "--scheduler", scheduler, "--json")
        ended = self.call(state, "apples-run", str(round(self.size * scale[0])), *words, by=scale[1])
        document, loops = json.loads(ended.stdout), LOOP.findall(ended.stderr)
        return Ran(
            rows=tuple(rank["rows"] for rank in document["hosts"]),
            predicted_s=document["predicted_s"],
            observed_s=document["observed_s"],
            loop_s=float(loops[-1]) if loops else math.nan,
        )


@contextmanager
def checked(
    code: str, shares: tuple[float, ...], weight: int, size: int, iterations: int, *, balance: bool = False
) -> Iterator[tuple[Runs, Path]]:
    """Yield runs of a code on hosts with these shares, and a directory in which `state` is that after the check."""
    one = CODES[code]
    hosts = [{"name": f"h{n}", "cpu": share, "cpuset": n % 2} for n, share in enumerate(shares, 1)]
    with (
        tempfile.TemporaryDirectory(prefix="own-codes-") as name,
        make_testbed("owncodes", hosts, memory="2G") as bed,
    ):
        work = Path(name)
        shutil.copytree(ROOT / "examples" / code, work / "code")
        if one.build:
            subprocess.run(one.build, cwd=work / "code", check=True)
        weigh(bed, weight)
        if balance:
            halved(work / "code")
        runs = Runs(bed, work / "code" / one.file, size or one.size, iterations or one.iterations)
        runs.check(work / "state")
        yield runs, work


def pairs(
    *,
    code: Literal["wave-c", "lammps", "meep", "petsc"] = "wave-c",
    shares: tuple[float, ...] = (0.9, 0.45),
    pairs: int = 10,
    balance: bool = False,
    size: int = 0,
    iterations: int = 0,
    weight: int = 1024,
) -> None:
    """Run planned and even pieces in turn, and with --balance LAMMPS's own; print each pair and the ratios."""
    if balance and code != "lammps":
        sys.exit("--balance is for --code lammps")
    ideal, gains, own_ratios, errors = sum(shares) / len(shares) / min(shares), [], [], []
    with checked(code, shares, weight, size, iterations, balance=balance) as (runs, work):
        ways: dict[str, tuple[str, Path | None]] = {scheduler: (scheduler, None) for scheduler in SCHEDULERS}
        if balance:
            ways["own"] = ("default", work / "code" / "own.yaml")
        for pair in range(pairs):
            ran = {}
            for way in sorted(ways, reverse=bool(pair % 2)):
                # The third way has even pieces whatever it has learnt, and is not measured anew for each pair.
                state = work / ("state-own" if way == "own" else f"state-{pair}-{way}")
                if not state.exists():
                    shutil.copytree(work / "state", state)
                ran[way] = runs.run(state, ways[way][0], file=ways[way][1])
            planned, even = (ran[way] for way in SCHEDULERS)
            gains.append(even.observed_s / planned.observed_s)
            errors += [planned.error, even.error]
            say(f"{pair:3} planned {planned}  even {even}  ratio {gains[-1]:.3f}")
            if balance:
                own_ratios.append(ran["own"].loop_s / planned.loop_s)
                say(
                    f"    second loop: planned {planned.loop_s:.2f} s, own balance {ran['own'].loop_s:.2f} s, even "
                    f"{even.loop_s:.2f} s  ratio {own_ratios[-1]:.3f}"
                )
    say(
        f"{code}: even / planned {spread(gains)}, ideal {ideal:.3f}, {len(gains)} pairs; {median(gains) / ideal:.1%} "
        f"of the ideal ratio, {(median(gains) - 1) / (ideal - 1):.1%} of the ideal gain; mean error of {len(errors)} "
        f"predictions {statistics.mean(errors):.1%}"
    )
    if own_ratios:
        say(f"{code}: second loop, own balance / planned {spread(own_ratios)}")


def two_axes(*, case: Literal["square", "long"] = "square", repeat: int = 5, weight: int = 1024) -> None:
    """Compare cuts of PETSc."""
    one = CASES[case]
    hosts = [
        {"name": f"h{n}", "cpu": cpu, "cpuset": n % 2, "rate": one.rate}
        for n, cpu in enumerate(one.shares, 1)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="two-axes-") as directory,
        make_testbed("twoaxes", hosts) as bed,
    ):
        work, code = Path(directory), Path(directory, "code")
        shutil.copytree(ROOT / "examples" / "petsc", code)
        subprocess.run(["make", "plate"], cwd=code, check=True, stdout=subprocess.DEVNULL)
        text = RANGES.sub("]", (code / "plate.yaml").read_text())
        text = text.replace('axes: {cut: rectilinear, width: "{{ width }}"}', "pieces: even")
        (code / "even.yaml").write_text(text.replace("name: plate", "name: evenplate"))
        grid = "\n".join(
            ["name: two axes", "hosts:", *(f"  - {{name: {host['name']}}}" for host in hosts), "links:"]
        )
        (work / "grid.yaml").write_text(
            f"{grid}\n  default: {{latency: 200us, bandwidth: {one.bandwidth}}}\n"
        )
        weigh(bed, weight)
        runs = Runs(bed, code / "even.yaml", one.size, one.iterations, ("-g", str(work / "grid.yaml")))
        runs.values = ["fields=8", *one.settings]
        runs.check(work / "state")
        runs.file = code / "plate.yaml"
        runs.check(work / "state")
        ran = compare_cuts(runs, work, repeat)
    results = {result for of in ran.values() for _, result in of}
    say(f"results: {', '.join(sorted(results))}")
    base = [loop_s for loop_s, _ in ran["planner"]]
    for variant, of in ran.items():
        loops = [loop_s for loop_s, _ in of]
        say(
            f"{variant:22} in MPI {spread(loops, '.2f')} s, ratio to the planner's {median(ratios(loops, base)):.2f}"
        )
    if len(results) != 1 or "" in results:
        sys.exit("the results differ")


def compare_cuts(runs: Runs, work: Path, repeat: int) -> dict[str, list[tuple[float, str]]]:
    """Return (seconds between MPI_Init and MPI_Finalize, the program's line) of the runs of all variants."""
    plan = ("apples-run", str(runs.size), "--app", str(runs.file), "--json", "--dry-run")
    chosen = json.loads(runs.call(work / "state", *plan).stdout)["cut"]["kind"]
    say(f"the planner chooses {chosen}")
    ran: dict[str, list[tuple[float, str]]] = {name: [] for name in VARIANTS if name != chosen}
    for number in range(repeat):
        names = list(ran)
        for variant in names[number % len(names) :] + names[: number % len(names)]:
            state = Path(shutil.copytree(work / "state", work / f"state-{number}-{variant}"))
            file, options = VARIANTS[variant]
            words = (str(runs.size), "--app", str(runs.file.with_name(file)), "--json", *options)
            ended = runs.call(state, "apples-run", *words)
            document, line = json.loads(ended.stdout), re.search(r"plate: .*", ended.stderr)
            loop_s = max(h["observed"]["total_s"] for h in document["hosts"] if h["observed"])
            ran[variant].append((loop_s, line[0] if line else ""))
            say(
                f"{number} {variant:22} {document['observed_s']:6.2f} s, in MPI {loop_s:6.2f} s, predicted "
                f"{document['predicted_s']:6.2f} s  {shape(document)}"
            )
    return ran


PARTS = (pairs, two_axes)
