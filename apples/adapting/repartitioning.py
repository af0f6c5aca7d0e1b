"""Slab heights for ranks as fast as they are now, and what they would have saved: the planner's own allocation.

A cut is judged by replaying stretches of the run with it, one by one: ranks wait for the slowest in each, so what
counts is the mean of the slowest and not the slowest of the means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray
from apples.planning.chains import Chains
from apples.planning.minimax import makespans, minimax_rows
from apples.planning.model import NO_BEND, RankLines
from apples.planning.problem import IntArray


def balanced(row_s: FloatArray, size: int, min_rows: int, caps: FloatArray) -> IntArray | None:
    """Whole rows with the smallest slowest rank, int64[P]; None where the caps do not hold the work.

    row_s : float64[P], seconds of one row.  caps : float64[P], rows each may hold
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
    """Seconds of the slowest rank in each of K stretches, float64[K]. row_s : float64[K, P]."""
    found: FloatArray = (row_s * np.asarray(rows, dtype=np.float64)).max(axis=1)
    return found


def moved_rows(before: Sequence[int] | IntArray, after: Sequence[int] | IntArray) -> int:
    """Rows that change their rank."""
    bounds = [np.concatenate(([0], np.cumsum(np.asarray(cut, dtype=np.int64)))) for cut in (before, after)]
    kept: NDArray[np.int64] = np.minimum(bounds[0][1:], bounds[1][1:]) - np.maximum(
        bounds[0][:-1], bounds[1][:-1]
    )
    return int(bounds[0][-1] - np.maximum(kept, 0).sum())


def busiest_link_rows(before: Sequence[int], after: Sequence[int]) -> int:
    """Rows that cross the busiest border between two ranks that stand beside each other in the chain.

    Rows that go farther cross all borders on their way, which is where their links share a wire at worst
    """
    shift = np.cumsum(np.asarray(after, dtype=np.int64)) - np.cumsum(np.asarray(before, dtype=np.int64))
    return int(np.abs(shift).max(initial=0))
