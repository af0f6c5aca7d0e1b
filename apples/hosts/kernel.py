"""Signals that are forwarded to ranks, and the Linux calls that Python does not offer. Decides nothing.

Imported by the rank wrapper, so it imports little.
"""

from __future__ import annotations

import ctypes
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    # typing alone would take 4 ms of every rank's start.
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn, Self

#: Passed on from the launcher to the programs; those in `INTERRUPTS` ask for the end of the run.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36


def prctl(option: int, value: int) -> None:
    """Call Linux `prctl(option, value)`; raises `OSError`."""
    # Of this process: looking the library up by name would start `ldconfig`.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def signal_pipe(numbers: Iterable[int]) -> int:
    """Return a descriptor that does not block, from which the numbers of signals that arrive can be read."""
    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    # Handlers run between bytecodes only; the pipe wakes a `poll` that has begun.
    # Set before them: a handler alone would lose the signal.
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda number, frame: None)
    return read


class SignalQueue:
    """Signals that arrive while it is open, oldest first; `fileno()` is readable when there are any.

    numbers : of these signals.  ignored : also those that are ignored
    """

    def __init__(self, numbers: Iterable[int], *, ignored: bool = False) -> None:
        self._numbers, self._ignored = tuple(numbers), ignored
        self._before: dict[int, Any] = {}
        self._wakeup: int | None = None
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        """Install handlers that do nothing, in the main thread only: Python writes the numbers to the pipe."""
        try:
            # Before the handlers, which alone would lose a signal. It also wakes a loop if another thread gets it.
            self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        except ValueError:
            # Python refuses that in other threads; a run there is interrupted by `post`.
            return self
        for number in self._numbers:
            # A run that was started under `nohup` has to survive HUP.
            if self._ignored or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, lambda number, frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        """Put the handlers of before back."""
        if self._wakeup is not None:
            signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._read

    def post(self, number: int) -> None:
        """Add a signal as if it had been received."""
        os.write(self._write, bytes([number]))

    def take(self) -> list[signal.Signals]:
        """Return all signals received since the last call."""
        try:
            # Other signals that have handlers are written to the pipe, too.
            return [signal.Signals(number) for number in os.read(self._read, 4096) if number in self._numbers]
        except BlockingIOError:
            return []


def close_all_but(keep: set[int]) -> None:
    """Close every open descriptor except 0, 1, 2 and `keep`."""
    # A list of all numbers would be long where the limit is a million.
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError:
                # The descriptor of the listing, closed by now.
                continue


def die_like(wait_status: int) -> NoReturn:
    """End this process as another one ended, without a second core file."""
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        # The program has written its core file already.
        prctl(PR_SET_DUMPABLE, 0)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # Reached only by signals that do not end a process.
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(wait_status))


def reaped() -> Iterator[tuple[int, int]]:
    """Yield (process, wait status) of each child that has ended, without waiting."""
    while True:
        try:
            # Until none is left: the kernel joins several SIGCHLD to one.
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, wait_status


def children(pid: int) -> list[int]:
    """Return the child processes of `pid`, an empty list if it has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
