"""Every operation of the interface: method, path, role, handler and the models of its documents."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nws.server import bodies, openapi, reading, writing
from nws.server.answers import answer
from nws.server.backend import Backend, Handler, Operation
from nws.server.tokens import Role
from nws.service import records
from nws.service.snapshotrecords import Snapshot

_READ = frozenset({Role.READ})
_WRITE = frozenset({Role.WRITE})
_ADMIN = frozenset({Role.ADMIN})


async def description(backend: Backend, request: Request) -> Response:
    """Return this document."""
    return answer(await backend.ask(openapi.document, backend.service.config, OPERATIONS))


def _operation(
    method: str,
    path: str,
    handler: Handler,
    answer: Any,
    *errors: str,
    roles: frozenset[Role] | None = _READ,
    **named: Any,
) -> Operation:
    return Operation(
        method=method, path=path, roles=roles, handler=handler, answer=answer, errors=errors, **named
    )


_get, _post = partial(_operation, "GET"), partial(_operation, "POST")
_HOST, _SERIES = "/v1/hosts/{host}", "/v1/series/{name}"
OPERATIONS = (
    _get("/healthz", reading.health, records.Health, roles=None, also="503"),
    _get("/openapi.json", description, None, roles=None),
    _get("/metrics", reading.metrics, None, query=bodies.MetricsQuery, media="text/plain", kind="string"),
    _get("/v1/schedule", reading.schedule, records.ScheduleAnswer, roles=_READ | _WRITE),
    _get("/v1/hosts", reading.hosts, records.Hosts),
    _get(_HOST, reading.host, records.HostState, "404"),
    _post(_HOST, writing.register, records.Registered, "409", body=records.Registration, roles=_WRITE),
    _operation("DELETE", _HOST, writing.forget, records.Forgotten, "404", "507", roles=_ADMIN),
    _post("/v1/measurements", writing.put, records.PutReceipt, "404", body=records.Batch, roles=_WRITE),
    _get("/v1/series", reading.series, records.SeriesList, query=bodies.SeriesQuery),
    _get(
        f"{_SERIES}/samples", reading.samples, records.SampleDocument, "404", "507", query=bodies.SamplesQuery
    ),
    _get(f"{_SERIES}/plot", reading.plot, records.PlotDocument, "404", "507", query=bodies.PlotQuery),
    _get("/v1/forecasts", reading.forecasts, records.Forecasts, "404", query=bodies.ForecastsQuery),
    _get("/v1/snapshot", reading.snapshot, Snapshot, "404", query=bodies.SnapshotQuery),
    _get("/v1/events", reading.events, records.EventList, "507", query=bodies.EventsQuery),
    _post("/v1/events", writing.note, records.Event, "404", body=records.Event, roles=_WRITE),
)
