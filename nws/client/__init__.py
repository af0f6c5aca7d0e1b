"""Clients of the weather: this host's own, or a weather service over HTTP.

Names are imported when they are used: a sensor daemon needs the HTTP client and neither store nor forecasters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nws.base.lazy import lazy_names

if TYPE_CHECKING:
    from nws.base.paths import local_host as local_host, state_dir as state_dir
    from nws.client.endpoint import Endpoint as Endpoint
    from nws.client.localweather import (
        LocalWeather as LocalWeather,
        Weather as Weather,
        usable_cpus as usable_cpus,
        weather_file as weather_file,
    )
    from nws.client.remote import ServiceClient as ServiceClient
    from nws.client.remotesnapshot import RemoteHost as RemoteHost, RemoteSnapshot as RemoteSnapshot
    from nws.client.remoteweather import RemoteWeather as RemoteWeather
    from nws.links.linkmatrix import LinkMatrix as LinkMatrix

_MODULES = {
    "nws.base.paths": "local_host state_dir",
    "nws.client.endpoint": "Endpoint",
    "nws.client.localweather": "LocalWeather Weather usable_cpus weather_file",
    "nws.client.remote": "ServiceClient",
    "nws.client.remotesnapshot": "RemoteHost RemoteSnapshot",
    "nws.client.remoteweather": "RemoteWeather",
    "nws.links.linkmatrix": "LinkMatrix",
}

__getattr__, __all__ = lazy_names(__name__, _MODULES)
