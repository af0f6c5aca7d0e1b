"""TLS handshakes, bounded in time and in number, before the HTTP protocol sees a connection.

A peer that never finishes its handshake must not hold a connection for long, and one address not all of them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

#: Seconds in which a handshake must be finished.
HANDSHAKE_S = 5.0
#: Maximum number of unfinished handshakes, of all addresses and of one.
MOST_HANDSHAKES = 256
MOST_OF_ONE_ADDRESS = 64


class Handshakes:
    """The unfinished handshakes of one server, counted by address. most: of all addresses; of_one: of one address"""

    def __init__(
        self, context: ssl.SSLContext, *, most: int = MOST_HANDSHAKES, of_one: int = MOST_OF_ONE_ADDRESS
    ) -> None:
        self.context, self._most, self._of_one = context, most, of_one
        # oldest first
        self._open: dict[asyncio.Transport, str] = {}
        self.tasks = set[asyncio.Task[None]]()

    def enter(self, transport: asyncio.Transport, address: str) -> None:
        """Add a handshake; if there are too many, abort the oldest of this address, or of the one with the most."""
        counts = Counter(self._open.values())
        if counts[address] >= self._of_one:
            self._abort_oldest(address)
        elif len(self._open) >= self._most:
            self._abort_oldest(counts.most_common(1)[0][0])
        self._open[transport] = address

    def leave(self, transport: asyncio.Transport) -> None:
        """Remove a handshake."""
        self._open.pop(transport, None)

    def _abort_oldest(self, address: str) -> None:
        oldest = next(one for one, its in self._open.items() if its == address)
        del self._open[oldest]
        oldest.abort()

    def before(self, protocol: Callable[..., asyncio.Protocol]) -> Callable[..., asyncio.Protocol]:
        """Return a factory of connections that start with a handshake and go on with `protocol`."""

        def connection(**named: Any) -> asyncio.Protocol:
            return _Handshake(self, partial(protocol, **named))

        return connection


class _Handshake(asyncio.Protocol):
    """One connection until its handshake is finished; keeps what arrives before the next protocol takes over."""

    def __init__(self, all_of_them: Handshakes, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._all, self._protocol = all_of_them, protocol
        self._early = bytearray()
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self._all.enter(transport, address)
        task = asyncio.get_running_loop().create_task(self._shake(transport))
        self._all.tasks.add(task)
        task.add_done_callback(self._all.tasks.discard)

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, self, self._all.context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, ssl.SSLError, TimeoutError):
            # the peer went away, was too slow, or does not speak TLS
            transport.abort()
            return
        finally:
            self._all.leave(transport)
        if secured is None or self._lost:
            return
        protocol = self._protocol()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(bytes(self._early))
