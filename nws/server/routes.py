"""Routes that query: they check parameters, the core returns the values.

Routes that change data: they check the sender, the core checks the content.
"""

from collections.abc import AsyncIterator

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nws.base.errors import Forbidden, Refused, WeatherError
from nws.base.records import copied
from nws.messages.fieldtypes import parse
from nws.messages.weatherdocuments import (
    Batch,
    Event,
    EventList,
    ForecastRow,
    Forecasts,
    Forgotten,
    Health,
    Hosts,
    OutlookRow,
    Registration,
    ScheduleAnswer,
    SeriesList,
)
from nws.series import HOST_NAME_LEGAL, SHARES, is_host_name
from nws.server.answers import answer
from nws.server.backend import Backend
from nws.server.bodies import (
    MOST_NAMES,
    EventsQuery,
    ForecastsQuery,
    MetricsQuery,
    PlotQuery,
    SamplesQuery,
    SeriesQuery,
    SnapshotQuery,
    unacceptable,
)
from nws.server.metricspage import render
from nws.server.middleware import RequestContext
from nws.server.tokens import Role

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
    """Return the health: ``/healthz``, also without a token, but then without reason; 503 if the service fails."""
    try:
        state, status = await backend.ask(backend.service.health), 200
    except WeatherError as error:
        state, status = Health(status="failed", store="", reason=str(error)), 503
    if state.reason is not None and not request.scope["nws"].roles:
        state = replace(state, reason="ask with a token for the reason")
    return answer(state, status)


async def metrics(backend: Backend, request: Request, query: MetricsQuery) -> Response:
    """Return the metrics: ``/metrics`` in Prometheus' text format."""
    page = await (backend.ask_large if query.over else backend.ask)(render, backend, query.over)

    async def blocks() -> AsyncIterator[bytes]:
        while block := await backend.ask(next, page, b""):
            yield block

    return StreamingResponse(blocks(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def schedule(backend: Backend, request: Request) -> Response:
    """Return the measuring schedule and the addresses of peers."""
    ours = backend.service
    return await backend.answer(
        lambda: ScheduleAnswer(now=ours.now(), schedule=ours.schedule(), peers=ours.peers())
    )


async def hosts(backend: Backend, request: Request) -> Response:
    """Return all hosts, alive and lost."""
    return await backend.answer(lambda: Hosts(hosts=backend.service.hosts(), now=backend.service.now()))


async def host(backend: Backend, request: Request) -> Response:
    """Return one host."""
    name = host_of(request)
    return await backend.answer(lambda: backend.service.host(name))


async def series(backend: Backend, request: Request, query: SeriesQuery) -> Response:
    """Return all series, or those of a host or a resource."""

    def read() -> SeriesList:
        entries = backend.service.series(host=query.host, resource=query.resource)
        return SeriesList(now=backend.service.now(), series=entries)

    return await backend.answer(read)


def _span(
    backend: Backend, query: SamplesQuery | PlotQuery | EventsQuery, length_s: float | None = None
) -> tuple[float, float]:
    """Return the queried times; by default everything, or the last `length_s` seconds."""
    now = backend.service.now()
    # samples may be slightly ahead of the clock, and are part of everything
    last = now if length_s is not None else now + backend.service.config.limits.ahead_s
    until = last if query.until is None else query.until
    first = 0.0 if length_s is None else until - length_s
    since = first if query.since is None else query.since
    if since > until:
        raise unacceptable([f"since {since} is after until {until}"])
    return since, until


async def samples(backend: Backend, request: Request, query: SamplesQuery) -> Response:
    """Return samples of one series, raw or in buckets."""
    name = _series_of(request)
    since, until = _span(backend, query)

    return await backend.answer(
        lambda: backend.service.samples(
            name, since=since, until=until, resolution=query.resolution, most=query.most
        )
    )


async def plot(backend: Backend, request: Request, query: PlotQuery) -> Response:
    """Return one series for a plot."""
    name = _series_of(request)
    since, until = _span(backend, query, _PLOTTED_S)

    return await backend.answer(
        lambda: backend.service.plot(name, since=since, until=until, points=query.points)
    )


async def forecasts(backend: Backend, request: Request, query: ForecastsQuery) -> Response:
    """Return forecasts of series by name, or of all."""
    names = query.series
    if names is not None and len(names) > MOST_NAMES:
        raise unacceptable([f"series: {len(names)} of them; at most {MOST_NAMES}"])

    def read() -> Forecasts:
        now = backend.service.now()
        answer = backend.service.forecasts(names, over_s=query.over)
        rows = [
            copied(
                ForecastRow,
                f,
                series=str(one),
                unit=one.resource.unit,
                age_s=max(now - f.measured_at, 0.0),
                outlooks=[copied(OutlookRow, outlook) for outlook in f.outlooks] if query.over else None,
            )
            for one, f in answer.items()
        ]
        shares = SHARES if query.over else None
        return Forecasts(now=now, forecasts=rows, shares=shares)

    return await backend.answer(read, large=names is None)


async def snapshot(backend: Backend, request: Request, query: SnapshotQuery) -> Response:
    """Return all hosts and series, in columns."""
    names = None if query.hosts is None else [name for name in query.hosts.split(",") if name]
    problems = [
        f"hosts: {name[:80]!r} is not a host name: expected {HOST_NAME_LEGAL}"
        for name in (names or [])[:MOST_NAMES]
        if not is_host_name(name)
    ]
    if names is not None and len(names) > MOST_NAMES:
        problems.insert(0, f"hosts: {len(names)} of them; at most {MOST_NAMES}")
    if problems:
        raise unacceptable(problems)

    return await backend.answer(
        lambda: backend.service.snapshot(hosts=names, composed=query.composed == "true", over_s=query.over),
        large=True,
    )


async def events(backend: Backend, request: Request, query: EventsQuery) -> Response:
    """Return events, oldest first."""
    since, until = _span(backend, query)
    return await backend.answer(lambda: EventList(events=backend.service.events(since, until, query.most)))


_LONGEST_KEY = 200
#: Number of samples from which a batch is converted in a thread.
_LONG_BATCH = 2_000


def sender(request: Request) -> tuple[str | None, str | None]:
    """Return the host and key in a request's headers; raises `Refused` if they are not legal."""
    host, key = request.headers.get("x-nws-host"), request.headers.get("x-nws-key")
    if host is not None and not is_host_name(host):
        raise Refused(f"X-NWS-Host {host[:80]!r} is not a host name: expected {HOST_NAME_LEGAL}")
    if key is not None and (not key or len(key) > _LONGEST_KEY or not key.isascii()):
        raise Refused(f"X-NWS-Key is not a key: expected 1 to {_LONGEST_KEY} ASCII characters")
    return host, key


async def register(backend: Backend, request: Request) -> Response:
    """Register a host and return its measuring settings."""
    name = host_of(request)
    host, key = sender(request)
    if host is not None and host != name:
        raise Refused(f"X-NWS-Host is {host}, but the path has {name}; a host registers itself")
    record = parse(Registration, await backend.document(request))
    registered = await backend.ask(backend.service.register, name, record, key)
    if registered.key is not None:
        backend.log_client(request, f"registered as {name}")
    return answer(registered)


async def forget(backend: Backend, request: Request) -> Response:
    """Forget a host."""
    name = host_of(request)
    await backend.ask(backend.service.forget, name)
    backend.log_client(request, f"host {name} forgotten")
    return answer(Forgotten(now=backend.service.now(), forgotten=name))


async def put(backend: Backend, request: Request) -> Response:
    """Store a batch of measurements, which may be empty (a sign of life)."""
    host, key = sender(request)
    context: RequestContext = request.scope["nws"]
    admin = Role.ADMIN in context.roles
    if host is None and not admin:
        raise Forbidden(
            "a batch without X-NWS-Host may be about any host, and needs the role admin; "
            "send X-NWS-Host and X-NWS-Key as registration gave them"
        )
    document = await backend.document(request)
    long = isinstance(document.get("value"), list) and len(document["value"]) > _LONG_BATCH
    batch = await backend.ask(parse, Batch, document) if long else parse(Batch, document)
    # an admin's token may write for a host without its key
    check = host is not None and not (admin and backend.tokens.required and key is None)
    return answer(await backend.writer.put(batch, host=host, key=key, check=check))


async def note(backend: Backend, request: Request) -> Response:
    """Record an event."""
    host, key = sender(request)
    context: RequestContext = request.scope["nws"]
    record = parse(Event, await backend.document(request))
    if host is None and record.host is not None and Role.ADMIN not in context.roles:
        raise Forbidden(
            f"an event of host {record.host} without X-NWS-Host needs the role admin; send X-NWS-Host and X-NWS-Key as "
            "registration gave them, or leave the host out"
        )
    if host is not None:
        if record.host not in (None, host):
            raise Refused(
                f"X-NWS-Host is {host}, but the event is of {record.host}; a host reports its own events"
            )
        await backend.ask(backend.service.check_key, host, key)
    await backend.ask(backend.service.event, record)
    return answer(record)
