"""Client of a daemon's Unix socket: one JSON line per request, one per answer.

A client sends nothing to a socket of another user than root and its own: another user may have made the socket first,
and would receive all that is sent to it.
"""

import select
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from apples.daemons.ipc.peers import connect_trusted
from apples.daemons.ipc.requests import Exchange, Refusal, read_answer
from apples.errors import ConfigError, NoDaemon, RequestRejected, UnknownJob
from nws.base.closing import Closing
from nws.base.errors import ReportedError

#: Requests that are sent before their answers are read.
_BATCH = 64
#: Errors that a refusal raises again here, by exit code.
_ERRORS: dict[object, type[ReportedError]] = {error.exit_code: error for error in (ConfigError, UnknownJob)}


class DaemonClient(Closing):
    """One connection to a daemon; a context manager. Subclasses name the daemon.

    daemon : the daemon's name in messages.  exchanges : its requests.  absent : raised if it does not answer
    start, stranger : reactions if no process listens, and if another user does
    connect_s, answer_s : seconds for a connection and for each answer, None without limit
    """

    daemon: ClassVar[str]
    exchanges: ClassVar[Mapping[str, Exchange[Any]]]
    absent: ClassVar[type[NoDaemon]] = NoDaemon
    start: ClassVar[str]
    stranger: ClassVar[str]
    connect_s: ClassVar[float]
    answer_s: ClassVar[float | None]

    def __init__(self, paths: Sequence[Path]) -> None:
        """Connect to the first socket where a daemon listens.

        Raises:
            NoDaemon: none does; `SharingError`: another user listens there.
        """
        reasons = []
        for path in paths:
            try:
                self._socket = connect_trusted(path, timeout_s=self.connect_s, remedy=self.stranger)
            except OSError as error:
                reasons.append(f"{path}: {error.strerror or error}")
                continue
            self.path = path
            # Another one than for the connection: some answers take hours.
            self._socket.settimeout(self.answer_s)
            self._lines = self._socket.makefile("rb")
            return
        raise self.absent(f"no {self.daemon} answers ({'; '.join(reasons) or 'no socket'}); {self.start}")

    def ask(self, request: str, argument: object = None) -> Any:
        """Return the answer to one request; raise `NoDaemon`, `RequestRejected`, or `ConfigError` for bad input."""
        (answer,) = self.ask_all(request, [argument])
        if isinstance(answer, Refusal):
            raise error_of(answer)
        return answer

    def ask_all(self, request: str, arguments: Sequence[object]) -> list[Any]:
        """Send one request for each argument at once, and return the answers in order, each may be a `Refusal`."""
        answers: list[Any] = []
        try:
            for first in range(0, len(arguments), _BATCH):
                batch = arguments[first : first + _BATCH]
                # Many in one write: a round trip for each would take most of the time.
                lines = [msgspec.json.encode({request: argument}) + b"\n" for argument in batch]
                # A daemon that refuses the connection closes it. Its reason can be read all the same.
                with suppress(BrokenPipeError, ConnectionResetError):
                    self._socket.sendall(b"".join(lines))
                for _ in batch:
                    line = self._lines.readline()
                    if not line and answers and isinstance(answers[-1], Refusal):
                        raise error_of(answers[-1])
                    if not line.endswith(b"\n"):
                        raise self.absent(f"{self.path}: the {self.daemon} has ended")
                    answers.append(read_answer(self.exchanges[request], line))
        except (OSError, ValueError, RecursionError) as error:
            raise self.absent(f"{self.path}: the {self.daemon} does not answer ({error})") from error
        return answers

    @property
    def connected(self) -> bool:
        """Whether the daemon has not ended. Between requests nothing but the end of the connection can be read."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._lines.close()
        self._socket.close()


def error_of(refusal: Refusal) -> ReportedError:
    """Return the error of a refused request."""
    return _ERRORS.get(refusal.code, RequestRejected)(refusal.refused)
