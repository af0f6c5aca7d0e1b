"""Every operation of the interface: method, path, role, and what answers it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from nws.server import reading, writing
from nws.server.answers import answer
from nws.server.backend import Backend, Endpoint
from nws.server.bodies import Query
from nws.server.openapi import document
from nws.server.tokens import Role

_READ = frozenset({Role.READ})
_WRITE = frozenset({Role.WRITE})
_ADMIN = frozenset({Role.ADMIN})


async def openapi(backend: Backend, request: Request) -> Response:
    """The description of all this."""
    Query(request, ()).check()
    return answer(document(backend.service.config))


ENDPOINTS = (
    Endpoint(method="GET", path="/healthz", roles=None, handler=reading.health),
    Endpoint(method="GET", path="/openapi.json", roles=None, handler=openapi),
    Endpoint(method="GET", path="/metrics", roles=_READ, handler=reading.metrics),
    Endpoint(method="GET", path="/v1/schedule", roles=_READ | _WRITE, handler=reading.schedule),
    Endpoint(method="GET", path="/v1/hosts", roles=_READ, handler=reading.hosts),
    Endpoint(method="GET", path="/v1/hosts/{host}", roles=_READ, handler=reading.host),
    Endpoint(method="POST", path="/v1/hosts/{host}", roles=_WRITE, handler=writing.register),
    Endpoint(method="DELETE", path="/v1/hosts/{host}", roles=_ADMIN, handler=writing.forget),
    Endpoint(method="POST", path="/v1/measurements", roles=_WRITE, handler=writing.measurements),
    Endpoint(method="GET", path="/v1/series", roles=_READ, handler=reading.series),
    Endpoint(method="GET", path="/v1/series/{name}/samples", roles=_READ, handler=reading.samples),
    Endpoint(method="GET", path="/v1/series/{name}/plot", roles=_READ, handler=reading.plot),
    Endpoint(method="GET", path="/v1/forecasts", roles=_READ, handler=reading.forecasts),
    Endpoint(method="GET", path="/v1/snapshot", roles=_READ, handler=reading.snapshot),
    Endpoint(method="GET", path="/v1/events", roles=_READ, handler=reading.events),
    Endpoint(method="POST", path="/v1/events", roles=_WRITE, handler=writing.event),
)
