"""The mock grid: machines, links and a clock, with load and traffic of other users.

All values are functions of the seed and of the runs made so far; queries do not change them. Schedulers must not read
this object. They see values of `mock_sensors`, and results of `execution`. The grid models the paper's Centurion
cluster (Wolski et al. 2000, §4.1) or any grid that a scenario describes.

Traffic of other users is drawn for a host's own link and for the uplink of a switch, in fixed chunks like the load. Its
effect on a transfer is defined elsewhere.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from apples.errors import ConfigError
from apples.model.grid import FloatArray, Grid, Host
from apples.model.template import Workload
from apples.simulation.hostload import CHUNK_S, Campaigns, HostLoad, Steps
from apples.simulation.scenario import CpuTruth, FailureTruth, Scenario, TrafficTruth

IntArray = NDArray[np.int64]

#: Independent random streams, one for each purpose, host or link: seeds are (seed, stream, index).
_LOAD, _HOST_TRAFFIC, _UPLINK_TRAFFIC, _CAMPAIGNS, _RUNS, _STANDING = range(6)
#: Longer than any simulation, s.
_ALWAYS_S = 1e9


class LinkTraffic:
    """Utilisation of one link, 0..1, generated on demand."""

    def __init__(self, truth: TrafficTruth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._generated_to = -CHUNK_S
        self._steps = Steps(np.array([self._generated_to]), np.zeros(1))

    def generate(self, until: float) -> None:
        """Generate all values before `until`."""
        truth, rng = self._truth, self._rng
        while self._generated_to < until:
            count = int(rng.poisson(CHUNK_S / truth.mean_stay_s))
            at = np.sort(rng.uniform(self._generated_to, self._generated_to + CHUNK_S, count))
            most = np.where(rng.random(count) < truth.busy_share, truth.busy_most, truth.quiet_most)
            used = rng.random(count) * most
            self._steps = Steps(
                np.concatenate((self._steps.times, at)), np.concatenate((self._steps.values, used))
            )
            self._generated_to += CHUNK_S

    def continued(self, now: float, rng: np.random.Generator) -> Self:
        """Return the same link up to `now` with another future of the same law, drawn from `rng`."""
        copied = copy.copy(self)
        past = self._steps.times <= now
        copied._rng, copied._generated_to = rng, now
        copied._steps = Steps(self._steps.times[past], self._steps.values[past])
        return copied

    def steps(self) -> Steps:
        """Return the utilisation as far as generated."""
        return self._steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machines:
    """Constant values of H hosts on S sites; arrays are float64[H] unless stated otherwise.

    sweep_s: seconds for one row of the scenario's application and one sweep, alone on the host.
    memory_bytes: bytes available to user processes.
    cpus: CPUs that all processes share.
    start_cpu_s, message_cpu_s: CPU time of a rank before its first sweep, and for each of its messages.
    site: int64[H], index of the host's site, -1 without one.
    latency_s, bandwidth_Bps: float64[H, H] of one idle link.
    """

    sweep_s: FloatArray
    cpus: FloatArray
    start_cpu_s: FloatArray
    message_cpu_s: FloatArray
    memory_bytes: FloatArray
    site: IntArray
    latency_s: FloatArray
    bandwidth_Bps: FloatArray


class MockGrid:
    """True state of the hosts of `grid` under one of the scenario's loads.

    now: simulated time, s. Only `advance` changes it.
    died_at: float64[H], time of each host's death, or infinity.
    noticed_s: delay until a launcher notices a death.

    Raises `ConfigError` for an unknown CPU type or load, or a failing host that is not in the grid.
    """

    def __init__(self, grid: Grid, scenario: Scenario, *, load: str, seed: int) -> None:
        if load not in scenario.loads:
            known = ", ".join(sorted(scenario.loads))
            raise ConfigError(f"scenario {scenario.name!r} has no load {load!r}; legal are {known}")
        self.grid, self.scenario = grid, scenario
        self.seed, self.now = seed, 0.0
        self.died_at = np.full(len(grid.hosts), math.inf)
        self._index = {host.name: i for i, host in enumerate(grid.hosts)}
        self.noticed_s = np.zeros(len(grid.hosts))
        for failure in scenario.failures:
            self._fail(failure)
        self._runs = 0
        self._generated_to = -math.inf
        truth, network = scenario.loads[load], scenario.network
        hosts = range(len(grid.hosts))
        self._load = [HostLoad(truth, self._rng(_LOAD, h)) for h in hosts]
        for name, count in truth.standing.items():
            self._stand(name, count)
        self._traffic = [LinkTraffic(network.host_traffic, self._rng(_HOST_TRAFFIC, h)) for h in hosts]
        sites = range(int(self.machines.site.max(initial=-1)) + 1)
        self._uplinks = [LinkTraffic(network.uplink_traffic, self._rng(_UPLINK_TRAFFIC, s)) for s in sites]
        campaigns = truth.campaigns
        self._campaigns = None if campaigns is None else Campaigns(campaigns, self._rng(_CAMPAIGNS))

    def continued(self, seed: int) -> Self:
        """Return the same grid up to now with another future of the same law: loads, traffic and noise of runs."""
        copied = copy.copy(self)
        copied.seed, now = seed, self.now
        copied._load = [one.continued(now, copied._rng(_LOAD, h)) for h, one in enumerate(self._load)]
        copied._traffic = [
            one.continued(now, copied._rng(_HOST_TRAFFIC, h)) for h, one in enumerate(self._traffic)
        ]
        copied._uplinks = [
            one.continued(now, copied._rng(_UPLINK_TRAFFIC, s)) for s, one in enumerate(self._uplinks)
        ]
        if self._campaigns is not None:
            copied._campaigns = self._campaigns.continued(now, copied._rng(_CAMPAIGNS))
        copied._generated_to = now
        return copied

    @cached_property
    def machines(self) -> Machines:
        """Draw hosts and links from the scenario's own seed: they are equal for all seeds of load and traffic."""
        truth = self.scenario.hosts
        types = [_cpu_truth(self.scenario, host) for host in self.grid.hosts]
        rng = np.random.default_rng(truth.hardware_seed)
        spread = rng.normal(0.0, truth.speed_spread, len(types))
        sites = sorted({host.site for host in self.grid.hosts if host.site is not None})
        latency, bandwidth = (np.asarray(values) for values in self.grid.nominal_links()[:2])
        deviation = rng.normal(0.0, self.scenario.network.link_spread, (2, *latency.shape))
        deviation = np.exp((deviation + deviation.transpose(0, 2, 1)) / math.sqrt(2))
        alone = np.eye(len(types), dtype=bool)
        installed = [h.memory_bytes or t.memory_bytes for h, t in zip(self.grid.hosts, types, strict=True)]
        return Machines(
            sweep_s=np.array([t.seconds_per_row for t in types]) * np.exp(spread),
            cpus=np.array([float(t.cpus) for t in types]),
            start_cpu_s=_own_or(self.scenario.startup.start_cpu_s, [t.start_cpu_s for t in types]),
            message_cpu_s=_own_or(self.scenario.network.message_cpu_s, [t.message_cpu_s for t in types]),
            memory_bytes=np.array(installed) - np.array([t.system_bytes for t in types]),
            site=np.array([-1 if h.site is None else sites.index(h.site) for h in self.grid.hosts]),
            latency_s=np.where(alone, latency, latency * deviation[0]),
            bandwidth_Bps=np.where(
                alone, bandwidth, bandwidth * self.scenario.network.efficiency * deviation[1]
            ),
        )

    def host_index(self, name: str) -> int:
        """Return the index of a host in all arrays; raise `KeyError`."""
        return self._index[name]

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def fail_host(self, name: str, at: float) -> None:
        """Let a host die at this time. It stays dead."""
        self.died_at[self._index[name]] = at

    def _stand(self, name: str, count: int) -> None:
        """Add permanent processes, which started before time 0."""
        load = self._load[self._known(name, "standing")]
        always = np.full(count, 1.0)
        load.add(-_ALWAYS_S * always, _ALWAYS_S * always, load.process_bytes(count, self._rng(_STANDING)))

    def _known(self, name: str, where: str) -> int:
        if name not in self._index:
            raise ConfigError(
                f"scenario {self.scenario.name!r}: {where}: no host {name!r} in grid {self.grid.name!r}; "
                f"legal are {', '.join(self._index)}"
            )
        return self._index[name]

    def _fail(self, failure: FailureTruth) -> None:
        self._known(failure.host, "failures")
        self.fail_host(failure.host, failure.at_s)
        self.noticed_s[self._index[failure.host]] = failure.noticed_s

    def dead(self) -> list[str]:
        """Return the hosts that have died by now."""
        return [
            host.name for host, died in zip(self.grid.hosts, self.died_at, strict=True) if died <= self.now
        ]

    def processes(self, until: float) -> list[tuple[Steps, Steps]]:
        """Return for each host (other processes, bytes that they hold), fixed for all times before `until`."""
        self._generate(until)
        return [load.steps() for load in self._load]

    def host_utilisation(self, until: float) -> list[Steps]:
        """Return the utilisation of every host's own link by other traffic, 0..1."""
        self._generate(until)
        return [traffic.steps() for traffic in self._traffic]

    def uplink_utilisation(self, until: float) -> list[Steps]:
        """Return the utilisation of every site's uplink by other traffic, 0..1."""
        self._generate(until)
        return [traffic.steps() for traffic in self._uplinks]

    def free_memory(self, host: int, held_bytes: FloatArray) -> FloatArray:
        """Return the free bytes of a host when other processes hold `held`, at least 0."""
        free: FloatArray = np.maximum(self.machines.memory_bytes[host] - held_bytes, 0.0)
        return free

    def row_cost(self, workload: Workload) -> float:
        """Return the cost of a row of `workload` in rows of the scenario's application.

        Memory traffic limits a stencil sweep, so a row of another application costs in proportion to its memory
        (assumed).
        """
        application = self.scenario.application
        if workload.application == application.name or not (
            workload.bytes_per_row and application.bytes_per_row
        ):
            return 1.0
        return workload.bytes_per_row / application.bytes_per_row

    def next_run(self) -> np.random.Generator:
        """Return the random numbers of one more run, independent of all load."""
        self._runs += 1
        return self._rng(_RUNS, self._runs)

    def occupy(self, hosts: IntArray, memory_bytes: FloatArray, begin: float, end: float) -> None:
        """Add the processes of a run, one per rank, to the load of the hosts, so that sensors see them."""
        for host, held in zip(hosts.tolist(), memory_bytes.tolist(), strict=True):
            self._load[host].add(np.array([begin]), np.array([end]), np.array([held]))

    def _generate(self, until: float) -> None:
        if until <= self._generated_to:
            return
        if self._campaigns is not None:
            self._campaigns.add_to(self._load, until)
        for load in self._load:
            load.generate(until)
        for traffic in (*self._traffic, *self._uplinks):
            traffic.generate(until)
        self._generated_to = until

    def _rng(self, stream: int, index: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, index])


def _own_or(usual: float, stated: Sequence[float | None]) -> FloatArray:
    """Return the value of each host's CPU type, or the default."""
    return np.array([usual if value is None else value for value in stated])


def _cpu_truth(scenario: Scenario, host: Host) -> CpuTruth:
    types = scenario.hosts.cpu_types
    truth = types.get(host.cpu_type) or types.get("default")
    if truth is None:
        raise ConfigError(
            f"scenario {scenario.name!r} says nothing of CPU type {host.cpu_type!r} (host {host.name}); "
            f"it knows {', '.join(sorted(types))}; add the type, or one called 'default', under hosts.cpu_types"
        )
    return truth
