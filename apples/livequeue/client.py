"""Asks the manager of a queue: one JSON line there, one back. Starts nothing.

A manager that was killed under a question is looked for again for a while, because another may be on its way; a
submission carries a word of its own, so that asking again makes no second job.
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
from apples.livequeue.paths import known_sockets
from nws.base.errors import ReportedError

Json = dict[str, Any]

#: A manager that has gone under a question is looked for so long, at such intervals, seconds.
_PATIENCE_S, _EVERY_S = 15.0, 0.1

#: Errors that a refusal raises again here, by exit code.
_ERRORS: dict[object, type[ReportedError]] = {error.exit_code: error for error in (ConfigError, UnknownJob)}


class NoManager(NoDaemon):
    """The manager ended, or none is there."""


class QueueClient:
    """One connection; a context manager. Raises `NoManager` where no manager answers."""

    def __init__(self, given: Path | None = None) -> None:
        """given : the manager's socket, where the user names it"""
        self._socket, self.path = _connected(known_sockets(given))
        self._lines = self._socket.makefile("rb")

    def ask(self, what: str, argument: object = None) -> Any:
        """Return the answer to one question. Raise `NoManager`, `RequestRejected`, or `ConfigError` for bad input."""
        (answer,) = self.ask_all(what, [argument])
        if "refused" in answer:
            raise refusal(answer)
        return next(iter(answer.values()))

    def ask_all(self, what: str, arguments: Sequence[object]) -> list[Json]:
        """The same question about many things, sent at once: answers in order, refusals among them."""
        answers: list[Json] = []
        try:
            for first in range(0, len(arguments), 64):
                batch = arguments[first : first + 64]
                lines = [json.dumps({what: argument}).encode() + b"\n" for argument in batch]
                self._socket.sendall(b"".join(lines))
                for _ in batch:
                    answers.append(json.loads(self._lines.readline() or b"null"))
                    if not answers[-1]:
                        raise NoManager("the queue's manager ended before it answered")
        except (OSError, ValueError) as error:
            raise NoManager(f"{self.path}: the queue's manager does not answer ({error})") from error
        return answers

    def close(self) -> None:
        """Hang up."""
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


def ask(what: str, argument: object = None, given: Path | None = None, *, again: bool = False) -> Any:
    """One question. again : if the manager goes under it, ask the next one that comes."""
    until = time.monotonic() + _PATIENCE_S
    asked = False
    while True:
        try:
            with QueueClient(given) as client:
                asked, until = True, time.monotonic() + _PATIENCE_S
                return client.ask(what, argument)
        except NoManager:
            if not (again and asked) or time.monotonic() > until:
                raise
            time.sleep(_EVERY_S)


def survey(given: Path | None = None, *, everything: bool = False) -> Json:
    """The whole queue, page by page. everything : also jobs that are over. Raises `SharingError`."""
    with QueueClient(given) as client:
        found: Json = client.ask("queue", {"all": everything})
        while (after := found.pop("more")) is not None:
            page = client.ask("queue", {"all": everything, "after": after})
            found["jobs"] += page["jobs"]
            found["more"] = page["more"]
    return found


def _connected(paths: Sequence[Path]) -> tuple[socket.socket, Path]:
    reasons = []
    for path in paths:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.connect(str(path))
        except OSError as error:
            one.close()
            reasons.append(f"{path}: {error.strerror or error}")
            continue
        return one, path
    raise NoManager(
        f"no manager of a queue answers ({'; '.join(reasons)}); start one with `apples manager --queue`, or name its "
        "socket with --socket or APPLES_QUEUE_SOCKET"
    )
