"""Real runs over hosts of a testbed: accuracy of predictions, gain under load, and the mock grid beside them.

    sudo python -m benchmarks testbed_runs accuracy [--runs 62] [--teach 20] [--same 10] [--iterations 60]
    sudo python -m benchmarks testbed_runs gain [--turns 20] [--teach 8] [--iterations 60]
    python -m benchmarks testbed_runs report FILE...
    python -m benchmarks testbed_runs mock FILE...

accuracy: unloaded runs of many sizes and pools. The first are training runs for overhead and corrections. The others
    use these and teach nothing themselves. Between them one run is repeated: the noise floor
gain: before each turn, a random number of load generators starts on every host. Then each scheduler runs once, in an
    order that changes, with a pause in which sensors settle
mock: the mock grid, configured with the hosts, links and load of the lines of `gain`: each host's share of a CPU (from
    the testbed's file); the CPU time of a row, of starting and of the messages of an iteration (from the runs without
    load); the links as measured before those runs, and the number of other processes on each host; the share of a sweep
    that the application overlaps with the exchange of rows. It has no run times of loaded runs. Every plan that was run
    is then run there. Prints the ratio of makespans, and the ranking of the schedulers in both

Every run is an `apples-run --launcher ssh` of its own from the testbed's desk. Each becomes a line of JSON in --out as
soon as it ends, so that an interrupted series can be reported, too. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from benchmarks.common.hosts import (
    DESK,
    burning,
    chain,
    from_desk,
    names_of,
    pool_of,
    settings,
)
from benchmarks.common.report import ROOT, append_line, median, percentile, read_lines, say
from tests.testbed.description import Spec, load
from tests.testbed.grid import Testbed

#: The paper's own application, with planes small enough for the link between the sites.
MESH = ("nx=32", "ny=32")
GRID = ROOT / "tests/testbed/wan4.yaml"
SIZES = (128, 160, 192, 224, 256)
#: Sizes under load, where runs take long.
LOADED_SIZES = SIZES[:-1]
SCHEDULERS = ("apples", "default", "smart-user")
#: Numbers of load generators on a host, and their probabilities.
LOADS, LIKELY = (0, 1, 2), (0.5, 0.3, 0.2)


@contextlib.contextmanager
def _copy(state: Path) -> Iterator[Path]:
    """Copy a state, so that a run can learn without changing the original."""
    with tempfile.TemporaryDirectory(prefix="testbed-runs-") as directory:
        yield Path(shutil.copytree(state, Path(directory) / "state"))


def _pools(hosts: list[str]) -> list[list[str]]:
    """Return all hosts, all but one, and each site alone."""
    sites = [[h for h in hosts if h[0] == site] for site in sorted({h[0] for h in hosts})]
    return [hosts, *([h for h in hosts if h != out] for out in hosts), *sites]


def report(*files: Path) -> None:
    """Print figures of all series in the lines of files."""
    lines = read_lines(files)
    tests = [line for line in lines if line["part"] == "test"]
    if tests:
        errors = [_error(line) for line in tests]
        sizes = [abs(error) for error in errors]
        say(
            f"\n{len(tests)} unloaded runs: mean error {statistics.fmean(sizes):.1%}, median {median(sizes):.1%}, mean "
            f"signed {statistics.fmean(errors):+.1%}; within bounds: {sum(map(_bounds, tests))} (should be 8 of 10)"
        )
        for key in ("size", "pool"):
            for value in sorted({str(line[key]) for line in tests}):
                part = [abs(_error(line)) for line in tests if str(line[key]) == value]
                say(f"  {key} {value}: {statistics.fmean(part):.1%} of {len(part)}")
        say(f"  a row of one host: mean deviation from run to run {_row_spread(tests):.1%}")
    same = [_observed(line) for line in lines if line["part"] == "same"]
    if same:
        stray = statistics.fmean(abs(t / median(same) - 1) for t in same)
        say(f"noise floor: {len(same)} times the same run: {median(same):.2f} s, mean deviation {stray:.1%}")
    turns: dict[int, dict[str, dict[str, Any]]] = {}
    for line in lines:
        if line["part"] == "gain":
            turns.setdefault(line["turn"], {})[line["scheduler"]] = line
    whole = [turn for turn in turns.values() if len(turn) == len(SCHEDULERS)]
    for rival in SCHEDULERS[1:] if whole else ():
        gains = sorted(1 - _observed(turn["apples"]) / _observed(turn[rival]) for turn in whole)
        deciles = " ".join(f"{percentile(gains, q / 10):.0%}" for q in range(0, 11, 2))
        say(
            f"\n{len(whole)} loaded turns against {rival}: mean gain {statistics.fmean(gains):.1%}, median "
            f"{median(gains):.1%}; 0, 20, … 100 %: {deciles}"
        )
        for turn in whole:
            lost = _observed(turn["apples"]) / _observed(turn[rival]) - 1
            if lost > 0:
                runs = "; ".join(
                    f"{s} {chain(turn[s]['run'])} {_observed(turn[s]):.2f} s" for s in ("apples", rival)
                )
                say(
                    f"  lost by {lost:.1%} at size {turn['apples']['size']}, {turn['apples']['load']}: {runs}"
                )


def _row_spread(lines: list[dict[str, Any]]) -> float:
    """Return the mean deviation of a host's time per row from its own median, over runs."""
    seconds: dict[str, list[float]] = {}
    for line in lines:
        for rank in line["run"]["hosts"]:
            seen = rank["observed"]
            seconds.setdefault(rank["host"], []).append(seen["compute_s"] / rank["rows"] / seen["iterations"])
    return statistics.fmean(abs(s / median(of) - 1) for of in seconds.values() for s in of)


def _observed(line: dict[str, Any]) -> float:
    return float(line["run"]["observed_s"])


def _error(line: dict[str, Any]) -> float:
    return _observed(line) / float(line["run"]["predicted_s"]) - 1


def _bounds(line: dict[str, Any]) -> bool:
    return bool(line["run"]["low_s"] <= _observed(line) <= line["run"]["high_s"])


#: A year without events.
NEVER_S = 3e7
TEMPLATE = applications.get("mhd3d")
#: Share of `mhd`'s iteration that overlaps the exchange: the predictor of the inner planes and their rate, as timed
#: in one rank of 40 to 100 rows of this mesh (0.42 to 0.45).
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
    silence = TrafficTruth(mean_stay_s=NEVER_S, **zeros("busy_share", "busy_most", "quiet_most"))
    workload = workload_of(idle[0])
    types = {
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
    }
    spreads = zeros("speed_spread", "run_spread", "bus_slowdown")
    hosts = HostTruth(cpu_types=types, hardware_seed=1, sweep_spread=0.01, paging_slowdown=100.0, **spreads)
    application = ApplicationTruth(
        name=workload.application,
        iterations=workload.iterations,
        messages=1.0,
        bytes_exchanged=workload.bytes_exchanged / workload.iterations,
        bytes_per_row=workload.bytes_per_row,
        bytes_fixed=workload.bytes_fixed,
        min_rows=workload.min_rows,
        ahead=AHEAD,
    )
    network = NetworkTruth(
        efficiency=1.0,
        uplink_Bps=min(site.rate_bps or 10**10 for site in spec.sites) / 8,
        host_traffic=silence,
        uplink_traffic=silence,
        **zeros("link_spread", "message_s", "transfer_spread", "stall_probability", "stall_s"),
    )
    waits = zeros("start_wait_s", "start_spread", "lookup_s", "finish_s")
    errors = zeros("cpu_error", "memory_error", "latency_error", "bandwidth_error")
    periods = {"host_period_s": 10.0, "network_period_s": 60.0, "cpu_window_s": 10.0, "history_s": 60.0}
    return Scenario(
        name=spec.name,
        grid="",
        hosts=hosts,
        application=application,
        network=network,
        startup=StartupTruth(start_cpu_s=start_cpu_s, lookup_spread=1.0, **waits),
        loads={"none": NO_LOAD},
        sensors=SensorTruth(**periods, **errors),
    )


def zeros(*names: str) -> dict[str, float]:
    """Return zero for each name."""
    return dict.fromkeys(names, 0.0)


def _row_seconds(spec: Spec, costs: dict[str, Any]) -> dict[str, float]:
    """Return host → seconds for a row and iteration on its share, without other load."""
    (table,) = costs["seconds_per_row"].values()
    own = {host: found["factor"] for host, found in costs["hosts"].items()}
    return {host.name: table["1"] * own.get(host.name, 1.0) / host.cpu for host in spec.hosts}


class Runs:
    """Runs from the desk of a testbed that is up, each of that many iterations and recorded in a file."""

    def __init__(self, bed: Testbed, iterations: int, out: Path, state: Path) -> None:
        self.bed, self.state, self.hosts, self._out = bed, state, names_of(bed), out
        self._values = settings(*MESH, f"iterations={iterations}")

    def costs(self) -> None:
        """Keep lines with the costs of rows, as measured and as corrected by runs."""
        for size in SIZES:
            words = [
                f"{size}",
                "-a",
                "mhd3d",
                "--launcher",
                "ssh",
                "-H",
                pool_of(self.hosts),
                "--show",
                "--json",
            ]
            ended = from_desk(self.bed, self.state, "apples", "calibrate", *words, *self._values)
            append_line(self._out, {"part": "costs", "size": size, "costs": json.loads(ended.stdout)})

    def run(
        self, size: int, pool: list[str], scheduler: str = "apples", state: Path | None = None, **facts: Any
    ) -> None:
        """Make one run. facts: further keys of its line."""
        words = [f"{size}", "--launcher", "ssh", "-H", pool_of(pool), "--json", "--scheduler", scheduler]
        began = time.time()
        ended = from_desk(self.bed, state or self.state, "apples-run", *words, *self._values)
        run = json.loads(ended.stdout)
        line = {"size": size, "pool": pool, "scheduler": scheduler, "began": began, **facts, "run": run}
        append_line(self._out, line)
        say(
            f"{facts['part']:8} {scheduler:10} {size:4} {','.join(pool):12} {chain(run):32} "
            f"{run['predicted_s']:6.2f} {run['observed_s']:6.2f} s {_error(line):+.1%}"
        )


@contextlib.contextmanager
def runs_on(iterations: int, out: Path | None) -> Iterator[Runs]:
    """Yield runs on the testbed, and report them at the end."""
    out = out or Path(tempfile.mkdtemp(prefix="testbed-runs-")) / "runs.jsonl"
    with Testbed(load(GRID)) as bed, tempfile.TemporaryDirectory(prefix="testbed-runs-") as state:
        yield Runs(bed, iterations, out, Path(state))
    report(out)


def accuracy(
    *,
    runs: int = 62,
    teach: int = 20,
    same: int = 10,
    iterations: int = 60,
    seed: int = 1,
    out: Path | None = None,
) -> None:
    """Make unloaded runs.

    iterations: of every run
    out: lines of JSON, one a run
    """
    with runs_on(iterations, out) as made:
        pools = _pools(made.hosts)
        for k in range(teach):
            made.run(SIZES[k % len(SIZES)], pools[k % len(pools)], part="teach")
        cases = [(size, pool) for size in SIZES for pool in pools]
        random.Random(seed).shuffle(cases)
        again = {round(runs * k / same) for k in range(same)}
        for k in range(runs):
            if k in again:
                with _copy(made.state) as state:
                    made.run(SIZES[-1], made.hosts, state=state, part="same")
            size, pool = cases[k % len(cases)]
            with _copy(made.state) as state:
                made.run(size, pool, state=state, part="test")


def gain(
    *, turns: int = 20, teach: int = 8, iterations: int = 60, seed: int = 1, out: Path | None = None
) -> None:
    """Run all schedulers under load.

    iterations: of every run
    out: lines of JSON, one a run
    """
    rng = random.Random(seed)
    with runs_on(iterations, out) as made:
        for k in range(teach):
            made.run(SIZES[k % len(SIZES)], made.hosts, part="teach")
        for turn in range(turns):
            generators = dict(zip(made.hosts, rng.choices(LOADS, LIKELY, k=len(made.hosts)), strict=True))
            size = rng.choice(LOADED_SIZES)
            with burning(made.bed, generators):
                for scheduler in rng.sample(SCHEDULERS, len(SCHEDULERS)):
                    made.run(size, made.hosts, scheduler, part="gain", turn=turn, load=generators)
        made.costs()


def makespan(grid: Grid, scenario: Scenario, line: dict[str, Any]) -> float:
    """Return seconds that the plan of one real run takes on the mock grid under the load of that run."""
    load_then = replace(NO_LOAD, standing={h: n for h, n in line["load"].items() if n})
    world = MockPlatform(grid, replace(scenario, loads={"then": load_then}), load="then", seed=1)
    run, nothing = line["run"], {"compute_s": 0.0, "communicate_s": 0.0, "overhead_s": 0.0}
    ranks = tuple(
        Assignment(rank=rank["rank"], host=rank["host"], slot=0, rows=rank["rows"], **nothing)
        for rank in run["hosts"]
    )
    plan = unplanned([a.host for a in ranks], scheduler=run["scheduler"], application=run["application"])
    plan = replace(plan, size=run["size"], assignments=ranks)
    with tempfile.TemporaryDirectory() as name:
        request = LaunchRequest(plan=plan, workload=workload_of(run), command=("mhd3d",), run_dir=Path(name))
        return world.run(request, lambda text: None).observed_s


def mock(*files: Path) -> None:
    """Run the plans of real runs on the mock grid."""
    lines = read_lines(files)
    spec, runs = load(GRID), [line for line in lines if "run" in line]
    idle = [line for line in runs if line["part"] == "teach"]
    grid, scenarios = grid_of(spec, idle), {}
    for line in lines:
        if line["part"] == "costs":
            scenarios[line["size"]] = scenario_of(spec, idle, _row_seconds(spec, line["costs"]))
    values: dict[str, list[float]] = {}
    turns: dict[int, dict[str, tuple[float, float]]] = {}
    for line in runs:
        if line["part"] == "gain":
            real_s, mock_s = _observed(line), makespan(grid, scenarios[line["size"]], line)
            for name in (line["scheduler"], "all"):
                values.setdefault(name, []).append(mock_s / real_s)
            turns.setdefault(line["turn"], {})[line["scheduler"]] = real_s, mock_s
    for name, of in values.items():
        off = statistics.fmean(abs(ratio - 1) for ratio in of)
        say(f"{name:10} {len(of)} runs: mock over real {statistics.fmean(of):.3f}, mean deviation {off:.1%}")
    for world, index in (("real", 0), ("mock", 1)):
        means = {
            s: statistics.fmean(turn[s][index] for turn in turns.values() if s in turn) for s in SCHEDULERS
        }
        say(f"{world}: " + ", ".join(f"{s} {means[s]:.2f} s" for s in sorted(means, key=lambda s: means[s])))


PARTS = (accuracy, gain, report, mock)
