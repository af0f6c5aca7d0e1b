"""Many candidate chains at once, as one flat array, and sums and maxima over their members.

A *chain* is a sequence of processors in rank order. Planning compares thousands of chains of different lengths, so
they are kept ragged: `members` holds all chains end to end, chain k is `members[starts[k]:starts[k+1]]`. Values per
member are float64[L], values per chain float64[K].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray
from apples.planning.problem import IntArray, Problem

#: Largest number of chains × hosts that is counted directly.
_COUNTED = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """K chains of processors. members : int64[L].  starts : int64[K+1].  lengths : ranks of every chain, int64[K].

    at_start, at_end : bool[L], whether a member is the first or the last of its chain
    """

    members: IntArray
    starts: IntArray
    lengths: IntArray = field(init=False)
    at_start: NDArray[np.bool_] = field(init=False)
    at_end: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        # kept, because a plan of 34 hosts asks for it two hundred times
        object.__setattr__(self, "lengths", np.diff(self.starts))
        ends = np.zeros((2, len(self.members)), dtype=bool)
        ends[0, self.starts[:-1]] = ends[1, self.starts[1:] - 1] = True
        object.__setattr__(self, "at_start", ends[0])
        object.__setattr__(self, "at_end", ends[1])

    @classmethod
    def of(cls, chains: Sequence[Sequence[int] | IntArray]) -> Chains:
        """Return chains made of sequences of processors, none of them empty."""
        lengths = [len(c) for c in chains]
        members = np.concatenate([np.asarray(c, dtype=np.int64) for c in chains])
        return cls(members, np.concatenate(([0], np.cumsum(lengths))))

    @classmethod
    def prefixes(cls, order: IntArray, counts: IntArray, position: IntArray | None) -> Chains:
        """Return the first n of `order` for every n in `counts`, in the order's sequence or sorted by `position`.

        order : int64[≤ N].  position : int64[N], processor → place in the one chain that all subsets keep
        """
        if position is None:
            members = np.concatenate([order[:n] for n in counts])
        else:
            standing = np.argsort(position[order])
            chosen = standing[None, :] < counts[:, None]
            members = order[standing][np.nonzero(chosen)[1]]
        return cls(members, np.concatenate(([0], np.cumsum(counts))))

    @classmethod
    def joined(cls, parts: Sequence[Chains]) -> Chains:
        """Return the chains of all parts."""
        lengths = np.concatenate([part.lengths for part in parts])
        members = np.concatenate([part.members for part in parts])
        return cls(members, np.concatenate(([0], np.cumsum(lengths))))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def chain(self, k: int) -> IntArray:
        """Return the processors of chain k in rank order."""
        return self.members[self.part(k)]

    def part(self, k: int) -> slice:
        """Return the slice of chain k in `members`."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def select(self, chosen: NDArray[np.bool_]) -> tuple[Chains, IntArray]:
        """Return the chosen chains, and the indices of their members among all, int64[L']."""
        where = np.flatnonzero(np.repeat(chosen, self.lengths))
        starts = np.concatenate(([0], np.cumsum(self.lengths[chosen])))
        return Chains(self.members[where], starts), where

    def spread(self, per_chain: FloatArray) -> FloatArray:
        """Return a value per chain, repeated for each of its members."""
        return np.repeat(per_chain, self.lengths)

    def total(self, per_member: FloatArray) -> FloatArray:
        """Return the sum over the members of each chain."""
        return np.add.reduceat(per_member, self.starts[:-1])

    def highest(self, per_member: FloatArray) -> FloatArray:
        """Return the maximum over the members of each chain."""
        return np.maximum.reduceat(per_member, self.starts[:-1])

    def ranks_by_host(self, problem: Problem) -> FloatArray:
        """Return the ranks of every chain on every host, float64[K, H]."""
        hosts = len(problem.hosts)
        key = self.spread(np.arange(len(self), dtype=np.float64)).astype(np.int64) * hosts
        counts = np.bincount(key + problem.host_of[self.members], minlength=len(self) * hosts)
        return counts.reshape(len(self), hosts).astype(np.float64)

    def ranks_on_host(self, problem: Problem) -> IntArray:
        """Return the number of ranks of the same chain on each member's host, int64[L]."""
        if problem.single_slots:
            return np.ones(len(self.members), dtype=np.int64)
        return self.sum_on_host(problem, np.ones(len(self.members))).astype(np.int64)

    def sum_on_host(self, problem: Problem, per_member: FloatArray) -> FloatArray:
        """Return, for each member, the sum over the members of the same chain on the same host, float64[L]."""
        hosts = len(problem.hosts)
        key = np.repeat(np.arange(len(self)) * hosts, self.lengths) + problem.host_of[self.members]
        if len(self) * hosts > _COUNTED:
            key = np.unique(key, return_inverse=True)[1]
        sums: FloatArray = np.bincount(key, per_member)[key]
        return sums
