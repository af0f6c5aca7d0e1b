"""HTTP on one connection: uvicorn's protocol with bounds on what a slow or hostile peer can hold.

A request's line and headers are bounded in size and time, an answer that the peer does not read is given up, and
connections beyond a number are turned away at once. What is no HTTP is answered in the API's own form. The time
for a body is bounded where bodies are read.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: Time for the line and headers of a request, from the first byte or from the connection's beginning, seconds.
HEADERS_S = 10.0
#: Time for a whole request to arrive, with what is read and thrown away after a refusal, seconds.
MESSAGE_S = 60.0
#: Time in which the peer must read something of an answer, seconds.
READING_S = 30.0
#: Bytes of request line and headers, and number of headers.
MOST_HEAD_BYTES = 65_536
MOST_HEADERS = 100
#: Requests a peer may send ahead of their answers.
MOST_PIPELINED = 32
#: Connections at once, unless the process may not open so many files.
MOST_CONNECTIONS = 8192


class _TooLarge(Exception):
    """More of a request's head, or more requests ahead, than a server keeps."""


def refusal(status: HTTPStatus, message: str) -> bytes:
    """A whole answer that closes the connection."""
    body = orjson.dumps({"error": {"status": status.value, "message": message, "problems": []}})
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class BoundedProtocol(HttpToolsProtocol):
    """One connection; made by uvicorn. most_connections : at once, of all peers together"""

    most_connections: ClassVar[int] = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # requests are counted, not listed; where one goes wrong the application says so
        self.access_log = False
        self._head_bytes = 0
        # requests of this connection that are not answered yet
        self._open: list[RequestResponseCycle] = []
        # when what is awaited of the peer must be there, and the timer that looks; a timer for each request costs more
        self._deadline: float | None = None
        self._look: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or turn it away."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")
            return
        self._expect(HEADERS_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left behind; who still answers learns that nobody listens."""
        self._deadline = None
        if self._look is not None:
            self._look.cancel()
        self._read()
        for cycle in self._open:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what it cannot parse is refused and closed."""
        if self.transport.is_closing() or self.parser is None:
            return
        self._unset_keepalive_if_required()
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            # the first byte of a further request on this connection
            self._expect(HEADERS_S)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # nothing is upgraded to here: the request is answered as it is, and nothing after it is read
            self.cycle.keep_alive = False
            self.cycle.more_body = False
            self.cycle.message_event.set()
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error.__context__))
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head_bytes = 0
        self._expect(HEADERS_S)
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooLarge(f"more than {MOST_PIPELINED} requests sent ahead of their answers")

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value) + 4)
        if len(self.headers) >= MOST_HEADERS:
            raise _TooLarge(f"more than {MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application is started."""
        self._expect(MESSAGE_S)
        super().on_headers_complete()
        self._open = [cycle for cycle in self._open if not cycle.response_complete]
        self._open.append(self.cycle)

    def on_message_complete(self) -> None:
        """All of the request is here."""
        self._arrived()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The peer does not keep up with the answer."""
        self._read()
        self._unread = self.loop.call_later(READING_S, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._read()
        super().resume_writing()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > MOST_HEAD_BYTES:
            raise _TooLarge(f"request line and headers beyond {MOST_HEAD_BYTES} bytes")

    def _expect(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._look is not None and self._look.when() > self._deadline:
            self._look.cancel()
            self._look = None
        if self._look is None:
            self._look = self.loop.call_at(self._deadline, self._late)

    def _arrived(self) -> None:
        self._deadline = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _late(self) -> None:
        self._look = None
        if self._deadline is None:
            return
        if self._deadline > self.loop.time():
            self._look = self.loop.call_at(self._deadline, self._late)
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
            # the application waits for the rest of a request that will not come
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.write(refusal(status, message))
        self.transport.close()


def bounded(most_connections: int) -> type[BoundedProtocol]:
    """The protocol with another bound on connections."""
    return type("BoundedProtocol", (BoundedProtocol,), {"most_connections": most_connections})
