"""A service on a clock of the test's own, alive for as many lives as a test wants."""

from __future__ import annotations

import pytest

from nws.service.serviceconfig import ServiceConfig
from nws.service.weatherservice import WeatherService

from .helpers import Clock, kill


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "service.db"


@pytest.fixture
def start(clock, store):
    """Starts services, one life after the other on one store; what is open at the end is closed."""
    running = []

    def start(config=None, **options):
        options = {"store": store, "clock": clock, "monotonic": clock.monotonic} | options
        running.append(WeatherService(config or ServiceConfig(), **options))
        return running[-1]

    yield start
    for service in running:
        kill(service)


@pytest.fixture
def service(start):
    return start()
