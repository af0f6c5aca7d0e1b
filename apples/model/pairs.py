"""A quantity of every ordered pair of many hosts, without an array of hosts × hosts.

Hosts with equal links are one class. A quantity is a table of classes × classes, the value within one host of each
class, and the single pairs that differ from their classes' value. Thousands of hosts in a few sites are a small table;
a few measured hosts, each unlike the others, are as many classes as hosts. `values[i, j]` reads like a float64[H, H].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Up to this many hosts, every host that differs in one pair is a class of its own.
FEW = 256
#: Largest part of all pairs that may be listed one by one.
_SPARSE = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class HostClasses:
    """H hosts in C classes, and E single pairs that differ.

    kind : int64[H], class of each host; None if every host is a class of its own
    size : int64[C], hosts of each class.  keys : int64[E], from · H + to of the single pairs, ascending
    """

    hosts: int
    kind: IntArray | None
    size: IntArray
    keys: IntArray

    @classmethod
    def each(cls, hosts: int) -> HostClasses:
        """Return every host as a class of its own."""
        return cls(hosts, None, np.ones(hosts, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, kind: Sequence[int] | IntArray) -> HostClasses:
        """Return classes by the class of each host, 0..C-1."""
        kinds = np.asarray(kind, dtype=np.int64)
        return cls(len(kinds), kinds, np.bincount(kinds), np.empty(0, dtype=np.int64))

    @property
    def first(self) -> IntArray:
        """Return one host of each class, int64[C]."""
        if self.kind is None:
            return np.arange(self.hosts)
        return np.unique(self.kind, return_index=True)[1]

    @property
    def ends(self) -> tuple[IntArray, IntArray]:
        """Return from and to of the single pairs, int64[E] each."""
        return self.keys // self.hosts, self.keys % self.hosts

    def of_hosts(self, hosts: IntArray | None = None) -> IntArray:
        """Return the class of each of these hosts, of all by default."""
        every = np.arange(self.hosts) if hosts is None else hosts
        return every if self.kind is None else self.kind[every]

    def occurs(self) -> NDArray[np.bool_]:
        """Return which entries of a table are links between two hosts, bool[C, C]."""
        occurring_pairs = np.ones((len(self.size), len(self.size)), dtype=bool)
        np.fill_diagonal(occurring_pairs, self.size > 1)
        return occurring_pairs

    def take(self, keep: IntArray) -> tuple[HostClasses, IntArray, IntArray]:
        """Return the classes of some hosts in this order, the old class of each new one, and the single pairs kept."""
        positions = np.full(self.hosts, -1)
        positions[keep] = np.arange(len(keep))
        used, kind = np.unique(self.of_hosts(keep), return_inverse=True)
        start, end = (positions[host] for host in self.ends)
        remaining = np.flatnonzero((start >= 0) & (end >= 0))
        keys = start[remaining] * len(keep) + end[remaining]
        order = np.argsort(keys, kind="stable")
        if self.kind is None:
            return HostClasses.each(len(keep)), keep, remaining
        return HostClasses(len(keep), kind, np.bincount(kind), keys[order]), used, remaining[order]


@dataclass(frozen=True, slots=True, eq=False)
class PairValues:
    """One quantity of every ordered pair of H hosts.

    table : float64[C, C], from a host of one class to another host of one class.  within : float64[C], within a host
    single : float64[E], of the single pairs
    """

    classes: HostClasses
    table: FloatArray
    within: FloatArray
    single: FloatArray

    @classmethod
    def dense(cls, values: Any) -> PairValues:
        """Return the values of float64[H, H], every host as a class of its own."""
        table = np.asarray(values, dtype=np.float64)
        return cls(HostClasses.each(len(table)), table, table.diagonal(), np.empty(0))

    @classmethod
    def same(cls, classes: HostClasses, value: float) -> PairValues:
        """Return one value for all pairs."""
        count = len(classes.size)
        return cls(
            classes,
            np.full((count, count), value),
            np.full(count, value),
            np.full(len(classes.keys), value),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Return (H, H)."""
        return self.classes.hosts, self.classes.hosts

    def __len__(self) -> int:
        return self.classes.hosts

    def __getitem__(self, pair: tuple[Any, ...]) -> Any:
        """Return the values from hosts to hosts: indices, or arrays of indices that broadcast."""
        i, j = pair
        kind = self.classes.kind
        if kind is None:
            return self.table[i, j]
        values = np.where(np.equal(i, j), self.within[kind[i]], self.table[kind[i], kind[j]])
        keys = self.classes.keys
        if len(keys):
            key = np.asarray(i, dtype=np.int64) * self.classes.hosts + j
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            values = np.where(keys[at] == key, self.single[at], values)
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return float64[H, H]; for small pools."""
        every = np.arange(len(self))
        return np.array(self[every[:, None], every[None, :]], dtype=dtype)

    def take(self, keep: IntArray | Sequence[int]) -> PairValues:
        """Return the values between some hosts, in this order."""
        return taken([self], np.asarray(keep, dtype=np.int64))[0]

    def occurring(self) -> FloatArray:
        """Return all values between different hosts and of single pairs, in no order."""
        return np.concatenate((self.table[self.classes.occurs()], self.single))

    def most(self) -> float:
        """Return the largest value of all pairs and within hosts."""
        return float(max(self.occurring().max(initial=-np.inf), self.within.max(initial=-np.inf)))

    def back(self) -> PairValues:
        """Return the values of the opposite directions."""
        start, end = self.classes.ends
        return PairValues(self.classes, self.table.T, self.within, self[end, start])

    def least(self) -> FloatArray:
        """Return a bound from below of each host's values to other hosts, float64[H]; inf without another host."""
        kinds = np.where(self.classes.occurs(), self.table, np.inf).min(axis=1)
        least: FloatArray = kinds[self.classes.of_hosts()]
        np.minimum.at(least, self.classes.ends[0], self.single)
        return least

    def within_hosts(self) -> FloatArray:
        """Return the value within each host, float64[H]."""
        return self.within[self.classes.of_hosts()]

    def both_ways(self) -> FloatArray:
        """Return the larger value of the two directions between classes, float64[C, C]."""
        return np.maximum(self.table, self.table.T)

    def set(self, pairs: Sequence[tuple[int, int]], values: Iterable[float]) -> PairValues:
        """Return a copy with other values of these single pairs; all of them must be listed in the classes."""
        single, table, within = self.single.copy(), self.table.copy(), self.within.copy()
        start, end = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        new = np.fromiter(values, dtype=np.float64, count=len(start))
        if self.classes.kind is None:
            table[start, end] = new
            within = table.diagonal()
        else:
            single[np.searchsorted(self.classes.keys, start * self.classes.hosts + end)] = new
        return PairValues(self.classes, table, within, single)


def taken(values: Sequence[PairValues], keep: IntArray) -> list[PairValues]:
    """Return quantities of the same classes between some hosts, in this order."""
    classes, old, remaining = values[0].classes.take(keep)
    pick = np.ix_(old, old)
    return [PairValues(classes, v.table[pick], v.within[old], v.single[remaining]) for v in values]


def both_ways(
    values: Sequence[PairValues], left: IntArray, right: IntArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return each quantity from right to left and from left to right."""
    return [(v[right, left], v[left, right]) for v in values]


def combined(how: Callable[..., FloatArray], *values: PairValues) -> PairValues:
    """Return a function of several quantities of the same classes, pair by pair."""
    return several(lambda *arrays: (how(*arrays),), *values)[0]


def several(how: Callable[..., Sequence[FloatArray]], *values: PairValues) -> list[PairValues]:
    """Return several functions at once, as `combined` one."""
    classes = values[0].classes
    assert all(v.classes is classes for v in values)
    tables = how(*(v.table for v in values))
    # Without classes the table's diagonal is the value within hosts, and there are no single pairs.
    if classes.kind is None:
        return [PairValues(classes, table, table.diagonal(), np.empty(0)) for table in tables]
    parts = tables, how(*(v.within for v in values)), how(*(v.single for v in values))
    return [PairValues(classes, *part) for part in zip(*parts, strict=True)]


def listing(values: Sequence[PairValues], pairs: Iterable[tuple[int, int]]) -> list[PairValues]:
    """Return quantities of the same classes with these pairs listed singly, at their present values.

    Every host becomes a class of its own in pools of at most `FEW` hosts, or if a large part of all pairs is listed.
    """
    first = values[0].classes
    if first.kind is None:
        return list(values)
    new = np.array([i * first.hosts + j for i, j in pairs], dtype=np.int64)
    keys = np.union1d(first.keys, new)
    if first.hosts <= FEW or len(keys) > _SPARSE * first.hosts**2:
        return together([np.asarray(v) for v in values])
    start, end = keys // first.hosts, keys % first.hosts
    classes = HostClasses(first.hosts, first.kind, first.size, keys)
    return [PairValues(classes, v.table, v.within, v[start, end]) for v in values]


def together(values: Sequence[Any]) -> list[PairValues]:
    """Return float64[H, H] each, or quantities, as quantities of the same classes."""
    known = [v for v in values if isinstance(v, PairValues)]
    if len(known) == len(values) and all(v.classes is known[0].classes for v in known):
        return known
    tables = [np.asarray(v, dtype=np.float64) for v in values]
    classes = HostClasses.each(len(tables[0]))
    return [PairValues(classes, table, table.diagonal(), np.empty(0)) for table in tables]
