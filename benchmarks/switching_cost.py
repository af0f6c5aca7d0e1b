"""Cost of time slices: two jobs of two processes, slices of 100 ms, against one job after the other.

    python benchmarks/switching_cost.py [--slice 100ms] [--repetitions 5] [--seconds 10]

Every process does a fixed amount of work, so that the effect of a switch on the caches counts, too. Runs with and
without slices alternate. Prints the medians, their ratio, and the CPU time of manager, one node manager and one
watchdog, each as a share of one core.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from apples.daemons.settings import parse_time
from apples.testing.localcluster import LocalCluster

#: Work of the first measurement of a process.
TRIAL_TURNS = 20_000_000


def cpu_s(pid: int) -> float:
    """Return CPU seconds of a process, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) * 1e-9


def measure(policy: str, slice_s: float, turns: int) -> tuple[float, dict[str, float]]:
    """Return (turnaround of both jobs, CPU seconds in a second of a daemon of each kind) under one policy."""
    directory = Path(tempfile.mkdtemp(prefix="switching-"))
    try:
        with LocalCluster(directory, {"a": "0", "b": "1"}, policy=policy, slice_s=slice_s) as cluster:
            cluster.start()
            cluster.wait(lambda: cluster.view().get("settled"))
            assert cluster.manager is not None
            watchdogs = [cluster.ask(node, "status")["watchdog"] for node in cluster.cpus]
            daemons = {
                "manager": [cluster.manager.pid],
                "node manager": [process.pid for process in cluster.nodes.values()],
                "watchdog": watchdogs,
            }

            def used() -> dict[str, float]:
                return {kind: statistics.fmean(map(cpu_s, pids)) for kind, pids in daemons.items()}

            started = time.monotonic()
            processes = [
                cluster.spin(job, rank, 2, node, f"{turns}turns")
                for job in ("x", "y")
                for rank, node in enumerate(cluster.cpus)
            ]
            # The cost of starting and of queries is not part of the cost of slices.
            before, settled = used(), time.monotonic()
            for process in processes:
                process.wait()
            ended = time.monotonic()
            after = used()
            return ended - started, {
                kind: (after[kind] - before[kind]) / (ended - settled) for kind in daemons
            }
    finally:
        shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", default="100ms")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one job, alone")
    options = parser.parse_args()
    # SIGTERM must unwind, so that the daemons end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    slice_s = parse_time(options.slice, what="--slice")
    trial, _ = measure("batch", slice_s, TRIAL_TURNS)
    turns = round(TRIAL_TURNS * 2 * options.seconds / trial)
    found: dict[str, list[tuple[float, dict[str, float]]]] = {"batch": [], "gang": []}
    for _ in range(options.repetitions):
        for policy, figures in found.items():
            figures.append(measure(policy, slice_s, turns))
            print(
                f"{policy:6} turnaround {figures[-1][0]:.3f} s, of a core: {told(figures[-1][1])}",
                flush=True,
            )
    alone, turn = (statistics.median(t for t, _ in found[policy]) for policy in ("batch", "gang"))
    shares = [of for _, of in found["gang"]]
    daemons = {kind: statistics.median(of[kind] for of in shares) for kind in shares[0]}
    ratios = sorted(g / b - 1 for (g, _), (b, _) in zip(found["gang"], found["batch"], strict=True))
    print(
        f"slices of {slice_s * 1e3:g} ms, {options.repetitions} repetitions, medians: one after the other "
        f"{alone:.3f} s, in turns {turn:.3f} s: {turn / alone - 1:+.2%} (pairs {ratios[0]:+.2%} … "
        f"{ratios[-1]:+.2%}; wanted ≤ 2 %)"
    )
    node = daemons["node manager"] + daemons["watchdog"]
    print(f"of a core, in turns: {told(daemons)}; on a node {node:.3%} (wanted ≤ 0.3 %)")


def told(shares: dict[str, float]) -> str:
    """Return shares as text."""
    return ", ".join(f"{kind} {share:.3%}" for kind, share in shares.items())


if __name__ == "__main__":
    main()
