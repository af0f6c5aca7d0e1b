"""TLS handshakes, bounded in time and in number, before the HTTP protocol sees a connection.

A peer that never finishes its handshake must not hold a connection for long, and one address not all of them.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

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
