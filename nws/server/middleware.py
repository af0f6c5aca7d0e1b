"""The middleware around every request: checks before the routes, headers and counts after them.

Checked in this order: headers that may occur only once, the Host header, the token, the rate. Responses get the
security headers and are counted and timed. The route checks whether the token's role is sufficient.
"""

import ipaddress
import logging
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nws.base.errors import Malformed, TooMany, WeatherError
from nws.base.ratelimit import RateLimit
from nws.server.answers import refusal_of, refused
from nws.server.tokens import Role, Tokens, fingerprint

_LOG = logging.getLogger(__name__)

_ONCE = (
    b"host",
    b"authorization",
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"x-nws-host",
    b"x-nws-key",
)
#: The page may load only its own files, connect only to its own server, and not be framed.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
#: Upper bounds of the histogram's buckets, seconds.
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Durations:
    """Histogram of one route: requests per bucket, the last above all bounds, and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0


class RequestCounters:
    """Counts since the server started.

    requests: (route, method, status) → requests; a route is its template, or ``other``
    durations: route → histogram.  refused: reason → requests refused before any route
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.durations: dict[str, Durations] = {}
        self.refused: Counter[str] = Counter()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request with its response."""
        self.requests[route, method, status] += 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.total_s += seconds


@dataclass(slots=True)
class RequestContext:
    """The checked properties of a request. `roles`: of its token; `route`: template, set by the route."""

    roles: frozenset[Role]
    token_given: bool
    route: str = "other"


class RequestMiddleware:
    """ASGI middleware around the whole application. `monotonic`: seconds, for rates and durations."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        limit: RateLimit,
        counters: RequestCounters,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._tokens, self._limit, self._counters = app, tokens, limit, counters
        self._monotonic = monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._monotonic()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in _HEADERS if h[0] not in present)]
                if b"cache-control" not in present:
                    # a static file may be cached if the browser revalidates it
                    caching = b"no-cache" if b"etag" in present else b"no-store"
                    message["headers"].append((b"cache-control", caching))
            await send(message)

        context = scope["nws"] = RequestContext(roles=frozenset(), token_given=False)
        try:
            early_refusal = self._early_refusal(scope, context, began)
            if early_refusal is not None:
                await early_refusal(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = status or 499
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], context.route)
            if status == 0:
                await refused(500, "the server failed; see its log")(scope, receive, send_with_headers)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counters.count(context.route, method, status or 499, self._monotonic() - began)

    def _early_refusal(self, scope: Scope, context: RequestContext, now: float) -> Response | None:
        """Return the refusal of a request that must not reach a route, else None."""
        try:
            headers = self._single(scope)
            if any(c < " " or c == "\x7f" for c in scope["path"]):
                raise Malformed("the path has control characters")
            if not self._tokens.required and not _is_loopback(headers.get(b"host", b"localhost")):
                # DNS rebinding: a foreign page whose name resolves to loopback must not reach a server
                # without tokens
                raise Malformed(
                    "the Host header names no loopback address; without tokens only those are answered"
                )
            token = _bearer(headers.get(b"authorization"))
        except WeatherError as error:
            self._counters.refused["malformed"] += 1
            return refusal_of(error)
        context.roles = self._tokens.roles(token)
        context.token_given = token is not None
        peer = scope["client"][0] if scope["client"] else ""
        known = token is not None and context.roles and self._tokens.required
        wait_s = self._limit.ask(f"{fingerprint(token) if known and token else ''}@{peer}", now)
        if wait_s > 0:
            self._counters.refused["rate"] += 1
            return refusal_of(TooMany("too many requests; slow down", retry_after_s=wait_s))
        return None

    @staticmethod
    def _single(scope: Scope) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _ONCE:
                if name in values:
                    raise Malformed(f"header {name.decode('ascii')} given twice")
                values[name] = value
        if b"host" not in values and scope["http_version"] == "1.1":
            raise Malformed("no Host header")
        return values


def _bearer(header: bytes | None) -> str | None:
    if header is None:
        return None
    kind, _, token = header.decode("latin-1").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Malformed("the Authorization header is not understood; expected: Bearer TOKEN")
    return token.strip()


@lru_cache(maxsize=256)
def _is_loopback(host: bytes) -> bool:
    """Return whether a Host header names a loopback address."""
    name = host.decode("latin-1").lower()
    name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
