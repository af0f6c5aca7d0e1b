"""Recorded weather, played back: its measurements appear as a clock reaches their times.

Tests can repeat the reaction of a planner, a page or a service to real weather. The player moves only its own
clock. The battery makes the forecasts from the measurements played so far. Format of the recording: `nws export`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from nws.base.errors import UsageError
from nws.client.remote import ServiceClient
from nws.messages.fieldtypes import understood
from nws.messages.weatherdocuments import PutReceipt
from nws.series import Forecast, Measurement, Series
from nws.sources.csvfile import read_columns
from nws.testing.weather import InMemoryWeather


class RecordedWeather:
    """A player of measurements; answers as `nws.client.Weather` does.

    Raises `UsageError` for an empty or invalid recording.

    recording: a file of lines series,t,value (plain or .gz, as written by `nws export`), or the measurements
    shift_s: added to every time, to move a recording to another day
    """

    def __init__(self, recording: Path | str | Iterable[Measurement], *, shift_s: float = 0.0) -> None:
        measurements = _read(recording) if isinstance(recording, str | Path) else list(recording)
        if not measurements:
            raise UsageError("a recording without measurements cannot be played")
        if shift_s:
            measurements = [Measurement(m.series, m.t + shift_s, m.value) for m in measurements]
        self._recording = sorted(measurements, key=lambda m: m.t)
        self._weather = InMemoryWeather()
        self._played = 0
        self._now = -math.inf

    @property
    def begins(self) -> float:
        """Return the time of the first measurement, seconds since the epoch."""
        return self._recording[0].t

    @property
    def ends(self) -> float:
        """Return the time of the last one."""
        return self._recording[-1].t

    @property
    def now(self) -> float:
        """Return the time up to which measurements were played; usable as a clock: ``clock=lambda: weather.now``."""
        return max(self._now, self.begins)

    def advance(self, to: float) -> list[Measurement]:
        """Play and return the measurements up to and at a time, seconds since the epoch.

        Raises `UsageError` for a time in the past.
        """
        if not to >= self._now:
            raise UsageError(f"the recording has been played up to {self._now}; it cannot go back to {to}")
        end = self._played
        while end < len(self._recording) and self._recording[end].t <= to:
            end += 1
        played = self._recording[self._played : end]
        self._weather.record(played)
        self._played, self._now = end, to
        return played

    def forecasts(self) -> Mapping[Series, Forecast]:
        """Return forecasts from the measurements played so far."""
        return self._weather.forecasts()

    def play(self, client: ServiceClient, *, to: float = math.inf) -> int:
        """Play up to a time, by default to the end, also into a service; return the number that it stored."""
        played = self.advance(min(to, max(self.ends, self._now)))
        batches = (played[at : at + _BATCH] for at in range(0, len(played), _BATCH))
        return sum(understood(PutReceipt, client.put(batch), client.url).accepted for batch in batches)


#: Measurements per request; bodies are bounded.
_BATCH = 10_000


def _read(path: Path | str) -> list[Measurement]:
    columns = read_columns(str(path), now=time.time())
    series = [Series.parse(name) for name in columns.names]
    return [
        Measurement(series[i], t, value)
        for i, t, value in zip(columns.index, columns.t, columns.value, strict=True)
    ]
