"""The mock grid with the hosts, links and load of a testbed, compared with real runs there.

    python benchmarks/testbed_mock.py FILE...

FILE has lines of `benchmarks/testbed_runs.py gain`. The mock grid is configured with:

* each host's share of a CPU (from the testbed's file);
* the CPU time of a row, of starting and of the messages of an iteration (from the runs without load);
* the links as measured before those runs, and the number of other processes on each host;
* the share of a sweep that the application overlaps with the exchange of rows.

It has no run times of loaded runs. Every plan that was run is then run there. Prints the ratio of makespans, and the
ranking of the schedulers in both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed_runs import DESK, GRID, MESH, SCHEDULERS

from apples import applications
from apples.model.grid import Grid, Host, LinkRule
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Assignment, unplanned
from apples.model.template import Workload
from apples.platforms.mock import MockPlatform
from apples.simulation.scenario import (
    NO_LOAD,
    ApplicationTruth,
    CpuTruth,
    HostTruth,
    NetworkTruth,
    Scenario,
    SensorTruth,
    StartupTruth,
    TrafficTruth,
)
from tests.testbed.description import Spec, load

#: A year without events.
NEVER_S = 3e7
TEMPLATE = applications.get("mhd3d")
#: Share of `mhd`'s iteration that overlaps the exchange: the predictor of the inner planes and their rate, as timed
#: in one rank of 40 to 100 rows of this mesh (`swept_ahead.py`: 0.42 to 0.45).
AHEAD = 0.44


def workload_of(run: dict[str, Any]) -> Workload:
    """Return demands of a run of the series."""
    iterations = f"iterations={run['attempts'][0]['iterations']}"
    return TEMPLATE.workload(run["size"], dict(pair.split("=") for pair in (*MESH, iterations)))


def grid_of(spec: Spec, lines: Sequence[dict[str, Any]]) -> Grid:
    """Return the hosts, and each link at the median of the measurements before these runs."""
    hosts = tuple(
        Host(name=host.name, cpu_type=host.name, site=host.site) for host in spec.hosts if host.name != DESK
    )
    latencies: dict[tuple[str, str], list[float]] = {}
    bandwidths: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        links = line["run"]["snapshot"]["links"]
        differ = {(pair["from"], pair["to"]): pair for pair in links["pairs"]}
        for ends in ((a.name, b.name) for a in hosts for b in hosts if a is not b):
            link = differ.get(ends) or links["usual"]
            latencies.setdefault(ends, []).append(link["latency_s"])
            bandwidths.setdefault(ends, []).append(link["bandwidth_Bps"])
    links = tuple(
        LinkRule(
            ends=ends,
            latency_s=statistics.median(latencies[ends]),
            bandwidth_Bps=statistics.median(bandwidths[ends]),
        )
        for ends in latencies
    )
    return Grid(name=spec.name, hosts=hosts, links=links)


def _start_s(run: dict[str, Any]) -> float:
    """Return seconds of a run outside its iterations: interpreters and their imports, which all ranks wait for."""
    ranks = [rank["observed"] for rank in run["hosts"]]
    return float(run["observed_s"] - max(rank["total_s"] - rank["setup_s"] for rank in ranks))


def _message_cpu_s(run: dict[str, Any], shares: dict[str, float]) -> float:
    """Return CPU seconds for the messages of an iteration, of the rank that waited least: the others waited for it."""
    waits = ((rank["observed"]["wait_s"], rank) for rank in run["hosts"])
    least_s, rank = min(waits, key=lambda pair: pair[0])
    return float(least_s / rank["observed"]["iterations"] * shares[rank["host"]])


def scenario_of(spec: Spec, lines: Sequence[dict[str, Any]], row_s: dict[str, float]) -> Scenario:
    """Return the true properties of the testbed, from runs without load.

    row_s: host → seconds of its share for a row and sweep
    """
    idle = [line["run"] for line in lines]
    shares = {host.name: host.cpu for host in spec.hosts}
    start_cpu_s = statistics.median(
        _start_s(run) * min(shares[rank["host"]] for rank in run["hosts"]) for run in idle
    )
    message_cpu_s = statistics.median(_message_cpu_s(run, shares) for run in idle if len(run["hosts"]) > 1)
    silence = TrafficTruth(mean_stay_s=NEVER_S, busy_share=0.0, busy_most=0.0, quiet_most=0.0)
    workload = workload_of(idle[0])
    return Scenario(
        name=spec.name,
        grid="",
        hosts=HostTruth(
            cpu_types={
                host.name: CpuTruth(
                    cpus=1,
                    seconds_per_row=row_s[host.name],
                    memory_bytes=float(host.memory_bytes),
                    system_bytes=0.0,
                    start_cpu_s=start_cpu_s / host.cpu,
                    message_cpu_s=message_cpu_s / host.cpu,
                )
                for host in spec.hosts
                if host.name != DESK
            },
            hardware_seed=1,
            speed_spread=0.0,
            run_spread=0.0,
            sweep_spread=0.01,
            bus_slowdown=0.0,
            paging_slowdown=100.0,
        ),
        application=ApplicationTruth(
            name=workload.application,
            iterations=workload.iterations,
            messages=1.0,
            bytes_exchanged=workload.bytes_exchanged / workload.iterations,
            bytes_per_row=workload.bytes_per_row,
            bytes_fixed=workload.bytes_fixed,
            min_rows=workload.min_rows,
            ahead=AHEAD,
        ),
        network=NetworkTruth(
            efficiency=1.0,
            link_spread=0.0,
            uplink_Bps=min(site.rate_bps or 10**10 for site in spec.sites) / 8,
            message_s=0.0,
            transfer_spread=0.0,
            stall_probability=0.0,
            stall_s=0.0,
            host_traffic=silence,
            uplink_traffic=silence,
        ),
        startup=StartupTruth(
            start_wait_s=0.0,
            start_cpu_s=start_cpu_s,
            start_spread=0.0,
            lookup_s=0.0,
            lookup_spread=1.0,
            finish_s=0.0,
        ),
        loads={"none": NO_LOAD},
        sensors=SensorTruth(
            host_period_s=10.0,
            network_period_s=60.0,
            cpu_window_s=10.0,
            cpu_error=0.0,
            memory_error=0.0,
            latency_error=0.0,
            bandwidth_error=0.0,
            history_s=60.0,
        ),
    )


def makespan(grid: Grid, scenario: Scenario, line: dict[str, Any]) -> float:
    """Return seconds that the plan of one real run takes on the mock grid under the load of that run."""
    load_then = replace(NO_LOAD, standing={h: n for h, n in line["load"].items() if n})
    world = MockPlatform(grid, replace(scenario, loads={"then": load_then}), load="then", seed=1)
    run = line["run"]
    chain = tuple(
        Assignment(
            rank=rank["rank"],
            host=rank["host"],
            slot=0,
            rows=rank["rows"],
            compute_s=0.0,
            communicate_s=0.0,
            overhead_s=0.0,
        )
        for rank in run["hosts"]
    )
    plan = replace(
        unplanned([a.host for a in chain], scheduler=run["scheduler"], application=run["application"]),
        size=run["size"],
        assignments=chain,
    )
    with tempfile.TemporaryDirectory() as directory:
        request = LaunchRequest(
            plan=plan, workload=workload_of(run), command=("mhd3d",), run_dir=Path(directory)
        )
        return world.run(request, lambda text: None).observed_s


def main() -> None:
    parser = argparse.ArgumentParser(description="The mock grid beside real runs on a testbed.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--grid", type=Path, default=GRID)
    options = parser.parse_args()
    lines = [json.loads(line) for file in options.files for line in file.read_text("utf-8").splitlines()]
    spec, runs = load(options.grid), [line for line in lines if "run" in line]
    idle = [line for line in runs if line["part"] == "teach"]
    grid, scenarios = grid_of(spec, idle), {}
    for line in lines:
        if line["part"] == "costs":
            row_s = _row_seconds(spec, line["costs"])
            scenarios[line["size"]] = scenario_of(spec, idle, row_s)
    ratios: dict[str, list[float]] = {}
    turns: dict[int, dict[str, tuple[float, float]]] = {}
    for line in runs:
        if line["part"] != "gain":
            continue
        real = float(line["run"]["observed_s"])
        mock = makespan(grid, scenarios[line["size"]], line)
        ratios.setdefault(line["scheduler"], []).append(mock / real)
        turns.setdefault(line["turn"], {})[line["scheduler"]] = real, mock
    for scheduler, found in ratios.items():
        off = statistics.fmean(abs(ratio - 1) for ratio in found)
        print(
            f"{scheduler:10} {len(found)} runs: mock over real {statistics.fmean(found):.3f}, mean deviation {off:.1%}"
        )
    every = [ratio for found in ratios.values() for ratio in found]
    print(f"all        {len(every)} runs: mock over real {statistics.fmean(every):.3f}, ", end="")
    print(f"mean deviation {statistics.fmean(abs(ratio - 1) for ratio in every):.1%}")
    for world, index in (("real", 0), ("mock", 1)):
        means = {
            s: statistics.fmean(turn[s][index] for turn in turns.values() if s in turn) for s in SCHEDULERS
        }
        order = sorted(means, key=lambda s: means[s])
        print(f"{world}: " + ", ".join(f"{s} {means[s]:.2f} s" for s in order))


def _row_seconds(spec: Spec, costs: dict[str, Any]) -> dict[str, float]:
    """Return host → seconds for a row and iteration on its share, without other load."""
    (table,) = costs["seconds_per_row"].values()
    own = {host: found["factor"] for host, found in costs["hosts"].items()}
    return {host.name: table["1"] * own.get(host.name, 1.0) / host.cpu for host in spec.hosts}


if __name__ == "__main__":
    main()
