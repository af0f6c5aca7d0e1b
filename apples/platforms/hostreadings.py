"""Readings of hosts' sensors from the checks before plans, stored so that forecasts know how much a host's load varies.

A check reads the sensors of a host a few times within a second. One check alone shows little; the readings of all
checks of the last day are a series as of any sensor, with the same forecasts and outlooks by horizon. Source: Wolski et
al. 2000, §2.4.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from apples.remote.facts import Survey
from nws.base.errors import StoreError
from nws.client import LocalWeather
from nws.series import CPU, Forecast, Measurement, Resource, Series

#: Seconds between two readings of one check, as `nws.client.hostprobe.survey` makes them.
_APART_S = 0.3


class HostReadings:
    """The readings of checked hosts in one file. The first check creates it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, surveys: Mapping[str, Survey], now: float, notify: Callable[[str], None]) -> None:
        """Store the readings of a check that ended at `now`, seconds since the epoch; report a store that cannot."""
        found = [
            Measurement(Series(resource, host), now - _APART_S * (len(survey.looks) - 1 - k), value)
            for host, survey in surveys.items()
            for k, look in enumerate(survey.looks)
            for resource, value in zip((Resource.CPU_NEW, Resource.CPU_CAPACITY), look, strict=True)
        ]
        if not found:
            return
        try:
            with LocalWeather(self._path, sensors=[]) as weather:
                weather.record(found)
        except StoreError as error:
            notify(f"the readings of this check are not kept: {error}")

    def forecasts(self, called: Mapping[str, str], notify: Callable[[str], None]) -> dict[Series, Forecast]:
        """Return forecasts of the CPU shares of hosts read in the last day; none, and a notice, without a usable store.

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
        wanted = {Series(r, host): Series(r, stored) for host, stored in called.items() for r in CPU}
        return {series: known[stored] for series, stored in wanted.items() if stored in known}
