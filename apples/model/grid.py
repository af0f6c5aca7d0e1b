"""The grid a user allows, and a snapshot of its forecasts at one instant.

A `Grid` holds the values that do not change (hosts, slots, sites, nominal links). A `Snapshot` is a grid plus one
forecast of every value that does change. Every decision is made on exactly one snapshot, which is kept with the plan.
Pair quantities are kept by classes of hosts with equal links (`apples.model.pairs`), so that a plan over thousands of
hosts is arithmetic over small tables; `Snapshot.graph` returns the same as a networkx graph. Nothing here measures or
decides. Source: Wolski et al. 2000, §2.4 and §3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from apples.model.pairs import FEW, FloatArray as FloatArray, HostClasses, PairValues, taken, together
from nws.base.cpulist import CpuList
from nws.base.quantities import Count, Memory_bytes, without_units
from nws.series import SCORES, SHARES, Outlook, outlook_over

if TYPE_CHECKING:
    import networkx

#: Method of an estimate that is not measured: what a batch system offers.
OFFERED = "offered"
#: Smallest usable CPU share of a new process.
LEAST_SHARE = 0.01
#: Probability that each of the quantiles at `SHARES` stands for: halfway to its neighbours, the ends to 0 and 1.
_EDGES = (0.0, *((a + b) / 2 for a, b in pairwise(SHARES)), 1.0)
_WEIGHTS = tuple(b - a for a, b in pairwise(_EDGES))


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine with slots.

    slots : most ranks at once
    cpu_type : key of its benchmark
    site : hosts of one site are near each other; None if the grid has no sites
    address : name or address that the launcher uses; None means `name`
    memory_bytes : installed memory, if known
    cpus : those of its address to which ranks are bound, () for all without binding
    """

    name: str
    slots: Count = 1
    cpu_type: str = "default"
    site: str | None = None
    address: str | None = None
    memory_bytes: Memory_bytes | None = None
    cpus: Annotated[tuple[int, ...], CpuList()] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule:
    """Nominal link between two ends; an end is a host name, a site name or None (any).

    latency_s : seconds for one byte, one way.  bandwidth_Bps : bytes per second of a bulk transfer.
    loss : share of packets lost on the way.  one_way : only from the first end to the second
    """

    ends: tuple[str | None, str | None] = (None, None)
    latency_s: float
    bandwidth_Bps: float
    loss: float = 0.0
    one_way: bool = False

    @staticmethod
    def fit(end: str | None, host: Host) -> int:
        """Return how specifically an end fits the host: -1 for no fit, 2 for its name."""
        if end is None:
            return 0
        return 2 if end == host.name else 1 if end == host.site else -1


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
        chosen_names = set(names)
        return replace(self, hosts=tuple(h for h in self.hosts if h.name in chosen_names))

    def nominal_links(self) -> tuple[PairValues, PairValues, PairValues]:
        """Return latency in s, bandwidth in bytes/s and loss by the grid's rules.

        Hosts of one site that no rule names are one class.
        """
        named = {end for rule in self.links for end in rule.ends if end is not None}
        keys = [(h.name if h.name in named else None, h.site) for h in self.hosts]
        numbers = {key: c for c, key in enumerate(dict.fromkeys(keys))}
        classes = HostClasses.of([numbers[key] for key in keys])
        chosen = self._rules([self.hosts[h] for h in classes.first.tolist()])
        rules = (*self.links, ETHERNET)
        links = []
        for quantity in ("latency_s", "bandwidth_Bps", "loss"):
            table = np.array([float(getattr(rule, quantity)) for rule in rules])[chosen]
            within = np.full(len(table), float(getattr(WITHIN_HOST, quantity)))
            links.append(PairValues(classes, table, within, np.empty(0)))
        if len(self.hosts) <= FEW:
            links = together([np.asarray(values) for values in links])
        return links[0], links[1], links[2]

    def _rules(self, some: list[Host]) -> NDArray[np.int64]:
        """Return the place of the rule from each of these hosts to each, int64[n, n]; -1 for the default."""
        chosen = np.full((len(some), len(some)), -1)
        best = np.zeros((len(some), len(some)), dtype=np.int64)
        for order, rule in enumerate(self.links):
            one, other = (np.array([rule.fit(end, host) for host in some]) for end in rule.ends)
            for a, b in ((one, other),) if rule.one_way else ((one, other), (other, one)):
                block = np.ix_(np.flatnonzero(a >= 0), np.flatnonzero(b >= 0))
                # Of two rules for the same ends, the one for one direction is the more specific.
                rank = 2 * (a[:, None] + b[None, :])[block] + rule.one_way
                wins = rank >= best[block]
                chosen[block] = np.where(wins, order, chosen[block])
                best[block] = np.where(wins, rank, best[block])
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A forecast value with its expected error (standard deviation, same unit).

    assumed : the error is unknown, and a prior from the errors of other hosts stands in for it
    guessed : as `assumed`, and no error of other hosts is known either
    quantiles : at `nws.series.SHARES`; empty where only the error is known
    outlooks : distributions of the mean over spans from now, by rising length; empty if there are none
    variation : standard deviation of the value within the span around its mean, as a share of the mean
    """

    value: float
    error: float = 0.0
    method: str = "nominal"
    samples: int = 0
    age_s: float = math.nan
    assumed: bool = False
    guessed: bool = False
    quantiles: tuple[float, ...] = ()
    outlooks: tuple[Outlook, ...] = ()
    variation: float = 0.0

    def over(self, seconds: float, step_s: float = 0.0) -> Estimate:
        """Return the estimate of the mean share of a CPU over so many seconds from now.

        step_s : time over which the share is averaged before its `variation` is taken

        The value is the share with the expected slowness: work that takes one second on a whole CPU takes the mean of
        1 / share. Quantiles below `LEAST_SHARE` count as that. Returns itself without outlooks, and for 0 seconds.
        """
        if not self.outlooks or seconds <= 0:
            return self
        outlook = outlook_over(self.outlooks, seconds)
        quantiles = tuple(max(q, LEAST_SHARE) for q in outlook.quantiles)
        slowness = sum(weight / q for weight, q in zip(_WEIGHTS, quantiles, strict=True))
        spread = quantiles[SHARES.index(0.9)] - quantiles[SHARES.index(0.1)]
        error = spread / (2.0 * SCORES[SHARES.index(0.9)])
        variation = outlook.variation
        if step_s > 0.0:
            averaged = outlook_over(self.outlooks, min(step_s, seconds)).variation
            variation = math.sqrt(max(variation**2 - averaged**2, 0.0))
        return replace(self, value=1.0 / slowness, error=error, quantiles=quantiles, variation=variation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The forecast conditions of one host.

    availability : share of one CPU for one new process, 0..1
    capacity : CPUs for `slots` new processes together; None means `slots` × availability
    memory_bytes : bytes available to the application on this host, all ranks together
    cpu_limit : CPU quota of its control groups, for all ranks together; infinite without one
    """

    availability: Estimate
    memory_bytes: Estimate
    capacity: Estimate | None = None
    cpu_limit: float = math.inf

    def share(self, ranks: int, slots: int) -> float:
        """Return the share of one CPU of each of `ranks` new processes on a host of `slots` slots."""
        total = slots * self.availability.value if self.capacity is None else self.capacity.value
        return min(self.availability.value, total / ranks)

    def at_least(self, share: float) -> Conditions:
        """Return the conditions with so much of a CPU for a new process."""

        def raised(one: Estimate) -> Estimate:
            return replace(one, value=share, quantiles=(), outlooks=()) if one.value < share else one

        capacity = None if self.capacity is None else raised(self.capacity)
        return replace(self, availability=raised(self.availability), capacity=capacity)

    def presence(self, share: float, ranks: int) -> float:
        """Return the fraction of time in which other processes leave a rank of this share its CPU, 0..1.

        Other processes take a CPU at moments of their own. A quota is used up by computing only: a rank that sleeps
        while it waits keeps it for later.
        """
        return min(share / min(self.cpu_limit / ranks, 1.0), 1.0)

    def binding(self, ranks: int, slots: int) -> Estimate:
        """Return the estimate that determines the share of each of `ranks` new processes."""
        if self.capacity is None or self.availability.value <= self.capacity.value / ranks:
            return self.availability
        return self.capacity

    def over(self, seconds: float, step_s: float = 0.0) -> Conditions:
        """Return the conditions with CPU shares forecast over so many seconds from now; see `Estimate.over`."""
        capacity = None if self.capacity is None else self.capacity.over(seconds, step_s)
        return replace(self, availability=self.availability.over(seconds, step_s), capacity=capacity)


#: Pair quantities of a snapshot.
_PAIRS = (
    "latency_s",
    "bandwidth_Bps",
    "latency_error_s",
    "bandwidth_error_Bps",
    "pair_age_s",
    "composed",
    "loss",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All forecasts used for one decision.

    hosts, conditions : H of each, same order
    latency_s, bandwidth_Bps : [i, j] from host i to host j, [i, i] within the host.  loss : share of packets lost
    latency_error_s, bandwidth_error_Bps : standard deviations
    taken_at : seconds since the epoch.  source : origin of the values, for messages.
    pair_age_s : since the pair was measured; NaN where it is nominal.  None: no pair is measured
    composed : 1 for unmeasured pairs estimated along a path of other pairs.  None: there are none
    through : hosts on the way of composed pairs; of very many, of the first `LISTED_PAIRS`
    stale : series that were too old to be used, by name.  notes : warnings, a sentence each
    absent : hosts of the pool that cannot take part, each with its reason

    Pair quantities are made of float64[H, H] or of `PairValues`, and are all by the same classes of hosts.
    """

    hosts: tuple[Host, ...]
    conditions: tuple[Conditions, ...]
    latency_s: PairValues
    bandwidth_Bps: PairValues
    latency_error_s: PairValues
    bandwidth_error_Bps: PairValues
    taken_at: float = 0.0
    source: str = "nominal"
    pair_age_s: PairValues | None = None
    composed: PairValues | None = None
    through: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    loss: PairValues | None = None

    def __post_init__(self) -> None:
        """Bring all pair quantities to the same classes."""
        for name, values in self._pairs().items():
            object.__setattr__(self, name, values)

    def _pairs(self) -> dict[str, PairValues]:
        """Return the pair quantities that are known, by name."""
        known = {name: getattr(self, name) for name in _PAIRS if getattr(self, name) is not None}
        return dict(zip(known, together(list(known.values())), strict=True))

    @classmethod
    def nominal(cls, grid: Grid, *, memory_bytes: float = math.inf, taken_at: float = 0.0) -> Snapshot:
        """Return the grid as if idle: availability 1, installed memory (or `memory_bytes`) free, nominal links."""
        latency, bandwidth, loss = grid.nominal_links()
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
            latency_error_s=PairValues.same(latency.classes, 0.0),
            bandwidth_error_Bps=PairValues.same(latency.classes, 0.0),
            loss=loss if loss.most() > 0 else None,
            taken_at=taken_at,
        )

    def restrict(self, names: Iterable[str]) -> Snapshot:
        """Return the same instant with only these hosts, in the snapshot's order."""
        chosen_names = set(names)
        keep = np.array([i for i, h in enumerate(self.hosts) if h.name in chosen_names], dtype=np.int64)
        pairs = self._pairs()
        return replace(
            self,
            hosts=tuple(self.hosts[i] for i in keep.tolist()),
            conditions=tuple(self.conditions[i] for i in keep.tolist()),
            through={pair: path for pair, path in self.through.items() if chosen_names.issuperset(pair)},
            **cast("Any", dict(zip(pairs, taken(list(pairs.values()), keep), strict=True))),
        )

    @property
    def has_outlooks(self) -> bool:
        """Return whether the CPU share of a host is forecast by horizon."""
        return any(one.availability.outlooks for one in self.conditions)

    def over(self, seconds: float, step_s: float = 0.0) -> Snapshot:
        """Return the snapshot with CPU shares forecast over so many seconds from now; see `Estimate.over`."""
        return replace(self, conditions=tuple(one.over(seconds, step_s) for one in self.conditions))

    def for_polling_ranks(self) -> Snapshot:
        """Return the snapshot for ranks that poll while they wait, and so use up the quotas of their hosts."""
        return replace(self, conditions=tuple(replace(one, cpu_limit=math.inf) for one in self.conditions))

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
