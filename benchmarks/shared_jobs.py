"""Jobs that share hosts under every policy: two one-core nodes of this machine, or two people's runs on a testbed.

    python -m benchmarks shared_jobs scenarios [--scenario 3.1|3.2] [--seconds 30] [--slice 100ms] [--repetitions 5]
    python -m benchmarks shared_jobs sweep gmet|slice [--seconds 30] [--repetitions 5]
    python -m benchmarks shared_jobs switching [--slice 100ms] [--repetitions 5] [--seconds 10]
    sudo python -m benchmarks shared_jobs hosts [--launcher ssh|slurm] [--policy none auto fcs] [--pairs 10]

scenarios: two jobs, balanced (FCS paper, 3.1) and imbalanced (3.2: 1 and 2.1 times, and the other way round), one after
    the other (FCFS: policy batch), uncoordinated, gang scheduled, spin-block, FCS. Prints turnaround and mean response
    in seconds, medians of the repetitions, and the classes that FCS assigned
sweep: message-driven (Yoo and Jette, Figures 5 and 6), three jobs, mean response with the guaranteed time or the slice
    swept, for a workload that communicates and one that does not; both node managers are started at once
switching: two jobs in turns against one after the other, so that the effect of a switch on the caches counts, too;
    prints medians, their ratio, and the CPU time of manager, node manager and watchdog as shares of a core

Each rank does a fixed amount of work at a rate that is measured once. Every run has its own daemons.

hosts: each host of a testbed has one CPU, which two ranks share while both people run. Over ssh each starts at a host
    of the run; with Slurm both start at a login node, in a partition that gives each CPU to two jobs. With
    `--daemons` a machine manager and node managers of that policy run on the hosts from the beginning, as an
    administrator installs them. Policies alternate. Prints for each policy medians and the largest of two ratios: a
    run's time beside the other to its time alone, and the time until both have ended to that of one after the other.
    Times are those of the ranks, without the plan. Needs root, iproute2 and openssh-server, and for Slurm its daemons
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from apples.daemons.settings import parse_time
from apples.monitoring.environment import monitor_environment
from benchmarks.common.hosts import cpu_s, make_testbed, pool_of, settings
from benchmarks.common.mpis import Mpi, mpi_named
from benchmarks.common.report import BIN, in_turns, machine, median, ratios, say, spread, table
from benchmarks.common.sharing import STENCIL, daemons_of, measured_rate, seconds_of_all
from tests.testbed.grid import Testbed
from tests.testbed.slurm import Node, Partition, Slurm

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
LOGIN = "login"


def spans(
    bed: Testbed, people: dict[str, str], words: list[str], policy: str, states: str
) -> list[tuple[float, float]]:
    """Start a run of each person at once; return for each when its ranks started and ended.

    people : the host at which each person starts, by name
    """
    command = [str(BIN / "apples-run"), *words, "--policy", policy, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = []
    for person, host in people.items():
        environment = {**os.environ, "APPLES_STATE": f"{states}/{person}"}
        runs.append(subprocess.Popen(bed.command(host, command), env=environment, **pipes))
    found = []
    for run in runs:
        out, err = run.communicate(timeout=600)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)}: {err}")
        (attempt,) = json.loads(out)["attempts"]
        found.append((attempt["started_at"], attempt["started_at"] + attempt["observed_s"]))
    return found


def serve(bed: Testbed, names: list[str], policy: str, time_slice: str, states: str) -> None:
    """Start a machine manager on the first host and node managers on all, with one key; wait for them."""
    apples, address = str(BIN / "apples"), f"{bed.host(names[0]).address}:7171"
    key = Path(states) / "sharing.key"
    subprocess.run([apples, "manager", "--new-key", str(key)], check=True, capture_output=True)
    common = ["--key", str(key), "--policy", policy]
    daemons = [(names[0], ["manager", "--listen", address, "--slice", time_slice, *common])]
    daemons += [(name, ["node", "--name", name, "--manager", address, *common]) for name in names]
    for name, words in daemons:
        subprocess.Popen(bed.command(name, [apples, *words]), stderr=subprocess.DEVNULL)
    time.sleep(5.0)
    found = json.loads(bed.run(names[0], apples, "jobs", "--json").stdout)
    if found["nodes"].keys() != set(names):
        raise SystemExit(f"node managers: {sorted(found['nodes'])}, expected {names}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs that start together. imbalances: of each job.  words: of each rank's program beside them"""

    mpi: Mpi
    imbalances: tuple[str, ...]
    words: tuple[str, ...]


def workload(
    mpi: Mpi, imbalances: tuple[str, ...], seconds: float, granularity: str, pattern: str = "ring"
) -> Workload:
    """Return jobs that compute for so many seconds, each alone."""
    iterations = round(seconds / parse_time(granularity, what="--granularity"))
    words = f"--granularity {granularity} --iterations {iterations} --pattern {pattern} --json"
    rate = measured_rate(mpi)
    say(f"{mpi.name}, a message every {granularity}, rate {rate:.4g}/s, {machine()}")
    return Workload(mpi=mpi, imbalances=imbalances, words=(*words.split(), "--rate", f"{rate:.6g}"))


def responses(jobs: Workload, policy: str, **options: Any) -> tuple[list[float], list[dict[str, Any]]]:
    """Return the response time of each job, seconds, and the node managers' reports of its ranks."""
    with (
        tempfile.TemporaryDirectory(prefix="shared-") as name,
        daemons_of(policy, Path(name), NODES, **options) as cluster,
    ):
        wrapper = Path(name) / "rank"
        wrapper.write_text(WRAPPER, encoding="ascii")
        wrapper.chmod(0o755)
        commands = {}
        for number, imbalance in enumerate(jobs.imbalances):
            environment = {**os.environ, **jobs.mpi.environment, "APPLES_LAB": name}
            environment |= monitor_environment(Path(name), f"job{number}", base=environment)
            command = [str(wrapper), STENCIL, "bsp", "--imbalance", imbalance, *jobs.words]
            commands[f"job{number}"] = jobs.mpi.ranks(len(NODES), command), environment
        ended = seconds_of_all(commands)
        seen = [entry for job in commands for node in NODES for entry in cluster.ask(node, "job", job)]
        return [ended[job] for job in commands], seen


def scenarios(
    *,
    scenario: str = "",
    mpi: str = "MPICH 4",
    seconds: float = 30.0,
    slice: str = "100ms",
    granularity: str = "1ms",
    repetitions: int = 5,
) -> None:
    """Print turnaround and mean response by policy.

    scenario: how its name begins; both without it
    seconds: of one job, alone
    granularity: computation between two messages
    """
    slice_s = parse_time(slice, what="--slice")
    for title, imbalances in SCENARIOS.items():
        if not title.startswith(scenario):
            continue
        jobs = workload(mpi_named(mpi), imbalances, seconds, granularity)
        variants = {policy: partial(responses, jobs, policy, slice_s=slice_s) for policy in NAMES}
        results = in_turns(variants, repetitions)
        fcfs_s = median(max(times) for times, _ in results["batch"])
        print(f"{title}, jobs of {seconds:g} s, slices of {slice}:")
        for policy, ran in results.items():
            turnaround_s = median(max(times) for times, _ in ran)
            say(
                f"  {NAMES[policy]:14} turnaround {turnaround_s:7.2f} s ({turnaround_s / fcfs_s:.3f} of FCFS), "
                f"mean response {median(fmean(times) for times, _ in ran):7.2f} s"
            )
        classes = Counter(f"{p['job']}.{p['rank']} {p['class']}" for _, seen in results["fcs"] for p in seen)
        print("  classes at the end: " + ", ".join(f"{rank} × {n}" for rank, n in sorted(classes.items())))


def sweep(
    part: Literal["gmet", "slice"],
    *,
    mpi: str = "MPICH 4",
    seconds: float = 30.0,
    granularity: str = "1ms",
    repetitions: int = 5,
) -> None:
    """Print the mean response of message-driven with the guaranteed time or the slice swept."""
    for pattern in PATTERNS:
        print(f"{'communicates' if pattern == 'ring' else 'does not communicate'}:")
        jobs = workload(mpi_named(mpi), ("1", "1", "1"), seconds, granularity, pattern)
        for share in GMETS if part == "gmet" else SLICES:
            slices, gmets = (SWEPT_AT_SLICE, share) if part == "gmet" else (share, SWEPT_AT_GMET)
            slice_s, gmet_s = slices * seconds, gmets * seconds
            options = ("--slice", f"{slice_s:g}s", "--gmet", f"{gmet_s:g}s")
            ran = [
                responses(jobs, "message-driven", slice_s=0.1, node_options=options)
                for _ in range(repetitions)
            ]
            means = spread([fmean(times) for times, _ in ran], ".2f")
            say(f"  slice {slice_s:6.2f} s, GMET {gmet_s:6.2f} s: mean response {means} s")


def hosts(
    *,
    launcher: Literal["ssh", "slurm"] = "ssh",
    count: int = 2,
    policy: tuple[str, ...] = ("none", "auto", "fcs"),
    pairs: int = 10,
    rows: int = 64,
    n: int = 256,
    iterations: int = 1200,
    daemons: str | None = None,
    slice: str = "100ms",
) -> None:
    """Compare two people's runs over the same hosts.

    count: hosts
    n: cells of a row along x and y
    daemons: policy of node managers that an administrator has started
    """
    names = [f"h{number}" for number in range(1, count + 1)]
    where = ["-H", pool_of(names)] if launcher == "ssh" else ["--partition", "shared", "-H", ",".join(names)]
    starts = names[:2] if launcher == "ssh" else [LOGIN] * 2
    people = {f"person{number}": host for number, host in enumerate(starts)}
    words = [str(rows), "--app", "heat", *settings(f"nx={n}", f"ny={n}", f"iterations={iterations}")]
    words += ["--launcher", launcher, *where, "-n", str(count)]
    each, both = defaultdict(list), defaultdict(list)
    with (
        make_testbed("shared", [{"name": name} for name in names], memory="2G", desk=LOGIN) as bed,
        tempfile.TemporaryDirectory(prefix="shared-hosts-") as states,
    ):
        if launcher == "slurm":
            shared = Partition(
                name="shared", nodes=tuple(names), settings="Default=YES OverSubscribe=FORCE:2"
            )
            Slurm(bed, LOGIN, [Node(name=name, cpus=1) for name in names], [shared]).up()
        if daemons is not None:
            serve(bed, names, daemons, slice, states)
        for person, host in people.items():
            spans(bed, {person: host}, words, "none", states)
        for pair in range(pairs):
            alone = [spans(bed, {person: host}, words, "none", states)[0] for person, host in people.items()]
            alone_s = [end - start for start, end in alone]
            for name in policy:
                runs = spans(bed, people, words, name, states)
                each[name] += [(b - a) / s for (a, b), s in zip(runs, alone_s, strict=True)]
                span = max(b for _, b in runs) - min(a for a, _ in runs)
                both[name].append(span / sum(alone_s))
                say(f"pair {pair + 1}, {name}: alone {alone_s}, both {span:.1f} s")
                time.sleep(1.0)
    columns = ("policy", "a run, × its time alone", "both, × one after the other")
    table(columns, [(name, spread(each[name], ".2f"), spread(both[name], ".2f")) for name in each])


#: Work of the first measurement of a process.
TRIAL_TURNS = 20_000_000


def _in_slices(policy: str, slice_s: float, turns: int) -> tuple[float, dict[str, float]]:
    """Return (turnaround of both jobs, CPU seconds in a second of a daemon of each kind) under one policy."""
    with (
        tempfile.TemporaryDirectory(prefix="switching-") as directory,
        daemons_of(policy, Path(directory), NODES, slice_s=slice_s) as cluster,
    ):
        assert cluster.manager is not None
        daemons = {
            "manager": [cluster.manager.pid],
            "node manager": [process.pid for process in cluster.nodes.values()],
            "watchdog": [cluster.ask(node, "status")["watchdog"] for node in cluster.cpus],
        }

        def used() -> dict[str, float]:
            return {kind: statistics.fmean(map(cpu_s, pids)) for kind, pids in daemons.items()}

        started = time.monotonic()
        processes = [
            cluster.spin(job, rank, 2, node, f"{turns}turns")
            for job in ("x", "y")
            for rank, node in enumerate(cluster.cpus)
        ]
        # The cost of starting and of queries is not part of the cost of slices.
        before, settled = used(), time.monotonic()
        for process in processes:
            process.wait()
        ended, after = time.monotonic(), used()
        return ended - started, {kind: (after[kind] - before[kind]) / (ended - settled) for kind in daemons}


def switching(*, slice: str = "100ms", repetitions: int = 5, seconds: float = 10.0) -> None:
    """Compare jobs in turns with one after the other.

    seconds: of one job, alone
    """
    slice_s = parse_time(slice, what="--slice")
    trial_s, _ = _in_slices("batch", slice_s, TRIAL_TURNS)
    turns = round(TRIAL_TURNS * 2 * seconds / trial_s)
    ran = in_turns(
        {policy: partial(_in_slices, policy, slice_s, turns) for policy in ("batch", "gang")}, repetitions
    )
    batch_s, gang_s = ([took_s for took_s, _ in ran[policy]] for policy in ("batch", "gang"))
    print(
        f"slices of {slice_s * 1e3:g} ms, {repetitions} repetitions: one after the other {spread(batch_s)} s, in turns "
        f"{spread(gang_s)} s: {median(gang_s) / median(batch_s) - 1:+.2%} (ratio of pairs "
        f"{spread(ratios(gang_s, batch_s))}; wanted ≤ 2 %)"
    )
    shares = {kind: median(of[kind] for _, of in ran["gang"]) for kind in ran["gang"][0][1]}
    node = shares["node manager"] + shares["watchdog"]
    text = ", ".join(f"{kind} {share:.3%}" for kind, share in shares.items())
    print(f"of a core, in turns: {text}; on a node {node:.3%} (wanted ≤ 0.3 %)")


PARTS = (scenarios, sweep, hosts, switching)
