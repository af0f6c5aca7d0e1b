"""The live queue under failures: many short jobs submitted at once, while the manager is killed, or lacks disk or
descriptors.

    python -m benchmarks live_queue failures [--jobs 1000] [--kills 5] [--full 0] [--scarce 0] [--priority fcfs]
    python -m benchmarks live_queue failures --full 5 --scarce 5 --every 5
    python -m benchmarks live_queue shared [--duty 0.4] [--seconds 10] [--repetitions 3]

A kill is SIGKILL, after which the next manager starts. The disk is full by a library that is preloaded
(`tests/nightly/fault_shim.c`): every call that writes to the queue's directory fails for `--seconds`, in manager and
supervisors. Without descriptors, the manager's limit is below what it has open. Every job appends its number to one
file, and ends with an exit code of its own. Checked: every job ran exactly once, the queue knows the end of each, and
with kills alone `apples simulate-queue` replays the queue's log with the same starts, in the same order. Prints the
time of submissions, and of the whole. Exit code 1 unless all hold.
"""

from __future__ import annotations

import json
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from apples.livequeue.jobs import submit
from apples.livequeue.queueclient import ask, survey
from benchmarks.common.report import APPLES, median, output, percentile, say
from nws.base.errors import ReportedError
from tests.nightly.failingcalls import NO_SPACE, Plan

#: Exit codes of the jobs are their numbers modulo this one.
CODES = 7


class Manager:
    """`apples manager --queue`, started again after each kill. environment: of its processes"""

    def __init__(self, directory: Path, options: list[str], **environment: str) -> None:
        self._log = (directory / "manager.log").open("ab")
        self._options, self._environment = options, environment
        self.start()

    def start(self) -> None:
        """Start another manager process."""
        command = [*APPLES, "manager", "--queue", *self._options]
        environment = os.environ | self._environment
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)

    def wait_until_ready(self, limit_s: float = 120.0) -> None:
        """Wait for an answer: what fails while a manager starts ends it with a message."""
        until = time.monotonic() + limit_s
        while True:
            try:
                ask("queue")
                return
            except ReportedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill the manager with SIGKILL, and start the next one."""
        self.process.kill()
        self.process.wait()
        self.start()

    def end(self) -> None:
        """Stop the manager normally."""
        self.process.terminate()
        self.process.wait()
        self._log.close()


def document(directory: Path, number: int, chance: random.Random, procs: int) -> dict[str, Any]:
    """Return a job that appends its number, and sleeps briefly; its request is far too long, as users' requests are."""
    sleep_s = round(chance.expovariate(1 / 0.2), 3)
    script = f"echo {number} >> {directory}/ran; sleep {sleep_s}; exit {number % CODES}"
    return {
        "token": secrets.token_hex(16),
        "name": str(number),
        "project": f"p{number % 3}",
        "command": ["sh", "-c", script],
        "directory": str(directory),
        "environment": {"PATH": os.environ["PATH"]},
        "umask": 0o022,
        "output": "/dev/null",
        "error": "/dev/null",
        "procs": min(chance.choice((1, 1, 1, 2, 2, 3, 4, procs)), procs),
        "request_s": chance.choice((5.0, 10.0, 30.0, 60.0)),
        "model_s": None,
    }


class Users(threading.Thread):
    """Submits jobs one after the other, each until it is acknowledged: the token makes it one job."""

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self._documents, self.took_s, self.refused = documents, list[float](), 0
        self.stopped = threading.Event()

    def run(self) -> None:
        """Submit all jobs."""
        for one in self._documents:
            begun = time.monotonic()
            while not self.stopped.is_set():
                try:
                    ask("submit", one, retry=True)
                    break
                except ReportedError:
                    self.refused += 1
                    time.sleep(0.1)
            self.took_s.append(time.monotonic() - begun)


def fail(name: str, manager: Manager, plan: Plan | None, seconds: float) -> None:
    """Cause one failure: kill the manager, or take its disk or descriptors for a while."""
    if name == "kill":
        manager.kill()
    elif name == "full":
        assert plan is not None
        with plan.failing("write,open,fsync", NO_SPACE, path="/queue/"):
            time.sleep(seconds)
    else:
        pid = manager.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        time.sleep(seconds)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def wait_until_over(jobs: int, limit_s: float) -> list[dict[str, Any]]:
    """Return all jobs once they have left the queue."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            ended = [] if survey()["jobs"] else survey(everything=True)["jobs"]
            if len(ended) == jobs:
                return list(ended)
        except ReportedError:
            pass
        time.sleep(0.5)
    raise SystemExit(f"not all of {jobs} jobs were over after {limit_s:g} s")


def replayed(directory: Path, config: str) -> list[tuple[float, int]]:
    """Return (start, id) of all jobs by the simulator, in order."""
    log, starts = str(directory / "log.swf"), directory / "starts"
    output([*APPLES, "queue", "--log", log])
    output([*APPLES, "simulate-queue", log, "--starts", str(starts), "--quiet", "--config", config])
    rows = (line.split() for line in starts.read_text().splitlines())
    return sorted((float(start), int(number)) for number, _, start in rows)


def wrong_ends(jobs: list[dict[str, Any]], ran: Counter[str]) -> list[str]:
    """Return a line for each job that did not run exactly once, or whose end is not known as it was."""
    problems = []
    for job in jobs:
        code = int(job["name"]) % CODES
        expected = ("failed" if code else "finished", code)
        if ran[job["name"]] != 1 or (job["outcome"], job["exit_code"]) != expected:
            about = f"{job['outcome']}, exit code {job['exit_code']}, {job['detail']}"
            problems.append(f"job {job['name']} ran {ran[job['name']]} times: {about}")
    return problems


def failures(
    *,
    jobs: int = 1000,
    kills: int = 5,
    full: int = 0,
    scarce: int = 0,
    seconds: float = 10.0,
    every: float = 12.0,
    procs: int = 8,
    priority: str = "fcfs",
    estimates: str = "request",
    seed: int = 1,
    limit: float = 1800.0,
) -> int:
    """Run all and print the checks.

    full: times that the disk is full
    scarce: times without descriptors
    seconds: length of a failure
    every: mean seconds between failures
    """
    chance = random.Random(seed)
    planned = chance.sample(["kill"] * kills + ["full"] * full + ["scarce"] * scarce, kills + full + scarce)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="live-queue-")))
        os.environ["APPLES_STATE"] = str(directory / "state")
        config = str(directory / "queue.yaml")
        settings = {"queue": {"priority": priority}, "estimates": {"source": estimates}}
        Path(config).write_text(json.dumps(settings))
        plan = Plan(directory) if full else None
        environment = plan.environment if plan else {}
        manager = Manager(directory, ["--procs", str(procs), "--queue-config", config], **environment)
        stack.callback(manager.end)
        documents = [document(directory, number, chance, procs) for number in range(jobs)]
        users = [Users(documents[i::4]) for i in range(4)]
        problems: list[str] = []
        manager.wait_until_ready(limit)
        begun = time.monotonic()
        for user in users:
            stack.callback(user.stopped.set)
            user.start()
        for failure in planned:
            time.sleep(every * chance.uniform(0.5, 1.5))
            manager.wait_until_ready(limit)
            fail(failure, manager, plan, seconds)
            if manager.process.poll() is not None:
                problems.append(f"the manager ended with code {manager.process.returncode} in {failure}")
                manager.start()
        for user in users:
            user.join(limit)
        submitted_s = time.monotonic() - begun
        ended = wait_until_over(jobs, limit)
        whole_s = time.monotonic() - begun
        ran = Counter((directory / "ran").read_text().split())
        problems += wrong_ends(ended, ran)
        text = (directory / "manager.log").read_text(errors="replace")
        if "Traceback" in text:
            problems.append(f"a traceback in the log: {text[text.index('Traceback') :][:2000]}")
        say(f"{jobs} jobs on {procs} processors, {priority}, estimates {estimates}: {kills} kills, ", end="")
        say(f"disk full {full} times, no descriptors {scarce} times, for {seconds:g} s each")
        once = sum(count == 1 for count in ran.values())
        outcomes = dict(Counter(job["outcome"] for job in ended))
        say(
            f"  {sum(ran.values())} runs, {once} jobs once; {outcomes}; {plan.failed if plan else 0} calls failed"
        )
        if not full and not scarce:
            live, simulated = (
                sorted((j["instants"]["start_s"], j["id"]) for j in ended),
                replayed(directory, config),
            )
            same_order = [number for _, number in live] == [number for _, number in simulated]
            differ = sum(one != other for one, other in zip(live, simulated, strict=True))
            say(
                f"  order of starts as simulated: {'yes' if same_order else 'NO'}; at another instant: {differ}"
            )
            problems += [] if same_order else ["starts in another order than simulated"]
    took_s = sorted(took for user in users for took in user.took_s)
    say(
        f"  backfilled {sum(job['backfilled'] for job in ended)}; all submitted after {submitted_s:.1f} s, ",
        end="",
    )
    say(
        f"all over after {whole_s:.1f} s; a submission took {percentile(took_s, 0.5) * 1e3:.1f} ms (half), ",
        end="",
    )
    say(f"{percentile(took_s, 0.95) * 1e3:.1f} ms (p95), {took_s[-1]:.1f} s; ", end="")
    say(f"{sum(user.refused for user in users)} attempts refused")
    for problem in problems[:20]:
        say(f"  WRONG: {problem}")
    return 1 if problems else 0


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


PARTS = (failures, shared)
