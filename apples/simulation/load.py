"""Other people's processes on one host: they come, compute, hold memory and leave.

A host goes round the regimes of its scenario ("heavy use of some machines and light use of others", Wolski et
al. 2000, §4.1); in each, processes arrive as a Poisson stream and stay an exponential time. Time is generated
in fixed chunks, so what happens never depends on when somebody looks. Nothing here says what load does to a run.
"""

from __future__ import annotations

import math

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.scenario import CampaignTruth, LoadTruth, RegimeTruth
from apples.simulation.timeline import Steps

#: Seconds generated at once, and lived through before time 0 so that a world does not open on empty hosts.
CHUNK_S = 4 * 3600.0


class HostLoad:
    """Processes of one host, generated as far as anybody asked.

    generated_to : seconds; everything before is fixed, and nothing after is known
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
        """Make sure that everything before `until` is fixed."""
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
        """Further processes, float64[N] each: a campaign's, or the ranks of a run."""
        self._parts.append(np.stack((begin, end, memory_bytes)))
        self._steps = None

    def steps(self) -> tuple[Steps, Steps]:
        """(number of processes, bytes they hold), as far as generated."""
        if self._steps is None:
            begin, end, memory = np.concatenate(self._parts, axis=1)
            self._parts = [np.stack((begin, end, memory))]
            ones = np.ones_like(begin)
            self._steps = Steps.of_intervals(begin, end, ones), Steps.of_intervals(begin, end, memory)
        return self._steps

    def process_bytes(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Memory of so many processes, lognormal, float64[count] bytes."""
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
    """Work that starts on many hosts at the same instant: what no forecaster of one host can see coming."""

    def __init__(self, truth: CampaignTruth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._next = float(rng.exponential(truth.interval_s))

    def add_to(self, loads: list[HostLoad], until: float) -> None:
        """Put every campaign before `until` on the hosts it hits."""
        while self._next < until:
            hit = self._rng.choice(len(loads), math.ceil(self._truth.host_share * len(loads)), replace=False)
            for host in hit:
                count = self._truth.processes
                stay = self._rng.exponential(self._truth.duration_s, count)
                begin = np.full(count, self._next)
                loads[host].add(begin, begin + stay, loads[host].process_bytes(count, self._rng))
            self._next += float(self._rng.exponential(self._truth.interval_s))
