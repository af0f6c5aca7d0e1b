"""Every operation of the interface: method, path, role and handler."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from nws.server import reading, writing
from nws.server.answers import answer
from nws.server.backend import Backend, Operation
from nws.server.bodies import Query
from nws.server.openapi import document
from nws.server.tokens import Role

_READ = frozenset({Role.READ})
_WRITE = frozenset({Role.WRITE})
_ADMIN = frozenset({Role.ADMIN})


async def openapi(backend: Backend, request: Request) -> Response:
    """Return the OpenAPI description."""
    Query(request, ()).check()
    return answer(document(backend.service.config))


OPERATIONS = (
    Operation(method="GET", path="/healthz", roles=None, handler=reading.health),
    Operation(method="GET", path="/openapi.json", roles=None, handler=openapi),
    Operation(method="GET", path="/metrics", roles=_READ, handler=reading.metrics),
    Operation(method="GET", path="/v1/schedule", roles=_READ | _WRITE, handler=reading.schedule),
    Operation(method="GET", path="/v1/hosts", roles=_READ, handler=reading.hosts),
    Operation(method="GET", path="/v1/hosts/{host}", roles=_READ, handler=reading.host),
    Operation(method="POST", path="/v1/hosts/{host}", roles=_WRITE, handler=writing.register),
    Operation(method="DELETE", path="/v1/hosts/{host}", roles=_ADMIN, handler=writing.forget),
    Operation(method="POST", path="/v1/measurements", roles=_WRITE, handler=writing.measurements),
    Operation(method="GET", path="/v1/series", roles=_READ, handler=reading.series),
    Operation(method="GET", path="/v1/series/{name}/samples", roles=_READ, handler=reading.samples),
    Operation(method="GET", path="/v1/series/{name}/plot", roles=_READ, handler=reading.plot),
    Operation(method="GET", path="/v1/forecasts", roles=_READ, handler=reading.forecasts),
    Operation(method="GET", path="/v1/snapshot", roles=_READ, handler=reading.snapshot),
    Operation(method="GET", path="/v1/events", roles=_READ, handler=reading.events),
    Operation(method="POST", path="/v1/events", roles=_WRITE, handler=writing.event),
)
