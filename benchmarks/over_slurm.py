"""Cost of launching through Slurm against ssh, and a check that both give the same plan and the same result.

    python benchmarks/over_slurm.py [--repeat N] NODE...      on a login node; nodes must be idle, and take ssh
    python benchmarks/over_slurm.py [--repeat N] --testbed    as root: on a cluster of its own

Prints 10th, 50th and 90th percentile in seconds of making and releasing an allocation, of `true` on every node in an
existing allocation, of both, and of the same over ssh. Then it runs the same job through both launchers and compares
hosts, rows and checksum.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from apples.hosts.connection import HostAddress
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.model.grid import Host
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Outcome, unplanned
from apples.model.template import Workload
from apples.platforms.ssh import address_of
from apples.slurm import launching as slurm
from apples.slurm.allocation import OwnAllocation
from apples.slurm.commands import Shape, Wishes
from apples.slurm.launching import Cluster

ROOT = Path(__file__).resolve().parent.parent
JOB = ("64", "--app", "heat", "-s", "nx=32", "-s", "ny=32", "-s", "iterations=50", "--scheduler", "default")


def silent(line: str) -> None:
    """Ignore a progress line."""


def launch_s(run: Callable[[LaunchRequest], Outcome], hosts: list[str]) -> float:
    """Return seconds of `true` with a rank on every host, with the allocation if one is made."""
    with tempfile.TemporaryDirectory() as directory:
        request = LaunchRequest(
            plan=unplanned(hosts, scheduler="benchmark", application="true"),
            workload=Workload(application="true", size=len(hosts)),
            command=("true",),
            run_dir=Path(directory),
        )
        start = time.perf_counter()
        outcome = run(request)
        took = time.perf_counter() - start
    if not outcome.finished:
        sys.exit(outcome.message)
    return took


def allocation_s(hosts: list[str]) -> float:
    """Return seconds of making and releasing an allocation, without a run in it."""
    start = time.perf_counter()
    with OwnAllocation(Shape(hosts=tuple(hosts), ranks_each=1, minutes=1), Wishes(), silent):
        pass
    return time.perf_counter() - start


def inside_s(hosts: list[str], repeat: int) -> list[float]:
    """Return seconds of launches in one existing allocation."""
    with OwnAllocation(Shape(hosts=tuple(hosts), ranks_each=1, minutes=5), Wishes(), silent) as allocation:
        cluster = Cluster(hosts=dict.fromkeys(hosts, 1), enclosing=allocation.number)
        return [launch_s(lambda request: slurm.run(request, cluster, silent), hosts) for _ in range(repeat)]


def show(what: str, values: list[float]) -> None:
    ordered = sorted(values)
    low, middle, high = (ordered[round(q * (len(ordered) - 1))] for q in (0.1, 0.5, 0.9))
    print(f"{what:44} {low:6.2f} {middle:6.2f} {high:6.2f}", flush=True)


def answer(launcher: str, hosts: list[str]) -> tuple[list[tuple[str, int]], str]:
    """Return chain of (host, rows) and checksum of one run through the command, with a state of its own."""
    command = [str(Path(sys.executable).parent / "apples-run"), *JOB, "--launcher", launcher, "--json"]
    with tempfile.TemporaryDirectory() as state:
        result = subprocess.run(
            [*command, "-H", ",".join(f"{host}:1" for host in hosts)],
            env={**os.environ, "APPLES_STATE": state},
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        sys.exit(result.stderr)
    found = re.search(r"checksum (\w+)", result.stderr)
    chain = [(entry["host"], entry["rows"]) for entry in json.loads(result.stdout)["hosts"]]
    return chain, found[1] if found else "none"


def measure(hosts: list[str], repeat: int) -> None:
    print(f"{len(hosts)} hosts, {repeat} times                                10 %   50 %   90 %")
    addresses = {h: HostAddress(host=h, address=address_of(Host(name=h))) for h in hosts}
    access, cluster = HostAccess(addresses=addresses), Cluster(hosts=dict.fromkeys(hosts, 1))
    show("allocation made and given back", [allocation_s(hosts) for _ in range(repeat)])
    show("true, in an allocation that is there", inside_s(hosts, repeat))
    show(
        "true, allocation included",
        [launch_s(lambda request: slurm.run(request, cluster, silent), hosts) for _ in range(repeat)],
    )
    show(
        "true, over ssh",
        [launch_s(lambda request: mpirun.run(request, access, silent), hosts) for _ in range(repeat)],
    )
    answers = {launcher: answer(launcher, hosts) for launcher in ("ssh", "slurm")}
    for launcher, (chain, checksum) in answers.items():
        print(f"{launcher:6} {checksum}  {', '.join(f'{host} {rows}' for host, rows in chain)}")
    same = answers["ssh"] == answers["slurm"]
    print("same plan, same answer" if same else "DIFFERENT")
    if not same:
        sys.exit(1)


def on_a_testbed(repeat: int) -> None:
    """Start a cluster, and run this program on its login node."""
    sys.path.insert(0, str(ROOT / "tests"))
    from testbed import running
    from testbed.description import parse
    from testbed.grid import Testbed
    from testbed.slurm import Node, Partition, Slurm, missing

    why = running.missing() or missing()
    if why:
        sys.exit(why)
    nodes = ("n1", "n2", "n3", "n4")
    document = {
        "name": f"bench-{uuid.uuid4().hex[:8]}",
        "hosts": [{"name": name} for name in ("head", *nodes)],
    }
    with Testbed(parse(document)) as testbed:
        partition = Partition(name="all", nodes=nodes, settings="Default=YES")
        Slurm(testbed, "head", [Node(name=name) for name in nodes], [partition]).up()
        words = [sys.executable, __file__, "--repeat", str(repeat), *nodes]
        code = subprocess.run(testbed.command("head", words), check=False).returncode
    sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of launching through Slurm, against ssh.")
    parser.add_argument("hosts", nargs="*", metavar="NODE")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--testbed", action="store_true")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        if arguments.testbed:
            on_a_testbed(arguments.repeat)
        elif arguments.hosts:
            measure(arguments.hosts, arguments.repeat)
        else:
            parser.error("name nodes, or --testbed")


if __name__ == "__main__":
    main()
