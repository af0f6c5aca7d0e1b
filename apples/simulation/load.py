"""Processes of other users on one host: they arrive, compute, hold memory and end.

A host moves through the regimes of its scenario ("heavy use of some machines and light use of others", Wolski et al.
2000, §4.1). In each regime processes arrive as a Poisson stream and stay for an exponential time. Time is generated in
fixed chunks, so values do not depend on the times of queries. The effect of load on a run is defined elsewhere.
"""

from __future__ import annotations

import math

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.scenario import CampaignTruth, LoadTruth, RegimeTruth
from apples.simulation.timeline import Steps

#: Length of a chunk, s. One chunk precedes time 0, so that hosts are not empty at the beginning.
CHUNK_S = 4 * 3600.0


class HostLoad:
    """Processes of one host, generated on demand.

    generated_to: seconds. Earlier values are fixed, later values are not generated yet.
    """

    def __init__(self, truth: LoadTruth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self.generated_to = -CHUNK_S
        stays = np.array([regime.mean_stay_s for regime in truth.regimes])
        self._regime = int(rng.choice(len(stays), p=stays / stays.sum()))
        self._regime_ends = self.generated_to + float(rng.exponential(stays[self._regime]))
        self._parts: list[FloatArray] = [np.empty((3, 0))]
        self._steps: tuple[Steps, Steps] | None = None

    def generate(self, until: float) -> None:
        """Generate all processes before `until`."""
        while self.generated_to < until:
            begin, end = self.generated_to, self.generated_to + CHUNK_S
            self._stream(begin, end, self._truth.brief_interval_s, self._truth.brief_duration_s)
            at = begin
            while at < end:
                regime = self._truth.regimes[self._regime]
                stop = min(end, self._regime_ends)
                if regime.interval_s is not None:
                    self._stream(at, stop, regime.interval_s, regime.duration_s)
                if stop == self._regime_ends:
                    self._next_regime()
                at = stop
            self.generated_to = end

    def add(self, begin: FloatArray, end: FloatArray, memory_bytes: FloatArray) -> None:
        """Add processes of a campaign or of a run, float64[N] each."""
        self._parts.append(np.stack((begin, end, memory_bytes)))
        self._steps = None

    def steps(self) -> tuple[Steps, Steps]:
        """Return (number of processes, bytes that they hold), as far as generated."""
        if self._steps is None:
            begin, end, memory = np.concatenate(self._parts, axis=1)
            self._parts = [np.stack((begin, end, memory))]
            ones = np.ones_like(begin)
            self._steps = Steps.of_intervals(begin, end, ones), Steps.of_intervals(begin, end, memory)
        return self._steps

    def process_bytes(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return the memory of `count` processes, lognormal, float64[count] bytes."""
        sigma = self._truth.process_bytes_spread
        return self._truth.process_bytes * rng.lognormal(0.0, sigma, count)

    def _stream(self, begin: float, end: float, interval_s: float, duration_s: float) -> None:
        count = int(self._rng.poisson((end - begin) / interval_s))
        arrive = self._rng.uniform(begin, end, count)
        stay = self._rng.exponential(duration_s, count)
        self.add(arrive, arrive + stay, self.process_bytes(count, self._rng))

    def _next_regime(self) -> None:
        self._regime = (self._regime + 1) % len(self._truth.regimes)
        regime: RegimeTruth = self._truth.regimes[self._regime]
        self._regime_ends += float(self._rng.exponential(regime.mean_stay_s))


class Campaigns:
    """Processes that start on many hosts at the same instant. Forecasters of one host cannot predict them."""

    def __init__(self, truth: CampaignTruth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._next = float(rng.exponential(truth.interval_s))

    def add_to(self, loads: list[HostLoad], until: float) -> None:
        """Add every campaign before `until` to its hosts."""
        while self._next < until:
            hit = self._rng.choice(len(loads), math.ceil(self._truth.host_share * len(loads)), replace=False)
            for host in hit:
                count = self._truth.processes
                stay = self._rng.exponential(self._truth.duration_s, count)
                begin = np.full(count, self._next)
                loads[host].add(begin, begin + stay, loads[host].process_bytes(count, self._rng))
            self._next += float(self._rng.exponential(self._truth.interval_s))
