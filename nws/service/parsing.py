"""Conversion of clients' JSON documents to records: `Registration`, `Batch`, `Event`.

The only exception for any input is `Malformed`, with every problem of the document. Permissions and names are
checked elsewhere. Columns become arrays at once, without a loop over samples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nws.base.errors import Malformed
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.service.records import Batch, Event, Floats, Ints, Registration

#: Legal names of a sensor's counts, and their maximum number.
COUNT_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST_COUNTS = 32
LONGEST_TEXT = 255
LARGEST_WHOLE = 1 << 53
MOST_CPUS = 1 << 20
LONGEST_EVENT = 1000
#: Texts and addresses, as patterns that the JSON schemas share: no control or line characters, nothing that changes
#: the direction of text or is invisible, no lone surrogates.
TEXT_PATTERN = r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]*"
ADDRESS_PATTERN = r"[A-Za-z0-9.:_%-]+"


def registration(document: object) -> Registration:
    """Return a sensor's description of its host."""
    fields = _Fields(document, "a registration", Registration)
    record = {
        "address": fields.take("address", _address, needed=True),
        "port": fields.take("port", lambda v: _whole(v, 0, 65535), needed=True),
        "site": fields.take("site", _site),
        "cpus": fields.take("cpus", lambda v: _whole(v, 0, MOST_CPUS), otherwise=0),
        "cpu_model": fields.take("cpu_model", _text, otherwise=""),
        "memory_bytes": fields.take("memory_bytes", lambda v: _whole(v, 0, LARGEST_WHOLE), otherwise=0),
        "version": fields.take("version", _text, otherwise=""),
    }
    fields.check()
    return Registration(**record)


def batch(document: object) -> Batch:
    """Return a batch of measurements, which may be empty (a sign of life)."""
    fields = _Fields(document, "a batch of measurements", Batch)
    record = {
        "series": fields.take("series", _names, otherwise=()),
        "index": fields.take("index", _integers, otherwise=np.empty(0, np.int64)),
        "t": fields.take("t", _numbers, otherwise=np.empty(0)),
        "value": fields.take("value", _numbers, otherwise=np.empty(0)),
        "source": fields.take("source", _text),
        "first": fields.take("first", lambda v: _whole(v, 0, LARGEST_WHOLE - 1), otherwise=0),
        "status": fields.take("status", _status),
    }
    fields.check()
    return Batch(**record)


def event(document: object) -> Event:
    """Return an event."""
    fields = _Fields(document, "an event", Event)
    record = {
        "t": fields.take("t", _number, needed=True),
        "kind": fields.take("kind", _text, needed=True),
        "host": fields.take("host", _text),
        "text": fields.take("text", lambda v: _text(v, LONGEST_EVENT), otherwise=""),
    }
    fields.check()
    return Event(**record)


class _Fields:
    """The fields of a document, and all problems found in them."""

    def __init__(self, document: object, what: str, kind: type) -> None:
        legal = tuple(kind.__dataclass_fields__)  # type: ignore[attr-defined]
        if not isinstance(document, dict):
            text = f"expected an object with {', '.join(legal)}; got {_shown(document)}"
            raise Malformed(f"not {what}: {text}", problems=[text])
        self._what, self.problems = what, list[str]()
        self._fields: Mapping[str, Any] = document
        unknown = [str(key) for key in document if key not in legal]
        if unknown:
            self.problems.append(
                f"{', '.join(key[:40] for key in unknown[:5])}: unknown; legal are {', '.join(legal)}"
            )

    def take(
        self, name: str, read: Callable[[Any], object], *, needed: bool = False, otherwise: object = None
    ) -> Any:
        """Return a field as converted by `read`; null counts as absent."""
        value = self._fields.get(name)
        if value is None:
            if needed:
                self.problems.append(f"{name}: missing")
            return otherwise
        try:
            return read(value)
        except ValueError as error:
            self.problems.append(f"{name}: {error}; got {_shown(value)}")
            return otherwise

    def check(self) -> None:
        """Raise `Malformed` if there was any problem."""
        if self.problems:
            raise Malformed(
                f"not {self._what}: {self.problems[0]}"
                + (f", and {len(self.problems) - 1} more" if self.problems[1:] else ""),
                problems=self.problems,
            )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "a huge number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _whole(value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"expected a whole number from {least} to {most}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("expected a finite number")
    return number


def _text(value: object, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str) or len(value) > longest or not re.fullmatch(TEXT_PATTERN, value):
        raise ValueError(f"expected text of at most {longest} printable characters")
    return value


def _address(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(ADDRESS_PATTERN, text):
        raise ValueError("expected the name or address of a host")
    return text


def _site(value: object) -> str | None:
    text = _text(value)
    if text and not is_host_name(text):
        raise ValueError(f"expected a name: {HOST_NAME_LEGAL}")
    return text or None


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and len(name) < 300 for name in value):
        raise ValueError("expected a list of series names")
    return tuple(value)


def _column(value: object, kinds: str, what: str) -> np.ndarray[Any, Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of {what}")
    if not value:
        return np.empty(0)
    try:
        column = np.array(value)
    except (ValueError, OverflowError):
        # rows of different lengths, or whole numbers beyond 64 bits
        raise ValueError(f"expected a list of {what}, all finite") from None
    # numpy would convert booleans to numbers
    if column.ndim != 1 or column.dtype.kind not in kinds or bool in set(map(type, value)):
        raise ValueError(f"expected a list of {what}, null not among them")
    return column


def _integers(value: object) -> Ints:
    column = _column(value, "iuf", "whole numbers")
    if column.dtype.kind != "i" and column.size:
        raise ValueError("expected a list of whole numbers")
    return column.astype(np.int64)


def _numbers(value: object) -> Floats:
    column = _column(value, "iuf", "numbers").astype(np.float64)
    if not np.isfinite(column).all():
        raise ValueError("expected a list of finite numbers")
    return column


def _status(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError("expected an object of counts")
    if len(value) > MOST_COUNTS or not all(COUNT_NAME.fullmatch(name) for name in value):
        raise ValueError(f"expected at most {MOST_COUNTS} counts with names of a-z, 0-9 and _")
    return {name: _number(count) for name, count in value.items() if count is not None}
