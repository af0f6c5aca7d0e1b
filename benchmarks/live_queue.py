"""The live queue under failures: many short jobs submitted at once, the manager killed with -9 repeatedly meanwhile.

    python benchmarks/live_queue.py [--jobs 1000] [--kills 5] [--procs 8] [--priority fcfs] [--estimates request]

Every job appends its number to one file. Two checks follow: that every job ran exactly once, and that `apples
simulate-queue` replays the queue's log with the same starts, in the same order and at the same instants. Prints their
results, and the time of submissions, of starts and of the whole. Exit code 1 unless both hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from apples.errors import SharingError
from apples.livequeue.client import NoManager, QueueClient, survey

_APPLES = (sys.executable, "-c", "from apples.cli.toolbox import main; main()")


class Manager:
    """`apples manager --queue`, restarted after each kill."""

    def __init__(self, directory: Path, options: list[str]) -> None:
        self._said = (directory / "manager.said").open("ab")
        self._options = options
        self.start()

    def start(self) -> None:
        """Start another manager process."""
        self.process = subprocess.Popen(
            [*_APPLES, "manager", "--queue", *self._options], stdout=self._said, stderr=self._said
        )

    def kill(self) -> None:
        """Kill the manager with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Stop the manager normally."""
        self.process.terminate()
        self.process.wait()
        self._said.close()


def document(directory: Path, number: int, chance: random.Random, procs: int) -> dict[str, Any]:
    """Return a job that appends its number, and sleeps briefly; its request is far too long, as users' requests are."""
    sleep_s = round(chance.expovariate(1 / 0.2), 3)
    script = f"echo {number} >> {directory}/ran; sleep {sleep_s}"
    return {
        "token": secrets.token_hex(16),
        "name": f"short-{number}",
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


def submit_all(documents: list[dict[str, Any]], took_s: list[float]) -> None:
    """Submit the jobs one after the other; if the manager dies, submit the job again to the next manager."""
    for one in documents:
        begun = time.monotonic()
        while True:
            try:
                with QueueClient() as client:
                    client.ask("submit", one)
                break
            except NoManager:
                time.sleep(0.02)
        took_s.append(time.monotonic() - begun)


def wait_until_over(jobs: int, limit_s: float) -> dict[str, Any]:
    """Return the whole queue once all jobs have left it."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            found = {} if survey()["jobs"] else survey(everything=True)
            if len(found.get("jobs", ())) == jobs:
                return found
        except SharingError:
            pass
        time.sleep(0.5)
    raise SystemExit(f"not all of {jobs} jobs were over after {limit_s:g} s")


def replayed(directory: Path, options: list[str]) -> list[tuple[float, int]]:
    """Return (start, id) of all jobs by the simulator, in order."""
    log, starts = directory / "log.swf", directory / "starts"
    subprocess.run([*_APPLES, "queue", "--log", str(log)], check=True)
    subprocess.run(
        [*_APPLES, "simulate-queue", str(log), "--starts", str(starts), "--quiet", *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    rows = (line.split() for line in starts.read_text().splitlines())
    return sorted((float(start), int(number)) for number, _, start in rows)


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--procs", type=int, default=8)
    parser.add_argument("--priority", default="fcfs")
    parser.add_argument("--estimates", default="request")
    parser.add_argument("--every", type=float, default=12.0, help="seconds between kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="live-queue-") as name:
        directory = Path(name)
        os.environ["APPLES_STATE"] = str(directory / "state")
        (directory / "queue.yaml").write_text(
            json.dumps({"queue": {"priority": options.priority}, "estimates": {"source": options.estimates}})
        )
        return run(directory, options)


def run(directory: Path, options: argparse.Namespace) -> int:
    chance = random.Random(options.seed)
    config = str(directory / "queue.yaml")
    manager = Manager(directory, ["--procs", str(options.procs), "--queue-config", config])
    documents = [document(directory, n, chance, options.procs) for n in range(options.jobs)]
    begun, took_s = time.monotonic(), []
    shares = [documents[i::4] for i in range(4)]
    users = [threading.Thread(target=submit_all, args=(part, took_s)) for part in shares]
    for user in users:
        user.start()
    for _ in range(options.kills):
        time.sleep(options.every * chance.uniform(0.5, 1.5))
        manager.kill()
        manager.start()
    for user in users:
        user.join()
    submitted_s = time.monotonic() - begun
    found = wait_until_over(options.jobs, options.limit)
    whole_s = time.monotonic() - begun
    ran = Counter((directory / "ran").read_text().split())
    once = all(ran[str(n)] == 1 for n in range(options.jobs)) and sum(ran.values()) == options.jobs
    ends = Counter(job["outcome"] for job in found["jobs"])
    live = sorted((job["instants"]["start_s"], job["id"]) for job in found["jobs"])
    told = replayed(directory, ["--config", config])
    manager.end()
    order = [number for _, number in live] == [number for _, number in told]
    same = sum(one != other for one, other in zip(live, told, strict=True))
    print(
        f"{options.jobs} jobs on {options.procs} processors, {options.priority}, estimates {options.estimates}, "
        f"manager killed {options.kills} times"
    )
    print(f"  ran exactly once: {'all' if once else 'NOT all'} ({sum(ran.values())} runs; {dict(ends)})")
    print(f"  order of starts as simulated: {'yes' if order else 'NO'}; starts at another instant: {same}")
    print(f"  backfilled {sum(job['backfilled'] for job in found['jobs'])}")
    print(
        f"  all submitted after {submitted_s:.1f} s, all over after {whole_s:.1f} s; a submission took "
        f"{share(took_s, 0.5) * 1e3:.1f} ms (half), {share(took_s, 0.95) * 1e3:.1f} ms (p95), {max(took_s):.1f} s"
    )
    return 0 if once and order else 1


if __name__ == "__main__":
    sys.exit(main())
