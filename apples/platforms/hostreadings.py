"""Readings from the checks before plans, stored so that forecasts know how much loads and links vary.

One check reads a host and its links once. A single reading does not show how much it varies; the readings of all checks
of the last day are a series as of any sensor, with the same forecasts and outlooks by horizon. Each check is one value
of a series: values a fraction of a second apart would show only the variation within one check. Source: Wolski et al.
2000, §2.4.

Forecasts that count on a fresh reading, for runs much shorter than the time between readings.

Checks read hosts once a run. A series of such readings shows how shares differ from run to run, and forecasts from it
tend to their mean. The check of the run itself has just read the shares of its hosts, and loads often last longer than
a short run. How long is estimated from the autocorrelation of the readings, taken as falling exponentially with time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from apples.hosts.hostmessages import HostFacts
from apples.model.grid import LEAST_SHARE
from apples.platforms.platform import single_forecast
from nws.base.errors import StoreError
from nws.client import LocalWeather
from nws.series import CPU, HORIZONS_S, Forecast, Measurement, Outlook, Resource, Series

#: Method of forecasts from one reading.
ONE_READING = "one look"

#: Seconds for which links count as known; probing all pairs of a pool takes longer than the rest of a check.
LINKS_KEPT_S = 300.0

#: Resources of links. Of these and of CPUs readings are stored; the memory of a host is used as measured.
_LINK = tuple(resource for resource in Resource if resource.is_pair)

#: Fewest readings that show how much a series varies. With fewer, the last is used, and its error is unknown.
_FEWEST = 3


class HostReadings:
    """The readings of checks in one file, which the first check creates.

    Hosts of two grids may have the same name, so each method takes `stored_as`: host → name in the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(
        self,
        check: Mapping[Series, Forecast],
        stored_as: Mapping[str, str],
        now: float,
        notify: Callable[[str], None],
    ) -> bool:
        """Store the values of a check that ended at `now`, seconds since the epoch; return whether that was possible.

        If the file cannot be written, `notify` gets the reason.
        """
        found = {
            _stored(series, stored_as): forecast.value
            for series, forecast in check.items()
            if series.resource in CPU or series.resource in _LINK
        }
        try:
            with LocalWeather(self._path, sensors=[]) as weather:
                weather.record([Measurement(series, now, value) for series, value in found.items()])
        except StoreError as error:
            notify(f"the readings of this check are not kept: {error}")
            return False
        return True

    def forecasts(
        self, stored_as: Mapping[str, str], now: float, notify: Callable[[str], None], *, links: bool = False
    ) -> dict[Series, Forecast]:
        """Return forecasts of the CPUs of these hosts that were read in the last day.

        Readings come with runs, at any distance in time, so outlooks do not widen with the age of the last: the older
        it is, the less they depend on it (`fresh`). If the file cannot be read, `notify` gets the reason, and
        there are none.

        Args:
            now: seconds since the epoch
            links: include the links among the hosts
        """
        if not self._path.exists():
            return {}
        try:
            with LocalWeather(self._path, sensors=[]) as weather:
                known, history = weather.forecasts(aged=False), weather.history()
        except StoreError as error:
            notify(f"planning without the readings of earlier checks: {error}")
            return {}
        wanted = [Series(resource, host) for host in stored_as for resource in CPU]
        if links:
            wanted += [Series(resource, *pair) for pair in permutations(stored_as, 2) for resource in _LINK]
        found = {one: known[stored] for one in wanted if (stored := _stored(one, stored_as)) in known}

        def counted(series: Series, one: Forecast) -> Forecast:
            if one.samples < _FEWEST:
                return single_forecast(one.last, one.measured_at, ONE_READING)
            readings = history.get(_stored(series, stored_as))
            if series.resource not in CPU or readings is None or len(readings) < _FEWEST:
                return one
            lasts_s = lasting_s(readings.times, readings.values)
            return persisting(one, lasts_s, now, series.resource.most)

        return {series: counted(series, one) for series, one in found.items()}

    def know_links(self, stored_as: Mapping[str, str], now: float) -> bool:
        """Return whether each link among these hosts was read often enough, the last time within `LINKS_KEPT_S`."""
        known = self.forecasts(stored_as, now, lambda line: None, links=True)
        links = [known.get(Series(Resource.BANDWIDTH, *pair)) for pair in permutations(stored_as, 2)]
        return all(
            link is not None and link.samples >= _FEWEST and 0 <= now - link.measured_at < LINKS_KEPT_S
            for link in links
        )


def survey_forecasts(facts: Mapping[str, HostFacts], now: float) -> dict[Series, Forecast]:
    """Return the forecasts from one check of hosts, by name: single values of unknown error."""
    found: dict[Series, Forecast] = {}
    for name, host in facts.items():
        if host.survey is None:
            continue
        values = {
            Resource.CPU_NEW: host.survey.availability,
            Resource.CPU_CAPACITY: host.survey.capacity,
            Resource.MEMORY_FREE: host.survey.memory_bytes,
        }
        if host.survey.quota is not None:
            values[Resource.CPU_LIMIT] = host.survey.quota
        found |= {
            Series(kind, name): single_forecast(value, now, ONE_READING) for kind, value in values.items()
        }
    return found


def _stored(series: Series, stored_as: Mapping[str, str]) -> Series:
    peer = None if series.peer is None else stored_as[series.peer]
    return Series(series.resource, stored_as[series.host], peer)


#: Range of the autocorrelation from one reading to the next. Smaller ones cannot be told from 0 by the tens of readings
#: that there are, so a share is taken to last half the time between two readings at least.
_CORRELATION = (math.exp(-2.0), math.exp(-0.02))

#: Fewest readings that show a correlation.
_FEWEST_FRESH = 3


def lasting_s(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the seconds after which the autocorrelation of a series of shares has fallen to 1/e; 0 if it is unknown.

    Readings closer to each other than the shortest span of an outlook, as of two checks for one run, count once.

    times, values : of the readings, oldest first
    """
    keep = [k for k, then in enumerate(times) if k == 0 or then - times[k - 1] >= HORIZONS_S[0]]
    if len(keep) < _FEWEST_FRESH:
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
