"""Cost of time slices: two jobs of two processes, slices of 100 ms, against one job after the other.

    python -m benchmarks switching_cost [--slice 100ms] [--repetitions 5] [--seconds 10]

Every process does a fixed amount of work, so that the effect of a switch on the caches counts, too. Runs with and
without slices alternate. Prints the medians, their ratio, and the CPU time of manager, one node manager and one
watchdog, each as a share of one core.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from apples.daemons.settings import parse_time
from benchmarks.common.hosts import cpu_s
from benchmarks.common.report import (
    in_turns,
    median,
    ratios,
    spread,
)
from benchmarks.common.sharing import daemons_of

#: Work of the first measurement of a process.
TRIAL_TURNS = 20_000_000


def measure(policy: str, slice_s: float, turns: int) -> tuple[float, dict[str, float]]:
    """Return (turnaround of both jobs, CPU seconds in a second of a daemon of each kind) under one policy."""
    with (
        tempfile.TemporaryDirectory(prefix="switching-") as directory,
        daemons_of(policy, Path(directory), {"a": "0", "b": "1"}, slice_s=slice_s) as cluster,
    ):
        assert cluster.manager is not None
        daemons = {
            "manager": [cluster.manager.pid],
            "node manager": [process.pid for process in cluster.nodes.values()],
            "watchdog": [cluster.ask(node, "status")["watchdog"] for node in cluster.cpus],
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
        ended, after = time.monotonic(), used()
        return ended - started, {kind: (after[kind] - before[kind]) / (ended - settled) for kind in daemons}


def main(*, slice: str = "100ms", repetitions: int = 5, seconds: float = 10.0) -> None:
    """Compare jobs in turns with one after the other.

    seconds: of one job, alone
    """
    slice_s = parse_time(slice, what="--slice")
    trial_s, _ = measure("batch", slice_s, TRIAL_TURNS)
    turns = round(TRIAL_TURNS * 2 * seconds / trial_s)
    ran = in_turns(
        {policy: partial(measure, policy, slice_s, turns) for policy in ("batch", "gang")}, repetitions
    )
    batch_s, gang_s = ([took_s for took_s, _ in ran[policy]] for policy in ("batch", "gang"))
    print(
        f"slices of {slice_s * 1e3:g} ms, {repetitions} repetitions: one after the other {spread(batch_s)} s, in turns "
        f"{spread(gang_s)} s: {median(gang_s) / median(batch_s) - 1:+.2%} (ratio of pairs "
        f"{spread(ratios(gang_s, batch_s))}; wanted ≤ 2 %)"
    )
    shares = {kind: median(of[kind] for _, of in ran["gang"]) for kind in ran["gang"][0][1]}
    node = shares["node manager"] + shares["watchdog"]
    text = ", ".join(f"{kind} {share:.3%}" for kind, share in shares.items())
    print(f"of a core, in turns: {text}; on a node {node:.3%} (wanted ≤ 0.3 %)")
