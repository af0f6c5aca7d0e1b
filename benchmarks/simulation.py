"""Speed of simulators: the queue's replay of job logs, and the simulated cluster.

    python -m benchmarks simulation queue [LOG ...] [--repeats 5]
    python -m benchmarks simulation cluster

cluster: Tables 3 to 6 of the FCS paper (F4 to F7) with all seeds, seconds by the clock and of all processors.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import numpy as np

from apples.queueing.estimates import Scheme, SimilarJobs
from apples.queueing.jobs import OFF, SELECTIVE
from apples.queueing.replay import make_world
from apples.queueing.settings import QueueSettings
from apples.queueing.state import empty_state
from apples.simulation.batch.batchmachine import Replay, simulate
from apples.simulation.batch.reading import read_trace
from apples.simulation.batch.trace import Trace
from apples_experiments.coscheduled import SCENARIOS, run_scenario
from apples_experiments.coscheduled_runs import compile_once
from apples_experiments.coscheduled_settings import load_settings
from benchmarks.common.report import ROOT, median, say, seconds_of

_PROCESSORS = {"CEA-Curie": 80_640, "RICC": 8_192}
_EXPRESSION = "(wait / estimate)**3 * procs"


def queue(*logs: str, repeats: int = 5) -> None:
    """Print jobs per second of EASY by priority on logs, and bytes per job.

    Times are of the replay alone, with the machine code compiled before; CPU seconds, so that a busy machine counts
    less. The best of the repeats is printed with the median.

    logs: beginnings of file names in `$APPLES_DATA/swf` (default KTH-SP2-sc15 and the whole CEA-Curie)
    """
    folder = Path(os.environ.get("APPLES_DATA") or ROOT.parent / "shared" / "data") / "swf"
    for name in logs or ("KTH-SP2-sc15", "CEA-Curie"):
        paths = sorted(folder.glob(f"{name}*.swf*"))
        if not paths:
            raise SystemExit(
                f"no log {name}* in {folder}; set APPLES_DATA to the data directory, or name another"
            )
        begun = time.process_time()
        trace = read_trace(paths[0])
        read_s = time.process_time() - begun
        known = next(
            (size for start, size in _PROCESSORS.items() if name.startswith(start)), trace.processors
        )
        trace = trace.fitting(known)
        simulate(trace.take(np.arange(min(50, len(trace)))), Replay(switches=OFF))
        say(f"{trace.name}: {len(trace):,} jobs, {known:,} processors; ", end="")
        say(f"{trace.intake.lines:,} lines read in {read_s:.2f} s")
        for line in trace.intake.report():
            say(f"  {line}")
        report(trace, repeats)
    for jobs in (1_000, 1_000_000):
        # Besides the trace itself.
        arrays = (*empty_state(jobs, 1), *make_world(np.zeros(jobs), np.zeros(jobs)))
        say(
            f"memory beside the trace, {jobs:,} jobs: {sum(array.nbytes for array in arrays) / jobs:.0f} bytes a job"
        )


def report(trace: Trace, repeats: int) -> None:
    """Print one line a variant."""
    variants: dict[str, tuple[Replay, bool]] = {
        name: (Replay(queue=QueueSettings(priority=name)), False)
        for name in ("fcfs", "sjf", "wfp", _EXPRESSION)
    }
    variants["fcfs, pyss order"] = Replay(event_order="pyss"), False
    variants["wfp, learning"] = Replay(queue=QueueSettings(priority="wfp"), switches=SELECTIVE), True
    base = None
    for name, (how, learns) in variants.items():

        def replay(how: Replay = how, learns: bool = learns) -> None:
            simulate(trace, how, SimilarJobs(Scheme()) if learns else None)

        took_s = [seconds_of(replay, time.process_time) for _ in range(repeats)]
        base = base or min(took_s)
        say(
            f"  {name:32s} {len(trace) / min(took_s):12,.0f} jobs/s  {min(took_s):8.3f} s "
            f"(median {median(took_s):.3f} s)  {min(took_s) / base:5.2f} × fcfs"
        )


def cluster() -> None:
    """Time every table with all seeds, on all processors of this machine."""
    settings = load_settings().flexible
    compile_once()
    first, load = time.perf_counter(), os.getloadavg()[0]
    for name, make in SCENARIOS.items():
        before = time.perf_counter()
        run_scenario(settings, make(settings), lambda done: None)
        say(f"{name}  {time.perf_counter() - before:6.1f} s")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"all {time.perf_counter() - first:6.1f} s by the clock, {children.ru_utime + children.ru_stime:.0f} s of "
        f"{len(os.sched_getaffinity(0))} processors; load before: {load:.1f}"
    )


PARTS = (queue, cluster)
