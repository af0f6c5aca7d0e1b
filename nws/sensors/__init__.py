"""Sensors of one host: each class states its quantities; `registry` finds them by name."""

from nws.sensors.registry import Sensor, SensorContext, create, names

__all__ = ["Sensor", "SensorContext", "create", "names"]
