"""PETSc over six hosts of a testbed: the planner's cut, slabs, the other cut, and even pieces.

    sudo python benchmarks/two_axes.py [--case square|long] [--repeat 5] [--weight 1024]

Two problems, examples/petsc/plate.c both:

*square*: 1200 × 1200 cells with 8 fields, links of 20 Mbit/s. A border of a row is 77 kB, 31 ms on the link, and an
iteration computes about 15 ms on all hosts. Communication counts.
*long*: 4800 rows of 300 cells with 8 fields, links of 100 Mbit/s, and speeds that no grid of ranks matches. A border of
a row is 19 kB, 1.5 ms. Balance counts.

Each repetition runs all variants in changing order, each from a copy of the state right after `apples app check`, so
that no run has learnt from another. Prints the cut, the seconds of the whole run and those between MPI_Init and
MPI_Finalize, their medians, and the medians of the ratios to the planner's own choice. All results must be equal, bit
for bit. `--weight`: see own_codes.py. Needs root, PETSc and Open MPI.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from own_codes import DESK, ROOT, Runs, weigh

from tests.testbed.description import parse
from tests.testbed.grid import Testbed


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


@dataclass(frozen=True)
class Ran:
    """One run. result : the program's line"""

    cut: str
    whole_s: float
    loop_s: float
    predicted_s: float
    result: str


def described(case: Case) -> dict[str, object]:
    """Return the testbed: a desk, and six hosts on two CPUs."""
    hosts = [
        {"name": f"h{n}", "cpu": share, "cpuset": n % 2, "rate": case.rate}
        for n, share in enumerate(case.shares, 1)
    ]
    return {"name": "twoaxes", "defaults": {"memory": "1G"}, "hosts": [{"name": DESK, "cpu": 0.2}, *hosts]}


def grid_file(case: Case, file: Path) -> Path:
    """Write the grid file of the hosts and return its path."""
    hosts = "\n".join(f"  - {{name: h{n}}}" for n in range(1, len(case.shares) + 1))
    file.write_text(
        f"name: two axes\nhosts:\n{hosts}\nlinks:\n"
        f"  default: {{latency: 200us, bandwidth: {case.bandwidth}}}\n"
    )
    return file


def shape(document: dict[str, object]) -> str:
    """Return rows (× cells) of the ranks of a run."""
    hosts = document["hosts"]
    assert isinstance(hosts, list)
    boxes = [f"{h['rows']}×{h['box']['width']}" if h["box"] else str(h["rows"]) for h in hosts]
    return " ".join(boxes)


def run(runs: Runs, state: Path, size: int, variant: str, code: Path) -> Ran:
    """Run a variant once."""
    file, options = VARIANTS[variant]
    words = ("apples-run", str(size), "--app", str(code / file), "--json", *options)
    ended = runs.called(state, *words)
    document = json.loads(ended.stdout)
    found = re.search(r"plate: .*", ended.stderr)
    seen = [h["observed"]["total_s"] for h in document["hosts"] if h["observed"]]
    return Ran(
        cut=shape(document),
        whole_s=document["observed_s"],
        loop_s=max(seen),
        predicted_s=document["predicted_s"],
        result=found[0] if found else "",
    )


def compare(runs: Runs, checked: Path, case: Case, code: Path, repeat: int) -> dict[str, list[Ran]]:
    """Return the runs of all variants, made in turn."""
    words = ("apples-run", str(case.size), "--app", str(code / "plate.yaml"), "--json", "--dry-run")
    chosen = json.loads(runs.called(checked, *words).stdout)["cut"]["kind"]
    print(f"the planner chooses {chosen}", flush=True)
    ran: dict[str, list[Ran]] = {name: [] for name in VARIANTS if name != chosen}
    for number in range(repeat):
        names = list(ran)
        for variant in names[number % len(names) :] + names[: number % len(names)]:
            state = checked.with_name(f"state-{number}-{variant.split()[0]}")
            shutil.copytree(checked, state)
            one = run(runs, state, case.size, variant, code)
            ran[variant].append(one)
            print(
                f"{number} {variant:22} {one.whole_s:6.2f} s, in MPI {one.loop_s:6.2f} s, "
                f"predicted {one.predicted_s:6.2f} s  {one.cut}",
                flush=True,
            )
    return ran


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=sorted(CASES), default="square")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--weight", type=int, default=1024)
    options = parser.parse_args()
    case = CASES[options.case]
    with tempfile.TemporaryDirectory(prefix="two-axes-") as directory:
        work, code = Path(directory), Path(directory, "code")
        shutil.copytree(ROOT / "examples" / "petsc", code)
        subprocess.run(["make", "plate"], cwd=code, check=True, stdout=subprocess.DEVNULL)
        text = RANGES.sub("]", (code / "plate.yaml").read_text())
        text = text.replace('axes: {cut: rectilinear, width: "{{ width }}"}', "pieces: even")
        (code / "even.yaml").write_text(text.replace("name: plate", "name: evenplate"))
        settings = ["fields=8", *case.settings]
        given = argparse.Namespace(size=case.size, iterations=case.iterations, set=settings)
        with Testbed(parse(described(case))) as testbed:
            weigh(testbed, options.weight)
            grid = grid_file(case, work / "grid.yaml")
            checked = work / "state"
            for file in ("even.yaml", "plate.yaml"):
                runs = Runs(testbed, code / file, given, grid)
                print(runs.check(checked), flush=True)
            ran = compare(runs, checked, case, code, options.repeat)
    if any(("×" in one.cut) == ("rectilinear" in ran) for one in ran["planner"]):
        print("the planner did not choose the same each time")
    results = {one.result for of in ran.values() for one in of}
    print(f"results: {', '.join(sorted(results))}")
    for variant, of in ran.items():
        whole, loop = (statistics.median(getattr(o, key) for o in of) for key in ("whole_s", "loop_s"))
        pairs = zip(of, ran["planner"], strict=True)
        ratio = statistics.median(mine.loop_s / other.loop_s for mine, other in pairs)
        print(
            f"{variant:22} median {whole:6.2f} s, in MPI {loop:6.2f} s, ratio to the planner's choice {ratio:.2f}"
        )
    if len(results) != 1 or "" in results:
        sys.exit("the results differ")


if __name__ == "__main__":
    main()
