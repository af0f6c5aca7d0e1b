"""Readings from the checks before plans, stored so that forecasts know how much loads and links vary.

One check reads a host and its links once. That alone shows little; the readings of all checks of the last day are a
series as of any sensor, with the same forecasts and outlooks by horizon. Each check is one value of a series: values a
fraction of a second apart would say only how little changes within a check. Source: Wolski et al. 2000, §2.4.
"""

from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path

from apples.platforms.platform import single_forecast
from apples.remote.facts import HostFacts
from nws.base.errors import StoreError
from nws.client import LocalWeather
from nws.series import Forecast, Measurement, Resource, Series

#: Seconds for which links count as known; probing all pairs of a pool takes longer than the rest of a check.
LINKS_KEPT_S = 300.0

#: What varies and is forecast; the memory of a host is taken as the check found it.
_KEPT = frozenset(Resource) - {Resource.MEMORY_FREE}
_LINK = tuple(one for one in Resource if one.is_pair)

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

    def forecasts(self, called: Mapping[str, str], notify: Callable[[str], None]) -> dict[Series, Forecast]:
        """Return forecasts of these hosts and of the links among them, as far as they were read often enough.

        Readings of the last day count. Without a usable store there are none, and a notice.

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
        wanted = [Series(resource, host) for host in called for resource in _KEPT if not resource.is_pair]
        wanted += [Series(resource, *pair) for pair in permutations(called, 2) for resource in _LINK]
        found = {one: known[stored] for one in wanted if (stored := _stored(one, called)) in known}
        return {series: one for series, one in found.items() if one.samples >= _FEWEST}

    def know_links(self, called: Mapping[str, str], now: float) -> bool:
        """Return whether all links among these hosts were read often enough, and lately."""
        known = self.forecasts(called, lambda line: None)
        links = [known.get(Series(Resource.BANDWIDTH, *pair)) for pair in permutations(called, 2)]
        return all(link is not None and now - link.measured_at < LINKS_KEPT_S for link in links)


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
