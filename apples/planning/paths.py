"""Chains through pools whose links are not all open, as between firewalled hosts: a beam search over paths.

A prefix of a desirability order is no path there, and no single move mends it. So paths are extended at either end,
and turned: if the last host reaches one in the middle, the part behind it is reversed (Pósa 1976). Of each length the
`WIDTH` most promising paths are kept: the fastest ones and those with most room. Goes beyond the paper.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray
from apples.planning.candidates import host_counts
from apples.planning.chains import Chains
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, IntArray, Problem

#: Paths kept of each length, and paths of each length that become candidates.
WIDTH, CANDIDATES = 48, 4
#: Longest path whose ends are turned, and most paths turned at once.
_TURNED, _TURNS = 80, 2000


def candidates(problem: Problem, options: PlanningOptions) -> list[tuple[str, Chains]]:
    """Return chains along open links, a few of every length; none if all links are open."""
    if not problem.has_closed_links:
        return []
    counts = set(host_counts(problem, options, problem.processors).tolist())
    chains = [
        row for paths in _levels(problem, max(counts, default=0)) if paths.shape[1] in counts for row in paths
    ]
    return [("open links", Chains.of(chains))] if chains else []


def _levels(problem: Problem, longest: int) -> Iterator[IntArray]:
    """Yield the best paths of each length from 1 to `longest`, int64[≤ 2·CANDIDATES, length]."""
    hosts = problem.host_of
    pair = problem.side[hosts[:, None], hosts[None, :]]
    open_ = np.maximum(pair, pair.T) < UNUSABLE_S
    speed = 1 / problem.slope[hosts, problem.slot_of + 1]
    room = np.minimum(_room_of_slots(problem), problem.size)
    mark = np.random.default_rng(0).integers(1, 2**62, problem.processors)
    first = np.flatnonzero(problem.slot_of == 0)[:, None]
    front = _best(problem, first, speed, room, mark, WIDTH)
    for _ in range(longest):
        if not len(front):
            return
        yield _best(problem, front, speed, room, mark, CANDIDATES)
        front = _best(problem, _extended(_both_ends(front, open_), open_, problem), speed, room, mark, WIDTH)


def _room_of_slots(problem: Problem) -> FloatArray:
    """Return the rows that each slot adds to its host, float64[N]; the slots before it are in use."""
    cap = np.where(np.isfinite(problem.cap), problem.cap, float(problem.size))
    total = cap * np.arange(cap.shape[1])
    return np.diff(total, axis=1)[problem.host_of, problem.slot_of]


def _both_ends(front: IntArray, open_: NDArray[np.bool_]) -> IntArray:
    """Return the paths, the same read backwards, and with their last part turned."""
    paths = np.concatenate((front, front[:, ::-1]))
    length = front.shape[1]
    if not 3 <= length <= _TURNED:
        return paths
    which, joint = np.nonzero(open_[paths[:, :-2], paths[:, -1:]])
    which, joint = which[:_TURNS], joint[:_TURNS]
    column = np.arange(length)[None, :]
    turned = np.where(column <= joint[:, None], column, length + joint[:, None] - column)
    return np.concatenate((paths, np.take_along_axis(paths[which], turned, axis=1)))


def _extended(paths: IntArray, open_: NDArray[np.bool_], problem: Problem) -> IntArray:
    """Return every path with every free processor its last one reaches; slots of a host are used in order."""
    used = np.zeros((len(paths), problem.processors), dtype=bool)
    used[np.arange(len(paths))[:, None], paths] = True
    free = open_[paths[:, -1]] & ~used
    again = np.flatnonzero(problem.slot_of > 0)
    free[:, again] &= used[:, again - 1]
    which, following = np.nonzero(free)
    return np.column_stack((paths[which], following))


def _best(
    problem: Problem, paths: IntArray, speed: FloatArray, room: FloatArray, mark: IntArray, width: int
) -> IntArray:
    """Return up to `width` fastest paths and as many with most room, one of each set of processors and ends."""
    if not len(paths):
        return paths
    ends = mark[paths[:, 0]] ^ mark[paths[:, -1]]
    _, once = np.unique(mark[paths].sum(axis=1) * 3 + ends, return_index=True)
    paths = paths[once]
    if len(paths) <= width:
        return paths
    hosts = problem.host_of
    exchange = problem.side[hosts[paths[:, :-1]], hosts[paths[:, 1:]]].sum(axis=1)
    fast, wide = speed[paths].sum(axis=1), room[paths].sum(axis=1)
    best = np.union1d(np.lexsort((exchange, -fast))[:width], np.lexsort((exchange, -wide))[:width])
    near = np.argsort(exchange, kind="stable")[:width]
    return paths[np.union1d(best, near)]
