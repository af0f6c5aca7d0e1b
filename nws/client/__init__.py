"""Clients of the weather: this host's own, or a weather service over HTTP.

Names are imported when they are used: a sensor daemon needs the HTTP client and neither store nor forecasters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nws.base.lazy import lazy_names

if TYPE_CHECKING:
    from nws.base.paths import local_host, state_dir
    from nws.client.endpoint import Endpoint
    from nws.client.localweather import LocalWeather, Weather, usable_cpus, weather_file
    from nws.client.remote import ServiceClient
    from nws.client.remotesnapshot import RemoteHost, RemoteSnapshot
    from nws.client.remoteweather import RemoteWeather
    from nws.links.linkmatrix import LinkMatrix

__all__ = [
    "Endpoint",
    "LinkMatrix",
    "LocalWeather",
    "RemoteHost",
    "RemoteSnapshot",
    "RemoteWeather",
    "ServiceClient",
    "Weather",
    "local_host",
    "state_dir",
    "usable_cpus",
    "weather_file",
]

#: Where each name is defined.
_MODULES = {
    "Endpoint": "nws.client.endpoint",
    "LinkMatrix": "nws.links.linkmatrix",
    "LocalWeather": "nws.client.localweather",
    "RemoteHost": "nws.client.remotesnapshot",
    "RemoteSnapshot": "nws.client.remotesnapshot",
    "RemoteWeather": "nws.client.remoteweather",
    "ServiceClient": "nws.client.remote",
    "Weather": "nws.client.localweather",
    "local_host": "nws.base.paths",
    "state_dir": "nws.base.paths",
    "usable_cpus": "nws.client.localweather",
    "weather_file": "nws.client.localweather",
}

__getattr__ = lazy_names(__name__, _MODULES)
