"""Overhead of a run over several hosts: the check, and launching `true`.

    python benchmarks/over_hosts.py [--repeat N] HOST...

Prints 10th, 50th and 90th percentile in seconds for the first 1, 2, 4, … of the hosts. On a testbed:

    python -m tests.testbed exec tests/testbed/lan3.yaml a1 python benchmarks/over_hosts.py a1 a2 a3
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from apples.hosts import preflight
from apples.hosts.connection import HostAddress
from apples.hosts.preflight import Candidate
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.model.grid import Host
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from apples.platforms.platform import address_of
from apples.platforms.requirements import needs_of_ranks


def check_s(hosts: list[str]) -> float:
    """Return seconds until all hosts have passed the check; ends the program if one fails."""
    start = time.perf_counter()
    asked = [Candidate(name=host, address=address_of(Host(name=host))) for host in hosts]
    found = preflight.check(asked, needs_of_ranks(package=False))
    took = time.perf_counter() - start
    unfit = [f"{one.candidate.name} {one.reason}" for one in found if not one.fit]
    if unfit:
        sys.exit("\n".join(unfit))
    return took


def launch_s(hosts: list[str]) -> float:
    """Return seconds from launch to end of `true` with a rank on every host."""
    access = HostAccess(addresses={h: HostAddress(host=h, address=address_of(Host(name=h))) for h in hosts})
    with tempfile.TemporaryDirectory() as directory:
        request = LaunchRequest(
            plan=unplanned(hosts, scheduler="benchmark", application="true"),
            workload=Workload(application="true", size=len(hosts)),
            command=("true",),
            run_dir=Path(directory),
        )
        outcome = mpirun.run(request, access, lambda line: None)
    if not outcome.finished:
        sys.exit(outcome.message)
    return outcome.observed_s


def percentiles(values: list[float]) -> str:
    ordered = sorted(values)
    return "  ".join(f"{ordered[round(q * (len(ordered) - 1))]:6.2f}" for q in (0.1, 0.5, 0.9))


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of checking and of launching over hosts.")
    parser.add_argument("hosts", nargs="+")
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    count = 1
    print("hosts  check 10 %   50 %   90 %   launch 10 %   50 %   90 %")
    while True:
        hosts = arguments.hosts[:count]
        checks = [check_s(hosts) for _ in range(arguments.repeat)]
        launches = [launch_s(hosts) for _ in range(arguments.repeat)]
        print(f"{len(hosts):5}      {percentiles(checks)}        {percentiles(launches)}", flush=True)
        if count >= len(arguments.hosts):
            return
        count *= 2


if __name__ == "__main__":
    main()
