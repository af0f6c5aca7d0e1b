"""Slab heights for the ranks' present speeds, and their saving: the planner's own allocation.

A cut is judged by replaying stretches of the run with it, one by one. Ranks wait for the slowest in each, so the
measure is the mean of the slowest and not the slowest of the means.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray
from apples.planning.chains import Chains
from apples.planning.minimax import makespans, minimax_rows
from apples.planning.model import NO_BEND, RankLines
from apples.planning.problem import IntArray


def balanced(row_s: FloatArray, size: int, min_rows: int, caps: FloatArray) -> IntArray | None:
    """Return whole rows with the smallest slowest rank, int64[P]; None if the caps do not hold the work.

    row_s : float64[P], seconds of one row.  caps : float64[P], most rows of each
    """
    ranks = len(row_s)
    lines = RankLines(
        slope=row_s,
        fixed=np.zeros(ranks),
        communicate=np.zeros(ranks),
        cap=np.minimum(caps, float(size)),
        bend=np.full(ranks, NO_BEND),
        spill_factor=1.0,
    )
    finish = float(makespans(lines, Chains.of([range(ranks)]), size, min_rows)[0])
    if not np.isfinite(finish):
        return None
    rows = minimax_rows(lines, size, min_rows, finish)
    return rows if int(rows.sum()) == size else None


def slowest(rows: Sequence[int] | IntArray, row_s: FloatArray) -> FloatArray:
    """Return the seconds of the slowest rank in each of K stretches, float64[K]. row_s : float64[K, P]."""
    longest: FloatArray = (row_s * np.asarray(rows, dtype=np.float64)).max(axis=1)
    return longest


def moved_rows(before: Sequence[int] | IntArray, after: Sequence[int] | IntArray) -> int:
    """Return the number of rows that change their rank."""
    bounds = [np.concatenate(([0], np.cumsum(np.asarray(cut, dtype=np.int64)))) for cut in (before, after)]
    staying: NDArray[np.int64] = np.minimum(bounds[0][1:], bounds[1][1:]) - np.maximum(
        bounds[0][:-1], bounds[1][:-1]
    )
    return int(bounds[0][-1] - np.maximum(staying, 0).sum())


def busiest_link_rows(before: Sequence[int], after: Sequence[int]) -> int:
    """Return the rows that cross the busiest border between two neighbouring ranks of the chain.

    Rows that go farther cross all borders on their way; at worst their links share one wire.
    """
    shift = np.cumsum(np.asarray(after, dtype=np.int64)) - np.cumsum(np.asarray(before, dtype=np.int64))
    return int(np.abs(shift).max(initial=0))
