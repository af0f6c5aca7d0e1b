"""The state behind the routes: service core, writer thread, reader threads, and permissions.

The event loop only transfers bytes. Work that may wait for the core's lock or the disk runs in a thread. The
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
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from nws.base.errors import Forbidden, ServiceError, Unauthorized, WeatherError
from nws.base.ratelimit import RefusalLog
from nws.base.threads import start_all
from nws.server.answers import encoded, refusal_of
from nws.server.bodies import must_close, parse_object, read_body, read_query
from nws.server.driver import DrivenSource
from nws.server.encoding import encode
from nws.server.middleware import RequestContext, RequestCounters
from nws.server.tokens import Role, Tokens
from nws.server.writer import Writer
from nws.service.weatherservice import WeatherService

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Reader threads; their work is mostly Python code, so more threads would only share one interpreter.
READERS = 4
#: Maximum number of answers over all series that are made at the same time, and that run or wait; seconds after
#: which a client beyond it should ask again.
LARGE_AT_ONCE = 1
MOST_LARGE = 8
LARGE_RETRY_S = 5
#: Seconds between two calls of the service's housekeeping.
TICK_S = 1.0
#: Size in bytes from which a body is parsed in a thread.
_LONG_BODY_BYTES = 65_536


class Backend:
    """The objects used by all routes; one per application."""

    def __init__(
        self, service: WeatherService, tokens: Tokens, sources: tuple[DrivenSource, ...] = ()
    ) -> None:
        self.service, self.tokens, self.sources = service, tokens, sources
        self.counters = RequestCounters()
        self._log_client = RefusalLog(_LOG.info)
        self.started = time.time()
        self.tick_failures = 0
        self.writer = Writer(service)
        self._large = 0
        self._large_slots = asyncio.Semaphore(LARGE_AT_ONCE)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="nws-reader")

    async def ask(self, call: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Return the result of a call that may block, run in a thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._readers, partial(call, *arguments, **named)
        )

    async def ask_large(self, call: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Return the result of a call over all series; raises status 503 while too many of them are waiting.

        Fewer run than there are readers, so that small requests are answered meanwhile.
        """
        if self._large >= MOST_LARGE:
            raise ServiceError(
                f"{self._large} answers over all series are being made; ask again later",
                status=503,
                retry_after_s=LARGE_RETRY_S,
            )
        self._large += 1
        try:
            async with self._large_slots:
                return await self.ask(call, *arguments, **named)
        finally:
            self._large -= 1

    async def answer(self, make: Callable[[], object], *, large: bool = False) -> Response:
        """Return the response with a document that is made and encoded in a thread. large: it is over all series"""
        ask = self.ask_large if large else self.ask
        return encoded(await ask(lambda: encode(make())))

    def log_client(self, request: Request, text: str) -> None:
        """Log an action of a client, with a limit per minute and client."""
        peer = request.client.host if request.client else "unknown client"
        self._log_client(peer, text)

    async def document(self, request: Request) -> dict[str, Any]:
        """Return the JSON object in the body of a request."""
        body = await read_body(request, self.service.config.limits.body_bytes)
        return await self.ask(parse_object, body) if len(body) > _LONG_BODY_BYTES else parse_object(body)

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Run threads and housekeeping during the application's life; at the end, store all accepted batches."""
        self.writer.start()
        start_all(self._readers, READERS)
        housekeeping = asyncio.create_task(self._housekeeping())
        try:
            yield
        finally:
            housekeeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await housekeeping
            await asyncio.get_running_loop().run_in_executor(self._readers, self.writer.stop)
            self._readers.shutdown()

    async def _housekeeping(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.ask(self.service.tick)
            except Exception as error:
                self.tick_failures += 1
                if not failing:
                    defect = not isinstance(error, WeatherError | MemoryError)
                    reason = "" if defect else f": {str(error) or 'no memory is left'}"
                    _LOG.error("housekeeping fails%s", reason, exc_info=defect)
                failing = True
            else:
                if failing:
                    _LOG.warning("housekeeping works again")
                failing = False


Handler = Callable[..., Awaitable[Response]]
"""Called with backend, request and, if the operation has any, the record of its parameters."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the interface.

    roles: any of them is sufficient; None: no token needed.  query, body, answer: models of parameters and documents
    media, kind: of an answer without a model.  errors: statuses of refusals beyond the usual ones
    also: another status with the same answer
    """

    method: str
    path: str
    handler: Handler
    answer: Any
    roles: frozenset[Role] | None = frozenset({Role.READ})
    query: type | None = None
    body: type | None = None
    media: str = "application/json"
    kind: str = "object"
    errors: tuple[str, ...] = ()
    also: str | None = None


async def run(backend: Backend, operation: Operation, request: Request) -> Response:
    """Return the response of an operation; check the role and convert errors to responses."""
    context: RequestContext = request.scope["nws"]
    context.route = operation.path
    try:
        _admit(operation, context)
        query = read_query(request, operation.query)
        return await operation.handler(backend, request, *([] if query is None else [query]))
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
    roles = " or ".join(sorted(operation.roles))
    if not context.token_given:
        raise Unauthorized(f"a token of the role {roles} is needed; send it as Authorization: Bearer TOKEN")
    if not context.roles:
        raise Unauthorized("the token is not known here")
    raise Forbidden(f"the token has the role {', '.join(sorted(context.roles))}; {roles} is needed")
