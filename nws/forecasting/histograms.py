"""Errors of forecasts by size: their histogram, its quantiles, and values that wait in 16 bits.

Steps of the histogram grow with the error, see `nws.forecasting.ladder`. Source: Gibbs & Candès, 2021.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nws.forecasting.compiling import compiled
from nws.forecasting.ladder import BIN_EDGE, BIN_SCALE, BINS

#: Outcomes that a histogram remembers, what each adds to it, and the outcomes between two fadings. All counts together,
#: lent ones included, stay below (`MEMORY` + 30) · `COUNT`, which 16 bits hold.
MEMORY, COUNT, _FADED_EVERY = 200, 256, 10
_U_EDGE = math.asinh(BIN_SCALE * BIN_EDGE)
#: Middles of the bins, times `BIN_SCALE`.
_MIDDLE = np.sinh(((np.arange(BINS) + 0.5) / BINS * 2.0 - 1.0) * _U_EDGE)
PRIOR = np.diff(
    [
        0.5 * math.exp(z) if z < 0 else 1.0 - 0.5 * math.exp(-z)
        for z in np.sinh((np.arange(BINS + 1) / BINS * 2.0 - 1.0) * _U_EDGE) / BIN_SCALE
    ]
)


@compiled
def place_of(error: float, scale: float) -> int:
    """Return the bin of an error."""
    z = error / scale if scale > 0.0 else (0.0 if error == 0.0 else math.copysign(BIN_EDGE, error))
    u = math.asinh(BIN_SCALE * z) / _U_EDGE
    return min(max(int((u + 1.0) / 2.0 * BINS), 0), BINS - 1)


@compiled
def count_error(histogram: Any, bin_number: int, outcomes: int) -> None:
    """Add an error to its bin after so many outcomes; errors of long ago fade.

    histogram : uint16[BINS]
    """
    histogram[bin_number] += COUNT
    if outcomes >= MEMORY and outcomes % _FADED_EVERY == 0:
        for b in range(BINS):
            histogram[b] = int(histogram[b]) * (MEMORY - _FADED_EVERY) // MEMORY


@compiled
def stretch(histogram: Any, factor: float, stretched: Any) -> None:
    """Add the shares of a histogram of errors, multiplied by a factor, to another.

    histogram : uint16[BINS] with at least one error;  stretched : float64[BINS]
    """
    total = float(histogram.sum())
    for b in range(BINS):
        # a bin's share is divided between the two whose middles are nearest
        at = (math.asinh(factor * _MIDDLE[b]) / _U_EDGE + 1.0) / 2.0 * BINS - 0.5
        at = min(max(at, 0.0), BINS - 1.0)
        low = min(int(at), BINS - 2)
        stretched[low] += (low + 1.0 - at) * float(histogram[b]) / total
        stretched[low + 1] += (at - low) * float(histogram[b]) / total


@compiled
def share_below(histogram: Any, bin_number: int) -> float:
    """Return the share of errors below the middle of a bin; half without any error."""
    total, below = 0, 0
    for b in range(BINS):
        total += int(histogram[b])
        below += int(histogram[b]) if b < bin_number else 0
    return (below + 0.5 * float(histogram[bin_number])) / total if total > 0 else 0.5


@compiled
def quantile(histogram: Any, share: float) -> float:
    """Return the quantile of the errors, in scales."""
    total = 0.0
    for b in range(BINS):
        if total + histogram[b] >= share or b == BINS - 1:
            inside = (share - total) / histogram[b] if histogram[b] > 0.0 else 0.5
            u = ((b + min(max(inside, 0.0), 1.0)) / BINS * 2.0 - 1.0) * _U_EDGE
            z = math.sinh(u) / BIN_SCALE
            return min(z, 0.0) if share < 0.5 else max(z, 0.0)
        total += histogram[b]
    return 0.0


@compiled
def quantiles(histogram: Any, shares: Any) -> None:
    """Replace shares by the quantiles of the errors, in scales: float64[n]."""
    for i in range(len(shares)):
        shares[i] = quantile(histogram, shares[i])


@compiled
def pack(values: Any, packed: Any) -> None:
    """Keep the upper halves of float32s, rounded: float32[n] → uint16[n]; the relative error is below 1/256."""
    bits = values.view(np.uint32)
    for i in range(len(bits)):
        packed[i] = (bits[i] + np.uint32(0x8000)) >> np.uint32(16)


@compiled
def unpack(packed: Any, values: Any) -> None:
    """Return the counts that `pack` rounded: uint16[n] → float32[n]."""
    bits = values.view(np.uint32)
    for i in range(len(bits)):
        bits[i] = np.uint32(packed[i]) << np.uint32(16)
