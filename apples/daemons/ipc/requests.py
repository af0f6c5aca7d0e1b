"""Requests on the socket of a daemon: one JSON object a line, with one request and its argument, checked by a model."""

from collections.abc import Mapping
from typing import Any

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from apples.errors import ConfigError, RequestRejected

#: Problems of one document that are reported.
_REPORTED = 20


def read_request(types: Mapping[str, TypeAdapter[Any]], line: bytes) -> tuple[str, Any]:
    """Return the name of a request and its validated argument. `types`: of the argument of each request.

    Raises:
        RequestRejected: the line is not one JSON object with one request.
        ConfigError: values of the argument are not legal; the message has every problem.
    """
    try:
        document = pydantic_core.from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise RequestRejected(f"no JSON ({error}); expected one JSON object a line") from None
    if not isinstance(document, dict) or len(document) != 1:
        raise RequestRejected("expected one JSON object a line, with one request")
    ((name, argument),) = document.items()
    if name not in types:
        raise RequestRejected(f"{short(name)} is no request; legal are {', '.join(types)}")
    try:
        return name, types[name].validate_python(argument)
    except ValidationError as error:
        raise ConfigError(problems(name, error)) from None


def problems(name: str, error: ValidationError) -> list[str]:
    """Return the problems of a document, one line each. `name`: of the document."""
    return [_problem(name, detail) for detail in error.errors(include_url=False)[:_REPORTED]]


def short(value: object) -> str:
    """Return a value as text, the begin of a long one."""
    text = repr(value[:60]) if isinstance(value, str | list) else repr(value)[:80]
    return text if len(text) <= 60 else f"{text[:57]}…"


def _problem(name: str, detail: Any) -> str:
    place = ".".join(short(part)[1:-1] if isinstance(part, str) else str(part) for part in detail["loc"])
    given = "" if detail["type"] == "missing" else f" {short(detail['input'])}"
    text = str(detail.get("ctx", {}).get("error", detail["msg"]))
    return f"{name}: {place}{given}: {text[:1].lower()}{text[1:]}" if place else f"{name}{given}: {text}"
