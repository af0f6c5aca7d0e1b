"""Small robust regressions: a choice among a few terms that the data can carry, and their coefficients.

Runs are few, some were disturbed by unforecast load, and newer ones count more. So: weighted fits that start from the
least median of residuals (up to half of the runs may be wrong) and end with Tukey's biweight (a clear outlier loses
all its weight), as in MM-estimates: Maronna, Martin, Yohai, Robust Statistics, 2006; and terms chosen by leaving one
group of equal inputs out at a time. Pure and deterministic; the meaning of the terms belongs to the callers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from apples.model.grid import FloatArray

_BIWEIGHT = 4.685
_TO_DEVIATION = 1.4826
_ROUNDS = 30
#: Change of the runs' weights after which further rounds would change nothing.
_SETTLED = 1e-12
_STARTS = 500
_SINGULAR = 1e-9
#: A further term must bring the left-out error down by this fraction.
_WORTHWHILE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Chosen terms with coefficients (0 for the others), float64[k]; `trust`: 0..1 for each run, float64[n]."""

    coefficients: FloatArray
    trust: FloatArray


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the smallest value with at least half the weight at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])


def robust_fit(design: FloatArray, target: FloatArray, weights: FloatArray) -> Fit:
    """Return the coefficients of target ≈ design · coefficients, outliers ignored.

    design : float64[n, k] of full column rank, n ≥ k.  target, weights : float64[n]
    """
    floor = 1e-9 * max(float(np.abs(target).max(initial=0.0)), 1e-9)
    coefficients, scale = _start(design, target, weights)
    scale = max(scale, floor)
    trust = np.ones_like(target)
    for _ in range(_ROUNDS):
        before, trust = trust, _biweight((target - design @ coefficients) / (_BIWEIGHT * scale))
        trusted = trust > 0
        if np.abs(trust - before).max() < _SETTLED:
            break
        if not trusted.all() and np.linalg.matrix_rank(design[trusted]) < design.shape[1]:
            break
        coefficients = _solve(design, target, weights * trust)
    return Fit(coefficients, trust)


def _start(design: FloatArray, target: FloatArray, weights: FloatArray) -> tuple[FloatArray, float]:
    """Return coefficients through as many runs as there are terms (or of all runs) with the least scale, and
    that scale.
    """
    count, terms = design.shape
    if math.comb(count, terms) <= _STARTS:
        picks = np.array(list(combinations(range(count), terms)))
    else:
        # A fixed seed: the same runs must always give the same fit.
        picks = np.random.default_rng(0).random((_STARTS, count)).argpartition(terms, axis=1)[:, :terms]
    picks = picks[np.abs(np.linalg.det(design[picks])) > _SINGULAR]
    exact = np.linalg.solve(design[picks], target[picks][..., None])[..., 0]
    starts = np.vstack([_solve(design, target, weights), exact])
    scales = _scales(target - starts @ design.T, weights, terms)
    best = int(np.argmin(scales))
    return starts[best], float(scales[best])


def choose_terms(
    design: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    admissible: Callable[[FloatArray], bool],
) -> Fit | None:
    """Return the best fit over sets of columns that contain the first one; None if no set is admissible.

    design : float64[n, k], equal rows are one group.  admissible : whether coefficients (float64[k]) make sense.
    A set of several columns needs twice as many groups; simpler sets win near-ties.
    """
    scales = np.abs(design).max(axis=0)
    scaled = design / np.where(scales > 0, scales, 1.0)
    groups = np.unique(scaled, axis=0, return_inverse=True)[1].reshape(-1)
    sets = _sets(scaled, int(groups.max()) + 1)
    trust = robust_fit(scaled[:, sets[-1]], target, weights).trust
    best: Fit | None = None
    best_error = np.inf
    for columns in sets:
        fit = robust_fit(scaled[:, columns], target, weights)
        coefficients = np.zeros(design.shape[1])
        coefficients[columns] = fit.coefficients / scales[columns]
        if not admissible(coefficients):
            continue
        error = _left_out_error(scaled[:, columns], target, weights * trust, groups)
        if best is None or error < (1 - _WORTHWHILE) * best_error:
            best, best_error = Fit(coefficients, fit.trust), error
    return best


def _sets(scaled: FloatArray, groups: int) -> list[list[int]]:
    """Return sets of columns the data can carry, small ones first; the first column is in each."""
    sets = [[0]]
    others = range(1, scaled.shape[1])
    for count in range(1, scaled.shape[1]):
        for chosen in combinations(others, count):
            columns = [0, *chosen]
            if groups >= 2 * len(columns) and np.linalg.matrix_rank(scaled[:, columns], tol=1e-6) == len(
                columns
            ):
                sets.append(columns)
    return sets


def _left_out_error(
    design: FloatArray, target: FloatArray, weights: FloatArray, groups: NDArray[np.int64]
) -> float:
    """Return the weighted mean of |error| when each group is predicted from the others; infinite if impossible."""
    count = int(groups.max()) + 1
    if count == 1:
        return 0.0
    total = 0.0
    for group in range(count):
        out = groups == group
        used = ~out & (weights > 0)
        if np.linalg.matrix_rank(design[used], tol=1e-6) < design.shape[1]:
            return np.inf
        errors = target[out] - design[out] @ _solve(design[used], target[used], weights[used])
        total += float(weights[out] @ np.abs(errors))
    return total / float(weights.sum())


def _solve(design: FloatArray, target: FloatArray, weights: FloatArray) -> FloatArray:
    root = np.sqrt(weights / weights.max())
    solution: FloatArray = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]
    return solution


def _scales(residuals: FloatArray, weights: FloatArray, terms: int) -> FloatArray:
    """Return the robust standard deviation of each row.

    As many residuals as terms are near zero by construction and do not count. residuals : float64[S, n]
    """
    sizes = np.abs(residuals)
    counted = np.argsort(sizes, axis=1, kind="stable")[:, terms:]
    if not counted.shape[1]:
        return np.zeros(len(sizes))
    below = np.cumsum(weights[counted], axis=1)
    middle = counted[np.arange(len(sizes)), (below < below[:, -1:] / 2).sum(axis=1)]
    medians: FloatArray = sizes[np.arange(len(sizes)), middle]
    return _TO_DEVIATION * medians


def _biweight(ratios: FloatArray) -> FloatArray:
    weights: FloatArray = np.where(np.abs(ratios) < 1, (1 - ratios**2) ** 2, 0.0)
    return weights
