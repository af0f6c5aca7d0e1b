"""The sensors: one class each, found by name, loaded when used.

A sensor is made once and measured many times, by one thread at a time; it may keep state between measurements. The
times of measurements are decided elsewhere. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from nws.base.errors import UsageError
from nws.series import Measurement


class Sensor(Protocol):
    """Measures some resources of one host."""

    def measure(self) -> list[Measurement]:
        """Return one measurement of every series of this sensor, now; raises `ProbeError` and records nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorContext:
    """The arguments of every sensor: the name of its host, and the clock that stamps measurements.

    clock : seconds since the epoch
    peer, address : host whose echo server listens at (address, port), for the network sensor; None means this
        host itself, through the loopback interface
    """

    host: str
    clock: Callable[[], float] = time.time
    peer: str | None = None
    address: tuple[str, int] | None = None


#: Name → module and class. The order is the order of a round.
_SENSORS = {
    "cpu": ("nws.sensors.cpu", "CpuSensor"),
    "memory": ("nws.sensors.freememory", "MemorySensor"),
    "network": ("nws.sensors.network", "NetworkSensor"),
}


def names() -> tuple[str, ...]:
    """Return names of all sensors."""
    return tuple(_SENSORS)


def create(name: str, context: SensorContext) -> Sensor:
    """Return the sensor of that name for one host; raises `UsageError` with the legal names."""
    try:
        module, attribute = _SENSORS[name]
    except KeyError:
        raise UsageError(f"no sensor is called {name!r}; there are {', '.join(_SENSORS)}") from None
    factory = getattr(import_module(module), attribute).create
    return cast(Sensor, factory(context))
