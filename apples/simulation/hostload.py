"""Processes of other users on one host: they arrive, compute, hold memory and end.

A host moves through the regimes of its scenario ("heavy use of some machines and light use of others", Wolski et al.
2000, §4.1). In each regime processes arrive as a Poisson stream and stay for an exponential time. Time is generated in
fixed chunks, so values do not depend on the times of queries. The effect of load on a run is defined elsewhere.

Values that change at instants and are constant in between: processes on a host, traffic on a link.

Means over an interval are exact integrals, so sensors and runs see the same values. No random numbers are used.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from apples.model.grid import FloatArray
from apples.simulation.scenario import CampaignTruth, LoadTruth, RegimeTruth


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A piecewise-constant function of time.

    times: float64[N], ascending seconds. Value `values[i]` holds from `times[i]` until `times[i+1]`, the last one for
    ever. values: float64[N]. The first value also holds before `times[0]`.
    """

    times: FloatArray
    values: FloatArray

    @classmethod
    def of_intervals(cls, begin: FloatArray, end: FloatArray, weight: FloatArray) -> Steps:
        """Return the sum of weights of the intervals [begin, end) that contain an instant; 0 before the first."""
        at = np.concatenate((begin, end))
        change = np.concatenate((weight, -weight))
        order = np.argsort(at, kind="stable")
        times, first = np.unique(at[order], return_index=True)
        if not len(times):
            return cls(np.zeros(1), np.zeros(1))
        total = np.cumsum(np.add.reduceat(change[order], first))
        return cls(np.concatenate(([times[0] - 1.0], times)), np.concatenate(([0.0], total)))

    def at(self, t: FloatArray | float) -> FloatArray:
        """Return the values at instants."""
        step = np.searchsorted(self.times, t, side="right") - 1
        return self.values[np.maximum(step, 0)]

    def mean(self, begin: FloatArray, end: FloatArray) -> FloatArray:
        """Return the time average over each interval [begin, end], end > begin."""
        return (self._integral(end) - self._integral(begin)) / (end - begin)

    def _integral(self, t: FloatArray) -> FloatArray:
        """Return the integral from `times[0]` to each instant. The outer values are continued."""
        area = np.concatenate(([0.0], np.cumsum(np.diff(self.times) * self.values[:-1])))
        step = np.maximum(np.searchsorted(self.times, t, side="right") - 1, 0)
        return area[step] + (t - self.times[step]) * self.values[step]

    def mapped(self, values: FloatArray) -> Steps:
        """Return a function with other values at the same instants."""
        return Steps(self.times, values)

    def breaks(self, begin: float, end: float) -> FloatArray:
        """Return the instants of change strictly inside (begin, end)."""
        first = np.searchsorted(self.times, begin, side="right")
        last = np.searchsorted(self.times, end, side="left")
        return self.times[first:last]


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
        # regime from each instant on
        self._entered = [(-math.inf, self._regime)]
        # begin, end, bytes, and mean duration of processes of random duration, 0 for others
        self._parts: list[FloatArray] = [np.empty((4, 0))]
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

    def continued(self, now: float, rng: np.random.Generator) -> Self:
        """Return the same host up to `now` with another future of the same law, drawn from `rng`.

        Arrivals, durations and regimes are memoryless: processes of random duration that run at `now` get a new
        exponential rest of it.
        """
        copied = copy.copy(self)
        copied._rng, copied.generated_to, copied._steps = rng, now, None
        begin, end, memory, mean_s = (row[self._all()[0] < now] for row in self._all())
        rest = rng.exponential(mean_s)
        end = np.where((mean_s > 0) & (end > now), now + rest, end)
        copied._parts = [np.stack((begin, end, memory, mean_s))]
        copied._entered = [(t, regime) for t, regime in self._entered if t <= now]
        copied._regime = copied._entered[-1][1]
        copied._regime_ends = now + float(rng.exponential(self._truth.regimes[copied._regime].mean_stay_s))
        return copied

    def add(
        self, begin: FloatArray, end: FloatArray, memory_bytes: FloatArray, *, mean_s: float = 0.0
    ) -> None:
        """Add processes of a campaign or of a run, float64[N] each.

        mean_s : mean of their exponential durations; 0 if durations are fixed
        """
        self._parts.append(np.stack((begin, end, memory_bytes, np.full_like(begin, mean_s))))
        self._steps = None

    def steps(self) -> tuple[Steps, Steps]:
        """Return (number of processes, bytes that they hold), as far as generated."""
        if self._steps is None:
            begin, end, memory, _ = self._all()
            ones = np.ones_like(begin)
            self._steps = Steps.of_intervals(begin, end, ones), Steps.of_intervals(begin, end, memory)
        return self._steps

    def _all(self) -> FloatArray:
        """Return begin, end, bytes and mean duration of all processes so far, float64[4, N]."""
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    def process_bytes(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return the memory of `count` processes, lognormal, float64[count] bytes."""
        sigma = self._truth.process_bytes_spread
        return self._truth.process_bytes * rng.lognormal(0.0, sigma, count)

    def _stream(self, begin: float, end: float, interval_s: float, duration_s: float) -> None:
        count = int(self._rng.poisson((end - begin) / interval_s))
        arrive = self._rng.uniform(begin, end, count)
        stay = self._rng.exponential(duration_s, count)
        self.add(arrive, arrive + stay, self.process_bytes(count, self._rng), mean_s=duration_s)

    def _next_regime(self) -> None:
        self._regime = (self._regime + 1) % len(self._truth.regimes)
        regime: RegimeTruth = self._truth.regimes[self._regime]
        self._entered.append((self._regime_ends, self._regime))
        self._regime_ends += float(self._rng.exponential(regime.mean_stay_s))


class Campaigns:
    """Processes that start on many hosts at the same instant. Forecasters of one host cannot predict them."""

    def __init__(self, truth: CampaignTruth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._next = float(rng.exponential(truth.interval_s))

    def continued(self, now: float, rng: np.random.Generator) -> Self:
        """Return the campaigns from `now` on with another future of the same law, drawn from `rng`."""
        copied = type(self)(self._truth, rng)
        copied._next += now
        return copied

    def add_to(self, loads: list[HostLoad], until: float) -> None:
        """Add every campaign before `until` to its hosts."""
        while self._next < until:
            hit = self._rng.choice(len(loads), math.ceil(self._truth.host_share * len(loads)), replace=False)
            for host in hit:
                count = self._truth.processes
                stay = self._rng.exponential(self._truth.duration_s, count)
                begin = np.full(count, self._next)
                memory = loads[host].process_bytes(count, self._rng)
                loads[host].add(begin, begin + stay, memory, mean_s=self._truth.duration_s)
            self._next += float(self._rng.exponential(self._truth.interval_s))
