"""The sensors: one class each, found by name, loaded when used.

A sensor is made once and measured many times, by one thread at a time; it may keep state between measurements. The
times of measurements are decided elsewhere. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Protocol, cast

from nws.base.errors import UsageError
from nws.series import Measurement


class Sensor(Protocol):
    """Measures some resources of one host."""

    def measure(self) -> list[Measurement]:
        """Return one measurement of every series of this sensor, now; raises `ProbeError` and records nothing."""


#: Name → module and class. The order is the order of a round.
_SENSORS = {
    "cpu": "nws.sensors.cpu:CpuSensor",
    "memory": "nws.sensors.freememory:MemorySensor",
    "network": "nws.sensors.network:NetworkSensor",
}


def names() -> tuple[str, ...]:
    """Return names of all sensors."""
    return tuple(_SENSORS)


def create(name: str, *, host: str, clock: Callable[[], float]) -> Sensor:
    """Return the sensor of that name for one host; raises `UsageError` with the legal names.

    clock : seconds since the epoch, stamps measurements
    """
    if name not in _SENSORS:
        raise UsageError(f"no sensor is called {name!r}; there are {', '.join(_SENSORS)}")
    return cast(Sensor, resolve_name(_SENSORS[name])(host=host, clock=clock))
