"""The newest 51 values of a series, kept in order of arrival and in order of size.

One walk in order of arrival gives the sliding means of all windows. Medians and trimmed means come from the order by
size, longest window first: a window of w is the values younger than w samples, and leaving the others out keeps the
order. Sums are recomputed every time, so rounding errors do not accumulate. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nws.forecasting.jit import compiled
from nws.forecasting.layout import MEAN, MEDIAN, NEWEST, SLIDING, TRIM, TRIMMED, TRIMMED_MEAN

_WINDOW = np.array(SLIDING)
#: Index of a window's trimmed mean among the trimmed means; -1 where a window has none.
_TRIMMED = np.array([TRIMMED.index(w) if w in TRIMMED else -1 for w in SLIDING])


@compiled
def keep(state: Any, value: float) -> None:
    """Take `value` into the ring and into the order by size; the oldest leaves both when the ring is full."""
    newest, by_size, samples = state["newest"], state["sorted"], state["samples"]
    place = samples % NEWEST
    held = min(samples, NEWEST)
    if samples >= NEWEST:
        at = 0
        while by_size[at] != place:
            at += 1
        for i in range(at, NEWEST - 1):
            by_size[i] = by_size[i + 1]
        held -= 1
    newest[place] = value
    at = held
    while at > 0 and newest[by_size[at - 1]] > value:
        by_size[at] = by_size[at - 1]
        at -= 1
    by_size[at] = place


@compiled
def predict_means(state: Any) -> None:
    """Mean of the newest w values for every window w; of all of them while there are fewer."""
    newest, predicted, samples = state["newest"], state["predicted"], state["samples"]
    held = min(samples, NEWEST)
    place = (samples - 1) % NEWEST
    total, taken = 0.0, 0
    for rung in range(len(_WINDOW)):
        while taken < min(_WINDOW[rung], held):
            total += newest[place]
            place = place - 1 if place > 0 else NEWEST - 1
            taken += 1
        predicted[MEAN + rung] = total / taken


@compiled
def predict_order_statistics(state: Any) -> None:
    """Median and trimmed mean of the newest w values for every window w; of all while there are fewer.

    A trimmed mean leaves out the smallest and the largest `TRIM` of its window, rounded down.
    """
    newest, by_size, predicted = state["newest"], state["sorted"], state["predicted"]
    samples = state["samples"]
    count = held = min(samples, NEWEST)
    newest_place = (samples - 1) % NEWEST
    value, age = np.empty(NEWEST), np.empty(NEWEST, np.int64)
    for i in range(held):
        value[i] = newest[by_size[i]]
        age[i] = newest_place - by_size[i]
        age[i] += NEWEST if age[i] < 0 else 0
    for rung in range(len(_WINDOW) - 1, -1, -1):
        size = min(_WINDOW[rung], held)
        if size < count:
            # without a branch that no processor predicts
            kept = 0
            for i in range(count):
                value[kept], age[kept] = value[i], age[i]
                kept += age[kept] < size
            count = size
        low, high = value[(size - 1) // 2], value[size // 2]
        predicted[MEDIAN + rung] = low + (high - low) / 2
        if _TRIMMED[rung] >= 0:
            cut = int(TRIM * size)
            total = 0.0
            for i in range(cut, size - cut):
                total += value[i]
            predicted[TRIMMED_MEAN + _TRIMMED[rung]] = total / (size - 2 * cut)
