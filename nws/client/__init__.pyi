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
