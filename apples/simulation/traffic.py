"""Traffic of other users on one link: its utilisation, redrawn at random instants.

The class is used for a host's own link and for the uplink of a switch. Values are generated in fixed chunks like the
load. The effect of traffic on a transfer is defined elsewhere.
"""

import copy
from typing import Self

import numpy as np

from apples.simulation.load import CHUNK_S
from apples.simulation.scenario import TrafficTruth
from apples.simulation.timeline import Steps


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
        found = copy.copy(self)
        past = self._steps.times <= now
        found._rng, found._generated_to = rng, now
        found._steps = Steps(self._steps.times[past], self._steps.values[past])
        return found

    def steps(self) -> Steps:
        """Return the utilisation as far as generated."""
        return self._steps
