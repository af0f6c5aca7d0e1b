"""What platforms are told: the weather of this machine without its sensors."""

import time

import pytest

from apples.platforms import local
from nws.series import Measurement, Resource, Series


class QuietWeather(local.LocalWeather):
    """The weather of this host without its sensors: what they would say is said here."""

    def measure(self, *, rounds, interval_s):
        now = time.time()
        values = {Resource.CPU_NEW: 0.75, Resource.CPU_CAPACITY: 1.5, Resource.MEMORY_FREE: 5e9}
        self._memory.append(
            Measurement(Series(resource, self.host), now, value)
            for _ in range(rounds)
            for resource, value in values.items()
        )


@pytest.fixture
def sensors(monkeypatch):
    monkeypatch.setattr(local, "LocalWeather", QuietWeather)
