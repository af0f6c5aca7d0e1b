"""Jobs of MPI that share hosts: their daemons, and the seconds until they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apples.coscheduling.policies import POLICIES
from benchmarks.common.mpis import Mpi, run
from benchmarks.common.report import BIN
from tests.testbed.localcluster import LocalCluster

STENCIL = str(BIN / "stencil-app")
#: Name of a job → its command and environment.
Commands = Mapping[str, tuple[list[str], Mapping[str, str]]]


def seconds_of_all(commands: Commands, *, serial: bool = False) -> dict[str, float]:
    """Return the seconds until the end of each command, all in sessions of their own; an interrupt leaves none.

    serial : each begins when the one before has ended; then all have the seconds of the last
    """
    jobs: dict[str, subprocess.Popen[bytes]] = {}
    started = time.monotonic()
    try:
        for job, (words, environment) in commands.items():
            nothing = subprocess.DEVNULL
            jobs[job] = subprocess.Popen(
                words, env=environment, stdin=nothing, stdout=nothing, start_new_session=True
            )
            if serial:
                wait_for(jobs, started)
        return wait_for(jobs, started)
    finally:
        for process in jobs.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(jobs: dict[str, subprocess.Popen[bytes]], started: float) -> dict[str, float]:
    """Return seconds until the end of each job; ends the benchmark if one fails."""
    ended: dict[str, float] = {}
    while len(ended) < len(jobs):
        for job, process in jobs.items():
            if job not in ended and process.poll() is not None:
                ended[job] = time.monotonic() - started
                if process.returncode:
                    sys.exit(f"{job} ended with {process.returncode}")
        time.sleep(0.01)
    return ended


def measured_rate(mpi: Mpi) -> float:
    """Return loops of arithmetic a second of one core, the best of a few."""
    command = mpi.ranks(1, [STENCIL, "bsp", "--iterations", "10", "--json"])
    return max(float(json.loads(run(command, mpi.environment))["rate"]) for _ in range(3))


@contextmanager
def daemons_of(
    policy: str, directory: Path, cpus: Mapping[str, str], **options: Any
) -> Iterator[LocalCluster]:
    """Run the daemons of a policy on nodes of these CPUs of this machine, ready for jobs."""
    with LocalCluster(directory, dict(cpus), policy=policy, **options) as cluster:
        if POLICIES[policy].coordinated:
            cluster.start()
            cluster.wait(lambda: cluster.view().get("settled"))
        else:
            cluster.start_nodes(managed=False)
        yield cluster
