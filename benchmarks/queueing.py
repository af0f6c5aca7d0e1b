"""Speed and memory of the queue's replay, and two jobs on one processor in the live queue.

python -m benchmarks queueing speed [LOG ...] [--repeats 5]
python -m benchmarks queueing shared [--duty 0.4] [--seconds 10] [--repetitions 3]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from apples.livequeue.client import survey
from apples.livequeue.jobs import submit
from apples.queueing.estimates import Scheme, SimilarJobs
from apples.queueing.jobs import OFF, SELECTIVE
from apples.queueing.settings import QueueSettings
from apples.queueing.state import empty_state
from apples.simulation.batch.machine import Replay, simulate
from apples.simulation.batch.reading import read_trace
from apples.simulation.batch.replay import make_world
from apples.simulation.batch.trace import Trace
from benchmarks.common.report import ROOT, median, say, seconds_of
from benchmarks.live_queue import Manager

_PROCESSORS = {"CEA-Curie": 80_640, "RICC": 8_192}
_EXPRESSION = "(wait / estimate)**3 * procs"
_WORK = """
import sys, time
duty, seconds = map(float, sys.argv[1:])
for _ in range(round(seconds / 0.02)):
    until = time.process_time() + 0.02 * duty
    while time.process_time() < until:
        pass
    time.sleep(0.02 * (1 - duty))
"""


def speed(*logs: str, repeats: int = 5) -> None:
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


def shared(*, duty: float = 0.4, seconds: float = 10.0, repetitions: int = 3) -> int:
    """Time two jobs with a duty cycle on one processor, together and one after the other, alternating.

    A job computes for a part of every 20 ms, by its own CPU clock, and sleeps for the rest, so it does the same work
    beside another job. Prints the time from the first start to the last end by the queue's instants. Exit code 1 if
    the jobs that share did not run at once, or the others did.

    seconds: of one job alone
    """
    values, as_requested = [], True
    with tempfile.TemporaryDirectory(prefix="shared-queue-") as name:
        os.environ["APPLES_STATE"] = str(Path(name) / "state")
        manager = Manager(Path(name), ["--procs", "1"])
        try:
            manager.wait_until_ready()
            for _ in range(repetitions):
                together, apart = pair(duty, seconds, (duty,)), pair(duty, seconds, ())
                as_requested &= together[1]["beside"] == together[0]["id"] and apart[1]["beside"] is None
                values.append(span_s(together) / span_s(apart))
                say(
                    f"together {span_s(together):.2f} s (jobs {held(together)}), one after the other "
                    f"{span_s(apart):.2f} s (jobs {held(apart)}), ratio {values[-1]:.2f}"
                )
        finally:
            manager.end()
    say(f"2 jobs with duty cycle {duty:g} on 1 processor: {median(values):.2f} of the time (median)")
    return 0 if as_requested else 1


def pair(duty: float, seconds: float, duties: tuple[float, ...]) -> list[dict[str, Any]]:
    """Run two jobs to their end, and return their rows."""
    command = [sys.executable, "-c", _WORK, str(duty), str(seconds)]
    for job in [submit(command, duties=duties, output="/dev/null") for _ in range(2)]:
        job.wait()
    return list(survey(everything=True)["jobs"][-2:])


def held(jobs: list[dict[str, Any]]) -> str:
    """Return the seconds that jobs held their processor."""
    return " and ".join(f"{job['held_s']:.2f}" for job in jobs) + " s"


def span_s(jobs: list[dict[str, Any]]) -> float:
    """Return the time from the first start to the last end, s."""
    instants = [job["instants"] for job in jobs]
    return float(max(i["freed_s"] for i in instants) - min(i["start_s"] for i in instants))


PARTS = (speed, shared)
