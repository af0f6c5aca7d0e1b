"""A listener to which hosts connect during their check, as MPI's processes on them connect to the launcher later.

A host reached through a jump host can be called by ssh, but it may be unable to call back: its ranks would never start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from typing import Self

import psutil

from apples.hosts.hostmessages import Callback

#: Range of ports that the user's MPI may listen on, as in `2000:2100`.
_RANGES = ("MPIEXEC_PORT_RANGE", "MPICH_PORT_RANGE", "I_MPI_PORT_RANGE")
_ANSWER_S = 2.0


class CallbackListener:
    """Answers every connection with a token; a context manager. Listens on all IPv4 interfaces."""

    def __init__(self) -> None:
        """Start listening; raises `OSError`."""
        self._token = secrets.token_hex(16)
        self._listener = _listening()
        self._thread = threading.Thread(target=self._answer, name="callback listener", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            # Wakes the thread; closing alone would not.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def request(self) -> Callback:
        """Return the part of a host's request that makes it connect here."""
        addresses = [
            entry.address
            for entries in psutil.net_if_addrs().values()
            for entry in entries
            if entry.family == socket.AF_INET and not entry.address.startswith("127.")
        ]
        return Callback(addresses=addresses, port=self._listener.getsockname()[1], token=self._token)

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_ANSWER_S)
                connection.sendall(self._token.encode())


def _listening() -> socket.socket:
    """Return a listener on a free port of the range that the user gives MPI, if any; raises `OSError`."""
    given = next((os.environ[name] for name in _RANGES if os.environ.get(name)), "")
    low, _, high = given.partition(":")
    ports = range(int(low), int(high) + 1) if low.isdigit() and high.isdigit() else range(1)
    for port in ports:
        try:
            return socket.create_server(("", port), backlog=128)
        except OSError:
            continue
    raise OSError(f"no port of {given or 'this machine'} is free")
