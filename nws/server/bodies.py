"""Bodies and query strings of requests: read within bounds, and refused with a list of all problems.

A body is counted while it arrives; one byte beyond the bound ends it. An unknown parameter is an error.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import orjson
from starlette.requests import Request

from nws.base.errors import Malformed, Refused, ServiceError
from nws.messages.fieldtypes import HOST, SERIES
from nws.series import LONGEST_SPAN_S, MOST_SPANS, SHORTEST_SPAN_S

_T = TypeVar("_T")

#: Seconds in which a body must arrive.
BODY_S = 30.0
#: A body refused before it was read is discarded up to this size, so that the client reads the refusal.
_THROWN_AWAY_BYTES = 64_000_000
#: Larger times are not seconds but milliseconds, or errors; seconds.
_FARTHEST_S = 1e11
#: Maximum number of samples in one answer, and of names in one query.
MOST_SAMPLES = 100_000
MOST_NAMES = 5_000


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryParameter:
    """A parameter of a query, as metadata of its type.

    read : converts its text, or the texts of one that may be repeated; raises `ValueError`.  text : of a problem
    json : JSON schema
    """

    read: Callable[[Any], Any] = str
    text: str = ""
    json: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    repeated: bool = False


@cache
def parameters(kind: Any) -> dict[str, QueryParameter]:
    """Return the parameters of a query by name."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}


def read_query(request: Request, kind: Callable[..., _T] | None) -> _T | None:
    """Return the query string as a record of `kind`; raises `Refused` with all problems.

    Its fields are parameters. None: no parameter is legal.
    """
    if not request.scope["query_string"]:
        return None if kind is None else kind()
    known = {} if kind is None else parameters(kind)
    given: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        given.setdefault(name, []).append(value)
    problems, values = [], dict[str, Any]()
    for name, texts in given.items():
        if name not in known:
            problems.append(f"{name[:40]}: unknown parameter; legal are {', '.join(known) or 'none'}")
            continue
        one = known[name]
        if len(texts) > 1 and not one.repeated:
            problems.append(f"{name}: given {len(texts)} times; once is legal")
        try:
            values[name] = one.read(texts if one.repeated else texts[0])
        except ValueError:
            problems.append(f"{name}: {texts[0][:40]!r}; {one.text}")
    if problems:
        raise unacceptable(problems)
    return None if kind is None else kind(**values)


def unacceptable(problems: list[str]) -> Refused:
    """Return the refusal of a query."""
    return Refused("the query is not acceptable: " + problems[0], problems=problems)


def _seconds(text: str) -> float:
    value = float(text)
    if not abs(value) <= _FARTHEST_S or "_" in text:
        raise ValueError
    return value


def _spans(texts: list[str]) -> tuple[float, ...]:
    """Return spans without repetitions, rising."""
    spans = sorted({_seconds(text) for text in texts})
    if not spans or len(spans) > MOST_SPANS or spans[0] < SHORTEST_SPAN_S or spans[-1] > LONGEST_SPAN_S:
        raise ValueError
    return tuple(spans)


def _most(most: int) -> QueryParameter:
    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise ValueError
        return int(text)

    return QueryParameter(
        read=read,
        text=f"expected a whole number, 1 to {most}",
        json={"type": "integer", "minimum": 1, "maximum": most},
    )


def _choice(*values: str) -> QueryParameter:
    def read(text: str) -> str:
        if text not in values:
            raise ValueError
        return text

    return QueryParameter(read=read, text=f"legal are {', '.join(values)}", json={"enum": list(values)})


Seconds = Annotated[
    float | None,
    QueryParameter(
        read=_seconds,
        text=f"expected seconds since the epoch, at most {_FARTHEST_S:.0e}",
        json={"type": "number", "description": "Seconds since the epoch."},
    ),
]


Spans = Annotated[
    tuple[float, ...],
    QueryParameter(
        read=_spans,
        repeated=True,
        text=f"expected at most {MOST_SPANS} spans from {SHORTEST_SPAN_S:g} to {LONGEST_SPAN_S:g} seconds",
        json={
            "type": "array",
            "items": {"type": "number", "minimum": SHORTEST_SPAN_S, "maximum": LONGEST_SPAN_S},
            "minItems": 1,
            "maxItems": MOST_SPANS,
            "description": "Seconds. For each, the distribution of the mean over so long from now is added.",
        },
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Which series. host: either end of a pair"""

    host: Annotated[str | None, QueryParameter(json=HOST)] = None
    resource: Annotated[str | None, QueryParameter()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesQuery:
    """Which samples of a series. since, until: by default all until now.  most: of the newest"""

    since: Seconds = None
    until: Seconds = None
    resolution: Annotated[str, _choice("auto", "raw", "60", "600")] = "auto"
    most: Annotated[int, _most(MOST_SAMPLES)] = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotQuery:
    """Which part of a series. since: by default a day before `until`"""

    since: Seconds = None
    until: Seconds = None
    points: Annotated[int, _most(5_000)] = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """Which events. most: of the newest"""

    since: Seconds = None
    until: Seconds = None
    most: Annotated[int, _most(10_000)] = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastsQuery:
    """Which forecasts; None: all. over: spans of their outlooks"""

    series: Annotated[
        list[str] | None,
        QueryParameter(
            read=list, repeated=True, json={"type": "array", "items": SERIES, "maxItems": MOST_NAMES}
        ),
    ] = None
    over: Spans = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotQuery:
    """Which hosts, as names with commas between them. over: spans of the outlooks of their series"""

    hosts: Annotated[
        str | None, QueryParameter(json={"type": "string", "description": "Names with commas between them."})
    ] = None
    composed: Annotated[str, _choice("true", "false")] = "false"
    over: Spans = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsQuery:
    """Which additions to the metrics. over: spans of outlooks"""

    over: Spans = ()
