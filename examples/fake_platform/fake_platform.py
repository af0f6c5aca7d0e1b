"""An example platform: a cluster that only pretends to run, on a clock of its own.

After `pip install ./examples/fake_platform`, `apples-run 64 --launcher fake --launcher-option hosts=8` runs on it. A
host computes one row of one iteration in `SECONDS_PER_ROW` divided by its speed. Communication takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from apples.errors import ConfigError, LaunchError
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome, RankObservation, RankStatus
from apples.model.snapshots import from_forecasts, without
from apples.model.template import Benchmark, BenchmarkRequest
from apples.platforms.platform import Platform, PlatformSetup, single_forecast
from nws.series import Resource, Series

SECONDS_PER_ROW = 1e-3
STARTUP_S = 0.5

#: CPU type → speed relative to a host that computes a row in `SECONDS_PER_ROW`.
SPEEDS = {"slow": 1.0, "fast": 2.0}

#: The clock starts here: 1 January 2000 UTC, seconds since the epoch.
EPOCH = 946_684_800.0


class FakeClusterPlatform(Platform):
    """Hosts `fake1`, `fake2`, …; every second one is fast."""

    name = "fake"
    several_hosts = True
    starts_programs = shares_hosts = costs_vary_with_slab = can_cut_two_axes = False
    options: ClassVar[Mapping[str, str]] = {"hosts": "number of hosts (default 4)"}
    excludes: ClassVar[Mapping[str, str]] = {"policy": "there are no processes to coschedule"}

    def __init__(self, pool: Grid) -> None:
        super().__init__(pool)
        self._now = EPOCH

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return the cluster, or the hosts of a grid file."""
        count = setup.options.get("hosts", "4")
        if not count.isdecimal() or int(count) < 1:
            raise ConfigError(f"hosts={count}: expected a whole number of 1 or more")
        hosts = tuple(
            Host(name=f"fake{k}", slots=2, cpu_type="slow" if k % 2 else "fast")
            for k in range(1, int(count) + 1)
        )
        cluster = Grid(name="fake cluster", hosts=hosts, source="the example platform")
        return cls(setup.restrict(setup.grid or cluster))

    def snapshot(self, notify: Notify) -> Snapshot:
        """Return forecasts of idle hosts with 4 GB of free memory each."""
        forecasts = {}
        for host in self.pool.hosts:
            values = {
                Resource.CPU_NEW: 1.0,
                Resource.CPU_CAPACITY: float(host.slots),
                Resource.MEMORY_FREE: 4e9,
            }
            for resource, value in values.items():
                forecasts[Series(resource, host.name)] = single_forecast(value, self._now, self.name)
        found = from_forecasts(self.pool, forecasts, now=self._now, source="the example platform")
        return without(found, self._dropped)

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError` for hosts that are not in the pool."""
        names = [host.name for host in self.pool.hosts]
        unknown = [host for host in request.plan.hosts if host not in names]
        if unknown:
            raise LaunchError(f"hosts {', '.join(unknown)} are not in the pool: {', '.join(names)}")

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the command of the ranks; nothing starts them."""
        return list(request.command)

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Advance the clock by the run time and return what every rank would have observed."""
        self.check(request)
        ranks = request.plan.assignments
        iterations = request.workload.iterations
        seconds = [a.rows * iterations * SECONDS_PER_ROW / self._speed(a.host) for a in ranks]
        total_s, limit_s = STARTUP_S + max(seconds), request.time_limit_s
        if limit_s is not None and total_s > limit_s:
            self._now += limit_s
            message = f"the time limit of {limit_s:g} s was reached"
            return Outcome(ended="time limit", exit_code=124, observed_s=limit_s, message=message)
        self._now += total_s
        notify(f"fake cluster: {total_s:.1f} s of pretended time")
        return Outcome(
            ended="finished",
            exit_code=0,
            observed_s=total_s,
            statuses=tuple(RankStatus(rank=a.rank, host=a.host, exit_code=0) for a in ranks),
            observations=tuple(
                RankObservation(
                    rank=a.rank,
                    host=a.host,
                    rows=a.rows,
                    iterations=iterations,
                    setup_s=STARTUP_S,
                    compute_s=computed_s,
                    communicate_s=0.0,
                    wait_s=total_s - STARTUP_S - computed_s,
                    total_s=total_s,
                )
                for a, computed_s in zip(ranks, seconds, strict=True)
            ),
        )

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Return the known speed of the host."""
        workload = request.template.workload(1, request.options)
        return Benchmark(
            ranks=request.ranks,
            seconds_per_row=SECONDS_PER_ROW / self._speed(request.host.name),
            startup_s=STARTUP_S,
            bytes_per_row=workload.bytes_per_row,
        )

    def checkpoint_s(self, path: object, size_bytes: float) -> float:
        """Return the seconds of a checkpoint: 1 GB/s, on a disk that all hosts share."""
        return size_bytes / 1e9

    def machine(self, host: Host) -> str:
        """Return the key of the host's benchmarks: its CPU type decides its speed."""
        return f"fake {host.cpu_type}"

    def now(self) -> float:
        """Return the pretended time."""
        return self._now

    def _speed(self, name: str) -> float:
        types = {host.name: host.cpu_type for host in self.pool.hosts}
        return SPEEDS.get(types[name], 1.0)
