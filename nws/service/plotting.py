"""One series for a plot: measurements, forecasts made before them, the error of those forecasts, and gaps.

The forecasts come from the real battery, run over the plotted points and some before them, at the plotted
resolution. A plot of a month thus shows how well the bucket means of that month could be predicted. A row without a
value marks a gap, a time without measurements that is much longer than usual.
Source: Wolski et al. 2000, §2.4.
"""

import numpy as np

from nws.base.errors import Refused
from nws.forecasting.backtest import expected
from nws.forecasting.batteries import LARGEST
from nws.memory import Keep, Memory
from nws.messages.bounds import Floats
from nws.messages.records import PlotDocument
from nws.series import Series
from nws.service.samples import Points, checked_span, fitting, raw, rolled

FEWEST_POINTS, MOST_POINTS = 2, 5000
#: Points before the first plotted one from which the battery learns.
_LEARNT_FROM = 200
#: Length of a gap in multiples of the usual distance between points.
_GAP = 3.5


def document(
    memory: Memory, series: Series, span: tuple[float, float], *, points: int, keep: tuple[Keep, float]
) -> PlotDocument:
    """Return a series over a span (seconds since the epoch) in about `points` points; raises `Refused`.

    Args:
        keep: retention periods, and the time now
    """
    checked_span(*span)
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise Refused(f"points {points}: legal are {FEWEST_POINTS} to {MOST_POINTS}")
    drawn = fitting(memory, series, span, points=points, keep=keep)
    known = _with_older_points(memory, series, span, drawn)
    # other programs may have stored values that a battery rejects
    backtest = expected(np.clip(known.value, -LARGEST, LARGEST))
    shown = slice(len(known) - len(drawn), None)
    low = drawn.value if drawn.low is None else drawn.low
    high = drawn.value if drawn.high is None else drawn.high
    rows = _with_gaps(
        drawn.t,
        [drawn.value, low, high, backtest.forecast[shown], backtest.error[shown]],
        drawn.resolution_s,
    )
    return PlotDocument(
        series=str(series),
        unit=series.resource.unit,
        resolution_s=drawn.resolution_s,
        t=rows[0],
        value=rows[1],
        low=rows[2],
        high=rows[3],
        forecast=rows[4],
        error=rows[5],
    )


def _with_older_points(memory: Memory, series: Series, span: tuple[float, float], drawn: Points) -> Points:
    """Return the plotted points after up to `_LEARNT_FROM` older ones of the same resolution."""
    if not len(drawn):
        return drawn
    until = float(np.nextafter(drawn.t[0], -np.inf))
    if drawn.resolution_s:
        since = until - _LEARNT_FROM * drawn.resolution_s
        bucket_s, times = (
            (60, drawn.resolution_s / 60) if drawn.resolution_s % 600 else (600, drawn.resolution_s / 600)
        )
        before = rolled(memory, series, (since, until), 60 if bucket_s == 60 else 600, times=round(times))
    else:
        usual_s = _usual_s(drawn.t) or 60.0
        before = raw(memory, series, (until - _LEARNT_FROM * usual_s, until))
    return Points(
        resolution_s=drawn.resolution_s,
        t=np.concatenate((before.t, drawn.t)),
        value=np.concatenate((before.value, drawn.value)),
    )


def _usual_s(t: Floats) -> float:
    """Return the median distance of points in seconds; 0 for fewer than three points."""
    return float(np.median(np.diff(t))) if len(t) > 2 else 0.0


def _with_gaps(t: Floats, columns: list[Floats], resolution_s: float) -> list[Floats]:
    """Return time and columns with a row of NaN in the middle of every gap."""
    usual_s = max(_usual_s(t), resolution_s)
    before = np.flatnonzero(np.diff(t) > _GAP * usual_s) + 1 if usual_s else np.empty(0, np.int64)
    middle = (t[before - 1] + t[before]) / 2 if len(before) else np.empty(0)
    return [np.insert(t, before, middle), *(np.insert(c, before, np.nan) for c in columns)]
