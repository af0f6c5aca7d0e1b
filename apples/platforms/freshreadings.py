"""Forecasts that count on a fresh reading, for runs much shorter than the time between readings.

Checks read hosts once a run. A series of such readings shows how shares differ from run to run, and forecasts from it
tend to their mean. The check of the run itself has just read the shares of its hosts, and loads often last longer than
a short run. How long is estimated from the autocorrelation of the readings, taken as falling exponentially with time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apples.model.grid import LEAST_SHARE
from nws.series import HORIZONS_S, Forecast, Outlook

#: Range of the autocorrelation from one reading to the next. Smaller ones cannot be told from 0 by the tens of readings
#: that there are, so a share is taken to last half the time between two readings at least.
_CORRELATION = (math.exp(-2.0), math.exp(-0.02))

#: Fewest readings that show a correlation.
_FEWEST = 3


def lasting_s(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the seconds after which the autocorrelation of a series of shares has fallen to 1/e; 0 if it is unknown.

    Readings closer to each other than the shortest span of an outlook, as of two checks for one run, count once.

    times, values : of the readings, oldest first
    """
    keep = [k for k, then in enumerate(times) if k == 0 or then - times[k - 1] >= HORIZONS_S[0]]
    if len(keep) < _FEWEST:
        return 0.0
    logs = np.log(np.maximum(np.asarray(values)[keep], LEAST_SHARE))
    off = logs - logs.mean()
    total = float(off @ off)
    correlation = float(off[1:] @ off[:-1]) / total if total > 0 else _CORRELATION[1]
    least, most = _CORRELATION
    return float(np.median(np.diff(np.asarray(times)[keep]))) / -math.log(min(max(correlation, least), most))


def persisting(forecast: Forecast, lasts_s: float, now: float, most: float = math.inf) -> Forecast:
    """Return the forecast of a share with outlooks by its last reading and by the others.

    The logarithm of the share is taken as a process with an exponential autocorrelation: given its last value, its mean
    over a span is expected between that value and the median of the outlook, and varies less than the outlook says.

    Args:
        lasts_s: see `lasting_s`
        now: seconds since the epoch, when spans begin
        most: largest possible value
    """
    if forecast.last <= 0 or lasts_s <= 0:
        return forecast
    age = max(now - forecast.measured_at, 0.0) / lasts_s
    outlooks = tuple(
        _leaning(one, forecast.last, one.over_s / lasts_s, age, most) for one in forecast.outlooks
    )
    return replace(forecast, outlooks=outlooks)


def _leaning(outlook: Outlook, last: float, span: float, age: float, most: float) -> Outlook:
    """Return the outlook given the last value. span, age : in units of the time for which a share lasts"""
    # correlation of the mean over the span with the value at its start, and variance of that mean
    start = -math.expm1(-span) / span
    variance = 2.0 * (span + math.expm1(-span)) / span**2
    weight = start * math.exp(-age)
    narrower = math.sqrt(max(1.0 - weight**2 / variance, 0.0))
    middle = outlook.median
    if middle <= 0 or outlook.quantiles[0] <= 0:
        return outlook
    centre = middle * (last / middle) ** weight
    return replace(
        outlook,
        mean=min(outlook.mean * (last / middle) ** weight, most),
        quantiles=tuple(min(centre * (q / middle) ** narrower, most) for q in outlook.quantiles),
        variation=outlook.variation * math.sqrt(max(1.0 - variance * math.exp(-age), 0.0)),
    )
