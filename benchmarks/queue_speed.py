"""Speed and memory of the queue: jobs per second of EASY by priority on the reference logs, and bytes per job.

    python benchmarks/queue_speed.py [--repeats 5] [LOG ...]

LOG is the beginning of a file name in `$APPLES_DATA/swf`; without any, KTH-SP2-sc15 and the whole CEA-Curie. Times are
of the replay alone, with the machine code compiled before; CPU seconds, so that a busy machine counts less. The best of
the repeats is printed with the median.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np

from apples.queueing.estimates import Scheme, SimilarJobs
from apples.queueing.jobs import OFF, SELECTIVE
from apples.queueing.settings import QueueSettings
from apples.queueing.state import empty_state
from apples.simulation.batch.machine import Replay, simulate
from apples.simulation.batch.reading import read_trace
from apples.simulation.batch.replay import make_world
from apples.simulation.batch.trace import Trace

_ROOT = Path(__file__).resolve().parent.parent
_PROCESSORS = {"CEA-Curie": 80_640, "RICC": 8_192}
_EXPRESSION = "(wait / estimate)**3 * procs"


def replay_s(trace: Trace, how: Replay, learn: bool) -> float:
    """Return CPU seconds of one replay."""
    begun = time.process_time()
    simulate(trace, how, SimilarJobs(Scheme()) if learn else None)
    return time.process_time() - begun


def report(trace: Trace, repeats: int) -> None:
    variants = [
        (name, Replay(queue=QueueSettings(priority=name)), False)
        for name in ("fcfs", "sjf", "wfp", _EXPRESSION)
    ]
    variants.append(("fcfs, pyss order", Replay(event_order="pyss"), False))
    variants.append(("wfp, learning", Replay(queue=QueueSettings(priority="wfp"), switches=SELECTIVE), True))
    base = None
    for name, how, learn in variants:
        taken = [replay_s(trace, how, learn) for _ in range(repeats)]
        best, median = min(taken), statistics.median(taken)
        base = base or best
        print(
            f"  {name:32s} {len(trace) / best:12,.0f} jobs/s  {best:8.3f} s (median {median:.3f} s)  "
            f"{best / base:5.2f} × fcfs"
        )


def bytes_per_job(jobs: int) -> float:
    """Return the bytes per job that a replay allocates besides the trace itself."""
    state, world = empty_state(jobs, 1), make_world(np.zeros(jobs), np.zeros(jobs))
    return sum(array.nbytes for array in (*state, *world)) / jobs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="*", default=["KTH-SP2-sc15", "CEA-Curie"], metavar="LOG")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = Path(os.environ.get("APPLES_DATA") or _ROOT.parent / "shared" / "data") / "swf"
    for name in options.logs:
        paths = sorted(folder.glob(f"{name}*.swf*"))
        if not paths:
            raise SystemExit(
                f"no log {name}* in {folder}; set APPLES_DATA to the data directory, or name another"
            )
        begun = time.process_time()
        trace = read_trace(paths[0])
        read = time.process_time() - begun
        known = next(
            (size for start, size in _PROCESSORS.items() if name.startswith(start)), trace.processors
        )
        trace = trace.fitting(known)
        simulate(trace.take(np.arange(min(50, len(trace)))), Replay(switches=OFF))
        print(
            f"{trace.name}: {len(trace):,} jobs, {known:,} processors; "
            f"{trace.intake.lines:,} lines read in {read:.2f} s"
        )
        for line in trace.intake.report():
            print(f"  {line}")
        report(trace, options.repeats)
    for jobs in (1_000, 1_000_000):
        print(f"memory beside the trace, {jobs:,} jobs: {bytes_per_job(jobs):.0f} bytes a job")


if __name__ == "__main__":
    main()
