"""Jobs that share this machine's cores under every policy, beside processes that no policy knows.

    python benchmarks/foreign_load.py [--mix fine --mix oversubscribed …] [--policy plain --policy fcs …]
                                      [--spinners 0,1,2] [--nice 0] [--seconds 4] [--repetitions 5] [--mpi "MPICH 4"]

A mix is two or more synthetic jobs that start together on one node of all cores. `plain` is without node manager, with
MPI's own waits. `block` and `adaptive` are `apples share --wait`. `serial` is one job after the other. Policies
alternate within a repetition. A spinner computes without end, in a session of its own, at the given niceness. Prints
for each mix and number of spinners the seconds until the mix ends: median and largest, and the median of the ratios to
`plain` in the same repetition.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor_mpis import Mpi, found
from shared_jobs import measured_rate, seconds_of_all

from apples.coscheduling.policies import POLICIES
from apples.daemons.settings import parse_time
from apples.monitoring.environment import WAITS, monitor_environment
from apples.testing.localcluster import LocalCluster

STENCIL_APP = str(Path(sys.executable).parent / "stencil-app")


@dataclass(frozen=True)
class Job:
    """One job. part : its computation on one rank, as a share of `--seconds`.  code : other codes have no shape"""

    code: str = "bsp"
    ranks: int = 2
    granularity: str = "1ms"
    imbalance: str = "1"
    part: float = 1.0


MIXES = {
    "fine": (Job(), Job()),
    "coarse": (Job(granularity="50ms"), Job(granularity="50ms")),
    "finecoarse": (Job(), Job(granularity="50ms")),
    "imbalanced": (Job(imbalance="1,2.1", part=0.6), Job(imbalance="2.1,1", part=0.6)),
    "oversubscribed": (Job(ranks=4, part=0.5), Job(ranks=4, part=0.5)),
    "series": tuple(Job(part=0.25) for _ in range(6)),
}


def command(mpi: Mpi, job: Job, rate: float, seconds: float) -> list[str]:
    """Return the command line of a job."""
    each_s = parse_time(job.granularity, what="granularity")
    iterations = max(round(seconds * job.part / each_s), 1)
    words = f"bsp --granularity {job.granularity} --imbalance {job.imbalance} --iterations {iterations}"
    return mpi.ranks(job.ranks, [STENCIL_APP, *words.split(), "--rate", f"{rate:.6g}", "--json"])


@contextmanager
def spinning(count: int, nice: int) -> Iterator[None]:
    """Compute in `count` processes of their own sessions."""
    code = f"import os; os.nice({nice})\nwhile True: pass"
    spinners = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def seconds_of(mpi: Mpi, commands: list[list[str]], policy: str) -> float:
    """Return the seconds until all jobs have ended."""
    directory = Path(tempfile.mkdtemp(prefix="foreign-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        node = {}
        if policy in POLICIES:
            cluster = stack.enter_context(
                LocalCluster(directory, {"n": f"0-{(os.cpu_count() or 1) - 1}"}, policy=policy)
            )
            if POLICIES[policy].coordinated:
                cluster.start()
                cluster.wait(lambda: cluster.view().get("settled"))
            else:
                cluster.start_nodes(managed=False)
            node = {"APPLES_NODE_SOCKET": str(cluster.socket("n"))}
        given = {}
        for number, words in enumerate(commands):
            environment = {**os.environ, **mpi.environment, **node}
            if node or policy in WAITS:
                wait = WAITS.get(policy)
                environment |= monitor_environment(directory, f"job{number}", wait=wait, base=environment)
            given[f"job{number}"] = words, environment
        return max(seconds_of_all(given, serial=policy == "serial").values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mix", action="append", choices=MIXES)
    parser.add_argument("--policy", action="append", choices=["plain", "serial", *WAITS, *POLICIES])
    parser.add_argument("--spinners", default="0,1,2")
    parser.add_argument("--nice", type=int, default=0, help="of the spinners")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one job, alone")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--mpi", default="MPICH 4", help="how its name begins")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    mpi = next(one for one in found() if one.name.startswith(options.mpi))
    rate = measured_rate(mpi)
    policies = options.policy or ["plain", "block", "gang", "spin-block", "fcs"]
    print(f"{mpi.name}, {options.repetitions} repetitions, rate {rate:.4g}/s, load {os.getloadavg()[0]:.1f}")
    for mix in options.mix or MIXES:
        commands = [command(mpi, job, rate, options.seconds) for job in MIXES[mix]]
        for count in map(int, options.spinners.split(",")):
            took: dict[str, list[float]] = {policy: [] for policy in policies}
            with spinning(count, options.nice):
                for _ in range(options.repetitions):
                    for policy in policies:
                        took[policy].append(seconds_of(mpi, commands, policy))
            report(f"{mix}, {count} spinners of niceness {options.nice}", took)


def report(what: str, took: dict[str, list[float]]) -> None:
    """Print one line a policy."""
    print(f"{what}:")
    for policy, seconds in took.items():
        ratios = [one / other for one, other in zip(seconds, took.get("plain", seconds), strict=True)]
        print(
            f"  {policy:14} {statistics.median(seconds):7.2f} s, largest {max(seconds):7.2f} s, "
            f"{statistics.median(ratios):6.3f} of plain",
            flush=True,
        )


if __name__ == "__main__":
    main()
