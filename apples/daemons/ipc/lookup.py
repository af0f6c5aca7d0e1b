"""Looks up the address of a host in a thread, because a name server that does not answer can take half a minute.

One lookup at a time; the loop receives its result.
"""

import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from apples.daemons.ipc.loop import Loop

#: (family, kind, protocol, canonical name, address), as the system has it.
Address = tuple[Any, ...]


class Lookup:
    """Looks up `place` (host, port). `found`: called with an address or the error"""

    def __init__(
        self, loop: Loop, place: tuple[str, int], found: Callable[[Address | OSError], None]
    ) -> None:
        self._loop, self._place, self._found = loop, place, found
        self._outcome: Address | OSError | None = None
        self._read: int | None = None

    def start(self) -> None:
        """Start a lookup unless one is running; raises `OSError` if no descriptor or thread is left."""
        if self._read is None:
            self._read, ended = os.pipe2(os.O_CLOEXEC)
            self._loop.watch(self._read, self._take)
            try:
                threading.Thread(target=self._look, args=(ended,), daemon=True).start()
            except RuntimeError as error:
                self.close()
                os.close(ended)
                raise OSError(errno.EAGAIN, str(error)) from error

    def close(self) -> None:
        """Ignore the result of a running lookup."""
        if self._read is not None:
            self._loop.forget(self._read)
            os.close(self._read)
            self._read = None

    def _look(self, ended: int) -> None:
        try:
            self._outcome = socket.getaddrinfo(*self._place, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            self._outcome = error
        except UnicodeError as error:
            # Raised for a text that cannot be a host name.
            self._outcome = OSError(str(error))
        # The reading end may be closed already.
        with suppress(OSError):
            os.write(ended, b"x")
        os.close(ended)

    def _take(self) -> None:
        outcome = self._outcome
        self.close()
        assert outcome is not None
        self._found(outcome)
