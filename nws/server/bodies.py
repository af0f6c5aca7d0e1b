"""Bodies and query strings of requests: read within bounds, and refused with a list of all problems.

A body is counted while it arrives; one byte beyond the bound ends it. An unknown parameter is an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Any

import orjson
from starlette.requests import Request

from nws.base.errors import Malformed, Refused, ServiceError

#: Seconds in which a body must arrive.
BODY_S = 30.0
#: A body refused before it was read is discarded up to this size, so that the client reads the refusal.
_THROWN_AWAY_BYTES = 64_000_000
#: Larger times are not seconds but milliseconds, or errors; seconds.
_FARTHEST_S = 1e11


class TooLarge(ServiceError):
    """A body beyond the bound."""

    default_status = 413


class WrongType(ServiceError):
    """A body not declared as JSON by its headers."""

    default_status = 415


class TooSlow(ServiceError):
    """A body that did not arrive in time."""

    default_status = 408


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request declared as JSON; raises `WrongType`, `TooLarge`, `TooSlow`."""
    _check_type(request)
    announced = request.headers.get("content-length")
    if announced is not None and int(announced) > most_bytes:
        raise TooLarge(f"a body of {announced} bytes: expected {most_bytes} at most; send smaller batches")
    pieces: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                length += len(piece)
                if length > most_bytes:
                    raise TooLarge(f"a body beyond {most_bytes} bytes; send smaller batches")
                pieces.append(piece)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {BODY_S:.0f} s") from None
    return b"".join(pieces)


def must_close(request: Request, error: ServiceError) -> bool:
    """Return whether the connection must close, because the remaining body is too large or too slow."""
    if error.status == 408:
        return True
    announced = request.headers.get("content-length")
    return error.status == 413 and (announced is None or int(announced) > _THROWN_AWAY_BYTES)


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raises `Malformed`."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Malformed(f"the body is {_kind(document)}; expected a JSON object")
    return document


def check_columns(document: dict[str, Any], names: Collection[str]) -> None:
    """Raise `Malformed` if a column contains anything but numbers.

    An array of text reserves the longest text's size per element, so that a short body could exhaust the memory.
    """
    problems = [
        f"{name}: expected a list of numbers"
        for name in names
        if isinstance(column := document.get(name), list) and not {int, float}.issuperset(map(type, column))
    ]
    if problems:
        raise Malformed(f"not a batch of measurements: {problems[0]}", problems=problems)


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind, *parameters = (part.strip().lower() for part in given.split(";"))
    odd = [p for p in parameters if p and p.replace('"', "") not in ("charset=utf-8", "charset=utf8")]
    if kind != "application/json" or odd:
        raise WrongType(f"Content-Type {given!r}: expected application/json in UTF-8")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise WrongType(f"Content-Encoding {coding!r}: expected none; send the body as it is")


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), "something else")


class Query:
    """The query string of one request; `check` at the end raises `Refused` with all problems.

    legal: names of this operation's parameters.  repeated: those that may occur more than once
    """

    def __init__(self, request: Request, legal: Collection[str], repeated: Collection[str] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        self._problems: list[str] = []
        if not request.scope["query_string"]:
            return
        for name, value in request.query_params.multi_items():
            self._values.setdefault(name, []).append(value)
        for name, values in self._values.items():
            if name not in legal:
                known = ", ".join(legal) or "none"
                self._problems.append(f"{name[:40]}: unknown parameter; legal are {known}")
            elif len(values) > 1 and name not in repeated:
                self._problems.append(f"{name}: given {len(values)} times; once is legal")

    def all(self, name: str) -> list[str] | None:
        """Return every value of a repeated parameter; None if it is absent."""
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """Return a value as text; None if it is absent."""
        return self._values.get(name, [None])[0]

    def time(self, name: str, default: float) -> float:
        """Return a value as seconds since the epoch, within a few thousand years of it."""
        given = self.text(name)
        if given is None:
            return default
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not abs(value) <= _FARTHEST_S or "_" in given:
            self._problems.append(
                f"{name}: {given[:40]!r}; expected seconds since the epoch, at most {_FARTHEST_S:.0e}"
            )
            return default
        return value

    def whole(self, name: str, default: int, *, most: int) -> int:
        """Return a value as a whole number from 1 to `most`."""
        given = self.text(name)
        if given is None:
            return default
        if not (given.isascii() and given.isdigit() and len(given) <= 9 and 1 <= int(given) <= most):
            self._problems.append(f"{name}: {given[:40]!r}; expected a whole number, 1 to {most}")
            return default
        return int(given)

    def choice(self, name: str, legal: Collection[str], default: str) -> str:
        """Return a value that must be one of `legal`."""
        given = self.text(name)
        if given is None or given in legal:
            return given or default
        self._problems.append(f"{name}: {given[:40]!r}; legal are {', '.join(legal)}")
        return default

    def problem(self, text: str) -> None:
        """Add a problem."""
        self._problems.append(text)

    def check(self) -> None:
        """Raise `Refused` if there was any problem."""
        if self._problems:
            raise Refused("the query is not acceptable: " + self._problems[0], problems=self._problems)
