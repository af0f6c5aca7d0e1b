"""Types of fields: their bounds, their JSON schema, and the text of a problem with them.

`parse` returns a request as a record or raises one error with all problems, because people read it. `understood`
returns an answer, whose first problem suffices. Columns of numbers become numpy arrays without a loop in Python. The
meaning of a document is checked elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Meta

from nws.base.errors import Malformed, ServiceError, UsageError
from nws.series import HOST_NAME, HOST_NAME_LEGAL, Resource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_WHOLE = 1 << 53
#: Text without control or line characters, lone surrogates, and characters that are invisible or change its direction.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]*"
_COUNT_NAME = r"^[a-z][a-z0-9_]{0,39}$"
_MOST_COUNTS = 32
_T = TypeVar("_T")


class Field(NamedTuple):
    """The part of a field's bounds that msgspec does not know, in the metadata of its type.

    expected : text of a problem, or a function of the value that returns it.  then : converts the checked value
    json : parts of the JSON schema that replace those of msgspec
    """

    expected: str | Callable[[Any], str] = ""
    then: Callable[[Any], Any] | None = None
    json: Mapping[str, Any] | None = None


def bounded(
    expected: str | Callable[[Any], str] = "",
    *,
    json: Mapping[str, Any] | None = None,
    then: Callable[[Any], Any] | None = None,
    **limits: Any,
) -> Meta:
    """Return the bounds of a field. json : further parts of its JSON schema.  limits : those that msgspec checks"""
    return Meta(
        extra_json_schema=None if json is None else dict(json),
        extra={"field": Field(expected, then, json)},
        **limits,
    )


def whole(most: int, least: int = 0) -> Meta:
    """Return the bounds of a whole number."""
    return bounded(f"expected a whole number from {least} to {most}", ge=least, le=most)


def string(
    longest: int = 255,
    pattern: str = PRINTABLE,
    expected: str = "",
    *,
    json: Mapping[str, Any] | None = None,
    then: Callable[[Any], Any] | None = None,
) -> Meta:
    """Return the bounds of text. json : a narrower JSON schema, for bounds that the core checks"""
    return bounded(
        expected or f"expected text of at most {longest} printable characters",
        # in Python `$` is also before a last line feed, in JSON Schema it is not
        pattern=rf"^(?:{pattern})\Z",
        max_length=longest,
        json={"pattern": f"^(?:{pattern})$"} | dict(json or {}),
        then=then,
    )


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError
    return value


def _expected_number(value: object) -> str:
    huge = isinstance(value, int | float) and not isinstance(value, bool)
    return "expected a finite number" if huge else "expected a number"


def number(json: Mapping[str, Any] | None = None) -> Meta:
    """Return the bounds of a finite number."""
    return bounded(_expected_number, json=json, then=_finite)


def _column(kind: str, numbers: str, **json: Any) -> Meta:
    """Return the bounds of a list of numbers, which becomes an array. kind : of its items, as numpy calls it"""

    def expected(value: object) -> str:
        if not isinstance(value, list):
            return f"expected a list of {numbers}"
        if any(isinstance(item, float) and not math.isfinite(item) for item in value):
            return f"expected a list of finite {numbers}"
        return f"expected a list of {numbers}, null not among them"

    def array(value: list[float]) -> NDArray[Any]:
        import numpy as np

        column = np.array(value, kind)
        if not np.isfinite(column).all():
            raise ValueError
        return column

    return bounded(expected, json=json, then=array)


def _expected_counts(value: object) -> str:
    if not isinstance(value, dict):
        return "expected an object of counts"
    for count in value.values():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int | float)):
            return "expected a number"
        if (count is not None and not abs(count) < math.inf) or (
            isinstance(count, int) and abs(count) > 1 << 1023
        ):
            return "expected a finite number"
    return f"expected at most {_MOST_COUNTS} counts with names of a-z, 0-9 and _"


def _counts(value: dict[str, float | None]) -> dict[str, float]:
    return {name: _finite(count) for name, count in value.items() if count is not None}


_NULLABLE = {"type": ["number", "null"]}
HOST = {"type": "string", "pattern": f"^{HOST_NAME.pattern}$", "description": HOST_NAME_LEGAL}
SERIES = {
    "type": "string",
    "maxLength": 200,
    "pattern": r"^[a-z0-9_.]+@[^@>,/\\\s]+(>[^@>,/\\\s]+)?$",
    "description": "RESOURCE@HOST or RESOURCE@FROM>TO",
    "examples": ["cpu.new@alpha", "network.latency@alpha>beta", "x.power@alpha"],
}
_NAME = HOST_NAME.pattern
_ON = ["|".join(re.escape(one) for one in Resource if one.is_pair == pair) for pair in (False, True)]
#: Series that clients may deliver; those of other monitors in the store may have other names.
_DELIVERED = rf"^(({_ON[0]})@{_NAME}|({_ON[1]})@{_NAME}>{_NAME}|x\.[a-z0-9_.]{{1,60}}@{_NAME}(>{_NAME})?)$"

Count = Annotated[int, whole(LARGEST_WHOLE)]
HostName = Annotated[str, bounded(json=HOST)]
SeriesName = Annotated[str, bounded(json=SERIES)]
Maybe = float | None
"""A number of an answer; NaN, if it is unknown, is null in JSON."""
GivenSeries = Annotated[
    tuple[Annotated[str, Meta(max_length=299)], ...],
    bounded(
        "expected a list of series names",
        json={"type": "array", "items": SERIES | {"pattern": _DELIVERED}, "description": "Each once."},
    ),
]
if TYPE_CHECKING:
    Status = Mapping[str, float]
    Floats = NDArray[np.float64]
    FloatRows = NDArray[np.float64]
    FloatBlocks = NDArray[np.float64]
    Ints = NDArray[np.int64]
    GivenFloats = NDArray[np.float64]
    GivenIndex = NDArray[np.int64]
else:
    Status = Annotated[
        dict[Annotated[str, Meta(pattern=_COUNT_NAME.replace("$", r"\Z"))], float | None],
        bounded(
            _expected_counts,
            max_length=_MOST_COUNTS,
            then=_counts,
            json={
                "type": "object",
                "propertyNames": {"pattern": _COUNT_NAME},
                "additionalProperties": _NULLABLE,
                "maxProperties": _MOST_COUNTS,
                "description": "Counts of a sensor since it started. Those that /metrics shows: done, failed, missed, "
                "skipped and merged runs, measurements buffered and dropped, its own cpu_s (s) and rss_bytes (B).",
            },
        ),
    ]
    # answers : arrays where they are made, lists where they are read; NaN is null
    Floats = list[float | None]
    FloatRows = list[Floats]
    FloatBlocks = list[FloatRows]
    Ints = list[int]
    # requests : lists on the wire, arrays once read
    GivenFloats = Annotated[list[float], _column("float64", "numbers", items={"type": "number"})]
    GivenIndex = Annotated[
        list[int], _column("int64", "whole numbers", items={"type": "integer", "minimum": 0})
    ]


def no_numbers(kind: str) -> Callable[[], Any]:
    """Return a function that makes an empty column. Sensors send none, and load no numpy."""

    def empty() -> NDArray[Any]:
        import numpy as np

        return np.empty(0, kind)

    return empty


def field_of(hint: Any) -> Field:
    """Return our part of the bounds in a type."""
    for part in get_args(hint):
        if isinstance(part, Meta) and part.extra and "field" in part.extra:
            return part.extra["field"]  # type: ignore[no-any-return]
        if (inner := field_of(part)) != Field():
            return inner
    return Field()


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, Field, bool]]:
    """Return type, bounds and necessity of each field of a record."""
    return {one.name: (one.type, field_of(one.type), one.required) for one in msgspec.structs.fields(kind)}


def parse(kind: Callable[..., _T], document: object) -> _T:
    """Return a document as a record of `kind`; null counts as absent. Raises `Malformed` with all problems."""
    known, what = _fields(kind), kind.what  # type: ignore[attr-defined]
    if not isinstance(document, dict):
        problem = f"expected an object with {', '.join(known)}; got {_shown(document)}"
        raise Malformed(f"not {what}: {problem}", problems=[problem])
    problems, values = [], {}
    if unknown := [str(key) for key in document if key not in known]:
        named = ", ".join(key[:40] for key in unknown[:5])
        problems.append(f"{named}: unknown; legal are {', '.join(known)}")
    for name, (hint, (expected, then, _), required) in known.items():
        value = document.get(name)
        if value is None:
            if required:
                problems.append(f"{name}: missing")
            continue
        try:
            converted = msgspec.convert(value, hint)
            values[name] = converted if then is None else then(converted)
        except (ValueError, OverflowError):
            text = expected if isinstance(expected, str) else expected(value)
            problems.append(f"{name}: {text}; got {_shown(value)}")
    if problems:
        more = f", and {len(problems) - 1} more" if problems[1:] else ""
        raise Malformed(f"not {what}: {problems[0]}{more}", problems=problems)
    return kind(**values)


def understood(kind: type[_T], document: object, url: str) -> _T:
    """Return an answer of the service at `url` as a record; raises `ServiceError`."""
    with reading_answers(url):
        return msgspec.convert(document, kind)


@contextmanager
def reading_answers(url: str) -> Iterator[None]:
    """Turn errors of an answer's content into a `ServiceError` that names the service."""
    try:
        yield
    except (LookupError, TypeError, ValueError, UsageError) as error:
        raise ServiceError(
            f"{url}: its answer cannot be understood ({error}); use releases of one age at both ends"
        ) from error


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "a huge number"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
