"""Compile all kernels into numba's caches, so that no test and no first run waits for the compiler.

    python scripts/warm_kernels.py [GROUP …]

Without groups all are compiled, two at a time. Prints one line for each; a second run only loads them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

#: Group -> program that calls each of its kernels once, longest first.
GROUPS = {
    "applications": "sys.argv = ['stencil-app', 'warm']; from stencil_app.cli import main; main()",
    # In one process: two that compile the same kernel at once would overwrite each other's index of numba's cache.
    "queues": """
from pathlib import Path
from apples.cli.toolbox import toolbox
from apples.queueing.easyqueue import warm
trace = Path("small.swf")
trace.write_text("".join(f"{n} {n} -1 60 4 -1 -1 4 100 -1 1 {n} 1 -1 -1 -1 -1 -1\\n" for n in (1, 2, 3)))
for more in ((), ("--event-order", "pyss", "--estimates", "request")):
    toolbox.main(["simulate-queue", str(trace), "--procs", "4", *more], standalone_mode=False)
warm()
""",
    "forecasters": """
from pathlib import Path
from nws.client import LocalWeather
from nws.series import Measurement, Series
from nws.server.serve import warm_up
warm_up()
with LocalWeather(Path("weather.db"), sensors=[]) as weather:
    weather.record([Measurement(Series.parse("cpu.new@here"), float(t), 0.5) for t in range(3)])
    weather.forecasts()
""",
    "simulated cluster": """
from apples_experiments.cluster.constants import free_of_cost
from apples_experiments.cluster.simulation import simulate
from apples_experiments.cluster.workload import BspJob
machine = free_of_cost(nodes=2, processors=1, ticks_per_s=1000)
ring = BspJob(name="ring", nodes=(0, 1), compute_s=(1e-3, 1e-3), iterations=10, latency_s=1e-4)
simulate(machine, [ring], "fcs", seed=1)
""",
}


def warm(name: str) -> tuple[str, int, float, str]:
    """Run one group's program. Return its name, exit code, duration in seconds and error text."""
    begun = time.monotonic()
    root = Path(__file__).resolve().parent.parent
    program = f"import sys; sys.path.insert(0, {str(root)!r})\n{GROUPS[name]}"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    return name, done.returncode, time.monotonic() - begun, done.stderr


def main() -> int:
    """Compile the groups; return 1 if one fails."""
    parser = argparse.ArgumentParser(description="Compile kernels into numba's caches.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default all")
    groups = parser.parse_args().groups or list(GROUPS)
    if unknown := [name for name in groups if name not in GROUPS]:
        parser.error(f"unknown group: {', '.join(unknown)}; legal are {', '.join(GROUPS)}")
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for name, code, seconds, error in pool.map(warm, groups):
            print(f"kernels of the {name}: {seconds:.0f} s", flush=True)
            if code:
                failed = 1
                print(error, file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
