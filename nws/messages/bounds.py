"""Documents as records: every field's type states its bounds, its JSON schema and the text of a problem with it.

`parse` returns a record of `nws.service.records` or raises one error with all problems. Columns of numbers become
numpy arrays without a loop in Python. What a document means is decided elsewhere.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic_core import core_schema
from pydantic_core.core_schema import CoreSchema

from nws.base.errors import Malformed
from nws.series import HOST_NAME, HOST_NAME_LEGAL, Resource

LARGEST_WHOLE = 1 << 53
#: Text without control or line characters, and without characters that are invisible or change its direction.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*"
_COUNT_NAME = r"^[a-z][a-z0-9_]{0,39}$"
_MOST_COUNTS = 32
_T = TypeVar("_T")
_FINITE = dict.fromkeys(("finite_number", "huge"), "expected a finite number")
_FLOAT = core_schema.float_schema(strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Legal:
    """The bounds of a field, as metadata of its type.

    schema: what pydantic checks.  text: of a problem; `texts`: others, by pydantic's type of error
    json: JSON schema, where it is not that of `schema`.  then: converts the checked value
    """

    schema: CoreSchema
    text: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    then: Callable[[Any], Any] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Return the schema that pydantic checks."""
        if self.then is None:
            return self.schema
        return core_schema.no_info_after_validator_function(self.then, self.schema)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> Any:
        """Return the JSON schema."""
        return handler(schema) if self.json is None else dict(self.json)


def whole(most: int, least: int = 0) -> Legal:
    """Return the bounds of a whole number."""
    return Legal(
        schema=core_schema.int_schema(strict=True, ge=least, le=most),
        text=f"expected a whole number from {least} to {most}",
    )


def string(
    longest: int = 255,
    pattern: str = PRINTABLE,
    expected: str = "",
    *,
    json: Mapping[str, Any] | None = None,
    then: Callable[[Any], Any] | None = None,
) -> Legal:
    """Return the bounds of text. json: a narrower JSON schema, for what the core checks"""
    return Legal(
        schema=core_schema.str_schema(strict=True, max_length=longest, pattern=f"^(?:{pattern})$"),
        text=expected or f"expected text of at most {longest} printable characters",
        json=json,
        then=then,
    )


def number(json: Mapping[str, Any] | None = None) -> Legal:
    """Return the bounds of a finite number."""
    return Legal(schema=_FLOAT, text="expected a number", texts=_FINITE, json=json)


def column(item: CoreSchema, dtype: type, what: str, **json: Any) -> Legal:
    """Return the bounds of a list of numbers, which becomes an array; it ends at the first wrong item."""
    return Legal(
        schema=core_schema.list_schema(item, strict=True, fail_fast=True),
        text=f"expected a list of {what}, null not among them",
        texts={
            "finite_number": f"expected a list of finite {what}",
            "list_type": f"expected a list of {what}",
        },
        json={"type": "array"} | json,
        then=lambda value: np.array(value, dtype),
    )


_INT64 = core_schema.int_schema(strict=True, ge=-(1 << 63), le=(1 << 63) - 1)
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
HostName = Annotated[str, Legal(schema=core_schema.str_schema(), json=HOST)]
SeriesName = Annotated[str, Legal(schema=core_schema.str_schema(), json=SERIES)]
Maybe = Annotated[float, Legal(schema=core_schema.float_schema(), json=_NULLABLE)]
"""A number of an answer; NaN, if it is unknown, is null in JSON."""
Floats = Annotated[
    NDArray[np.float64],
    Legal(schema=core_schema.any_schema(), json={"type": "array", "items": _NULLABLE}),
]
FloatRows = Annotated[
    NDArray[np.float64],
    Legal(
        schema=core_schema.any_schema(),
        json={"type": "array", "items": {"type": "array", "items": _NULLABLE}},
    ),
]
"""float64[n, m] as a list of lists."""
FloatBlocks = Annotated[
    NDArray[np.float64],
    Legal(
        schema=core_schema.any_schema(),
        json={"type": "array", "items": {"type": "array", "items": {"type": "array", "items": _NULLABLE}}},
    ),
]
"""float64[n, m, k] as lists of lists of lists."""
Ints = Annotated[
    NDArray[np.int64],
    Legal(schema=core_schema.any_schema(), json={"type": "array", "items": {"type": "integer"}}),
]
GivenFloats = Annotated[NDArray[np.float64], column(_FLOAT, np.float64, "numbers", items={"type": "number"})]
GivenIndex = Annotated[
    NDArray[np.int64],
    column(_INT64, np.int64, "whole numbers", items={"type": "integer", "minimum": 0}),
]
GivenSeries = Annotated[
    tuple[str, ...],
    Legal(
        schema=core_schema.list_schema(
            core_schema.str_schema(strict=True, max_length=299), strict=True, fail_fast=True
        ),
        text="expected a list of series names",
        json={"type": "array", "items": SERIES | {"pattern": _DELIVERED}, "description": "Each once."},
        then=tuple,
    ),
]
Status = Annotated[
    Mapping[str, float],
    Legal(
        schema=core_schema.dict_schema(
            core_schema.str_schema(pattern=_COUNT_NAME),
            core_schema.nullable_schema(_FLOAT),
            max_length=_MOST_COUNTS,
        ),
        text=f"expected at most {_MOST_COUNTS} counts with names of a-z, 0-9 and _",
        texts={
            "dict_type": "expected an object of counts",
            "float_type": "expected a number",
        }
        | _FINITE,
        json={
            "type": "object",
            "propertyNames": {"pattern": _COUNT_NAME},
            "additionalProperties": _NULLABLE,
            "maxProperties": _MOST_COUNTS,
            "description": "Counts of a sensor since it started. Those that /metrics shows: done, failed, missed, "
            "skipped and merged runs, measurements buffered and dropped, its own cpu_s (s) and rss_bytes (B).",
        },
        then=lambda counts: {name: count for name, count in counts.items() if count is not None},
    ),
]


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a model."""
    return TypeAdapter(kind)


@cache
def legal(kind: Any) -> dict[str, Legal]:
    """Return the bounds of each field of a record."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: _bounds(hints[one.name])[0] for one in fields(kind)}


def _bounds(hint: Any) -> list[Legal]:
    return [
        bound for part in get_args(hint) for bound in ([part] if isinstance(part, Legal) else _bounds(part))
    ]


def parse(kind: Callable[..., _T], document: object) -> _T:
    """Return a document as a record of `kind`; null counts as absent. Raises `Malformed` with all problems."""
    known, what = legal(kind), kind.what  # type: ignore[attr-defined]
    if not isinstance(document, dict):
        problem = f"expected an object with {', '.join(known)}; got {_shown(document)}"
        raise Malformed(f"not {what}: {problem}", problems=[problem])
    unknown = [str(key) for key in document if key not in known]
    problems = {}
    if unknown:
        named = ", ".join(key[:40] for key in unknown[:5])
        problems[""] = f"{named}: unknown; legal are {', '.join(known)}"
    given = {key: value for key, value in document.items() if value is not None and key in known}
    missing = [one.name for one in fields(kind) if _needed(one) and one.name not in given]  # type: ignore[arg-type]
    try:
        record: _T = adapter(kind).validate_python(given)
    except ValidationError as error:
        found: dict[str, str] = {}
        for detail in error.errors(include_url=False, include_context=False):
            # the only whole numbers that are no float are those beyond its range
            huge = detail["type"] == "float_type" and type(detail["input"]) is int
            found.setdefault(str(detail["loc"][0]), "huge" if huge else detail["type"])
        for name in known:
            if name in missing:
                problems[name] = f"{name}: missing"
            elif name in found:
                expected = known[name].texts.get(found[name], known[name].text)
                problems[name] = f"{name}: {expected}; got {_shown(given[name])}"
    if problems:
        first, *others = problems.values()
        more = f", and {len(others)} more" if others else ""
        raise Malformed(f"not {what}: {first}{more}", problems=problems.values())
    return record


def _needed(one: Any) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "a huge number"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
