"""Sensors of one host: what each measures is in its class; `registry` knows them by name."""

from nws.sensors.registry import Sensor, SensorContext, create, names

__all__ = ["Sensor", "SensorContext", "create", "names"]
