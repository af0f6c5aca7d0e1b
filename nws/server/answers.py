"""What every answer looks like: JSON by orjson, and one form for everything that is refused.

A number that is not one (NaN) is null. An error never carries more than its message and its problems; what
went wrong inside the server goes to the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from starlette.responses import Response

from nws.base.errors import ServiceError, StoreError, UsageError, WeatherError

#: Problems listed of one request; the message says when there are more.
MOST_PROBLEMS = 20
#: When asking again makes sense where nobody knows better, seconds.
_RETRY_AFTER_S = 10
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def encode(document: Any) -> bytes:
    """A document of plain values, dataclasses and numpy arrays as JSON, UTF-8."""
    return orjson.dumps(document, option=_OPTIONS)


def answer(document: Any, status: int = 200) -> Response:
    """A document as a response."""
    return encoded(encode(document), status)


def encoded(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that is made already, as a response."""
    return Response(body, status, headers, media_type="application/json")


def refused(
    status: int, message: str, problems: Iterable[str] = (), *, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer to a request that is not carried out."""
    listed = list(problems)
    if len(listed) > MOST_PROBLEMS:
        listed = [*listed[:MOST_PROBLEMS], f"and {len(listed) - MOST_PROBLEMS} more"]
    # what a client sent may stand in a message, lone surrogates included; JSON cannot carry those
    error = {"status": status, "message": _clean(message), "problems": [_clean(p) for p in listed]}
    return encoded(orjson.dumps({"error": error}), status, headers)


def refusal_of(error: WeatherError) -> Response:
    """The answer that an error of ours is; 507 when the store cannot keep or give what was asked."""
    if isinstance(error, ServiceError):
        headers = {}
        wait_s = error.retry_after_s
        # a limit of the settings, unlike a rate, is there later as well
        if wait_s is None and error.status == 503:
            wait_s = _RETRY_AFTER_S
        if wait_s is not None:
            headers["Retry-After"] = str(max(math.ceil(wait_s), 1))
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="nws"'
        return refused(error.status, str(error), error.problems, headers=headers)
    if isinstance(error, StoreError):
        return refused(507, str(error), headers={"Retry-After": str(_RETRY_AFTER_S)})
    if isinstance(error, UsageError):
        return refused(422, str(error), getattr(error, "problems", ()))
    return refused(503, str(error), headers={"Retry-After": str(_RETRY_AFTER_S)})


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
