"""Resources of the ranks of one run over a period, as arrays over common instants.

CPUs are shared fairly between a rank and all other processes. Other busy CPUs of the host slow it through the memory
bus, and memory beyond the free memory is paged (Wolski et al. 2000, §3.3, §4.1). A transfer gets the smallest share of
both hosts' links and of the uplinks that it crosses. Shares include the run's own concurrent transfers and the traffic
of other users. Other load does not react to the run.
"""

from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.mock_grid import IntArray, MockGrid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """The P ranks of one run.

    hosts: int64[P].
    work_s: float64[P], one sweep alone on an idle host, s.
    memory_bytes: float64[P], memory of each rank.
    """

    hosts: IntArray
    work_s: FloatArray
    memory_bytes: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """Resources of P ranks over M stretches between `times`, float64[M+1] s.

    share: float64[P, M], share of one CPU for the rank.
    rate: float64[P, M], idle-host seconds of work done per second.
    done: float64[P, M+1], work done since `times[0]` if the rank always computed.
    latency_s, bandwidth_Bps: float64[P-1, M] of the link from rank i to rank i+1.
    """

    times: FloatArray
    share: FloatArray
    rate: FloatArray
    done: FloatArray
    latency_s: FloatArray
    bandwidth_Bps: FloatArray

    def stretch(self, t: FloatArray) -> IntArray:
        """Return the index of the stretch of each instant."""
        step = np.searchsorted(self.times, t, side="right") - 1
        stretch: IntArray = np.minimum(step, self.rate.shape[1] - 1)
        return stretch


def open_window(grid: MockGrid, chain: Chain, begin: float, end: float) -> Window:
    """Return the resources of a run on `chain` between two instants."""
    processes = grid.processes(end)
    hosts, uplink = grid.host_utilisation(end), grid.uplink_utilisation(end)
    used = np.unique(chain.hosts)
    sites = np.unique(grid.machines.site[used])
    steps = [
        *(processes[h][0] for h in used),
        *(hosts[h] for h in used),
        *(uplink[s] for s in sites if s >= 0),
    ]
    inside = np.unique(np.concatenate([s.breaks(begin, end) for s in steps]))
    times = np.concatenate(([begin], inside, [end]))
    at = times[:-1]
    share, rate = np.empty((2, len(chain.hosts), len(at)))
    for h in used:
        mine = chain.hosts == h
        others = processes[h][0].at(at), processes[h][1].at(at)
        share[mine], rate[mine] = _share_and_rate(grid, int(h), chain.memory_bytes[mine], others)
    done = np.concatenate((np.zeros((len(rate), 1)), np.cumsum(rate * np.diff(times), axis=1)), axis=1)
    host_use = np.stack([hosts[h].at(at) for h in chain.hosts])
    site_use = np.stack([s.at(at) for s in uplink]) if uplink else np.zeros((0, len(at)))
    latency, bandwidth = _links(grid, chain.hosts, host_use, site_use)
    return Window(times=times, share=share, rate=rate, done=done, latency_s=latency, bandwidth_Bps=bandwidth)


def _share_and_rate(
    grid: MockGrid, host: int, memory: FloatArray, others: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return CPU share and work per second of each rank on one host, float64[M]. `others`: (processes, bytes)."""
    truth = grid.scenario.hosts
    cpus, running = grid.machines.cpus[host], others[0] + len(memory)
    share = np.minimum(1.0, cpus / running)
    neighbours = np.minimum(running, cpus) - 1
    need = float(memory.sum())
    outside = (
        np.maximum(need - grid.free_memory(host, others[1]), 0.0) / need if need else np.zeros_like(share)
    )
    paging = 1 + outside * (truth.paging_slowdown - 1)
    return share, share / (1 + truth.bus_slowdown * neighbours) / paging


def _links(
    grid: MockGrid, hosts: IntArray, host_use: FloatArray, site_use: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return latency and bandwidth of each link along the chain, float64[P-1, M], with all of them in use."""
    machines = grid.machines
    left, right = hosts[:-1], hosts[1:]
    remote = left != right
    flows = np.zeros(len(machines.site))
    np.add.at(flows, left[remote], 1.0)
    np.add.at(flows, right[remote], 1.0)
    latency = np.repeat(machines.latency_s[left, right][:, None], host_use.shape[1], axis=1)
    bandwidth = np.repeat(machines.bandwidth_Bps[left, right][:, None], host_use.shape[1], axis=1)
    busiest = np.maximum(host_use[:-1], host_use[1:])
    most = np.maximum(flows[left], flows[right])
    bandwidth[remote] *= (1 - busiest[remote]) / most[remote, None]
    crossing = remote & (machines.site[left] != machines.site[right])
    across = np.zeros(len(site_use))
    for end in (left, right):
        np.add.at(across, machines.site[end[crossing & (machines.site[end] >= 0)]], 1.0)
    for end in (left, right):
        where = np.flatnonzero(crossing & (machines.site[end] >= 0))
        site = machines.site[end[where]]
        share = grid.scenario.network.uplink_Bps * (1 - site_use[site]) / across[site, None]
        bandwidth[where] = np.minimum(bandwidth[where], share)
        busiest[where] = np.maximum(busiest[where], site_use[site])
    # A packet waits behind those already in the queue: 1/(1 - utilisation), as in a simple queue.
    latency[remote] /= 1 - busiest[remote]
    return latency, bandwidth
