"""Run times over several hosts with MPICH's network modules UCX (its default) and OFI, in pairs.

    sudo python benchmarks/network_module.py [--pairs 10] [--loaded]

The C program of examples/wave-c runs on even pieces over the four hosts of tests/testbed/wan4.yaml, with a busy process
on each with --loaded. Prints a line for each run, then the median time with each module and their ratio. Needs root, as
tests/testbed does.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.adaptation import compiled
from benchmarks.burners import burning
from tests.testbed.description import load
from tests.testbed.grid import Testbed

ROOT = Path(__file__).parents[1]
APPLES_RUN = str(Path(sys.executable).with_name("apples-run"))
MODULES = ("ucx", "ofi")
ROWS, ITERATIONS = 4000, 200


def one_run(bed: Testbed, hosts: list[str], app: Path, module: str, state: Path) -> float:
    """Return the seconds of a run with this network module."""
    words = [
        APPLES_RUN,
        f"{ROWS}",
        "--app",
        f"{app}",
        "-s",
        f"iterations={ITERATIONS}",
        "--time-limit",
        "10m",
        "--json",
    ]
    words += ["--launcher", "ssh", "-H", ",".join(f"{host}:1" for host in hosts), "--scheduler", "default"]
    command = bed.command("desk", ["env", f"MPIR_CVAR_CH4_NETMOD={module}", f"APPLES_STATE={state}", *words])
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    return float(json.loads(ended.stdout)["observed_s"])


def main() -> None:
    """Run the pairs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--loaded", action="store_true")
    options = parser.parse_args()
    rng = random.Random(1)
    times: dict[str, list[float]] = {module: [] for module in MODULES}
    with (
        tempfile.TemporaryDirectory(prefix="network-module-") as scratch,
        Testbed(load(ROOT / "tests/testbed/wan4.yaml")) as bed,
    ):
        app = compiled(Path(scratch))
        hosts = [host.name for host in bed.spec.hosts if host.name != "desk"]
        with burning(bed, dict.fromkeys(hosts, int(options.loaded))):
            for turn in range(options.pairs):
                for module in rng.sample(MODULES, len(MODULES)):
                    times[module].append(one_run(bed, hosts, app, module, Path(scratch) / module))
                    print(f"{turn:3} {module} {times[module][-1]:6.2f} s", flush=True)
    medians = {module: statistics.median(values) for module, values in times.items()}
    print(", ".join(f"{module} {median:.2f} s" for module, median in medians.items()))
    print(f"ofi / ucx {medians['ofi'] / medians['ucx']:.2f}, of pairs ", end="")
    ratios = sorted(ofi / ucx for ofi, ucx in zip(times["ofi"], times["ucx"], strict=True))
    print(", ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
