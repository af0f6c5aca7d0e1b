"""Routes that query: they check parameters, the core returns the values."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nws.base.errors import Refused, WeatherError
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.server.answers import answer, encode, encoded
from nws.server.backend import Backend
from nws.server.bodies import Query
from nws.server.metrics import render

#: Bounds of one response.
MOST_SAMPLES = 100_000
MOST_POINTS = 5_000
MOST_EVENTS = 10_000
MOST_NAMES = 5_000
_LONGEST_NAME = 200
#: Default period of a plot, seconds.
_PLOTTED_S = 86_400.0


def host_of(request: Request) -> str:
    """Return the host in the path; raises `Refused` if it is not a legal name."""
    name: str = request.path_params["host"]
    if not is_host_name(name):
        raise Refused(f"{name[:80]!r} is not a host name: expected {HOST_NAME_LEGAL}")
    return name


def _series_of(request: Request) -> str:
    name: str = request.path_params["name"]
    if len(name) > _LONGEST_NAME:
        raise Refused(f"{name[:40]!r}… is not a series name: longer than {_LONGEST_NAME} characters")
    return name


async def health(backend: Backend, request: Request) -> Response:
    """Return the health: ``/healthz``, without a token; status 503 if the service fails."""
    Query(request, ()).check()
    try:
        found = await backend.ask(backend.service.health)
    except WeatherError as error:
        return answer({"status": "failed", "store": "", "reason": str(error)}, 503)
    return answer({"status": found.status, "store": found.store, "reason": found.reason})


async def metrics(backend: Backend, request: Request) -> Response:
    """Return the metrics: ``/metrics`` in Prometheus' text format."""
    Query(request, ()).check()
    text = await backend.ask(render, backend)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def schedule(backend: Backend, request: Request) -> Response:
    """Return the measuring schedule and the addresses of peers."""
    Query(request, ()).check()
    return answer(await backend.ask(_schedule, backend))


def _schedule(backend: Backend) -> dict[str, Any]:
    service = backend.service
    return {"now": service.now(), "schedule": service.schedule().to_json(), "peers": service.peers()}


async def hosts(backend: Backend, request: Request) -> Response:
    """Return all hosts, alive and lost."""
    Query(request, ()).check()
    found = await backend.ask(backend.service.hosts)
    return encoded(await backend.ask(encode, {"now": backend.service.now(), "hosts": found}))


async def host(backend: Backend, request: Request) -> Response:
    """Return one host."""
    Query(request, ()).check()
    return answer(await backend.ask(backend.service.host, host_of(request)))


async def series(backend: Backend, request: Request) -> Response:
    """Return all series, or those of a host or a resource."""
    query = Query(request, ("host", "resource"))
    query.check()
    found = await backend.ask(
        backend.service.series, host=query.text("host"), resource=query.text("resource")
    )
    return encoded(await backend.ask(encode, {"now": backend.service.now(), "series": found}))


def _span(backend: Backend, query: Query, length_s: float | None = None) -> tuple[float, float]:
    """Return the queried times; by default everything, or the last `length_s` seconds."""
    now = backend.service.now()
    # samples may be slightly ahead of the clock, and are part of everything
    until = query.time("until", now if length_s is not None else now + backend.service.config.limits.ahead_s)
    since = query.time("since", 0.0 if length_s is None else until - length_s)
    if since > until:
        query.problem(f"since {since} is after until {until}")
    return since, until


async def samples(backend: Backend, request: Request) -> Response:
    """Return samples of one series, raw or in buckets."""
    name = _series_of(request)
    query = Query(request, ("since", "until", "resolution", "most"))
    since, until = _span(backend, query)
    resolution = query.choice("resolution", ("auto", "raw", "60", "600"), "auto")
    most = query.whole("most", 10_000, most=MOST_SAMPLES)
    query.check()

    def read() -> bytes:
        found = backend.service.samples(name, since=since, until=until, resolution=resolution, most=most)
        return encode(found.as_json())

    return encoded(await backend.ask(read))


async def plot(backend: Backend, request: Request) -> Response:
    """Return one series for a plot."""
    name = _series_of(request)
    query = Query(request, ("since", "until", "points"))
    since, until = _span(backend, query, _PLOTTED_S)
    points = query.whole("points", 500, most=MOST_POINTS)
    query.check()

    def read() -> bytes:
        return encode(backend.service.plot(name, since=since, until=until, points=points))

    return encoded(await backend.ask(read))


async def forecasts(backend: Backend, request: Request) -> Response:
    """Return forecasts of series by name, or of all."""
    query = Query(request, ("series",), repeated=("series",))
    names = query.all("series")
    if names is not None and len(names) > MOST_NAMES:
        query.problem(f"series: {len(names)} of them; at most {MOST_NAMES}")
    query.check()

    def read() -> bytes:
        now = backend.service.now()
        found = backend.service.forecasts(names)
        rows = [
            {
                "series": str(one),
                "unit": one.resource.unit,
                "value": f.value,
                "mae": f.mae,
                "rmse": f.rmse,
                "method": f.method,
                "samples": f.samples,
                "last": f.last,
                "measured_at": f.measured_at,
                "age_s": max(now - f.measured_at, 0.0),
            }
            for one, f in found.items()
        ]
        return encode({"now": now, "forecasts": rows})

    return encoded(await (backend.ask_large if names is None else backend.ask)(read))


async def snapshot(backend: Backend, request: Request) -> Response:
    """Return all hosts and series, in columns."""
    query = Query(request, ("hosts", "composed"))
    text = query.text("hosts")
    names = None if text is None else [n for n in text.split(",") if n]
    if names is not None and len(names) > MOST_NAMES:
        query.problem(f"hosts: {len(names)} of them; at most {MOST_NAMES}")
    for name in (names or [])[:MOST_NAMES]:
        if not is_host_name(name):
            query.problem(f"hosts: {name[:80]!r} is not a host name: expected {HOST_NAME_LEGAL}")
    composed = query.choice("composed", ("true", "false"), "false") == "true"
    query.check()

    def read() -> bytes:
        return backend.service.snapshot(hosts=names, composed=composed).encode()

    return encoded(await backend.ask_large(read))


async def events(backend: Backend, request: Request) -> Response:
    """Return events, oldest first."""
    query = Query(request, ("since", "until", "most"))
    since, until = _span(backend, query)
    most = query.whole("most", 1000, most=MOST_EVENTS)
    query.check()
    return answer({"events": await backend.ask(backend.service.events, since, until, most)})
