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

__version__: str
