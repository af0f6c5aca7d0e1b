"""HTTP on one connection: uvicorn's protocol with bounds on the resources of a slow or hostile peer.

Request line and headers are bounded in size and time. A response that the peer does not read is aborted, and
connections beyond a maximum are refused at once. Input that is not HTTP is answered in the API's error form.
`nws.server.bodies` bounds the time for a body.

TLS handshakes, bounded in time and in number, before the HTTP protocol sees a connection.

A peer that never finishes its handshake must not hold a connection for long, and one address not all of them.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from nws.base.ratelimit import RefusalLog

#: Seconds in which a handshake must be finished.
HANDSHAKE_S = 5.0
#: Maximum number of unfinished handshakes, of all addresses and of one.
MOST_HANDSHAKES = 256
MOST_OF_ONE_ADDRESS = 64
#: Seconds until the next attempt after a connection that could not be accepted.
_ACCEPT_AGAIN_S = 0.1

_LOG = logging.getLogger(__name__)


def reason(error: OSError | MemoryError) -> str:
    """Return the reason of a failed call in words."""
    return "no memory is left" if isinstance(error, MemoryError) else error.strerror or str(error)


class Handshakes:
    """A listener that hands over a connection after its handshake. most: of all addresses; of_one: of one address"""

    def __init__(
        self, context: ssl.SSLContext, *, most: int = MOST_HANDSHAKES, of_one: int = MOST_OF_ONE_ADDRESS
    ) -> None:
        self._context, self._most, self._of_one = context, most, of_one
        # address of each unfinished handshake, oldest first
        self._open: dict[asyncio.Task[None], str] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._log = RefusalLog(_LOG.warning)

    def start(self, listening: socket.socket, backlog: int, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Listen and accept connections until `close`. protocol: creates the protocol of one connection"""
        listening.setblocking(False)
        listening.listen(backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening, protocol))

    def close(self) -> None:
        """Accept nothing more and abort the unfinished handshakes."""
        for task in [*self._open, *filter(None, [self._accepting])]:
            task.cancel()

    async def _accept(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connected = None
            try:
                connected, peer = await loop.sock_accept(listening)
                self._make_room(peer[0])
                task = loop.create_task(self._shake(connected, protocol))
                self._open[task] = peer[0]
                task.add_done_callback(lambda done: self._open.pop(done, None))
            except (OSError, MemoryError) as error:
                if connected is not None:
                    connected.close()
                self._log("listener", f"a connection could not be accepted: {reason(error)}")
                await asyncio.sleep(_ACCEPT_AGAIN_S)

    def _make_room(self, address: str) -> None:
        counts = Counter(self._open.values())
        if counts[address] >= self._of_one:
            self._abort_oldest(address)
        elif len(self._open) >= self._most:
            self._abort_oldest(counts.most_common(1)[0][0])

    def _abort_oldest(self, address: str) -> None:
        oldest = next(task for task, its in self._open.items() if its == address)
        del self._open[oldest]
        oldest.cancel()

    async def _shake(self, connected: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, connected, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, MemoryError):
            # the peer went away, was too slow, or does not speak TLS, or no memory is left
            connected.close()


#: Seconds for request line and headers, from the first byte or from the start of the connection.
HEADERS_S = 10.0
#: Seconds for a whole request, including the part discarded after a refusal.
MESSAGE_S = 60.0
#: Seconds in which the peer must read some of a response.
READING_S = 30.0
#: Maximum bytes of request line and headers, and maximum number of headers.
MOST_HEAD_BYTES = 65_536
MOST_HEADERS = 100
#: Maximum number of pipelined requests.
MOST_PIPELINED = 32
#: Maximum number of connections, unless the process may open fewer files.
MOST_CONNECTIONS = 8192


class _TooLarge(Exception):
    """A request head that is too large, or too many pipelined requests."""


def refusal(status: HTTPStatus, message: str) -> bytes:
    """Return a complete response that closes the connection."""
    body = orjson.dumps({"error": {"status": status.value, "message": message, "problems": []}})
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class BoundedProtocol(HttpToolsProtocol):
    """One connection, created by uvicorn. most_connections: of all peers together"""

    most_connections: ClassVar[int] = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # requests are counted instead; the application logs failures
        self.access_log = False
        self._head_bytes = 0
        # unanswered requests of this connection
        self._open: list[RequestResponseCycle] = []
        # deadline for the peer's next step, and the one timer that checks it; a timer per request costs
        # more
        self._deadline: float | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")
            return
        self._expect(HEADERS_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; requests in progress see a disconnected client."""
        self._deadline = None
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._read()
        for cycle in self._open:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; input that it cannot parse is refused and the connection closed."""
        if self.transport.is_closing() or self.parser is None:
            return
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            # the first byte of a further request on this connection
            self._expect(HEADERS_S)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # no upgrade: the request is answered normally, and later bytes are not read
            self.cycle.keep_alive = False
            self.cycle.more_body = False
            self.cycle.message_event.set()
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error.__context__))
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self._head_bytes = 0
        self._expect(HEADERS_S)
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooLarge(f"more than {MOST_PIPELINED} requests sent ahead of their answers")

    def on_url(self, url: bytes) -> None:
        """Add a part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add one header."""
        self._count(len(name) + len(value) + 4)
        if len(self.headers) >= MOST_HEADERS:
            raise _TooLarge(f"more than {MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application."""
        self._expect(MESSAGE_S)
        super().on_headers_complete()
        self._open = [cycle for cycle in self._open if not cycle.response_complete]
        self._open.append(self.cycle)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._arrived()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Start the deadline: the peer does not keep up with the response."""
        self._read()
        self._unread = self.loop.call_later(READING_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop the deadline: the peer reads again."""
        self._read()
        super().resume_writing()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > MOST_HEAD_BYTES:
            raise _TooLarge(f"request line and headers beyond {MOST_HEAD_BYTES} bytes")

    def _expect(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._deadline_timer is not None and self._deadline_timer.when() > self._deadline:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        if self._deadline_timer is None:
            self._deadline_timer = self.loop.call_at(self._deadline, self._late)

    def _arrived(self) -> None:
        self._deadline = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _late(self) -> None:
        self._deadline_timer = None
        if self._deadline is None:
            return
        if self._deadline > self.loop.time():
            self._deadline_timer = self.loop.call_at(self._deadline, self._late)
            return
        self._deadline = None
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.write(refusal(status, message))
        elif not self.pipeline and not cycle.response_started:
            # the application waits for a part of a request that will not arrive
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.write(refusal(status, message))
        self.transport.close()


def bounded(most_connections: int) -> type[BoundedProtocol]:
    """Return the protocol with another bound on connections."""
    return type("BoundedProtocol", (BoundedProtocol,), {"most_connections": most_connections})
