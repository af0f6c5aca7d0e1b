"""Bodies and query strings of requests: read within bounds, and refused with a list of all problems.

A body is counted while it arrives; one byte beyond the bound ends it. An unknown parameter is an error.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import msgspec
import orjson
from starlette.requests import Request

from nws.base.errors import Malformed, Refused, ServiceError
from nws.messages.fieldtypes import SERIES, Field, HostName, bounded, field_of, whole
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


class QueryParameter(NamedTuple):
    """A parameter of a query: its type without None, our part of its bounds, and its JSON schema."""

    hint: Any
    field: Field
    json: dict[str, Any]

    @property
    def repeated(self) -> bool:
        """Return whether a query may have it several times."""
        return self.json.get("type") == "array"


@cache
def parameters(kind: Any) -> dict[str, QueryParameter]:
    """Return the parameters of a query by name."""
    made = {}
    for one in msgspec.structs.fields(kind):
        hint = get_args(one.type)[0] if type(None) in get_args(one.type) else one.type
        field = field_of(hint)
        made[one.name] = QueryParameter(hint, field, msgspec.json.schema(hint) | dict(field.json or {}))
    return made


def read_query(request: Request, kind: Callable[..., _T] | None) -> _T | None:
    """Return the query string as a record of `kind`; raises `Refused` with all problems.

    Without a record, no parameter is legal.
    """
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
            # not strict, so that texts become numbers
            value = msgspec.convert(texts if one.repeated else texts[0], one.hint, strict=False)
            values[name] = value if one.field.then is None else one.field.then(value)
        except ValueError:
            problems.append(f"{name}: {texts[0][:40]!r}; {one.field.expected}")
    if problems:
        raise unacceptable(problems)
    return None if kind is None else kind(**values)


def unacceptable(problems: list[str]) -> Refused:
    """Return the refusal of a query."""
    return Refused("the query is not acceptable: " + problems[0], problems=problems)


Seconds = (
    Annotated[
        float,
        bounded(
            f"expected seconds since the epoch, at most {_FARTHEST_S:.0e}",
            ge=-_FARTHEST_S,
            le=_FARTHEST_S,
            json={"description": "Seconds since the epoch."},
        ),
    ]
    | None
)
Spans = Annotated[
    tuple[Annotated[float, msgspec.Meta(ge=SHORTEST_SPAN_S, le=LONGEST_SPAN_S)], ...],
    bounded(
        f"expected at most {MOST_SPANS} spans from {SHORTEST_SPAN_S:g} to {LONGEST_SPAN_S:g} seconds",
        min_length=1,
        max_length=MOST_SPANS,
        # without repetitions, rising
        then=lambda spans: tuple(sorted(set(spans))),
        json={
            "description": "Seconds. For each, the distribution of the mean over so long from now is added."
        },
    ),
]


class SeriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which series. host: either end of a pair"""

    host: HostName | None = None
    resource: str | None = None


class SamplesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples of a series. since, until: by default all until now.  most: of the newest"""

    since: Seconds = None
    until: Seconds = None
    resolution: Annotated[Literal["auto", "raw", "60", "600"], bounded("legal are auto, raw, 60, 600")] = (
        "auto"
    )
    most: Annotated[int, whole(MOST_SAMPLES, 1)] = 10_000


class PlotQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a series. since: by default a day before `until`"""

    since: Seconds = None
    until: Seconds = None
    points: Annotated[int, whole(5_000, 1)] = 500


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which events. most: of the newest"""

    since: Seconds = None
    until: Seconds = None
    most: Annotated[int, whole(10_000, 1)] = 1000


class ForecastsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which forecasts; None: all. over: spans of their outlooks"""

    series: Annotated[list[str], bounded(json={"items": SERIES, "maxItems": MOST_NAMES})] | None = None
    over: Spans = ()


class SnapshotQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which hosts, as names with commas between them. over: spans of the outlooks of their series"""

    hosts: Annotated[str, bounded(json={"description": "Names with commas between them."})] | None = None
    composed: Annotated[Literal["true", "false"], bounded("legal are true, false")] = "false"
    over: Spans = ()


class MetricsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which additions to the metrics. over: spans of outlooks"""

    over: Spans = ()
