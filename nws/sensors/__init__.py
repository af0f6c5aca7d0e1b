"""Sensors of one host: each class states its quantities; `registry` finds them by name."""

from nws.sensors.registry import Sensor, create, names

__all__ = ["Sensor", "create", "names"]
