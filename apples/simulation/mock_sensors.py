"""Sensor readings of the mock grid, in rounds. Schedulers see nothing else of it.

A CPU reading is the average share of a new process over a window that ends now. A memory reading is the free memory of
the instant. A network probe has one link for itself, with other users' traffic. All values have noise. None contains
memory buses, software costs of messages or future load. Dead hosts give no values. The design follows the Network
Weather Service (Wolski et al. 2000, §2.4). `nws.sensors` reads real machines.

Dedicated runs on the mock grid: benchmark values of one host without other processes.

The application runs on the idle host with slabs of several heights, as in the paper (Wolski et al. 2000, §3.1: "we run
PMHD3D on dedicated machines with various problem sizes"). Only elapsed times and CPU times are used, so calibration
works as on real hosts.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from apples.errors import LaunchError
from apples.model.grid import FloatArray, Host
from apples.model.template import Benchmark, Workload
from apples.simulation.execution import MockJob, execute
from apples.simulation.mock_grid import IntArray, MockGrid
from apples.simulation.scenario import NO_LOAD, Scenario
from apples.simulation.window import Chain
from nws.series import Measurement, Resource, Series


@dataclass(frozen=True, slots=True, eq=False)
class SensorRound:
    """One round of one kind: value `values[i]` (float64) belongs to `series[i]`. `t`: simulated time, s."""

    t: float
    series: tuple[Series, ...]
    values: FloatArray

    def measurements(self) -> list[Measurement]:
        """Return the values as records of the weather service."""
        pairs = zip(self.series, self.values.tolist(), strict=True)
        return [Measurement(series, self.t, value) for series, value in pairs]


class MockSensors:
    """Sensors on every host of a grid, with fixed periods.

    read_to: simulated time of the last reading. Rounds are at multiples of their period.
    """

    def __init__(self, grid: MockGrid, rng: np.random.Generator, *, since: float) -> None:
        self._grid, self._rng = grid, rng
        self._truth = grid.scenario.sensors
        self.read_to = since
        names = [host.name for host in grid.grid.hosts]
        self._cpu_new = [Series(Resource.CPU_NEW, n) for n in names]
        self._cpu_capacity = [Series(Resource.CPU_CAPACITY, n) for n in names]
        self._memory = [Series(Resource.MEMORY_FREE, n) for n in names]
        self._pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
        self._latency = [Series(Resource.LATENCY, names[i], names[j]) for i, j in self._pairs]
        self._bandwidth = [Series(Resource.BANDWIDTH, names[i], names[j]) for i, j in self._pairs]
        self._from = np.array([i for i, _ in self._pairs], dtype=np.int64)
        self._to = np.array([j for _, j in self._pairs], dtype=np.int64)

    def read(self, until: float) -> Iterator[SensorRound]:
        """Yield all rounds due after the last one, up to and including `until`, in order of time."""
        host_times = _multiples(self._truth.host_period_s, self.read_to, until)
        network_times = _multiples(self._truth.network_period_s, self.read_to, until)
        self.read_to = max(until, self.read_to)
        rounds = [*self._host_rounds(host_times, until), *self._network_rounds(network_times, until)]
        yield from sorted(rounds, key=lambda reading: reading.t)

    def _host_rounds(self, times: FloatArray, until: float) -> Iterator[SensorRound]:
        """Yield CPU and memory of every live host at each instant."""
        if not len(times):
            return
        truth, machines, hosts = self._truth, self._grid.machines, self._grid.grid.hosts
        processes = self._grid.processes(until)
        size = (len(times), len(hosts))
        new, capacity, free = np.empty((3, *size))
        for h, ((count, held), host) in enumerate(zip(processes, hosts, strict=True)):
            cpus = machines.cpus[h]
            share = count.mapped(np.minimum(1.0, cpus / (count.values + 1)))
            together = count.mapped(host.slots * np.minimum(1.0, cpus / (count.values + host.slots)))
            new[:, h] = share.mean(times - truth.cpu_window_s, times)
            capacity[:, h] = together.mean(times - truth.cpu_window_s, times)
            free[:, h] = self._grid.free_memory(h, held.at(times))
        error = self._rng.normal(0.0, truth.cpu_error, size)
        new = np.clip(new + error, 0.0, 1.0)
        capacity = np.clip(capacity + error, 0.0, [float(host.slots) for host in hosts])
        free = free * (1 + self._rng.normal(0.0, truth.memory_error, size))
        for k, t in enumerate(times.tolist()):
            alive = np.flatnonzero(self._grid.died_at > t)
            series = [s[h] for s in (self._cpu_new, self._cpu_capacity, self._memory) for h in alive]
            values = np.concatenate((new[k, alive], capacity[k, alive], free[k, alive]))
            yield SensorRound(t, tuple(series), values)

    def _network_rounds(self, times: FloatArray, until: float) -> Iterator[SensorRound]:
        """Yield latency and bandwidth of every ordered pair of live hosts, one probe at a time on every link."""
        if not len(times) or not self._pairs:
            return
        truth, machines = self._truth, self._grid.machines
        uplink_Bps = self._grid.scenario.network.uplink_Bps
        hosts = np.stack([u.at(times) for u in self._grid.host_utilisation(until)])
        uplinks = self._grid.uplink_utilisation(until)
        uplink = np.stack([u.at(times) for u in uplinks]) if uplinks else np.zeros((1, len(times)))
        i, j = self._from, self._to
        crossing = machines.site[i] != machines.site[j]
        for k, t in enumerate(times.tolist()):
            busiest = np.maximum(hosts[i, k], hosts[j, k])
            bandwidth = machines.bandwidth_Bps[i, j] * (1 - busiest)
            for end in (i, j):
                used = np.where(crossing & (machines.site[end] >= 0), uplink[machines.site[end], k], 0.0)
                bandwidth = np.where(used > 0, np.minimum(bandwidth, uplink_Bps * (1 - used)), bandwidth)
                busiest = np.maximum(busiest, used)
            latency = machines.latency_s[i, j] / (1 - busiest)
            noise = self._rng.normal(0.0, 1.0, (2, len(i)))
            values = np.concatenate(
                (
                    latency * np.exp(truth.latency_error * noise[0]),
                    bandwidth * np.exp(truth.bandwidth_error * noise[1]),
                )
            )
            yield self._of_live_pairs(t, values)

    def _of_live_pairs(self, t: float, values: FloatArray) -> SensorRound:
        alive = self._grid.died_at > t
        series = [*self._latency, *self._bandwidth]
        if alive.all():
            return SensorRound(t, tuple(series), values)
        live: IntArray = np.flatnonzero(np.tile(alive[self._from] & alive[self._to], 2))
        return SensorRound(t, tuple(series[p] for p in live), values[live])


def _multiples(period: float, after: float, until: float) -> FloatArray:
    """Return the multiples of `period` in (after, until]."""
    first, last = np.floor(after / period) + 1, np.floor(until / period)
    return np.arange(first, last + 1) * period


#: Heights of the benchmark's slabs, in rows, and sweeps over each.
_SLABS = (25, 50, 100, 200, 400)
_SWEEPS = 50
#: Largest share of the host's memory for a benchmark.
_MEMORY_SHARE = 0.8


def dedicated(grid: MockGrid) -> MockGrid:
    """Return the same machines without other processes. Links keep their traffic."""
    scenario: Scenario = replace(grid.scenario, loads={"dedicated": NO_LOAD})
    idle = MockGrid(grid.grid, scenario, load="dedicated", seed=grid.seed)
    idle.died_at = grid.died_at
    return idle


def measure(
    grid: MockGrid, host: Host, workload: Workload, *, ranks: int, rng: np.random.Generator
) -> Benchmark:
    """Return the benchmark of `workload`'s application with `ranks` ranks on `host`; raise `LaunchError`."""
    idle = dedicated(grid)
    index = idle.host_index(host.name)
    if idle.died_at[index] <= grid.now:
        raise LaunchError(f"host {host.name} does not answer: no benchmark of it can be made")
    most = _most_rows(idle, index, workload, ranks)
    slabs = [rows for rows in _SLABS if rows <= most] or [most]
    work = idle.machines.sweep_s[index] * idle.row_cost(workload)
    hosts = np.full(ranks, index, dtype=np.int64)
    at, seconds, setups = 0.0, [], []
    for rows in slabs:
        memory = np.full(ranks, workload.bytes_fixed + workload.bytes_per_row * rows)
        job = MockJob(
            chain=Chain(hosts=hosts, work_s=np.full(ranks, work * rows), memory_bytes=memory),
            iterations=_SWEEPS,
            messages=workload.messages / workload.iterations,
            exchanged_bytes=workload.bytes_exchanged / workload.iterations,
        )
        happened = execute(idle, job, at, rng)
        seconds.append(float(happened.compute_s.mean()) / (rows * _SWEEPS))
        loop = float((happened.compute_s + happened.communicate_s + happened.wait_s).max())
        setups.append(happened.ended - happened.launched - loop)
        at = happened.ended
    error = grid.scenario.sensors.memory_error
    return Benchmark(
        ranks=ranks,
        seconds_per_row=float(np.mean(seconds)),
        startup_s=float(np.mean(setups)),
        bytes_per_row=workload.bytes_per_row * (1 + float(rng.normal(0.0, error))),
    )


def _most_rows(grid: MockGrid, host: int, workload: Workload, ranks: int) -> int:
    """Return the highest slab that array and memory allow, at least one row."""
    limits = [float(max(_SLABS))]
    if workload.max_rows is not None:
        limits.append(workload.max_rows)
    if workload.bytes_per_row > 0:
        room = float(grid.machines.memory_bytes[host]) * _MEMORY_SHARE / ranks - workload.bytes_fixed
        limits.append(room / workload.bytes_per_row)
    return max(1, math.floor(min(limits)))
