"""Two jobs that share a processor of the live queue, against the same two jobs one after the other.

    python benchmarks/shared_queue.py [--duty 0.4] [--seconds 10] [--repetitions 3]

Each job computes for a part of every 20 ms, by its own CPU clock, and sleeps for the rest, so it does the same work
beside another job. Both cases alternate. Prints the time from the first start to the last end by the queue's instants.
Exit code 1 if the jobs that share did not run at once, or the others did.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from live_queue import Manager

from apples.errors import SharingError
from apples.livequeue.client import survey
from apples.livequeue.jobs import submit

_WORK = """
import sys, time
duty, seconds = map(float, sys.argv[1:])
for _ in range(round(seconds / 0.02)):
    until = time.process_time() + 0.02 * duty
    while time.process_time() < until:
        pass
    time.sleep(0.02 * (1 - duty))
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duty", type=float, default=0.4)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one job alone")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shared-queue-") as name:
        os.environ["APPLES_STATE"] = str(Path(name) / "state")
        manager = Manager(Path(name), ["--procs", "1"])
        try:
            wait_for_manager()
            return run(options)
        finally:
            manager.end()


def wait_for_manager(limit_s: float = 120.0) -> None:
    until = time.monotonic() + limit_s
    while True:
        try:
            survey()
            return
        except SharingError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def run(options: argparse.Namespace) -> int:
    ratios, as_asked = [], True
    for _ in range(options.repetitions):
        together, apart = pair(options, (options.duty,)), pair(options, ())
        as_asked &= together[1]["beside"] == together[0]["id"] and apart[1]["beside"] is None
        ratios.append(span_s(together) / span_s(apart))
        held = [[f"{job['held_s']:.2f}" for job in jobs] for jobs in (together, apart)]
        print(
            f"together {span_s(together):.2f} s (jobs {' and '.join(held[0])} s), "
            f"one after the other {span_s(apart):.2f} s (jobs {' and '.join(held[1])} s), ratio {ratios[-1]:.2f}"
        )
    print(
        f"2 jobs with duty cycle {options.duty:g} on 1 processor: {statistics.median(ratios):.2f} of the time (median)"
    )
    return 0 if as_asked else 1


def pair(options: argparse.Namespace, duties: tuple[float, ...]) -> list[dict[str, Any]]:
    """Run two jobs to their end, and return their rows."""
    command = [sys.executable, "-c", _WORK, str(options.duty), str(options.seconds)]
    jobs = [submit(command, duties=duties, output="/dev/null") for _ in range(2)]
    for job in jobs:
        job.wait()
    return survey(everything=True)["jobs"][-2:]


def span_s(jobs: list[dict[str, Any]]) -> float:
    """Return the time from the first start to the last end, s."""
    instants = [job["instants"] for job in jobs]
    return max(i["freed_s"] for i in instants) - min(i["start_s"] for i in instants)


if __name__ == "__main__":
    sys.exit(main())
