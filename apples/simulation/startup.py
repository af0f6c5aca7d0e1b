"""Start-up of a run: processes start, then every rank locates every peer.

The location service answers one request at a time, first come, first served. A rank sends its next request after the
last answer. P ranks with P requests each use the one server, so the time grows with the square of P (Wolski et al.
2000, §3.1: "the time required to resolve the physical location of a data object"). The queue produces this cost; no
formula states it.
"""

import heapq

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.scenario import StartupTruth


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
    asked, located = [0] * ranks, started.copy()
    free = 0.0
    for took in service:
        arrives, rank = queue[0]
        free = max(free, arrives) + took
        asked[rank] += 1
        answered = free + half[rank]
        if asked[rank] < ranks:
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
