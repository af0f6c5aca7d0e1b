"""One run in simulated time: start-up, then sweeps until the work is done or a host dies.

A sweep of a rank is work that its host does at the rate of each instant. An exchange of two neighbours begins when both
have swept. The exchanges of a rank with its two neighbours overlap. A barrier of log2 P rounds then waits for the
slowest rank. If the application overlaps communication, the barrier and the first part of the next sweep continue
during the exchange. All times result from these events; the model of `apples.planning` is not used.

Start-up of a run: processes start, then every rank locates every peer.

The location service answers one request at a time, first come, first served. A rank sends its next request after the
last answer. P ranks with P requests each use the one server, so the time grows with the square of P (Wolski et al.
2000, §3.1: "the time required to resolve the physical location of a data object"). The queue produces this cost; no
formula states it.
"""

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.gridsteering import RunProgress, SimulatedSteering
from apples.simulation.mock_grid import MockGrid
from apples.simulation.scenario import StartupTruth
from apples.simulation.window import Chain, open_window
from nws.base.records import copied


def processes_started(
    truth: StartupTruth, launched: float, cpu: tuple[FloatArray, FloatArray], rng: np.random.Generator
) -> FloatArray:
    """Return the time at which each rank's process runs, float64[P] s. A host with a smaller CPU share starts it later.

    Argument `cpu` has the CPU seconds that each rank needs first, and its share of a CPU.
    """
    needed_s, share = cpu
    took = truth.start_wait_s + needed_s / share
    return launched + took * _spread(truth.start_spread, len(share), rng)


def peers_located(
    truth: StartupTruth, started: FloatArray, round_trip_s: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the time at which each rank has located all P peers, float64[P] s."""
    ranks = len(started)
    if truth.lookup_s <= 0 or ranks < 2:
        return started + ranks * round_trip_s
    service = (truth.lookup_s * _spread(truth.lookup_spread, ranks * ranks, rng)).tolist()
    half = (round_trip_s / 2).tolist()
    queue = [(at + half[rank], rank) for rank, at in enumerate(started.tolist())]
    heapq.heapify(queue)
    queries, located = [0] * ranks, started.copy()
    free = 0.0
    for took in service:
        arrives, rank = queue[0]
        free = max(free, arrives) + took
        queries[rank] += 1
        answered = free + half[rank]
        if queries[rank] < ranks:
            heapq.heapreplace(queue, (answered + half[rank], rank))
        else:
            heapq.heappop(queue)
            located[rank] = answered
    return located


def _spread(spread: float, count: int, rng: np.random.Generator) -> FloatArray:
    """Return positive random factors of mean 1 with this standard deviation (gamma), float64[count]."""
    if spread <= 0:
        return np.ones(count)
    shape = 1 / spread**2
    return rng.gamma(shape, 1 / shape, count)


#: Number of sweeps of one draw of random numbers.
_BLOCK = 64
#: Shortest window of resources, seconds.
_LEAST_WINDOW_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MockJob:
    """A run of P ranks with `rows`, and per sweep `messages` and `exchanged_bytes` to each neighbour.

    checkpoint_every: sweeps between checkpoints, or None. Each takes all ranks `checkpoint_s`.
    """

    chain: Chain
    iterations: int
    messages: float
    exchanged_bytes: float
    checkpoint_every: int | None = None
    checkpoint_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Execution:
    """Result of a run. Arrays are float64[P] seconds, defined as in `apples.model.plan.RankObservation`.

    launched, ended: simulated time, s.
    iterations: sweeps done.
    lost_host: index of the host that died, or None.
    checkpoint_s: time of all `checkpoints` of a rank.
    """

    launched: float
    ended: float
    iterations: int
    setup_s: FloatArray
    compute_s: FloatArray
    communicate_s: FloatArray
    wait_s: FloatArray
    lost_host: int | None
    checkpoints: int = 0
    checkpoint_s: float = 0.0


def execute(
    grid: MockGrid,
    job: MockJob,
    launched: float,
    rng: np.random.Generator,
    *,
    steering: SimulatedSteering | None = None,
) -> Execution:
    """Run a job from `launched` on, and return its times. The grid's clock does not change.

    Argument `steering` reports progress to a controller and applies its orders.
    """
    run = _Run(grid, job, launched, rng)
    run.start()
    if steering is not None and run.lost is None:
        steering.begin(run.standing())
        run.steering = steering
    for first in range(0, job.iterations, _BLOCK):
        run.sweeps(min(_BLOCK, job.iterations - first))
        if run.lost is not None or (steering is not None and steering.ended):
            break
    return run.result()


class _Network:
    """Random delays of the messages between P ranks, and their barrier."""

    def __init__(self, grid: MockGrid, job: MockJob, rng: np.random.Generator) -> None:
        self._truth, self._messages, self._rng = grid.scenario.network, job.messages, rng
        hosts = job.chain.hosts
        self._ranks = len(hosts)
        rounds = math.ceil(math.log2(self._ranks)) if self._ranks > 1 else 0
        self._from = [(np.arange(self._ranks) - 2**k) % self._ranks for k in range(rounds)]
        self._hop = [grid.machines.latency_s[hosts[f], hosts] for f in self._from]

    def transfer_noise(self, count: int) -> list[tuple[FloatArray, FloatArray]]:
        """Return for each sweep (factor of each link's transfer time, seconds stalled), float64[P-1] each."""
        truth, shape = self._truth, (count, self._ranks - 1)
        sigma = truth.transfer_spread
        factor = np.exp(self._rng.normal(-(sigma**2) / 2, sigma, shape))
        lost = self._rng.binomial(max(round(self._messages), 0), truth.stall_probability, shape)
        return list(zip(factor, truth.stall_s * lost, strict=True))

    def barrier_noise(self, count: int) -> FloatArray:
        """Return the seconds of each message of each round, float64[count, rounds, P]."""
        shape = (count, len(self._hop), self._ranks)
        if not self._hop:
            return np.empty(shape)
        sigma = self._truth.transfer_spread
        base = np.stack(self._hop) + self._truth.message_s
        return base * np.exp(self._rng.normal(-(sigma**2) / 2, sigma, shape))

    def barrier(self, t: FloatArray, hop_s: FloatArray) -> FloatArray:
        """Return the times after a dissemination barrier: in round k rank i waits for rank i - 2^k."""
        for sender, took in zip(self._from, hop_s, strict=True):
            t = np.maximum(t, t[sender] + took)
        return t


class _Run:
    """State of a run. `t`: float64[P], present time of each rank, s."""

    def __init__(self, grid: MockGrid, job: MockJob, launched: float, rng: np.random.Generator) -> None:
        self.grid, self.job, self.launched, self.rng = grid, job, launched, rng
        chain = job.chain
        ranks = len(chain.hosts)
        self.t = np.full(ranks, launched)
        self.setup_s, self.compute_s = np.zeros(ranks), np.zeros(ranks)
        self.communicate_s, self.wait_s = np.zeros(ranks), np.zeros(ranks)
        self.iterations = self.checkpoints = 0
        self.lost: int | None = None
        self.steering: SimulatedSteering | None = None
        self._ranks = np.arange(ranks)
        self._ahead = grid.scenario.application.ahead
        #: Arrival of the neighbours' rows in flight, seconds, with overlap.
        self._arrive = np.full(ranks, launched)
        self._dies = float(grid.died_at[chain.hosts].min())
        truth = grid.scenario.hosts
        self._speed = np.exp(rng.normal(0.0, truth.run_spread, ranks))
        self._network = _Network(grid, job, rng)
        idle_s = float(chain.work_s.max()) * job.iterations
        self._window = open_window(grid, chain, launched, launched + max(_LEAST_WINDOW_S, 3 * idle_s))

    def start(self) -> None:
        """Start processes, locate peers, touch the slabs, and pass the barrier before the loop."""
        grid, hosts = self.grid, self.job.chain.hosts
        truth = grid.scenario.startup
        started = processes_started(
            truth, self.launched, (grid.machines.start_cpu_s[hosts], self._window.share[:, 0]), self.rng
        )
        round_trip = 2 * grid.machines.latency_s[hosts, hosts[0]]
        self.t = peers_located(truth, started, round_trip, self.rng)
        self.t = self._computed(self.t, self.job.chain.work_s)
        self.t = self._network.barrier(self.t, self._network.barrier_noise(1)[0])
        self.setup_s = self.t - self.launched
        self._send_ahead()
        self._check_hosts()

    def sweeps(self, count: int) -> None:
        """Do `count` sweeps, unless a host dies before."""
        if self.lost is not None:
            return
        spread = self.grid.scenario.hosts.sweep_spread
        ranks = len(self.t)
        work = self.job.chain.work_s * self._speed
        noise = np.exp(self.rng.normal(0.0, spread, (count, ranks)))
        transfer = self._network.transfer_noise(count)
        barrier = self._network.barrier_noise(count)
        handled = self._handled()
        for k in range(count):
            begun = self.t
            swept, exchanged = self._swept(begun, work * noise[k], transfer[k])
            self.t = exchanged if handled is None else self._computed(exchanged, handled)
            self.t = self._network.barrier(self.t, barrier[k])
            self.compute_s += swept
            self.communicate_s += exchanged - begun - swept
            self.wait_s += self.t - exchanged
            self.iterations += 1
            every = self.job.checkpoint_every
            if every and self.iterations % every == 0:
                self.checkpoints += 1
                self.t = np.full(ranks, self._at_rest() + self.job.checkpoint_s)
            if self._dies <= self.t.max():
                self._check_hosts()
                return
            if self.steering is not None and self.steering.due(float(self.t.max())):
                self._steer(self.steering)
                if self.steering.ended:
                    return
                work = self.job.chain.work_s * self._speed

    def standing(self) -> RunProgress:
        """Return the present progress."""
        t = float(self.t.max())
        window, links = self._window, self._ranks[:-1]
        position = window.stretch(np.array([t]))[0]
        return RunProgress(
            t=t,
            iterations=self.iterations,
            of=self.job.iterations,
            compute_s=self.compute_s.copy(),
            communicate_s=self.communicate_s.copy(),
            wait_s=self.wait_s.copy(),
            latency_s=window.latency_s[links, position],
            bandwidth_Bps=window.bandwidth_Bps[links, position],
        )

    def _steer(self, steering: SimulatedSteering) -> None:
        """Report progress. If the controller orders it, change slabs or write a checkpoint."""
        moved = steering.hear(self.standing())
        if steering.ended:
            self.checkpoints += 1
            self.t = np.full(len(self.t), self._at_rest() + self.job.checkpoint_s)
        if moved is not None:
            chain = replace(self.job.chain, work_s=moved.work_s, memory_bytes=moved.memory_bytes)
            self.job = replace(self.job, chain=chain)
            begin, end = float(self._window.times[0]), float(self._window.times[-1])
            self._window = open_window(self.grid, chain, begin, end)
            self.t = np.full(len(self.t), self._at_rest() + moved.took_s)
            self._send_ahead()

    def result(self) -> Execution:
        """Return the result up to now."""
        ended = self._dies if self.lost is not None else float(self.t.max())
        if self.lost is None:
            ended += self.grid.scenario.startup.finish_s
        return copied(
            Execution,
            self,
            ended=ended,
            lost_host=self.lost,
            checkpoint_s=self.checkpoints * self.job.checkpoint_s,
        )

    def _check_hosts(self) -> None:
        if self._dies <= self.t.max():
            died = self.grid.died_at[self.job.chain.hosts]
            self.lost = int(self.job.chain.hosts[int(died.argmin())])

    def _computed(self, begin: FloatArray, work: FloatArray) -> FloatArray:
        """Return the time at which each rank, starting at `begin`, has done `work` idle-host seconds."""
        window, ranks = self._window, self._ranks
        position = window.stretch(begin)
        rate, at = window.rate[ranks, position], window.times[position]
        target = window.done[ranks, position] + rate * (begin - at) + work
        late = window.done[ranks, position + 1] < target
        last = window.rate.shape[1] - 1
        while late.any():
            if (position[late] == last).any():
                self._look_further()
                return self._computed(begin, work)
            position = position + late
            late = window.done[ranks, position + 1] < target
        return window.times[position] + (target - window.done[ranks, position]) / window.rate[ranks, position]

    def _look_further(self) -> None:
        """Double the length of the window."""
        begin, end = self._window.times[0], self._window.times[-1]
        self._window = open_window(self.grid, self.job.chain, float(begin), float(2 * end - begin))

    def _swept(
        self, begun: FloatArray, work: FloatArray, noise: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sweep time of each rank, and the time at which it has exchanged (or begun to, with overlap)."""
        if self._ahead is None:
            swept = self._computed(begun, work)
            return swept - begun, self._exchanged(swept, noise)
        paused = self._computed(begun, self._ahead * work)
        resumed: FloatArray = np.maximum(paused, self._arrive)
        swept = self._computed(resumed, (1 - self._ahead) * work)
        self._arrive = self._exchanged(swept, noise)
        return swept - begun - (resumed - paused), swept

    def _send_ahead(self) -> None:
        """Send rows to the neighbours before the first sweep (overlap)."""
        if self._ahead is not None:
            self._arrive = self._exchanged(self.t, self._network.transfer_noise(1)[0])

    def _at_rest(self) -> float:
        """Return the time at which all ranks have arrived and no message is in flight."""
        return float(self.t.max() if self._ahead is None else max(self.t.max(), self._arrive.max()))

    def _exchanged(self, swept: FloatArray, noise: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return the time at which each rank has exchanged with both neighbours."""
        if len(swept) == 1:
            return swept
        both = np.maximum(swept[:-1], swept[1:])
        window = self._window
        position = window.stretch(both)
        link = self._ranks[:-1]
        factor, stalled = noise
        message_s = window.latency_s[link, position] + self.grid.scenario.network.message_s
        took = self.job.messages * message_s + self.job.exchanged_bytes / window.bandwidth_Bps[link, position]
        ended = both + took * factor + stalled
        result = swept.copy()
        result[:-1] = ended
        np.maximum(result[1:], ended, out=result[1:])
        return result

    def _handled(self) -> FloatArray | None:
        """Return the CPU time of each rank for the messages of a sweep, float64[P] s, or None if there is none."""
        if len(self.t) == 1:
            return None
        cpu_s: FloatArray = self.job.messages * self.grid.machines.message_cpu_s[self.job.chain.hosts]
        return cpu_s if cpu_s.any() else None
