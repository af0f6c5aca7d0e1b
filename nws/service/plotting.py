"""One series ready to be drawn: measurement, what was expected of it, how wrong that used to be, and gaps as gaps.

The forecasts are those of the real battery, run once more over what is drawn and somewhat before, in the resolution
that is drawn; so a plot of a month shows how well a month's bucket means could be foretold. Where nothing was measured
for much longer than usual a row without a value tells the plot to lift its pen.
Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import numpy as np

from nws.base.errors import Refused
from nws.forecasting.bank import LARGEST
from nws.forecasting.hindsight import expected
from nws.memory import Keep, Memory
from nws.series import Series
from nws.service.records import Floats, PlotDocument
from nws.service.samples import Points, checked_span, fitting, raw, rolled

FEWEST_POINTS, MOST_POINTS = 2, 5000
#: Points before the first one drawn that the battery learns from.
_LEARNT_FROM = 200
#: A gap is longer than so many usual distances between points.
_GAP = 3.5


def document(
    memory: Memory, series: Series, span: tuple[float, float], *, points: int, keep: tuple[Keep, float]
) -> PlotDocument:
    """A series over a span (seconds since the epoch) in about `points` points; raises `Refused`.

    keep : how long what is kept, and the time now
    """
    checked_span(*span)
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise Refused(f"points {points}: legal are {FEWEST_POINTS} to {MOST_POINTS}")
    drawn = fitting(memory, series, span, points=points, keep=keep)
    known = _with_what_came_before(memory, series, span, drawn)
    # other programs may have written into the store what no battery takes
    hindsight = expected(np.clip(known.value, -LARGEST, LARGEST))
    shown = slice(len(known) - len(drawn), None)
    low = drawn.value if drawn.low is None else drawn.low
    high = drawn.value if drawn.high is None else drawn.high
    rows = _with_gaps(
        drawn.t,
        [drawn.value, low, high, hindsight.forecast[shown], hindsight.error[shown]],
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


def _with_what_came_before(
    memory: Memory, series: Series, span: tuple[float, float], drawn: Points
) -> Points:
    """The points drawn, and up to `_LEARNT_FROM` older ones of the same resolution."""
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
    """Usual distance of points, seconds; 0 when there are too few to tell."""
    return float(np.median(np.diff(t))) if len(t) > 2 else 0.0


def _with_gaps(t: Floats, columns: list[Floats], resolution_s: float) -> list[Floats]:
    """Time and columns with a row of NaN in the middle of every gap."""
    usual_s = max(_usual_s(t), resolution_s)
    before = np.flatnonzero(np.diff(t) > _GAP * usual_s) + 1 if usual_s else np.empty(0, np.int64)
    middle = (t[before - 1] + t[before]) / 2 if len(before) else np.empty(0)
    return [np.insert(t, before, middle), *(np.insert(c, before, np.nan) for c in columns)]
