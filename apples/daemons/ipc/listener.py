"""Listening sockets in the loop, and the limit of descriptors.

When no descriptor is left, a listener pauses for `_PAUSE_S`; otherwise the waiting connection would wake the loop
without end.
"""

import errno
import resource
import socket
from collections.abc import Callable

from apples.daemons.ipc.eventloop import Alarm, Loop
from apples.errors import SharingError
from nws.base.oserrors import REASON, os_errors_as

_PAUSE_S = 0.1
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Asked for where the system allows it; a registered process takes up to five.
_DESCRIPTORS = 1 << 16
_BACKLOG = 1024
#: What datagrams may take up until they are read, bytes.
_RECEIVED = 1 << 20
#: Attempts to find a port that is free for both TCP and UDP, where any will do.
_PORTS_TRIED = 20


def raise_descriptors() -> int:
    """Raise this process's limit of descriptors as far as allowed and needed; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def bound(listen: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """Return a listening TCP socket and a UDP socket of the same port; raises `SharingError`."""
    host, port = listen
    for attempt in range(_PORTS_TRIED):
        with os_errors_as(
            SharingError,
            f"the manager cannot listen at {host}:{port}: {REASON}; name an address of this "
            "machine and a port that is free for TCP and UDP with --listen HOST:PORT",
        ):
            family, *_, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            # Connections of an earlier manager keep its port for a minute after their end.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            datagrams = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            # Of a thousand nodes at once; the system may give less.
            datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)
            try:
                listener.bind(address)
                # The port that the kernel chose may be taken for UDP: then another one is tried.
                datagrams.bind(listener.getsockname())
                listener.listen(_BACKLOG)
            except OSError:
                listener.close()
                datagrams.close()
                if port or attempt == _PORTS_TRIED - 1:
                    raise
                continue
        return listener, datagrams
    raise AssertionError("the last attempt returns or raises")


def may_multicast(datagrams: socket.socket, address: str) -> bool:
    """Let a socket send to groups on the interface with address `own`, one hop at most; return whether it can."""
    if datagrams.family != socket.AF_INET:
        return False
    try:
        # Heartbeats are for this network; routers must not pass them on.
        datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        # The manager's own host may be a node.
        datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if address != "0.0.0.0":
            datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    except OSError:
        return False
    return True


class Listener:
    """A listening socket, open until `close`. `on_connection`: called with every accepted connection"""

    def __init__(
        self, loop: Loop, listener: socket.socket, on_connection: Callable[[socket.socket], None]
    ) -> None:
        self._loop, self._listener, self._on_connection = loop, listener, on_connection
        self._pause: Alarm | None = None
        self._open()

    def close(self) -> None:
        """Close the socket."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def _open(self) -> None:
        self._pause = None
        self._loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            # Other errors: the client has disconnected already.
            if error.errno in _SCARCE:
                self._loop.forget(self._listener.fileno())
                # The connection waits in the backlog; a descriptor may be free soon.
                self._pause = self._loop.after(_PAUSE_S, self._open)
            return
        self._on_connection(connection)
