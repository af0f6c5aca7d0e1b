"""A listening socket in the loop, and the descriptors that those who come take up.

Where there is no descriptor left the door is closed for `_PAUSE_S`: who waits before it would wake the loop without end
otherwise. Who may come in, and what they want, is decided by whoever opens the door.
"""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Callable

from apples.daemons.loop import Alarm, Loop

_PAUSE_S = 0.1
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Asked for where the system allows it; a registered process takes up to five.
_DESCRIPTORS = 1 << 16


def raise_descriptors() -> int:
    """Let this process have as many descriptors as it may, and it needs; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


class Door:
    """Open until `close`, which closes the socket too. came : gets every connection"""

    def __init__(self, loop: Loop, listener: socket.socket, came: Callable[[socket.socket], None]) -> None:
        self._loop, self._listener, self._came = loop, listener, came
        self._pause: Alarm | None = None
        self._open()

    def close(self) -> None:
        """Nobody is let in any more."""
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
            # Anything else: whoever came has gone again.
            if error.errno in _SCARCE:
                self._loop.forget(self._listener.fileno())
                self._pause = self._loop.after(_PAUSE_S, self._open)
            return
        self._came(connection)
