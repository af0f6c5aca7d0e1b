"""Cost of a launch: the wrapper per rank, the parent-death wrapper once, a whole run through the launcher.

    python benchmarks/launch_cost.py [--repeats 20] [--ranks 1,2,4]

Each line compares two commands that alternate, so that other load on the machine affects both. It prints the
median, 10th and 90th percentile of each in milliseconds, and their difference per rank.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from apples.launching import mpirun
from apples.launching.command import BARE, RANK_WRAPPER, with_parent_death
from apples.launching.mpirun import HostAccess
from apples.launching.preflight import find_mpiexec
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Assignment, Plan
from apples.model.template import Workload


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def summary(samples: list[float]) -> str:
    tenths = statistics.quantiles(samples, n=10)
    return f"{1e3 * statistics.median(samples):6.1f} ({1e3 * tenths[0]:.1f}-{1e3 * tenths[-1]:.1f})"


def compare(
    name: str, actions: tuple[Callable[[], object], Callable[[], object]], repeats: int, ranks: int
) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for action, samples in zip(actions, times, strict=True):
            samples.append(seconds(action))
    plain, ours = (statistics.median(samples) for samples in times)
    print(
        f"{name:28} ranks {ranks:2}  plain {summary(times[0])} ms  ours {summary(times[1])} ms  "
        f"ratio {ours / plain:.1f}  extra {1e3 * (ours - plain) / ranks:.1f} ms a rank",
        flush=True,
    )


def command(words: list[str]) -> Callable[[], object]:
    return lambda: subprocess.run(words, check=True)


def whole_run(directory: Path, ranks: int) -> Callable[[], object]:
    chain = tuple(
        Assignment(rank=r, host="localhost", slot=r, rows=1, compute_s=0.0, communicate_s=0.0, overhead_s=0.0)
        for r in range(ranks)
    )
    times = {"predicted_s": 0.0, "low_s": 0.0, "high_s": 0.0}
    plan = Plan(scheduler="none", application="none", size=ranks, model="none", assignments=chain, **times)
    request = LaunchRequest(
        plan=plan,
        workload=Workload(application="none", size=ranks),
        command=("true",),
        run_dir=directory,
    )
    return lambda: mpirun.run(request, HostAccess(here=True), print)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--ranks", default="1,2,4")
    options = parser.parse_args()
    mpiexec = find_mpiexec()
    with tempfile.TemporaryDirectory() as directory:
        for ranks in map(int, options.ranks.split(",")):
            plain = [mpiexec, "-n", str(ranks), "true"]
            wrapper = [
                *plain[:3],
                sys.executable,
                *BARE,
                str(RANK_WRAPPER),
                directory,
                f"localhost:{ranks}",
                "--",
                "true",
            ]
            compare("rank wrapper", (command(plain), command(wrapper)), options.repeats, ranks)
            compare(
                "parent-death wrapper",
                (command(plain), command(with_parent_death(plain, os.getpid()))),
                options.repeats,
                ranks,
            )
            run = whole_run(Path(directory), ranks)
            compare("whole run", (command(plain), run), options.repeats, ranks)


if __name__ == "__main__":
    main()
