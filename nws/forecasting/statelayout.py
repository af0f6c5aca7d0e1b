"""The methods of the battery, the selectors that judge them, and the state of one series.

The state of a series is one record of fixed size (`STATE`, about 9 kB): no history is kept beyond the newest 51
values, so an update costs the same after ten samples and after ten million. The list of methods is that of the Network
Weather Service (Wolski et al. 2000, §2.4): last value, running mean, exponential smoothing, sliding means, medians and
trimmed means, windows that adapt, and autoregression of order 16. Nothing here computes anything.

Windows of the scores. A selector that judges by the "last 50" errors weights an error of age a with (1 - 1/50)^a: as
much memory as 50 samples, held in one number instead of 50, and free of the rounding error of a sum from which old
terms are subtracted.
"""

from __future__ import annotations

import hashlib
import sys

import numpy as np

from nws.forecasting.ladder import FIELDS

GAINS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
"""Gains of exponential smoothing: share of the new error by which the smoothed value moves."""

SLIDING = (3, 5, 11, 21, 31, 51)
"""Windows, in samples, of the sliding means and medians; the adaptive window climbs the same ladder."""

TRIMMED = (11, 21, 31, 51)
"""Windows of the trimmed means; a subset of `SLIDING`."""

TRIM = 0.3
"""Share of the window that a trimmed mean leaves out at each end."""

NEWEST = SLIDING[-1]
"""Values kept of each series."""

ORDER = 16
"""Order of the autoregression."""

AR_MEMORY = (0, 100)
"""Samples whose statistics an autoregression is fitted to; 0 means the whole history."""

LAST = 0
RUN_MEAN = 1
EXPONENTIAL = 2
MEAN = EXPONENTIAL + len(GAINS)
MEDIAN = MEAN + len(SLIDING)
TRIMMED_MEAN = MEDIAN + len(SLIDING)
ADAPTIVE_MEAN = TRIMMED_MEAN + len(TRIMMED)
ADAPTIVE_MEDIAN = ADAPTIVE_MEAN + 1
AUTOREGRESSION = ADAPTIVE_MEDIAN + 1

METHODS = (
    "last",
    "run_mean",
    *(f"exponential_{gain:g}" for gain in GAINS),
    *(f"mean_{w}" for w in SLIDING),
    *(f"median_{w}" for w in SLIDING),
    *(f"trimmed_{w}" for w in TRIMMED),
    "adaptive_mean",
    "adaptive_median",
    *(f"ar{ORDER}" if memory == 0 else f"ar{ORDER}_{memory}" for memory in AR_MEMORY),
)
"""Name of every method, in the order of all arrays; of equals the first is chosen."""

MAE, MSE = 0, 1
"""The two kinds of error, as index."""

KINDS = ("mae", "mse")

SCORE_MEMORY = (0, 100, 50, 20)
"""Memory, in samples, of the scores by which methods are chosen; the first, 0, means the whole history."""

ADAPT_SCORE = SCORE_MEMORY.index(20) - 1
"""The score by which a window adapts, of those that fade."""

BLEND_SHARPNESS = 8
"""A blend weights a method with its error (MAE, or root of MSE) to the power -8."""

PICK_SHARPNESS = 64
"""The battery weights a selector with its error to the power -64: nearly the best alone, unless others are as good."""

LEAN = (0.0, 0.5, 1.0)
"""Parts of the way from the last value to what the selectors say that the battery may go."""

LEAN_SHARPNESS = 64
"""The part it does go is the mean of these, weighted with their errors to the power -64."""

LEAN_TRUST = 2
"""To stop short is charged with so many errors more at first: little data is no reason to."""

LEAN_CLIP = 5
"""An absolute error counts as no more than so many times what is usual: one spike decides nothing for long."""

PICKS = len(SCORE_MEMORY) * len(KINDS)
"""Selectors that answer with one method; one for each memory and kind. Two blends, one a kind, follow."""

SELECTORS = (
    *(f"{kind}/{memory or 'all'}" for memory in SCORE_MEMORY for kind in KINDS),
    *(f"blend of all ({kind})" for kind in KINDS),
)

#: One series. Units of values, predictions, answers and absolute errors are the series' own.
STATE = np.dtype(
    [
        ("samples", "i8"),
        ("measured_at", "f8"),
        ("last", "f8"),
        ("lowest", "f8"),
        ("highest", "f8"),
        ("run_mean", "f8"),
        ("smoothed", "f8", (len(GAINS),)),
        # ring: sample number k, counted from 0, is at k mod NEWEST; `sorted` lists ring places by rising value
        ("newest", "f8", (NEWEST,)),
        ("sorted", "u1", (NEWEST,)),
        # mean error of other series, relative to their levels, that this one starts from; 0 for none
        ("lent", "f4"),
        # rung of each adaptive method on the ladder of windows; 0 is the last value
        ("rung", "i8", (2,)),
        # per autoregression: mean, weight behind it, newest deviations from it, covariance by lag
        ("ar_mean", "f8", (len(AR_MEMORY),)),
        ("ar_weight", "f8", (len(AR_MEMORY),)),
        ("ar_deviation", "f8", (len(AR_MEMORY), ORDER + 1)),
        ("ar_covariance", "f8", (len(AR_MEMORY), ORDER + 1)),
        # forecast of each method for the next value, and its errors so far
        ("predicted", "f8", (len(METHODS),)),
        ("loss", "f8", (len(KINDS), len(METHODS))),
        # the same by shorter memories, as upper halves of float64, which rise with the number
        ("fading_loss", "u4", (len(SCORE_MEMORY) - 1, len(KINDS), len(METHODS))),
        # forecast of each selector for the next value, its method, and its errors so far
        ("answered", "f8", (len(SELECTORS),)),
        ("chosen", "i1", (PICKS,)),
        ("answer_loss", "f8", (len(KINDS), len(SELECTORS))),
        # by kind: the best selector so far, and the blend of all selectors
        ("pick", "i8", (len(KINDS),)),
        ("together", "f8", (len(KINDS),)),
        # how wrong each part of the way would have been, and the battery's answer, by kind
        ("lean_loss", "f8", (len(KINDS), len(LEAN))),
        ("answer", "f8", (len(KINDS),)),
        # errors of the battery's answers: [kind of the answer, kind of the error]
        ("error", "f8", (len(KINDS), len(KINDS))),
        # forecasts by horizon
        *FIELDS,
    ],
    align=True,
)

#: Digest of the record layout: the fields, and the order of methods and selectors in them.
LAYOUT = hashlib.sha256(repr((STATE.descr, METHODS, SELECTORS, sys.byteorder)).encode()).hexdigest()


def method_text(selector: int, method: int) -> str:
    """Return the leading method and its selector, such as ``median_21 (mae/50)``; `method` is unused by blends."""
    if selector >= PICKS:
        return SELECTORS[selector]
    return f"{METHODS[method]} ({SELECTORS[selector]})"
