"""Network Weather Service: measure CPU, memory and network of hosts, keep the values, forecast them.

It does not depend on a scheduler. The public names, imported when they are first used:

>>> import nws
>>> series = nws.Series.parse("cpu.new@alpha")
>>> series.host, series.resource.unit
('alpha', 'CPU')

`docs/python-api.md` has an example.
"""

from __future__ import annotations

from nws.base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    # typing alone would take 10 ms of every rank's start.
    from nws.base.errors import (
        ConfigError,
        ProbeError,
        ReportedError,
        ServiceError,
        ServiceUnreachable,
        StoreError,
        UnknownName,
        UsageError,
        WeatherError,
    )
    from nws.client import Endpoint, LocalWeather, RemoteSnapshot, RemoteWeather, ServiceClient, local_host
    from nws.series import Forecast, Resource, Series

__all__ = [
    "ConfigError",
    "Endpoint",
    "Forecast",
    "LocalWeather",
    "ProbeError",
    "RemoteSnapshot",
    "RemoteWeather",
    "ReportedError",
    "Resource",
    "Series",
    "ServiceClient",
    "ServiceError",
    "ServiceUnreachable",
    "StoreError",
    "UnknownName",
    "UsageError",
    "WeatherError",
    "local_host",
]

_MODULES = {
    "nws.client": (
        "Endpoint",
        "LocalWeather",
        "RemoteSnapshot",
        "RemoteWeather",
        "ServiceClient",
        "local_host",
    ),
    "nws.series": ("Forecast", "Resource", "Series"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__getattr__ = lazy_names(__name__, {name: _PLACES.get(name, "nws.base.errors") for name in __all__})
