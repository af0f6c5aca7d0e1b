"""Jobs that share two one-core nodes of this machine, real ranks under every policy; medians of some repetitions.

    python benchmarks/shared_jobs.py [--part scenarios|gmet|slice] [--scenario 3.1|3.2] [--mpi "MPICH 4"]
                                     [--seconds 30] [--slice 100ms] [--granularity 1ms] [--repetitions 5]

scenarios: two jobs, balanced (FCS paper, 3.1) and imbalanced (3.2: 1 and 2.1 times, and the other
    way round), one after the other (FCFS: policy batch), uncoordinated, gang scheduled, spin-block, FCS
gmet, slice: message-driven (Yoo and Jette, Figures 5 and 6), three jobs, mean response with the guaranteed time or the
    slice swept, for a workload that communicates and one that does not; both node managers are started at once

Each rank does a fixed amount of work at a rate that is measured once. Every run has its own daemons. Prints turnaround
and mean response in seconds, and the classes that FCS assigned.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monitor_mpis import Mpi, found, run

from apples.coscheduling.policies import POLICIES
from apples.daemons.settings import parse_time
from apples.monitoring.environment import monitor_environment
from apples.testing.localcluster import LocalCluster

NODES = {"a": "0", "b": "1"}
#: Imbalances of rank 0 and of rank 1 in each job.
SCENARIOS = {"3.1 balanced": ("1", "1"), "3.2 imbalanced": ("1,2.1", "2.1,1")}
NAMES = {
    "batch": "FCFS",
    "uncoordinated": "uncoordinated",
    "gang": "GS",
    "spin-block": "SB",
    "fcs": "FCS",
}
#: Shares of the length of one job, so that sweeps of short jobs have the shape of long ones. Slices are well below one:
#: a rank that is done polls for the others until its slice ends, so jobs of one slice measure whether they just fit in.
GMETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07)
SLICES = (0.1, 0.15, 0.2, 0.3, 0.4)
SWEPT_AT_SLICE, SWEPT_AT_GMET = 0.1, 0.05
PATTERNS = ("ring", "none")

#: Sends each rank to the node manager of its node.
WRAPPER = """#!/bin/sh
case ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} in 0) node=a ;; *) node=b ;; esac
export APPLES_NODE_SOCKET="$APPLES_LAB/$node.sock"
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs that start together.

    imbalances: of each job
    iterations: of each job
    granularity: computation between two messages, as on the command line
    """

    mpi: Mpi
    imbalances: tuple[str, ...]
    iterations: int
    rate: float
    pattern: str
    granularity: str


def workload_of(
    mpi: Mpi, rate: float, options: argparse.Namespace, imbalances: tuple[str, ...], pattern: str = "ring"
) -> Workload:
    """Return the jobs that the options define."""
    return Workload(
        mpi=mpi,
        imbalances=imbalances,
        iterations=round(options.seconds / parse_time(options.granularity, what="--granularity")),
        rate=rate,
        pattern=pattern,
        granularity=options.granularity,
    )


def bsp(workload: Workload, imbalance: str, iterations: int) -> list[str]:
    """Return the command of one rank."""
    program = str(Path(sys.executable).parent / "stencil-app")
    arguments = [
        "--granularity",
        workload.granularity,
        "--imbalance",
        imbalance,
        "--iterations",
        str(iterations),
    ]
    return [
        program,
        "bsp",
        *arguments,
        "--pattern",
        workload.pattern,
        "--rate",
        f"{workload.rate:.6g}",
        "--json",
    ]


def measured_rate(mpi: Mpi) -> float:
    """Return loops of arithmetic a second of one core, the best of a few."""
    command = [str(Path(sys.executable).parent / "stencil-app"), "bsp", "--iterations", "10", "--json"]
    runs = [run(mpi.ranks(1, command), {**os.environ, **mpi.environment}) for _ in range(3)]
    return max(json.loads(text)["rate"] for text in runs)


def responses(
    workload: Workload, policy: str, slice_s: float, node_options: tuple[str, ...] = ()
) -> tuple[list[float], list[dict]]:
    """Return the response time of each job, seconds, and the node managers' reports of its ranks."""
    directory = Path(tempfile.mkdtemp(prefix="shared-"))
    try:
        with LocalCluster(
            directory, NODES, policy=policy, slice_s=slice_s, node_options=node_options
        ) as cluster:
            if POLICIES[policy].coordinated:
                cluster.start()
                cluster.wait(lambda: cluster.view().get("settled"))
            else:
                cluster.start_nodes(managed=False)
            wrapper = directory / "rank"
            wrapper.write_text(WRAPPER, encoding="ascii")
            wrapper.chmod(0o755)
            commands = {}
            for number, imbalance in enumerate(workload.imbalances):
                job = f"job{number}"
                environment = {**os.environ, **workload.mpi.environment}
                environment |= monitor_environment(directory, job, base=environment)
                environment["APPLES_LAB"] = str(directory)
                command = [str(wrapper), *bsp(workload, imbalance, workload.iterations)]
                commands[job] = workload.mpi.ranks(len(NODES), command), environment
            ended = seconds_of_all(commands)
            seen = [entry for job in commands for node in NODES for entry in cluster.ask(node, "job", job)]
            return [ended[job] for job in commands], seen
    finally:
        shutil.rmtree(directory)


#: Name of a job → its command and environment.
Commands = Mapping[str, tuple[list[str], Mapping[str, str]]]


def seconds_of_all(commands: Commands, *, serial: bool = False) -> dict[str, float]:
    """Return the seconds until the end of each command, all in sessions of their own; an interrupt leaves none.

    serial : each begins when the one before has ended; then all have the seconds of the last
    """
    jobs: dict[str, subprocess.Popen] = {}
    started = time.monotonic()
    try:
        for job, (words, environment) in commands.items():
            jobs[job] = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            if serial:
                wait_for(jobs, started)
        return wait_for(jobs, started)
    finally:
        for process in jobs.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(jobs: dict[str, subprocess.Popen], started: float) -> dict[str, float]:
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


def scenarios(mpi: Mpi, rate: float, options: argparse.Namespace, slice_s: float) -> None:
    """Print turnaround and mean response by policy."""
    for scenario, imbalances in SCENARIOS.items():
        if not scenario.startswith(options.scenario):
            continue
        workload = workload_of(mpi, rate, options, imbalances)
        turnarounds: dict[str, list[float]] = {}
        means: dict[str, list[float]] = {}
        classes: Counter[str] = Counter()
        for _ in range(options.repetitions):
            # Policies alternate, so that other load on the machine affects all of them.
            for policy in NAMES:
                times, seen = responses(workload, policy, slice_s)
                turnarounds.setdefault(policy, []).append(max(times))
                means.setdefault(policy, []).append(statistics.mean(times))
                if policy == "fcs":
                    classes.update(f"{p['job']}.{p['rank']} {p['class']}" for p in seen)
        fcfs = statistics.median(turnarounds["batch"])
        print(f"{scenario}, jobs of {options.seconds:g} s:")
        for policy, name in NAMES.items():
            turnaround = statistics.median(turnarounds[policy])
            print(
                f"  {name:14} turnaround {turnaround:7.2f} s ({turnaround / fcfs:.3f} of FCFS), mean response "
                f"{statistics.median(means[policy]):7.2f} s",
                flush=True,
            )
        print("  classes at the end: " + ", ".join(f"{what} × {n}" for what, n in sorted(classes.items())))


def sweep(mpi: Mpi, rate: float, options: argparse.Namespace) -> None:
    """Print the mean response of message-driven with the guaranteed time or the slice swept."""
    gmet = options.part == "gmet"
    for pattern in PATTERNS:
        workload = workload_of(mpi, rate, options, ("1", "1", "1"), pattern)
        print(f"{'communicates' if pattern == 'ring' else 'does not communicate'}:")
        for part in GMETS if gmet else SLICES:
            slices, gmets = (SWEPT_AT_SLICE, part) if gmet else (part, SWEPT_AT_GMET)
            slice_s, gmet_s = slices * options.seconds, gmets * options.seconds
            said = ("--slice", f"{slice_s:g}s", "--gmet", f"{gmet_s:g}s")
            means = [
                statistics.mean(responses(workload, "message-driven", 0.1, said)[0])
                for _ in range(options.repetitions)
            ]
            print(
                f"  slice {slice_s:6.2f} s, GMET {gmet_s:6.2f} s: mean response {statistics.median(means):7.2f} s "
                f"({min(means):.2f} to {max(means):.2f})",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["scenarios", "gmet", "slice"], default="scenarios")
    parser.add_argument("--scenario", default="", help="how its name begins; both without it")
    parser.add_argument("--mpi", default="MPICH 4", help="how its name begins")
    parser.add_argument("--seconds", type=float, default=30.0, help="of one job, alone")
    parser.add_argument("--slice", default="100ms")
    parser.add_argument("--granularity", default="1ms", help="computation between two messages")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    # SIGTERM must unwind, so that the daemons end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    mpis = found()
    mpi = next((one for one in mpis if one.name.startswith(options.mpi)), None)
    if mpi is None:
        sys.exit(f"no MPI is called {options.mpi!r}; there are: {', '.join(one.name for one in mpis)}")
    slice_s = parse_time(options.slice, what="--slice")
    rate = measured_rate(mpi)
    slices = f"slices of {options.slice}, " if options.part == "scenarios" else ""
    print(
        f"{mpi.name}, {options.repetitions} repetitions, medians, {slices}a message every {options.granularity}, "
        f"rate {rate:.4g}/s, load average {os.getloadavg()[0]:.1f}"
    )
    if options.part == "scenarios":
        scenarios(mpi, rate, options, slice_s)
    else:
        sweep(mpi, rate, options)


if __name__ == "__main__":
    main()
