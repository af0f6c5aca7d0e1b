"""Requests and answers on the socket of a daemon: one JSON object a line, and its only key names the request.

`Exchange` types both directions of one request. Server and client read with its decoders, so a document that one side
accepts is legal on the other. All problems of a request's argument are reported, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from apples.errors import ConfigError, RequestRejected

T = TypeVar("T")

#: Problems of one document that are reported.
_REPORTED = 20
#: Where msgspec names the part of a document that a message is about.
_AT = " - at `$"

_LINE: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


#: Regular expression → the legal texts in words, for messages.
_WORDS: dict[str, str] = {}


def matching(pattern: str, words: str, **bounds: Any) -> msgspec.Meta:
    """Return the constraint of a text by a regular expression. `words`: of messages about other texts"""
    _WORDS[pattern] = words
    return msgspec.Meta(pattern=pattern, **bounds)


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of a rejected request. `code`: its exit code"""

    refused: str
    code: int | None = None


class Exchange(Generic[T]):
    """One kind of request. `argument`, `answer`: types of both documents."""

    def __init__(self, argument: Any, answer: type[T]) -> None:
        self.argument: msgspec.json.Decoder[Any] = msgspec.json.Decoder(argument)
        self.answer: msgspec.json.Decoder[T] = msgspec.json.Decoder(answer)


def read_request(exchanges: Mapping[str, Exchange[Any]], line: bytes) -> tuple[str, Any]:
    """Return the name of a request and its validated argument.

    Raises:
        RequestRejected: the line is not one JSON object with one request.
        ConfigError: values of the argument are not legal; the message has every problem.
    """
    name, argument = _one(line)
    # Before the argument is decoded: its type is not known otherwise.
    if name not in exchanges:
        raise RequestRejected(f"{short(name)} is no request; legal are {', '.join(exchanges)}")
    decoder = exchanges[name].argument
    try:
        return name, decoder.decode(argument)
    except (ValueError, RecursionError) as error:
        raise ConfigError(problems(name, decoder.type, argument, error)) from None


def read_answer(exchange: Exchange[T], line: bytes) -> T | Refusal:
    """Return the validated answer to a request, or its refusal; raises `ValueError` for any other line."""
    document = _LINE.decode(line)
    if "refused" in document:
        return msgspec.json.decode(line, type=Refusal)
    if len(document) != 1:
        raise ValueError("its answer is no JSON object with one value")
    return exchange.answer.decode(next(iter(document.values())))


def problems(name: str, kind: Any, text: msgspec.Raw | bytes, error: Exception) -> list[str]:
    """Return the problems of a document, one line each.

    Args:
        name: Of the document.
        kind: Its type.
        text: The document.
        error: Raised for the whole document; it names the first problem only.
    """
    # msgspec stops at the first problem, so each field is decoded by itself.
    fields = list(_field_problems(name, kind, text)) if isinstance(kind, type) else []
    return fields[:_REPORTED] or [_problem(name, "", text, error)]


def short(value: object) -> str:
    """Return a value as text, the begin of a long one."""
    text = repr(value[:60]) if isinstance(value, str | list) else repr(value)[:80]
    return text if len(text) <= 60 else f"{text[:57]}…"


def _one(line: bytes) -> tuple[str, msgspec.Raw]:
    try:
        document = _LINE.decode(line)
    except msgspec.ValidationError:
        document = {}
    except (ValueError, RecursionError) as error:
        raise RequestRejected(f"no JSON ({error}); expected one JSON object a line") from None
    if len(document) != 1:
        raise RequestRejected("expected one JSON object a line, with one request")
    return next(iter(document.items()))


def _field_problems(name: str, kind: type[Any], text: msgspec.Raw | bytes) -> Iterator[str]:
    """Yield the problems of each field of a record by itself."""
    if not issubclass(kind, msgspec.Struct):
        return
    try:
        values = _LINE.decode(text)
    except (ValueError, RecursionError):
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key in values.keys() - fields.keys():
        yield f"{name}: {short(key)[1:-1]}: unknown; legal are {', '.join(fields)}"
    for key, field in fields.items():
        if key not in values:
            if field.required:
                yield f"{name}: {key}: missing"
            continue
        try:
            msgspec.json.decode(values[key], type=field.type)
        except (ValueError, RecursionError) as error:
            yield _problem(name, key, values[key], error)


def _part(document: Any, path: str) -> Any:
    """Return the part of a document at a path such as `.a[0]`; raise `LookupError` for paths without it."""
    for key, index, other in re.findall(r"\.(\w+)|\[(\d+)\]|(.)", path):
        if other:
            raise LookupError(path)
        document = document[key or int(index)]
    return document


def _problem(name: str, part: str, text: msgspec.Raw | bytes, error: Exception) -> str:
    message, _, inner = str(error).partition(_AT)
    message = next((words for pattern, words in _WORDS.items() if repr(pattern) in message), message)
    inner = inner.rstrip("`")
    given = ""
    # An error of a whole object needs no quotation of all of it.
    if "missing required" not in message and (inner or part or not bytes(text).startswith(b"{")):
        try:
            given = f" {short(_part(msgspec.json.decode(text), inner))}"
        except LookupError:
            given = ""
        except (ValueError, RecursionError):
            given = " …"
    where = f"{part}{inner}".lstrip(".")
    return f"{name}: {where}{given}: {message}" if where else f"{name}{given}: {message}"
