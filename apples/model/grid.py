"""The grid a user allows, and a snapshot of its forecasts at one instant.

A `Grid` holds the values that do not change (hosts, slots, sites, nominal links). A `Snapshot` is a grid plus one
forecast of every value that does change. Every decision is made on exactly one snapshot, which is kept with the plan.
Pair quantities are dense arrays, so that a plan over a thousand hosts is array arithmetic; `Snapshot.graph` returns
the same as a networkx graph. Nothing here measures or decides. Source: Wolski et al. 2000, §2.4 and §3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import networkx

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine with slots.

    slots : most ranks at once
    cpu_type : key of its benchmark
    site : hosts of one site are near each other; None if the grid has no sites
    address : name or address that the launcher uses; None means `name`
    memory_bytes : installed memory, if known
    """

    name: str
    slots: int = 1
    cpu_type: str = "default"
    site: str | None = None
    address: str | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule:
    """Nominal link between two ends; an end is a host name, a site name or None (any).

    latency_s : seconds for one byte, one way.  bandwidth_Bps : bytes per second of a bulk transfer.
    """

    ends: tuple[str | None, str | None] = (None, None)
    latency_s: float
    bandwidth_Bps: float

    def rank(self, a: Host, b: Host) -> int:
        """Return how specifically the rule fits the pair: -1 for no fit, higher is more specific."""
        return max(self._fit(a, b), self._fit(b, a))

    def _fit(self, a: Host, b: Host) -> int:
        fit = 0
        for end, host in zip(self.ends, (a, b), strict=True):
            if end is None:
                continue
            if end == host.name:
                fit += 2
            elif end == host.site:
                fit += 1
            else:
                return -1
        return fit


#: Link between the slots of one host, and default where a grid states no links.
WITHIN_HOST = LinkRule(latency_s=5e-6, bandwidth_Bps=2e9)
ETHERNET = LinkRule(latency_s=1e-4, bandwidth_Bps=1.25e8)

#: Pairs listed in a document; a thousand hosts have a million.
LISTED_PAIRS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The pool of hosts a user allows, with nominal links.

    links : the most specific rule wins (host pair, then site pair, then default); of equals, the last.
    source : origin of the grid, for messages.
    """

    name: str
    hosts: tuple[Host, ...]
    links: tuple[LinkRule, ...] = ()
    source: str = "built in"

    def host(self, name: str) -> Host:
        """Return the host of that name; raises `KeyError`."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def restrict(self, names: Iterable[str]) -> Grid:
        """Return the same grid with only these hosts, in the grid's order."""
        wanted = set(names)
        hosts = tuple(h for h in self.hosts if h.name in wanted)
        return Grid(name=self.name, hosts=hosts, links=self.links, source=self.source)

    def nominal_network(self) -> tuple[FloatArray, FloatArray]:
        """Return latency in s and bandwidth in bytes/s, float64[H, H] each, by the grid's rules."""
        n = len(self.hosts)
        latency, bandwidth = np.empty((n, n)), np.empty((n, n))
        cache: dict[tuple[object, ...], LinkRule] = {}
        named = {end for rule in self.links for end in rule.ends if end is not None}
        keys = [(h.name if h.name in named else None, h.site) for h in self.hosts]
        for i, a in enumerate(self.hosts):
            for j, b in enumerate(self.hosts):
                if i == j:
                    rule = WITHIN_HOST
                else:
                    key = (keys[i], keys[j])
                    rule = cache.get(key) or cache.setdefault(key, self._rule(a, b))
                latency[i, j], bandwidth[i, j] = rule.latency_s, rule.bandwidth_Bps
        return latency, bandwidth

    def _rule(self, a: Host, b: Host) -> LinkRule:
        best, best_rank = ETHERNET, -1
        for rule in self.links:
            rank = rule.rank(a, b)
            if rank >= max(best_rank, 0):
                best, best_rank = rule, rank
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A forecast value with its expected error (standard deviation, same unit)."""

    value: float
    error: float = 0.0
    method: str = "nominal"
    samples: int = 0
    age_s: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The forecast conditions of one host.

    availability : share of one CPU for one new process, 0..1
    capacity : CPUs for `slots` new processes together; None means `slots` × availability
    memory_bytes : bytes available to the application on this host, all ranks together
    """

    availability: Estimate
    memory_bytes: Estimate
    capacity: Estimate | None = None

    def share(self, ranks: int, slots: int) -> float:
        """Return the share of one CPU of each of `ranks` new processes on a host of `slots` slots."""
        total = slots * self.availability.value if self.capacity is None else self.capacity.value
        return min(self.availability.value, total / ranks)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All forecasts used for one decision.

    hosts, conditions : H of each, same order
    latency_s, bandwidth_Bps : float64[H, H], [i, j] from host i to host j; the diagonal is within the host
    latency_error_s, bandwidth_error_Bps : standard deviations, same shape
    taken_at : seconds since the epoch.  source : origin of the values, for messages.
    pair_age_s : float64[H, H], since the pair was measured; NaN where it is nominal.  None: no pair is measured
    composed : bool[H, H], unmeasured pairs estimated along a path of other pairs.  None: there are none
    through : hosts on the way of composed pairs; of very many, of the first `LISTED_PAIRS`
    stale : series that were too old to be used, by name.  notes : warnings, a sentence each
    absent : hosts of the pool that cannot take part, each with its reason
    """

    hosts: tuple[Host, ...]
    conditions: tuple[Conditions, ...]
    latency_s: FloatArray
    bandwidth_Bps: FloatArray
    latency_error_s: FloatArray
    bandwidth_error_Bps: FloatArray
    taken_at: float = 0.0
    source: str = "nominal"
    pair_age_s: FloatArray | None = None
    composed: NDArray[np.bool_] | None = None
    through: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def nominal(cls, grid: Grid, *, memory_bytes: float = math.inf, taken_at: float = 0.0) -> Snapshot:
        """Return the grid as if idle: availability 1, installed memory (or `memory_bytes`) free, nominal links."""
        latency, bandwidth = grid.nominal_network()
        conditions = tuple(
            Conditions(
                availability=Estimate(value=1.0),
                memory_bytes=Estimate(value=memory_bytes if h.memory_bytes is None else h.memory_bytes),
                capacity=Estimate(value=float(h.slots)),
            )
            for h in grid.hosts
        )
        return cls(
            hosts=grid.hosts,
            conditions=conditions,
            latency_s=latency,
            bandwidth_Bps=bandwidth,
            latency_error_s=np.zeros_like(latency),
            bandwidth_error_Bps=np.zeros_like(latency),
            taken_at=taken_at,
        )

    def restrict(self, names: Iterable[str]) -> Snapshot:
        """Return the same instant with only these hosts, in the snapshot's order."""
        wanted = set(names)
        keep = [i for i, h in enumerate(self.hosts) if h.name in wanted]
        pick = np.ix_(keep, keep)
        return replace(
            self,
            hosts=tuple(self.hosts[i] for i in keep),
            conditions=tuple(self.conditions[i] for i in keep),
            latency_s=self.latency_s[pick],
            bandwidth_Bps=self.bandwidth_Bps[pick],
            latency_error_s=self.latency_error_s[pick],
            bandwidth_error_Bps=self.bandwidth_error_Bps[pick],
            pair_age_s=None if self.pair_age_s is None else self.pair_age_s[pick],
            composed=None if self.composed is None else self.composed[pick],
            through={pair: path for pair, path in self.through.items() if wanted.issuperset(pair)},
        )

    def graph(self) -> networkx.DiGraph[str]:
        """Return hosts as nodes (`host`, `conditions`), ordered pairs as edges (`latency_s`, `bandwidth_Bps`)."""
        import networkx as nx

        graph: networkx.DiGraph[str] = nx.DiGraph()
        for host, conditions in zip(self.hosts, self.conditions, strict=True):
            graph.add_node(host.name, host=host, conditions=conditions)
        for i, a in enumerate(self.hosts):
            for j, b in enumerate(self.hosts):
                if i != j:
                    graph.add_edge(
                        a.name,
                        b.name,
                        latency_s=float(self.latency_s[i, j]),
                        bandwidth_Bps=float(self.bandwidth_Bps[i, j]),
                    )
        return graph

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object; only pairs that differ from the commonest (``links.usual``) are listed.

        At most `LISTED_PAIRS` of them; ``links.omitted`` counts the others. Names of stale series have the same limit.
        """
        return {
            "source": self.source,
            "taken_at": self.taken_at,
            "hosts": [_host_json(h, c) for h, c in zip(self.hosts, self.conditions, strict=True)],
            "links": self._links_json(),
            "stale": list(self.stale[:LISTED_PAIRS]),
        }

    def _links_json(self) -> dict[str, Any]:
        n = len(self.hosts)
        others = ~np.eye(n, dtype=bool)
        values = self.latency_s + 1j * self.bandwidth_Bps
        kinds, counts = np.unique(values[others], return_counts=True)
        usual = complex(kinds[counts.argmax()]) if kinds.size else None
        differ = np.argwhere(others & (values != usual)) if kinds.size else np.empty((0, 2), np.int64)
        return {
            "usual": None if usual is None else {"latency_s": usual.real, "bandwidth_Bps": usual.imag},
            "pairs": [self._pair_json(i, j) for i, j in differ[:LISTED_PAIRS].tolist()],
            "omitted": max(len(differ) - LISTED_PAIRS, 0),
            "within": [
                {
                    "host": host.name,
                    "latency_s": float(self.latency_s[i, i]),
                    "bandwidth_Bps": float(self.bandwidth_Bps[i, i]),
                }
                for i, host in enumerate(self.hosts)
            ],
            **self._measured_json(others),
        }

    def _pair_json(self, i: int, j: int) -> dict[str, Any]:
        names = self.hosts[i].name, self.hosts[j].name
        pair: dict[str, Any] = {
            "from": names[0],
            "to": names[1],
            "latency_s": float(self.latency_s[i, j]),
            "bandwidth_Bps": float(self.bandwidth_Bps[i, j]),
        }
        if self.pair_age_s is not None:
            age_s = float(self.pair_age_s[i, j])
            pair["age_s"] = age_s if math.isfinite(age_s) else None
        if self.composed is not None and self.composed[i, j]:
            pair["through"] = list(self.through.get(names, ()))
        return pair

    def _measured_json(self, others: NDArray[np.bool_]) -> dict[str, Any]:
        """Return the numbers of measured, composed and nominal pairs, and the age of the oldest one in use."""
        if self.pair_age_s is None:
            return {}
        ages = self.pair_age_s[others]
        known = ages[np.isfinite(ages)]
        composed = 0 if self.composed is None else int(self.composed[others].sum())
        return {
            "measured": int(known.size) - composed,
            "composed": composed,
            "nominal": int(ages.size - known.size),
            "oldest_s": float(known.max()) if known.size else None,
        }


def _host_json(host: Host, conditions: Conditions) -> dict[str, Any]:
    capacity = conditions.capacity
    return {
        "host": host.name,
        "slots": host.slots,
        "cpu_type": host.cpu_type,
        "site": host.site,
        "availability": _estimate_json(conditions.availability),
        "capacity": None if capacity is None else _estimate_json(capacity),
        "memory_bytes": _estimate_json(conditions.memory_bytes),
    }


def _estimate_json(estimate: Estimate) -> dict[str, Any]:
    def finite(x: float) -> float | None:
        return x if math.isfinite(x) else None

    return {
        "value": finite(estimate.value),
        "error": finite(estimate.error),
        "method": estimate.method,
        "samples": estimate.samples,
        "age_s": finite(estimate.age_s),
    }
