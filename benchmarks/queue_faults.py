"""The queue under failures: its manager killed, its disk full, no descriptors left, while users submit many short jobs.

    python benchmarks/queue_faults.py [--jobs 1000] [--kills 5] [--full 5] [--scarce 5] [--seconds 10]

Each failure lasts so many seconds, or one restart. The disk is full by the shim `fault_shim.c`: every call that writes
to the queue's directory fails, in manager and supervisors. Without descriptors, the manager's limit is below what it
has open. Every job appends its number to a file and ends with an exit code of its own. Checked: each job ran exactly
once, and the queue knows the end of each. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fault_plan import NO_SPACE, Plan
from live_queue import Manager, document, share, wait_until_over

from apples.livequeue.client import ask
from nws.base.errors import ReportedError

#: Exit codes of the jobs are their numbers modulo this one.
_CODES = 7


def submit_all(
    documents: list[dict[str, object]], took_s: list[float], refused: list[str], stopped: threading.Event
) -> None:
    """Submit the jobs one after the other, each until it is acknowledged, as a user's script does."""
    for one in documents:
        begun = time.monotonic()
        while not stopped.is_set():
            try:
                ask("submit", one, retry=True)
                break
            except ReportedError as error:
                refused.append(str(error))
                # Refused while nothing can be written or read. The token makes it one job.
                time.sleep(0.1)
        took_s.append(time.monotonic() - begun)


def kill(manager: Manager, plan: Plan, seconds: float) -> None:
    """Kill the manager and start the next one."""
    manager.kill()
    manager.start()


def fill(manager: Manager, plan: Plan, seconds: float) -> None:
    """Let every write to the queue's directory fail for a while."""
    with plan.failing("write,open,fsync", NO_SPACE, path="/queue/"):
        time.sleep(seconds)


def starve(manager: Manager, plan: Plan, seconds: float) -> None:
    """Take the manager's descriptors for a while."""
    pid = manager.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    time.sleep(seconds)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def wait_until_ready(limit_s: float) -> None:
    """Wait for a manager that answers: what fails while a manager starts ends it with a message."""
    until = time.monotonic() + limit_s
    while True:
        try:
            ask("queue")
            return
        except ReportedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def run(directory: Path, options: argparse.Namespace) -> list[str]:
    """Run all; return the problems."""
    chance = random.Random(options.seed)
    plan = Plan(directory)
    os.environ["APPLES_STATE"] = str(directory / "state")
    os.environ["APPLES_QUEUE_SOCKET"] = str(directory / "queue.sock")
    with plan.loaded():
        manager = Manager(
            directory, ["--procs", str(options.procs), "--socket", str(directory / "queue.sock")]
        )
    documents = [document(directory, number, chance, options.procs) for number in range(options.jobs)]
    for number, one in enumerate(documents):
        one["command"][-1] += f"; exit {number % _CODES}"
        one["name"] = str(number)
    took_s: list[float] = []
    refused: list[str] = []
    stopped, begun = threading.Event(), time.monotonic()
    users = [
        threading.Thread(target=submit_all, args=(documents[i::4], took_s, refused, stopped), daemon=True)
        for i in range(4)
    ]
    failures: list[Callable[[Manager, Plan, float], None]]
    failures = [kill] * options.kills + [fill] * options.full + [starve] * options.scarce
    chance.shuffle(failures)
    problems: list[str] = []
    try:
        wait_until_ready(options.limit)
        for user in users:
            user.start()
        for failure in failures:
            time.sleep(options.every * chance.uniform(0.5, 1.5))
            wait_until_ready(options.limit)
            with plan.loaded():
                failure(manager, plan, options.seconds)
            if manager.process.poll() is not None:
                problems.append(
                    f"the manager ended with code {manager.process.returncode} in {failure.__name__}"
                )
                with plan.loaded():
                    manager.start()
        for user in users:
            user.join(options.limit)
        jobs = wait_until_over(options.jobs, options.limit)["jobs"]
    finally:
        stopped.set()
        manager.end()
    ran = Counter((directory / "ran").read_text().split())
    for job in jobs:
        number = int(job["name"])
        expected = "failed" if number % _CODES else "finished"
        if ran[job["name"]] != 1:
            problems.append(f"job {number} ran {ran[job['name']]} times; {job['outcome']}: {job['detail']}")
        elif (job["outcome"], job["exit_code"]) != (expected, number % _CODES):
            problems.append(f"job {number}: {job['outcome']}, exit code {job['exit_code']}, {job['detail']}")
    text = (directory / "manager.said").read_text(errors="replace")
    if "Traceback" in text:
        problems.append(f"a traceback in the log: {text[text.index('Traceback') :][:2000]}")
    print(
        f"{options.jobs} jobs on {options.procs} processors, manager killed {options.kills} times, disk full "
        f"{options.full} times and no descriptors {options.scarce} times for {options.seconds:g} s each\n"
        f"  ran: {sum(ran.values())} times, {sum(count == 1 for count in ran.values())} jobs once; "
        f"{dict(Counter(job['outcome'] for job in jobs))}; {plan.failed} calls failed\n"
        f"  all over after {time.monotonic() - begun:.0f} s; a submission took {share(took_s, 0.5) * 1e3:.0f} ms "
        f"(half), {max(took_s):.1f} s at most, {len(refused)} attempts were refused"
    )
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--full", type=int, default=5)
    parser.add_argument("--scarce", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a failure")
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between failures")
    parser.add_argument("--procs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queue-faults-") as name:
        problems = run(Path(name), options)
    for problem in problems[:20]:
        print(f"  WRONG: {problem}")
    print(f"  {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
