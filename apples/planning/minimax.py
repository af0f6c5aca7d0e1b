"""Slab heights that finish at the same time: exact, for thousands of chains at once, and in whole rows.

With T_i = fixed_i + slope_i·x_i the best common finish T solves Σ_i x_i(T) = size, where x_i(T) is the number of rows
rank i finishes by T: concave, bent at memory, flat at its cap. Newton's method from below reaches such a root without
overshooting, in one step if there is no bend. Whole rows: each rank gets the rows it finishes by T. The remaining rows
go one by one to the rank with the earliest finish. That is optimal, because any schedule that ends as early would have
placed every earlier row too. This replaces §3.3's simplex where limits are per rank; `heights` serves
constraints that tie hosts together.
"""

import heapq
from collections.abc import Callable

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.chains import Chains
from apples.planning.model import RankLines
from apples.planning.problem import UNUSABLE_S, IntArray

_STEPS = 60
_CLOSE = 1e-9

Allowed = Callable[[IntArray, int], bool]
"""Whether rank i may take one row more than these heights."""


def makespans(lines: RankLines, chains: Chains, size: int, min_rows: int) -> FloatArray:
    """Return the best common finish of every chain in real rows, float64[K] seconds; inf if the work does not fit.

    It is a lower bound of the makespan in whole rows.
    """
    lowest = np.full(len(lines.slope), float(min_rows))
    finish = chains.highest(lines.seconds(lowest))
    inverse = 1 / lines.slope
    straight = (size + chains.total(lines.fixed * inverse)) / chains.total(inverse)
    holds = (
        (chains.total(lines.cap) >= size)
        & (chains.lengths * min_rows <= size)
        & (chains.highest(-lines.cap) <= -min_rows)
        & (chains.highest(lines.communicate) < UNUSABLE_S)
    )
    finish = np.where(holds, np.maximum(finish, straight), np.inf)
    limited = lines.rows_by(chains.spread(finish)) < (chains.spread(finish) - lines.fixed) * inverse - _CLOSE
    bent = holds & (chains.total(limited.astype(np.float64)) > 0)
    if bent.any():
        some, where = chains.select(bent)
        finish[bent] = _newton(lines.take(where), some, size, finish[bent])
    return finish


def _newton(lines: RankLines, chains: Chains, size: int, start: FloatArray) -> FloatArray:
    """Return the root of Σ x_i(T) = size of every chain, float64[K]; `start` is at or below the root."""
    finish = start.copy()
    open_ = np.arange(len(chains))
    for _ in range(_STEPS):
        at = chains.spread(finish[open_])
        short = size - chains.total(lines.rows_by(at))
        left = short > _CLOSE * size
        if not left.any():
            break
        rate = chains.total(lines.row_rate(at))
        finish[open_[left]] += short[left] / rate[left]
        if not left.all():
            open_ = open_[left]
            chains, where = chains.select(left)
            lines = lines.take(where)
    return finish


def minimax_rows(lines: RankLines, size: int, min_rows: int, finish: float) -> IntArray:
    """Return the whole rows of one chain with the smallest makespan, int64[n]; `finish` is its real makespan."""
    at = np.full(len(lines.slope), finish)
    return whole_rows(lines, lines.rows_by(at), size, min_rows)


def whole_rows(
    lines: RankLines, real: FloatArray, size: int, min_rows: int, allowed: Allowed | None = None
) -> IntArray:
    """Return whole rows made of real ones: floors, then row by row to the earliest finish that is allowed.

    Args:
        real: float64[n], within the caps.
        allowed: check of one more row on a rank; None allows all.

    Returns:
        int64[n]; its sum is less than `size` only when `allowed` rejects every further row.
    """
    rows = np.clip(np.floor(real + 1e-9), min_rows, lines.cap)
    surplus = rows.sum() - size
    if surplus > 0:
        # A rank with min_rows sets the makespan; the others share the remaining rows in proportion.
        extra = rows - min_rows
        rows = min_rows + np.floor(extra * (extra.sum() - surplus) / extra.sum())
    heights: IntArray = rows.astype(np.int64)
    short = int(size - heights.sum())
    following = lines.seconds((heights + 1).astype(np.float64))
    heap = [(float(t), i) for i, t in enumerate(following) if heights[i] < lines.cap[i]]
    heapq.heapify(heap)
    refused: list[tuple[float, int]] = []
    while short and heap:
        next_finish, i = heapq.heappop(heap)
        if allowed is not None and not allowed(heights, i):
            refused.append((next_finish, i))
            continue
        heights[i] += 1
        short -= 1
        if heights[i] < lines.cap[i]:
            heapq.heappush(heap, (_finish(lines, i, int(heights[i]) + 1), i))
        # A constraint with negative coefficients may allow after this row what it refused before.
        for entry in refused:
            heapq.heappush(heap, entry)
        refused.clear()
    return heights


def _finish(lines: RankLines, i: int, rows: int) -> float:
    """Return the seconds rank i needs for `rows` rows."""
    inside = min(float(rows), float(lines.bend[i]))
    return float(lines.fixed[i] + lines.slope[i] * (inside + lines.spill_factor * (rows - inside)))
