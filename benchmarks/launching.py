"""Cost of a launch here and over several hosts, and MPICH's network modules over hosts.

    python -m benchmarks launching here [--repeats 20] [--ranks 1 2 4]
    python -m benchmarks launching over HOST... [--repeat 7]
    sudo python -m benchmarks launching modules [--pairs 10] [--loaded]

here: a whole run of `true` through the launcher, in turns with `mpiexec -n N true`. Prints median and range of each in
    milliseconds, and their difference per rank
over: the check of hosts, and launching `true`. Prints 10th, 50th and 90th percentile in seconds for the first 1, 2,
    4, … of the hosts. On a testbed: python -m tests.testbed exec tests/testbed/lan3.yaml a1 python -m benchmarks
    launching over a1 a2 a3
modules: run times with MPICH's network modules UCX (its default) and OFI, in pairs. The C program of examples/wave-c
    runs on even pieces over the four hosts of tests/testbed/wan4.yaml, with a busy process on each with --loaded.
    Prints the median time with each module and the ratios. Needs root, as tests/testbed does
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from apples.hosts import hostpreflight
from apples.hosts.agentconnection import HostAddress
from apples.hosts.hostpreflight import Candidate
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.preflight import find_mpiexec
from apples.model.grid import Host
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from apples.platforms.platform import address_of
from apples.platforms.requirements import needs_of_ranks
from benchmarks.common.hosts import burning, compiled, from_desk, names_of, pool_of, settings
from benchmarks.common.report import (
    ROOT,
    in_turns,
    median,
    percentile,
    ratios,
    say,
    seconds_of,
    spread,
    table,
)
from tests.testbed.description import load
from tests.testbed.grid import Testbed


def check_s(hosts: list[str]) -> float:
    """Return seconds until all hosts have passed the check; ends the program if one fails."""
    start = time.perf_counter()
    asked = [Candidate(name=host, address=address_of(Host(name=host))) for host in hosts]
    found = hostpreflight.check(asked, needs_of_ranks(package=False))
    took = time.perf_counter() - start
    unfit = [f"{one.candidate.name} {one.reason}" for one in found if not one.fit]
    if unfit:
        sys.exit("\n".join(unfit))
    return took


def launch_s(hosts: list[str], access: HostAccess | None = None) -> float:
    """Return seconds from launch to end of `true` with a rank on every host. access : over ssh without it"""
    addresses = {h: HostAddress(host=h, address=address_of(Host(name=h))) for h in hosts}
    with tempfile.TemporaryDirectory() as directory:
        request = LaunchRequest(
            plan=unplanned(hosts, scheduler="benchmark", application="true"),
            workload=Workload(application="true", size=len(hosts)),
            command=("true",),
            run_dir=Path(directory),
        )
        begun = time.perf_counter()
        outcome = mpirun.run(request, access or HostAccess(addresses=addresses), lambda line: None)
    if not outcome.finished:
        sys.exit(outcome.message)
    return time.perf_counter() - begun if access else outcome.observed_s


def here(*, repeats: int = 20, ranks: tuple[int, ...] = (1, 2, 4)) -> None:
    """Compare launches on this machine with a bare mpiexec."""
    rows = []
    for count in ranks:
        bare = partial(subprocess.run, [find_mpiexec(), "-n", str(count), "true"], check=True)
        whole = partial(launch_s, ["localhost"] * count, HostAccess(here=True))
        took = in_turns({"plain": partial(seconds_of, bare), "ours": whole}, repeats)
        plain, ours = ([1e3 * s for s in took[way]] for way in ("plain", "ours"))
        rows.append(
            (count, spread(plain, ".1f"), spread(ours, ".1f"), (median(ours) - median(plain)) / count)
        )
    table(("ranks", "mpiexec, ms", "launcher, ms", "extra, ms a rank"), rows, widths=(5, 24, 24))


def over(*hosts: str, repeat: int = 7) -> None:
    """Time the check of hosts, and the launch of `true` over them."""
    rows, count = [], 1
    while True:
        first = list(hosts[:count])
        took = [[time_of(first) for _ in range(repeat)] for time_of in (check_s, launch_s)]
        shares = [f"{percentile(values, part):.2f}" for values in took for part in (0.1, 0.5, 0.9)]
        rows.append((len(first), *shares))
        if count >= len(hosts):
            break
        count *= 2
    table(("hosts", "check 10 %", "50 %", "90 %", "launch 10 %", "50 %", "90 %"), rows)


def modules(*, pairs: int = 10, loaded: bool = False) -> None:
    """Compare network modules of MPICH.

    loaded: a busy process on each host
    """
    with (
        tempfile.TemporaryDirectory(prefix="network-module-") as scratch,
        Testbed(load(ROOT / "tests/testbed/wan4.yaml")) as bed,
    ):
        app, hosts = compiled(Path(scratch)), names_of(bed)
        words = ["4000", "--app", str(app), *settings("iterations=200"), "--time-limit", "10m", "--json"]
        words += ["--launcher", "ssh", "-H", pool_of(hosts), "--scheduler", "default"]

        def one_run(module: str) -> float:
            variables = {"MPIR_CVAR_CH4_NETMOD": module}
            ended = from_desk(bed, Path(scratch) / module, "apples-run", *words, timeout_s=600, **variables)
            say(f"{module} {(took_s := json.loads(ended.stdout)['observed_s']):6.2f} s")
            return float(took_s)

        with burning(bed, dict.fromkeys(hosts, int(loaded))):
            took = in_turns(
                {name: partial(one_run, name) for name in ("ucx", "ofi")}, pairs, random.Random(1)
            )
    print(", ".join(f"{module} {spread(values, '.2f')} s" for module, values in took.items()))
    print(f"ofi / ucx {spread(ratios(took['ofi'], took['ucx']), '.2f')}")


PARTS = (here, over, modules)
