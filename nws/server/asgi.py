"""The application: routes of the interface, the weather page, and the middleware around both."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from nws.base.ratelimit import RateLimit
from nws.messages import weatherdocuments as documents
from nws.messages.snapshotcolumns import WeatherSnapshot
from nws.server import bodies, openapi, routes
from nws.server.answers import answer, refused
from nws.server.backend import Backend, Operation, run
from nws.server.driver import DrivenSource
from nws.server.middleware import RequestMiddleware
from nws.server.tokens import Role, Tokens
from nws.service.weatherservice import WeatherService

#: Installed files of the weather page.
WEB = Path(__file__).resolve().parent.parent / "web"
_WRITE = frozenset({Role.WRITE})
_ADMIN = frozenset({Role.ADMIN})


async def description(backend: Backend, request: Request) -> Response:
    """Return this document."""
    return answer(await backend.ask(openapi.document, backend.service.config, OPERATIONS))


_get, _post = partial(Operation, "GET"), partial(Operation, "POST")
_HOST, _SERIES = "/v1/hosts/{host}", "/v1/series/{name}"
OPERATIONS = (
    _get("/healthz", routes.health, documents.Health, roles=None, also="503"),
    _get("/openapi.json", description, None, roles=None),
    _get("/metrics", routes.metrics, None, query=bodies.MetricsQuery, media="text/plain", kind="string"),
    _get("/v1/schedule", routes.schedule, documents.ScheduleAnswer, roles=frozenset({Role.READ, Role.WRITE})),
    _get("/v1/hosts", routes.hosts, documents.Hosts),
    _get(_HOST, routes.host, documents.HostState, errors=("404",)),
    _post(
        _HOST,
        routes.register,
        documents.RegistrationReceipt,
        errors=("409",),
        body=documents.Registration,
        roles=_WRITE,
    ),
    Operation("DELETE", _HOST, routes.forget, documents.Forgotten, errors=("404", "507"), roles=_ADMIN),
    _post(
        "/v1/measurements",
        routes.put,
        documents.PutReceipt,
        errors=("404",),
        body=documents.Batch,
        roles=_WRITE,
    ),
    _get("/v1/series", routes.series, documents.SeriesList, query=bodies.SeriesQuery),
    _get(
        f"{_SERIES}/samples",
        routes.samples,
        documents.SampleDocument,
        errors=("404", "507"),
        query=bodies.SamplesQuery,
    ),
    _get(
        f"{_SERIES}/plot", routes.plot, documents.PlotDocument, errors=("404", "507"), query=bodies.PlotQuery
    ),
    _get(
        "/v1/forecasts", routes.forecasts, documents.Forecasts, errors=("404",), query=bodies.ForecastsQuery
    ),
    _get("/v1/snapshot", routes.snapshot, WeatherSnapshot, errors=("404",), query=bodies.SnapshotQuery),
    _get("/v1/events", routes.events, documents.EventList, errors=("507",), query=bodies.EventsQuery),
    _post("/v1/events", routes.note, documents.Event, errors=("404",), body=documents.Event, roles=_WRITE),
)


def create_app(
    service: WeatherService,
    tokens: Tokens,
    *,
    web: Path | None = WEB,
    sources: Sequence[DrivenSource] = (),
    monotonic: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Return the application over a service; the caller closes the service after the application has ended.

    Args:
        tokens: tokens by role
        web: folder with `index.html` and `static`, None for no page
        sources: counts of other monitors, for `/metrics`
        monotonic: seconds, for rates and durations
    """
    backend = Backend(service, tokens, tuple(sources))
    gate = Middleware(
        RequestMiddleware,
        tokens=tokens,
        limit=RateLimit(service.config.limits.requests_per_minute),
        counters=backend.counters,
        monotonic=monotonic,
    )
    app = Starlette(
        routes=[*_operations(backend), *_page(web)],
        middleware=[gate],
        exception_handlers={HTTPException: _http_error},
        lifespan=backend.lifespan,
    )
    app.state.backend = backend
    # a path with an extra slash is another path, not a redirection
    app.router.redirect_slashes = False
    return app


def _operations(backend: Backend) -> list[BaseRoute]:
    """Return one route per path, so that a wrong method is distinguished from a wrong path."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation

    def route(path: str, methods: dict[str, Operation]) -> Route:
        async def answered(request: Request) -> Response:
            return await run(backend, methods["GET" if request.method == "HEAD" else request.method], request)

        return Route(path, answered, methods=list(methods))

    return [route(path, methods) for path, methods in by_path.items()]


def _page(web: Path | None) -> list[BaseRoute]:
    if web is None or not (web / "index.html").is_file():
        return []
    routes: list[BaseRoute] = [Route("/", _index(web / "index.html"), methods=["GET"])]
    if (web / "static").is_dir():
        routes.append(Mount("/static", _named("/static", StaticFiles(directory=web / "static"))))
    return routes


def _index(file: Path) -> Callable[[Request], Awaitable[Response]]:
    async def index(request: Request) -> Response:
        request.scope["nws"].route = "/"
        return FileResponse(file, media_type="text/html; charset=utf-8")

    return index


def _named(route: str, app: ASGIApp) -> ASGIApp:
    """Return the application, counted under a route of its own."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        scope["nws"].route = route
        await app(scope, receive, send)

    return named


async def _http_error(request: Request, error: Exception) -> Response:
    """Return the response for an error that Starlette raises."""
    assert isinstance(error, HTTPException)
    messages = {
        404: f"nothing at {request.url.path[:200]}; /openapi.json describes all paths",
        405: f"{request.method} is not for {request.url.path[:200]}",
    }
    message = messages.get(error.status_code, str(error.detail))
    return refused(error.status_code, message, headers=error.headers)
