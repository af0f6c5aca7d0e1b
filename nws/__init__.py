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
        ConfigError as ConfigError,
        ProbeError as ProbeError,
        ReportedError as ReportedError,
        ServiceError as ServiceError,
        ServiceUnreachable as ServiceUnreachable,
        StoreError as StoreError,
        UnknownName as UnknownName,
        UsageError as UsageError,
        WeatherError as WeatherError,
    )
    from nws.client import (
        Endpoint as Endpoint,
        LocalWeather as LocalWeather,
        RemoteSnapshot as RemoteSnapshot,
        RemoteWeather as RemoteWeather,
        ServiceClient as ServiceClient,
        local_host as local_host,
    )
    from nws.series import Forecast as Forecast, Resource as Resource, Series as Series

_MODULES = {
    "nws.base.errors": "ConfigError ProbeError ReportedError ServiceError ServiceUnreachable StoreError UnknownName "
    "UsageError WeatherError",
    "nws.client": "Endpoint LocalWeather RemoteSnapshot RemoteWeather ServiceClient local_host",
    "nws.series": "Forecast Resource Series",
}

__getattr__, __all__ = lazy_names(__name__, _MODULES)
