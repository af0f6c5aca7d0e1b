"""What the routes work with: the service core, the thread that writes, threads that read, and who may ask.

The event loop only moves bytes; everything that may wait for the core's lock or the disk runs in a thread. The
lifespan of the application starts and ends those threads and the housekeeping.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from nws.base.errors import Forbidden, ServiceError, Unauthorized, WeatherError
from nws.server.answers import refusal_of
from nws.server.bodies import must_close, parse_object, read_body
from nws.server.counters import RequestCounters
from nws.server.limits import RateLimit
from nws.server.middleware import RequestContext
from nws.server.tokens import Role, Tokens
from nws.server.writer import Writer

if TYPE_CHECKING:
    from nws.server.driver import SourceCounters
    from nws.service.core import WeatherService

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Threads that answer questions; the work is mostly Python's, more threads would only share one interpreter.
READERS = 4
#: Time between two calls of the service's housekeeping, seconds.
TICK_S = 1.0
#: Lines that one peer can make the log have, a minute.
LOG_LINES_PER_MINUTE = 3
#: A body longer than this is parsed in a thread, bytes.
_LONG_BODY_BYTES = 65_536


class Backend:
    """Everything a route needs; made once for an application."""

    def __init__(
        self, service: WeatherService, tokens: Tokens, sources: tuple[SourceCounters, ...] = ()
    ) -> None:
        self.service, self.tokens, self.sources = service, tokens, sources
        self.counters = RequestCounters()
        self.log_limit = RateLimit(LOG_LINES_PER_MINUTE, clients=1000)
        self.started = time.time()
        self.tick_failures = 0
        self.writer = Writer(service)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="nws-reader")

    async def ask(self, call: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Result of a call that may block, made in a thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, partial(call, *arguments, **named)
        )

    def log_client(self, request: Request, text: str) -> None:
        """A line in the log about what a peer did; a few a minute of each peer."""
        peer = request.client.host if request.client else "somebody"
        if self.log_limit.ask(peer, time.monotonic()) == 0:
            _LOG.info("%s: %s", peer, text)

    async def document(self, request: Request) -> dict[str, Any]:
        """The JSON object that the request carries."""
        body = await read_body(request, self.service.config.limits.body_bytes)
        return await self.ask(parse_object, body) if len(body) > _LONG_BODY_BYTES else parse_object(body)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Threads and housekeeping while the application runs; what was accepted is kept before this ends."""
        self.writer.start()
        housekeeping = asyncio.create_task(self._housekeeping())
        try:
            yield
        finally:
            housekeeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await housekeeping
            await asyncio.to_thread(self.writer.stop)
            await asyncio.to_thread(self._readers.shutdown)

    async def _housekeeping(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.ask(self.service.tick)
            except WeatherError as error:
                self.tick_failures += 1
                if not failing:
                    _LOG.error("housekeeping fails: %s", error)
                failing = True
            except Exception:
                self.tick_failures += 1
                if not failing:
                    _LOG.exception("housekeeping fails")
                failing = True
            else:
                if failing:
                    _LOG.warning("housekeeping works again")
                failing = False


Handler = Callable[[Backend, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the interface. roles : any of them is enough; None: open to everybody."""

    method: str
    path: str
    roles: frozenset[Role] | None
    handler: Handler


async def run(backend: Backend, operation: Operation, request: Request) -> Response:
    """Answer one request by its operation: the role checked, every error of ours an answer."""
    context: RequestContext = request.scope["nws"]
    context.route = operation.path
    try:
        _admit(operation, context)
        return await operation.handler(backend, request)
    except ServiceError as error:
        if error.status in (401, 403):
            backend.log_client(request, f"refused: {operation.method} {operation.path}: {error}")
        answer = refusal_of(error)
        if must_close(request, error):
            answer.headers["Connection"] = "close"
        return answer
    except WeatherError as error:
        return refusal_of(error)


def _admit(operation: Operation, context: RequestContext) -> None:
    if operation.roles is None or operation.roles & context.roles or Role.ADMIN in context.roles:
        return
    wanted = " or ".join(sorted(operation.roles))
    if not context.token_given:
        raise Unauthorized(f"a token of the role {wanted} is needed; send it as Authorization: Bearer TOKEN")
    if not context.roles:
        raise Unauthorized("the token is not known here")
    raise Forbidden(f"the token is good for {', '.join(sorted(context.roles))}; {wanted} is needed")
