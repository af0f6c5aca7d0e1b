"""Jobs that share a processor in the live queue.

python -m benchmarks live_queue shared [--duty 0.4] [--seconds 10] [--repetitions 3]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apples.livequeue.jobs import submit
from apples.livequeue.queueclient import ask, survey
from apples.livequeue.queuemessages import JobRow
from benchmarks.common.report import APPLES, median, say
from nws.base.errors import ReportedError


@contextmanager
def manager(directory: Path) -> Iterator[None]:
    """Run `apples manager --queue` with one processor and a state of its own."""
    os.environ["APPLES_STATE"] = str(directory / "state")
    with (directory / "manager.log").open("ab") as log:
        process = subprocess.Popen([*APPLES, "manager", "--queue", "--procs", "1"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 120.0
        while True:
            try:
                ask("queue")
                break
            except ReportedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


#: A job: computes for a part of every 20 ms, by its own CPU clock, and sleeps for the rest.
_WORK = """
import sys, time
duty, seconds = map(float, sys.argv[1:])
for _ in range(round(seconds / 0.02)):
    until = time.process_time() + 0.02 * duty
    while time.process_time() < until:
        pass
    time.sleep(0.02 * (1 - duty))
"""


def shared(*, duty: float = 0.4, seconds: float = 10.0, repetitions: int = 3) -> int:
    """Time two jobs with a duty cycle on one processor, together and one after the other, alternating.

    A job computes for a part of every 20 ms, by its own CPU clock, and sleeps for the rest, so it does the same work
    beside another job. Prints the time from the first start to the last end by the queue's instants. Exit code 1 if
    the jobs that share did not run at once, or the others did.

    seconds: of one job alone
    """
    values, as_requested = [], True
    with tempfile.TemporaryDirectory(prefix="shared-queue-") as name, manager(Path(name)):
        for _ in range(repetitions):
            together, apart = pair(duty, seconds, (duty,)), pair(duty, seconds, ())
            as_requested &= together[1].beside == together[0].id and apart[1].beside is None
            values.append(span_s(together) / span_s(apart))
            say(
                f"together {span_s(together):.2f} s (jobs {held(together)}), one after the other "
                f"{span_s(apart):.2f} s (jobs {held(apart)}), ratio {values[-1]:.2f}"
            )
    say(f"2 jobs with duty cycle {duty:g} on 1 processor: {median(values):.2f} of the time (median)")
    return 0 if as_requested else 1


def pair(duty: float, seconds: float, duties: tuple[float, ...]) -> list[JobRow]:
    """Run two jobs to their end, and return their rows."""
    command = [sys.executable, "-c", _WORK, str(duty), str(seconds)]
    for job in [submit(command, duties=duties, output="/dev/null") for _ in range(2)]:
        job.wait()
    return list(survey(everything=True).jobs[-2:])


def held(jobs: list[JobRow]) -> str:
    """Return the seconds that jobs held their processor."""
    return " and ".join(f"{job.held_s or 0.0:.2f}" for job in jobs) + " s"


def span_s(jobs: list[JobRow]) -> float:
    """Return the time from the first start to the last end, s."""
    instants = [job.instants for job in jobs]
    return max(i.freed_s or 0.0 for i in instants) - min(i.start_s or 0.0 for i in instants)


PARTS = (shared,)
