"""Chains better than the orders give: drop, add, swap or move a host, or reverse a stretch of the chain.

The three orders only offer prefixes of three lists. Where links are uneven or memory binds, the best chain is often a
neighbour of a prefix. The search goes from a good candidate to its best neighbour until none is better. Whole
neighbourhoods are priced at once; the result is never worse than the start. Goes beyond the paper.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from apples.planning.candidates import CandidateSchedule, best_of
from apples.planning.chains import Chains
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem

#: Most members priced in one neighbourhood, so that a step takes a few milliseconds.
BUDGET = 40_000
#: A move must shorten the run by this fraction: smaller steps cost more planning than they save.
LEAST_GAIN = 1e-4
ROUNDS = 40
_TRIES = 4
#: Longest chain of which parts are moved; there are twice as many ways as pairs of members.
_SEGMENTED = 24


def improve(
    problem: Problem, start: CandidateSchedule, options: PlanningOptions, *, turn: bool, rounds: int = ROUNDS
) -> CandidateSchedule:
    """Return the best schedule reachable from `start` by `rounds` moves. turn : whether rank order matters."""
    current = start
    for _ in range(rounds):
        better = _better(problem, neighbourhood(problem, current.chain, options, turn=turn), current, options)
        if better is None and turn and 3 < len(current.chain) <= _SEGMENTED:
            better = _better(
                problem, _chains([current.chain[_segments(len(current.chain))]]), current, options
            )
        if better is None:
            break
        current = better
    return current


def _better(
    problem: Problem, chains: Chains | None, current: CandidateSchedule, options: PlanningOptions
) -> CandidateSchedule | None:
    """Return the best schedule of these chains if it is shorter than the current one by `LEAST_GAIN`."""
    if chains is None:
        return None
    best = best_of(problem, chains, options, below=current.makespan_s * (1 - LEAST_GAIN), tries=_TRIES)
    return None if best is None else replace(best[1], order=current.order)


def neighbourhood(
    problem: Problem, chain: IntArray, options: PlanningOptions, *, turn: bool
) -> Chains | None:
    """Return all chains one move away within `BUDGET`: fewer hosts first, then other hosts, then other orders."""
    n = len(chain)
    room = n < options.most_ranks(problem.size // problem.min_rows)
    spare = _spare(problem, chain)
    blocks: list[IntArray] = []
    left = BUDGET

    def add(build: Callable[[int], IntArray]) -> None:
        """Add as many rows of a block as the budget allows."""
        nonlocal left
        block = build(left // (n + 1))
        if len(block):
            blocks.append(block)
            left -= block.size

    if n > 1 and options.ranks is None:
        add(lambda most: chain[_drops(n)[:most]])
    if len(spare):
        add(lambda most: _swapped(chain, spare, most))
    if len(spare) and room:
        places = np.arange(n + 1) if turn else np.array([n])
        add(lambda most: _inserted(chain, spare[: most // len(places)], places))
    if turn and n > 2:
        add(lambda most: chain[_reversals(n, most)])
        add(lambda most: chain[_moves(n, most)])
    if not blocks:
        return None
    return _chains(blocks)


def _chains(blocks: list[IntArray]) -> Chains:
    """Return the rows of all blocks as chains."""
    lengths = np.concatenate([np.full(len(b), b.shape[1]) for b in blocks])
    return Chains(np.concatenate([b.ravel() for b in blocks]), np.concatenate(([0], np.cumsum(lengths))))


def _spare(problem: Problem, chain: IntArray) -> IntArray:
    """Return one free processor of every host that has one, the fastest first; of hosts that are alike, of one."""
    spare = first_free(problem, chain)
    if problem.alike is not None:
        _, first = np.unique(problem.alike[spare], return_index=True)
        spare = spare[np.sort(first)]
    return spare[np.argsort(problem.slope[problem.host_of[spare], 1], kind="stable")]


def first_free(problem: Problem, chain: IntArray) -> IntArray:
    """Return the first free processor of every host that has one."""
    unused = np.ones(problem.processors, dtype=bool)
    unused[chain] = False
    free = np.flatnonzero(unused)
    _, first = np.unique(problem.host_of[free], return_index=True)
    return free[first]


def _swapped(chain: IntArray, spare: IntArray, most: int) -> IntArray:
    """Return chains with every member replaced by every spare, int64[≤ most, n]; the most desirable spares first."""
    n = len(chain)
    k = np.arange(min(n * len(spare), most))
    block = np.tile(chain, (len(k), 1))
    block[k, k % n] = spare[k // n]
    return block


def _inserted(chain: IntArray, spare: IntArray, places: IntArray) -> IntArray:
    """Return chains with every spare at every place, int64[U·places, n+1]."""
    n = len(chain)
    extended = np.concatenate((chain, [-1]))
    block = extended[_insertions(n)[places]]
    block = np.repeat(block[None, :, :], len(spare), axis=0)
    filled = np.where(block < 0, spare[:, None, None], block)
    return filled.reshape(-1, n + 1)


@lru_cache(maxsize=256)
def _drops(n: int) -> IntArray:
    """Return int64[n, n-1], row i without position i."""
    left = np.arange(n - 1)[None, :]
    return left + (left >= np.arange(n)[:, None])


@lru_cache(maxsize=256)
def _insertions(n: int) -> IntArray:
    """Return int64[n+1, n+1], row p with element n at place p."""
    row, column = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    return np.where(column == row, n, column - (column > row))


@lru_cache(maxsize=64)
def _reversals(n: int, most: int) -> IntArray:
    """Return chains with a stretch of two or more reversed, short ones first, int64[≤ most, n]."""
    lengths = [(i, i + gap) for gap in range(1, min(n - 1, most // n + 2)) for i in range(n - gap)]
    ends = np.array(lengths[:most], dtype=np.int64).reshape(-1, 2)
    first, last = ends[:, :1], ends[:, 1:]
    column = np.arange(n)[None, :]
    return np.where((column >= first) & (column <= last), first + last - column, column)


@lru_cache(maxsize=64)
def _moves(n: int, most: int) -> IntArray:
    """Return chains with one element moved two or more places, short ways first, int64[≤ most, n]."""
    ways = [
        (i, i + way)
        for d in range(2, min(n, most // n + 3))
        for way in (d, -d)
        for i in range(n)
        if 0 <= i + way < n
    ]
    ends = np.array(ways[:most], dtype=np.int64).reshape(-1, 2)
    source, target = ends[:, :1], ends[:, 1:]
    column = np.arange(n)[None, :]
    forward = (column >= source) & (column < target)
    back = (column <= source) & (column > target)
    return np.where(column == target, source, column + forward.astype(np.int64) - back)


@lru_cache(maxsize=64)
def _segments(n: int) -> IntArray:
    """Return chains with two or three neighbours moved together (or-opt), short ways first, int64[·, n]."""
    rows = []
    for d in range(1, n):
        for length in (2, 3):
            for i in range(n - length + 1):
                left = [*range(i), *range(i + length, n)]
                part = list(range(i, i + length))
                rows += [left[:to] + part + left[to:] for to in (i + d, i - d) if 0 <= to <= n - length]
    return np.array(rows, dtype=np.int64).reshape(-1, n)
