"""Patterns and templates of users, which may take exponential time: in other processes, within limits."""

import math
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from nws.base.closing import Closing

#: CPU seconds for one call, and seconds until an answer is given up on a loaded machine.
CPU_S, WAIT_S = 2, 10.0

#: Bytes of a line or name that a pattern sees.
_LINE_BYTES = 4096

#: Program of the other process of a pattern: blocks of lines in, the first group of each line's match out. The limit of
#: its CPU time, renewed for each block, also ends it if this process is killed.
_MATCHER = """
import re, resource, sys
pattern = re.compile(sys.argv[1].encode())
match = pattern.fullmatch if sys.argv[2] else pattern.search
while head := sys.stdin.buffer.read(4):
    lines = sys.stdin.buffer.read(int.from_bytes(head, "big")).split(b"\\n")
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    groups = b"\\n".join(found[1] or b"" if (found := match(line)) else b"" for line in lines)
    sys.stdout.buffer.write(len(groups).to_bytes(4, "big") + groups)
    sys.stdout.buffer.flush()
"""


class LimitReached(Exception):
    """A pattern or function takes longer, or has a longer result, than is allowed."""


class BoundedPattern(Closing):
    """A regular expression with a group, matched in another process; a context manager.

    whole : the whole line must match, not a part of it
    """

    def __init__(self, pattern: str, *, whole: bool = False) -> None:
        """Start the process, with this interpreter."""
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(WAIT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _MATCHER, pattern, "1" * whole, str(CPU_S)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
            )

    def groups(self, lines: Sequence[bytes]) -> list[bytes]:
        """Return the group of the match of each line, empty without a match; raises `LimitReached`.

        lines : without line breaks; of longer ones the beginning counts
        """
        content = b"\n".join(line[:_LINE_BYTES] for line in lines)
        try:
            self._socket.sendall(len(content).to_bytes(4, "big") + content)
            size = int.from_bytes(self._received(4), "big")
            return self._received(size).split(b"\n")
        except OSError:
            raise LimitReached from None

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (new := self._socket.recv(size - len(data)))
            if not new:
                raise LimitReached
        return data

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def within_limits(function: Callable[[], bytes], most_bytes: int) -> bytes:
    """Return the result of a function, not empty, that runs in a copy of this process; raises `LimitReached`.

    Signals of this process are handled meanwhile, and end the copy.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        # No `finally` of the callers may run here.
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * resource.getpagesize() + 16 * most_bytes
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(CPU_S), math.ceil(CPU_S) + 1))
            with open(writer, "wb") as file:
                file.write(function())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with open(reader, "rb") as file:
            data = file.read(most_bytes + 1)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not 0 < len(data) <= most_bytes:
        raise LimitReached
    return data
