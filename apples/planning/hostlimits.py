"""People's limits on the choice of hosts as arrays over the usable hosts, applied to many chains at once.

Each limit on a set of hosts is a row of Σ uses·used + Σ ranks·ranks ≤ most. *Together* makes two rows for each pair of
neighbours in the group. A budget and a deadline bound the makespan: a chain whose hosts cost c an hour together must
end within budget / c hours.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray, Host
from apples.model.limits import Limits, selected

IntArray = NDArray[np.int64]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class HostLimits:
    """Limits over H hosts.

    uses, ranks : float64[C, H], coefficients of a used host and of its ranks.  most : float64[C]
    price : float64[H], cost of a host for one second
    stated : the limits in people's words
    """

    uses: FloatArray
    ranks: FloatArray
    most: FloatArray
    price: FloatArray
    stated: Limits

    def allow(self, ranks_on: FloatArray) -> NDArray[np.bool_]:
        """Return which choices of hosts the limits allow, bool[K]. ranks_on : float64[K, H], ranks of each host."""
        total = (ranks_on > 0) @ self.uses.T + ranks_on @ self.ranks.T
        return np.asarray((total <= self.most + 1e-9).all(axis=1), dtype=np.bool_)

    def latest(self, ranks_on: FloatArray) -> FloatArray:
        """Return the longest makespan of each choice of hosts, float64[K] seconds; inf if nothing bounds it."""
        deadline = math.inf if self.stated.deadline is None else self.stated.deadline
        if self.stated.budget is None:
            return np.full(len(ranks_on), deadline)
        rate = (ranks_on > 0) @ self.price
        affordable = np.divide(self.stated.budget, rate, out=np.full(len(rate), np.inf), where=rate > 0)
        earlier: FloatArray = np.minimum(affordable, deadline)
        return earlier


def host_limits(limits: Limits, hosts: tuple[Host, ...], pool: tuple[Host, ...]) -> HostLimits | None:
    """Return the limits over the usable `hosts`; None if nothing is limited or priced.

    pool : all hosts, usable or not: a host that goes together with an unusable one cannot be used
    """
    if not limits and not limits.prices:
        return None
    here = {host.name: i for i, host in enumerate(hosts)}
    rows: list[tuple[dict[int, float], dict[int, float], float]] = []

    def of(selector: str) -> list[int]:
        return [i for i, fits in enumerate(selected(selector, hosts)) if fits]

    for limit in limits.at_most:
        if limit.hosts is not None:
            rows.append((dict.fromkeys(of(limit.of), 1.0), {}, limit.hosts))
        if limit.ranks is not None:
            rows.append(({}, dict.fromkeys(of(limit.of), 1.0), limit.ranks))
    rows += [(dict.fromkeys(of(selector), 1.0), {}, 1.0) for selector in limits.apart]
    for selector in limits.together:
        group = [h.name for h, fits in zip(pool, selected(selector, pool), strict=True) if fits]
        if any(name not in here for name in group):
            rows.append((dict.fromkeys(of(selector), 1.0), {}, 0.0))
            continue
        for a, b in pairwise(here[name] for name in group):
            rows += [({a: 1.0, b: -1.0}, {}, 0.0), ({b: 1.0, a: -1.0}, {}, 0.0)]
    price = np.zeros(len(hosts))
    for selector, amount in limits.prices.items():
        price[of(selector)] = amount / _HOUR_S
    uses, ranks = np.zeros((len(rows), len(hosts))), np.zeros((len(rows), len(hosts)))
    for c, (used, by_rank, _) in enumerate(rows):
        uses[c, list(used)] = list(used.values())
        ranks[c, list(by_rank)] = list(by_rank.values())
    return HostLimits(uses, ranks, np.array([most for *_, most in rows]), price, limits)


def cost(limits: HostLimits | None, hosts: IntArray, seconds: float) -> float:
    """Return the cost of a run on hosts (int64[n], indices, repeated for each rank) in the unit of their prices."""
    return 0.0 if limits is None else float(limits.price[np.unique(hosts)].sum()) * seconds
