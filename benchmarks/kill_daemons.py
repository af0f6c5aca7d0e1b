"""Effects of failures on coscheduled jobs: manager, node manager or a rank killed with -9, and a cut in the network.

    python benchmarks/kill_daemons.py [--times 20] [--what manager] [--what node] [--what rank] [--what cut]

Each time two jobs of two processes share two nodes in time slices. One part fails and is restored, and both jobs run to
their end. Prints the longest time that a process stayed stopped, and the time until the slot matrix was right again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from apples.errors import SharingError
from apples.testing.localcluster import LocalCluster, kill, state_of

SLICE_S = 0.1
SEED = 1
NODES = {"a": "0", "b": "1"}
JOBS = ("x", "y")
WHAT = ("manager", "node", "rank", "cut")


def slots(cluster: LocalCluster) -> dict[str, int]:
    """Return the slot of each job that is in the matrix."""
    jobs = cluster.view().get("jobs", {})
    return {job: about["slot"] for job, about in jobs.items() if about["slot"] is not None}


def one_time(what: str, dice: random.Random) -> tuple[float, float]:
    """Return (longest time that a process stayed stopped, time until the matrix was right); raises `SharingError`."""
    directory = Path(tempfile.mkdtemp(prefix="kill-"))
    try:
        with LocalCluster(directory, NODES, slice_s=SLICE_S, relayed=what == "cut") as cluster:
            cluster.start()
            jobs = {job: [cluster.spin(job, r, 2, node, 3.0) for r, node in enumerate(NODES)] for job in JOBS}
            cluster.wait(lambda: sorted(slots(cluster).values()) == [0, 1])
            before = slots(cluster)
            time.sleep(dice.uniform(0.2, 0.5))
            happened = time.monotonic()
            stopped_s, wanted = strike(what, cluster, jobs, before)
            mended = max(happened, time.monotonic())
            mend(what, cluster)
            cluster.wait(lambda: slots(cluster) == wanted, within_s=20.0)
            right_s = time.monotonic() - mended
            for job, both in jobs.items():
                for rank, process in enumerate(both):
                    code = process.wait(60)
                    if code != 0 and not (what == "rank" and (job, rank) == ("x", 0)):
                        raise SharingError(f"{job}.{rank} ended with {code}")
            return stopped_s, right_s
    finally:
        shutil.rmtree(directory)


def strike(
    what: str, cluster: LocalCluster, jobs: dict[str, list], before: dict[str, int]
) -> tuple[float, dict[str, int]]:
    """Cause the failure. Return the seconds that processes are stopped from then on, and the expected matrix."""
    everybody = [process for both in jobs.values() for process in both]
    if what == "manager":
        assert cluster.manager is not None
        kill(cluster.manager)
    elif what == "node":
        kill(cluster.nodes["a"])
        everybody = [both[0] for both in jobs.values()]
    elif what == "cut":
        assert cluster.relay is not None
        cluster.relay.cut()
    else:
        # The other rank of the job is terminated, as `mpiexec` does; then the other job has the machine.
        kill(jobs["x"][0])
        jobs["x"][1].terminate()
        jobs["x"][1].send_signal(18)
        jobs["x"][1].wait()
        jobs["x"][1].returncode = 0
        return until_nobody_is_stopped(cluster, jobs["y"]), {"y": 0}
    return until_nobody_is_stopped(cluster, everybody), before


def until_nobody_is_stopped(cluster: LocalCluster, processes: list) -> float:
    """Return the seconds until no process has been stopped for three slices."""
    started = last = time.monotonic()
    while time.monotonic() - last < 3 * SLICE_S:
        if any(state_of(process) == "T" for process in processes):
            last = time.monotonic()
        if last - started > 10.0:
            raise SharingError(f"somebody stays stopped; the daemons said:\n{cluster.log()}")
        time.sleep(0.002)
    return last - started


def mend(what: str, cluster: LocalCluster) -> None:
    """Restore the failed part."""
    acts: dict[str, Callable[[], object]] = {
        "manager": cluster.start_manager,
        "node": lambda: cluster.start_node("a"),
        "cut": lambda: cluster.relay and cluster.relay.mend(),
    }
    acts.get(what, lambda: None)()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--what", action="append", choices=WHAT, help="all of them where none is named")
    options = parser.parse_args()
    # SIGTERM must unwind, so that the daemons end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    dice = random.Random(SEED)
    print(f"{options.times} times each, slices of {SLICE_S * 1e3:g} ms:")
    for what in options.what or WHAT:
        figures, failures = [], []
        for _ in range(options.times):
            try:
                figures.append(one_time(what, dice))
            except SharingError as error:
                failures.append(str(error))
        stopped, right = (sorted(column) for column in zip(*figures, strict=True)) if figures else ([], [])
        if figures:
            middle = len(figures) // 2
            print(
                f"{what:8} stopped for {stopped[middle]:.3f} s (half), {stopped[-1]:.3f} s (most; two slices are "
                f"{2 * SLICE_S:g} s); matrix right after {right[middle]:.2f} s (half), {right[-1]:.2f} s (most; wanted "
                f"≤ 5 s); {len(failures)} failures",
                flush=True,
            )
        for failure in failures:
            print(f"{what:8} {failure}")


if __name__ == "__main__":
    main()
