"""Echo server: the far end of a network probe. It sends one byte back for every complete message.

Protocol: a client connects and is greeted with one byte, `READY` or `BUSY` (then closed). It sends messages: 8 bytes,
big-endian, with the length of the body, then the body; the server answers `ACK` once it has read all of it. So a
message of one byte measures a round trip, and a long one bandwidth up to the receiver's acknowledgement. A client that
is not admitted is closed without an answer. Connections, message length and silence are bounded; closing ends every
connection and waits for its end. All threads run from the start.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass

from nws.base.closing import Closing
from nws.base.errors import ProbeError, WeatherError
from nws.base.threads import started_pool

READY, BUSY, ACK = b"R", b"B", b"A"
HEADER = struct.Struct(">Q")
#: No probe needs more; a longer message is a mistake or an attack.
MOST_BYTES = 256 << 20
_BUFFER_BYTES = 1 << 18
#: Longest wait of a new client for one that leaves, seconds.
_LEAVING_S = 0.05
#: Pause after a failed accept, seconds.
_PAUSE_S = 0.1


@dataclass(slots=True)
class _Place:
    """A connection's service, and when its client was heard last (`time.monotonic`)."""

    service: Future[None]
    heard: float


class EchoServer(Closing):
    """Answers probes on a thread of its own until `close`; a context manager.

    host : numeric address to listen on.  port : 0 takes a free one, see `address`
    connections : most at once, further ones get `BUSY`
    silence_s : a silent connection is closed after this time
    stale_s : and after this shorter time when another client waits; None: never for that reason
    admits : whether a client of that numeric address is answered
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        connections: int = 16,
        silence_s: float = 10.0,
        stale_s: float | None = None,
        admits: Callable[[str], bool] = lambda address: True,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            # room for a few clients that get `BUSY`: to them a full queue would look like a lost packet
            self._listener = socket.create_server((host, port), family=family, backlog=max(connections, 8))
        except OSError as error:
            raise ProbeError(
                f"echo server: cannot listen on {host} port {port}: {error.strerror or error}; "
                "choose a free port, or 0 for any"
            ) from error
        self._silence_s, self._stale_s = silence_s, stale_s
        self._most, self._admits = connections, admits
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Place] = {}
        self._closing = False
        try:
            self._threads = started_pool(connections, "echo")
        except WeatherError:
            self._listener.close()
            raise
        self._acceptor = threading.Thread(target=self._accept, name="echo-accept", daemon=True)
        self._acceptor.start()

    @property
    def address(self) -> tuple[str, int]:
        """Return address and port it listens on."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop listening, end all connections, wait for their end. May be called twice."""
        with self._lock:
            self._closing = True
            for connection in self._open:
                _shut(connection)
        # closing alone would leave accept() blocked for ever
        _shut(self._listener)
        self._acceptor.join()
        self._listener.close()
        self._threads.shutdown()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                # no descriptor is free, or the like: that does not pass in an instant
                time.sleep(_PAUSE_S)
                continue
            try:
                if not self._admits(peer[0]):
                    connection.close()
                elif not self._seat(connection):
                    _refuse(connection)
            except (MemoryError, RuntimeError):
                # no memory, or no thread: the next client may find some
                connection.close()

    def _seat(self, connection: socket.socket) -> bool:
        """Serve a connection on a thread; False when there is no place for it."""
        with self._lock:
            self._tidy()
            waited_for = list(self._open.values()) if len(self._open) >= self._most else []
            if waited_for and self._stale_s is not None:
                limit = time.monotonic() - self._stale_s
                for other, seat in self._open.items():
                    if seat.heard < limit:
                        _shut(other)
        # one whose client has just hung up is about to end
        wait([seat.service for seat in waited_for], _LEAVING_S)
        with self._lock:
            self._tidy()
            if self._closing or len(self._open) >= self._most:
                return False
            service = self._threads.submit(self._serve, connection)
            self._open[connection] = _Place(service, time.monotonic())
        return True

    def _tidy(self) -> None:
        self._open = {c: seat for c, seat in self._open.items() if not seat.service.done()}

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            seat = self._open[connection]
        try:
            connection.settimeout(self._silence_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(READY)
            buffer = memoryview(bytearray(_BUFFER_BYTES))
            while (length := _length(connection, buffer)) is not None:
                while length:
                    read = connection.recv_into(buffer[: min(length, _BUFFER_BYTES)])
                    if not read:
                        return
                    length -= read
                    seat.heard = time.monotonic()
                connection.sendall(ACK)
        except (OSError, MemoryError):
            # the client went away or fell silent, or no memory is left; the error is its to report, it sees the same
            # broken connection
            pass
        finally:
            connection.close()


def _refuse(connection: socket.socket) -> None:
    with connection:
        connection.settimeout(1.0)
        try:
            connection.sendall(BUSY)
        except OSError:
            return


def _length(connection: socket.socket, buffer: memoryview) -> int | None:
    """Return the length of the next message; None when the client is done, or sends no valid length."""
    got = 0
    while got < HEADER.size:
        read = connection.recv_into(buffer[got : HEADER.size])
        if not read:
            return None
        got += read
    (length,) = HEADER.unpack(buffer[: HEADER.size])
    return int(length) if length <= MOST_BYTES else None


def _shut(endpoint: socket.socket) -> None:
    try:
        endpoint.shutdown(socket.SHUT_RDWR)
    except OSError:
        # already closed, as intended
        return
