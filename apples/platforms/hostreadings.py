"""Readings from the checks before plans, stored so that forecasts know how much loads and links vary.

One check reads a host and its links once. That alone shows little; the readings of all checks of the last day are a
series as of any sensor, with the same forecasts and outlooks by horizon. Each check is one value of a series: values a
fraction of a second apart would say only how little changes within a check. Source: Wolski et al. 2000, §2.4.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from apples.platforms.platform import single_forecast
from apples.remote.facts import HostFacts
from nws.base.errors import StoreError
from nws.client import LocalWeather
from nws.series import Forecast, Measurement, Resource, Series

#: What varies and is forecast; the memory of a host is taken as the check found it.
_KEPT = frozenset(Resource) - {Resource.MEMORY_FREE}

#: Fewest readings that show how much a series varies. With less, the latest counts, and its error is unknown.
_FEWEST = 3


class HostReadings:
    """The readings of checks in one file. The first check creates it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(
        self,
        check: Mapping[Series, Forecast],
        called: Mapping[str, str],
        now: float,
        notify: Callable[[str], None],
    ) -> None:
        """Store the values of a check that ended at `now`, seconds since the epoch; report a store that cannot.

        called : host → name under which its readings are stored
        """
        found = [
            Measurement(_stored(series, called), now, one.value)
            for series, one in check.items()
            if series.resource in _KEPT
        ]
        if not found:
            return
        try:
            with LocalWeather(self._path, sensors=[]) as weather:
                weather.record(found)
        except StoreError as error:
            notify(f"the readings of this check are not kept: {error}")

    def forecasts(
        self, wanted: Iterable[Series], called: Mapping[str, str], notify: Callable[[str], None]
    ) -> dict[Series, Forecast]:
        """Return forecasts of the series read often enough in the last day; none, and a notice, without a usable store.

        called : host → name under which its readings are stored
        """
        if not self._path.exists():
            return {}
        try:
            with LocalWeather(self._path, sensors=[]) as weather:
                known = weather.forecasts()
        except StoreError as error:
            notify(f"planning without the readings of earlier checks: {error}")
            return {}
        stored = {series: _stored(series, called) for series in wanted}
        found = {series: known[one] for series, one in stored.items() if one in known}
        return {series: one for series, one in found.items() if one.samples >= _FEWEST}


def survey_forecasts(facts: Mapping[str, HostFacts], now: float) -> dict[Series, Forecast]:
    """Return the forecasts from one check of hosts, by name: single values of unknown error."""
    found: dict[Series, Forecast] = {}
    for name, one in facts.items():
        if one.survey is None:
            continue
        values = {
            Resource.CPU_NEW: one.survey.availability,
            Resource.CPU_CAPACITY: one.survey.capacity,
            Resource.MEMORY_FREE: one.survey.memory_bytes,
        }
        found |= {
            Series(kind, name): single_forecast(value, now, "one look") for kind, value in values.items()
        }
    return found


def _stored(series: Series, called: Mapping[str, str]) -> Series:
    host, peer = series.host, series.peer
    return Series(series.resource, called.get(host, host), None if peer is None else called.get(peer, peer))
