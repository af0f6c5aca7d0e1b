"""The form of every response: JSON by orjson, and one form for all refusals.

NaN becomes null. An error contains only its message and its problems; details of a server failure go to the log.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from nws.base.errors import ServiceError, StoreDamaged, StoreError, UsageError, WeatherError
from nws.messages.weatherdocuments import Error, ErrorDetail
from nws.server.encoding import encode

#: Maximum number of problems in a response; a last entry counts the others.
MOST_PROBLEMS = 20
#: Retry-After if the error has none, seconds.
_RETRY_AFTER_S = 10


def answer(document: Any, status: int = 200) -> Response:
    """Return a document as a response."""
    return encoded(encode(document), status)


def encoded(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return encoded JSON as a response."""
    return Response(body, status, headers, media_type="application/json")


def refused(
    status: int, message: str, problems: Iterable[str] = (), *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response to a request that is refused."""
    listed = list(problems)
    if len(listed) > MOST_PROBLEMS:
        listed = [*listed[:MOST_PROBLEMS], f"and {len(listed) - MOST_PROBLEMS} more"]
    # a message may quote a client's text with lone surrogates, which JSON cannot represent
    error = ErrorDetail(status=status, message=_clean(message), problems=[_clean(p) for p in listed])
    return encoded(encode(Error(error=error)), status, headers)


def refusal_of(error: WeatherError) -> Response:
    """Return the response for one of our errors; 507 if the store cannot be written or read."""
    if isinstance(error, ServiceError):
        headers = {}
        wait_s = error.retry_after_s
        # waiting helps against a rate, but not against a configured limit
        if wait_s is None and error.status == 503:
            wait_s = _RETRY_AFTER_S
        if wait_s is not None:
            headers["Retry-After"] = str(max(math.ceil(wait_s), 1))
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="nws"'
        return refused(error.status, str(error), error.problems, headers=headers)
    if isinstance(error, StoreDamaged):
        # waiting does not help
        return refused(507, str(error))
    if isinstance(error, StoreError):
        return refused(507, str(error), headers={"Retry-After": str(_RETRY_AFTER_S)})
    if isinstance(error, UsageError):
        return refused(422, str(error), getattr(error, "problems", ()))
    return refused(503, str(error), headers={"Retry-After": str(_RETRY_AFTER_S)})


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
