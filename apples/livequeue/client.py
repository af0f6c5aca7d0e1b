"""Requests to the manager of a queue: one JSON line each, answered by one line. Starts no process.

A client sends nothing to a socket of another user than root and its own. If the manager ends before it answers, the
client retries for a while, because another manager may start. A submission carries a unique token, so a retry makes no
second job.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from apples.errors import ConfigError, NoDaemon, RequestRejected, UnknownJob
from apples.ipc.peers import connect_trusted
from apples.livequeue.paths import known_sockets
from nws.base.errors import ReportedError

Json = dict[str, Any]

#: Seconds of retries after a manager was killed during a request, and seconds between them.
_RETRY_FOR_S, _RETRY_EVERY_S = 15.0, 0.1
#: Seconds for a connection.
_CONNECT_S = 10.0
_REMEDY = "Remove that socket, or name the queue's with --socket or APPLES_QUEUE_SOCKET"

#: Errors that a refusal raises again here, by exit code.
_ERRORS: dict[object, type[ReportedError]] = {error.exit_code: error for error in (ConfigError, UnknownJob)}


class NoManager(NoDaemon):
    """Raised when the manager ended, or none answers."""


class QueueClient:
    """One connection to a manager; a context manager."""

    def __init__(self, given: Path | None = None) -> None:
        """Connect. `given`: the socket that the user names, or None.

        Raises:
            NoManager: no manager answers; `SharingError`: another user listens at the socket.
        """
        self._socket, self.path = _connect(known_sockets(given))
        self._lines = self._socket.makefile("rb")

    def ask(self, request: str, argument: object = None) -> Any:
        """Return the answer to one request; raise `NoManager`, `RequestRejected`, or `ConfigError` for bad input."""
        (answer,) = self.ask_all(request, [argument])
        if "refused" in answer:
            raise refusal(answer)
        return next(iter(answer.values()))

    def ask_all(self, request: str, arguments: Sequence[object]) -> list[Json]:
        """Send one request for each argument at once, and return the answers in order, refusals included."""
        answers: list[Json] = []
        try:
            for first in range(0, len(arguments), 64):
                batch = arguments[first : first + 64]
                lines = [json.dumps({request: argument}).encode() + b"\n" for argument in batch]
                # A manager that refuses the connection closes it. Its reason can be read all the same.
                with suppress(BrokenPipeError, ConnectionResetError):
                    self._socket.sendall(b"".join(lines))
                for _ in batch:
                    line = self._lines.readline()
                    if not line and answers and "refused" in answers[-1]:
                        raise refusal(answers[-1])
                    if not line.endswith(b"\n"):
                        raise NoManager("the queue's manager ended before it answered")
                    answers.append(json.loads(line))
        except (OSError, ValueError) as error:
            raise NoManager(f"{self.path}: the queue's manager does not answer ({error})") from error
        return answers

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._lines.close()
        self._socket.close()

    def __enter__(self) -> QueueClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def refusal(answer: Json) -> ReportedError:
    """Return the error of a refused request."""
    return _ERRORS.get(answer.get("code"), RequestRejected)(answer["refused"])


def ask(request: str, argument: object = None, given: Path | None = None, *, retry: bool = False) -> Any:
    """Return the answer to one request. `retry`: if the manager ends or restarts meanwhile, ask the next one."""
    until = time.monotonic() + _RETRY_FOR_S
    while True:
        try:
            with QueueClient(given) as client:
                # The next manager of this queue, and no other queue: a job must not be in two.
                given, until = client.path, time.monotonic() + _RETRY_FOR_S
                return client.ask(request, argument)
        except NoManager:
            # A manager leaves its socket for the next one. Without any there is no queue to wait for.
            left = any(path.is_socket() for path in known_sockets(given))
            if not retry or not left or time.monotonic() > until:
                raise
            time.sleep(_RETRY_EVERY_S)


def survey(given: Path | None = None, *, everything: bool = False) -> Json:
    """Return the whole queue, read page by page. `everything`: include jobs that have ended."""
    with QueueClient(given) as client:
        found: Json = client.ask("queue", {"all": everything})
        while (after := found.pop("more")) is not None:
            page = client.ask("queue", {"all": everything, "after": after})
            found["jobs"] += page["jobs"]
            found["more"] = page["more"]
    return found


def _connect(paths: Sequence[Path]) -> tuple[socket.socket, Path]:
    reasons = []
    for path in paths:
        try:
            one = connect_trusted(path, timeout_s=_CONNECT_S, remedy=_REMEDY)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
            continue
        # The end of a job may be waited for without limit.
        one.settimeout(None)
        return one, path
    raise NoManager(
        f"no manager of a queue answers ({'; '.join(reasons)}); start one with `apples manager --queue`, or name its "
        "socket with --socket or APPLES_QUEUE_SOCKET"
    )
