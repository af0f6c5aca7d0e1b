"""A stream of lines over a socket in the loop. Outgoing lines are buffered while the other side is slow.

Reports its end once, with the reason.
"""

import errno
import socket
from collections.abc import Callable

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.wire import Forged, Lines

#: What may wait for a side that does not read before it is taken for dead, bytes.
_MOST_WAITING = 16 << 20
_CHUNK = 1 << 16
#: Idle seconds before a probe; connection-tracking firewalls forget later.
_IDLE_S = 30


class Stream:
    """One connection. `on_line`: called with each line.  `on_end`: called once with the reason; the socket is closed"""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        *,
        on_line: Callable[[bytes], None],
        on_end: Callable[[str], None],
        most_waiting: int = _MOST_WAITING,
        drop_overlong: bool = False,
    ) -> None:
        """Start reading. The argument `most_waiting` limits the buffered bytes; one line may have any length.

        `drop_overlong`: pass on `wire.OVERLONG` for a line that is too long, instead of closing.
        """
        self._loop, self.socket = loop, connection
        self.on_line, self._on_end = on_line, on_end
        self._lines = Lines(drop=drop_overlong)
        self._waiting = bytearray()
        self._most_waiting = most_waiting
        self.open, self._writing = True, False
        connection.setblocking(False)
        loop.watch(connection.fileno(), self._ready)

    def trust(self, longest: int) -> None:
        """Accept lines of this length from now on, because the other side is known."""
        self._lines.longest = longest

    def send(self, line: bytes) -> None:
        """Send a line, later if the socket is full. A line to an ended stream is lost, as on the wire."""
        # Looked at before the line is added: a single line may be longer than the limit.
        if self.open and len(self._waiting) > self._most_waiting:
            self.close("it does not read what it is sent")
        if self.open:
            self._waiting += line
            self._flush()

    def close(self, reason: str = "closed") -> None:
        """End the stream."""
        if self.open:
            self.open = False
            # While the descriptor still has its number.
            self._loop.forget(self.socket.fileno())
            self.socket.close()
            # Last: the owner may drop this stream.
            self._on_end(reason)

    def _flush(self) -> None:
        try:
            while self._waiting:
                sent = self.socket.send(self._waiting)
                # Kernel buffers take a part of a long line.
                del self._waiting[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self.close(_reason(error))
            return
        if bool(self._waiting) != self._writing:
            self._writing = bool(self._waiting)
            self._loop.watch(self.socket.fileno(), self._ready, writing=self._writing)

    def _ready(self) -> None:
        if self._waiting:
            self._flush()
        if self.open:
            self._read()

    def _read(self) -> None:
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(_reason(error))
            return
        except MemoryError:
            # Data that stay unread would wake the loop without end.
            self.close("no memory is left to read it")
            return
        if not data:
            self.close("the other side has closed it")
            return
        try:
            for line in self._lines.feed(data):
                self.on_line(line)
                # The handler has closed the stream; lines that follow are not its business any more.
                if not self.open:
                    return
        except Forged as error:
            self.close(str(error))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            # Whatever a line says, it ends its own connection at the most.
            self.close(f"a line that is not legal: {error!r}")


def keep_honest(connection: socket.socket, silence_s: float) -> None:
    """Have the kernel end a TCP connection whose peer acknowledges nothing for `silence_s`; send without delay.

    An idle connection is probed every `_IDLE_S`.
    """
    # Lines are short and answers are waited for.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    # Bytes that are not acknowledged: keep-alive alone probes idle connections only.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(silence_s * 1000))


def _reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, str(error))
