"""Prometheus' HTTP API: one query, its samples, and one sentence for every failure.

Queries `/api/v1/query` on one kept connection, through no proxy and with no .netrc: credentials are in files that only
their owner can read, read anew each time, as they may be replaced. An answer that is partial, too long or not as the
API describes is rejected. Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from nws.base.closing import Closing
from nws.base.errors import ProbeError, UsageError
from nws.client.endpoint import read_secret, read_token
from nws.sources.prometheussettings import PrometheusSettings

#: More than a thousand hosts with a hundred series each.
LONGEST_ANSWER = 32_000_000
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One element of an instant vector. value : finite"""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Answer to a question. t : when Prometheus evaluated it, by its own clock; None when nothing was found."""

    t: float | None
    samples: tuple[Sample, ...]


class PrometheusApi(Closing):
    """One server; a context manager."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self.settings = settings
        self._address = f"{settings.url}/api/v1/query"
        self._session = requests.Session()
        self._session.trust_env = False

    def query(self, question: str) -> Vector:
        """Return evaluate a PromQL expression that gives an instant vector; raises `ProbeError`."""
        try:
            self._identify()
            with self._session.get(
                self._address,
                params={"query": question, "timeout": f"{max(round(1000 * self.settings.timeout_s), 1)}ms"},
                timeout=self.settings.timeout_s,
                verify=True if self.settings.ca is None else str(self.settings.ca),
                allow_redirects=False,
                stream=True,
            ) as response:
                content = self._content(response)
        except UsageError as error:
            raise self._error(str(error)) from error
        except requests.exceptions.SSLError as error:
            raise self._error(f"no secure connection: {_reason(error)}; check url, or set ca") from error
        except requests.Timeout as error:
            raise self._error(
                f"no answer within {self.settings.timeout_s:g} s; look at the server, or set timeout higher"
            ) from error
        except requests.RequestException as error:
            raise self._error(
                f"no answer: {_reason(error)}; is Prometheus running there, and is url right?"
            ) from error
        except OSError as error:
            # a file of certificates that is not there
            raise self._error(f"{error}; check ca") from error
        return self._vector(response, content)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _identify(self) -> None:
        settings = self.settings
        if settings.token_file is not None:
            self._session.headers["Authorization"] = f"Bearer {read_token(settings.token_file)}"
        elif settings.user is not None and settings.password_file is not None:
            self._session.auth = (settings.user, read_secret(settings.password_file, "password"))

    def _content(self, response: requests.Response) -> bytes:
        """Return the body, no longer than it may be and not dripping for ever."""
        pieces, length = [], 0
        longest_s = max(self.settings.every_s, self.settings.timeout_s)
        began = time.monotonic()
        for piece in response.iter_content(_PIECE):
            pieces.append(piece)
            length += len(piece)
            if length > LONGEST_ANSWER:
                raise self._error(f"an answer longer than {LONGEST_ANSWER} bytes; narrow it with match")
            if time.monotonic() - began > longest_s:
                raise self._error(f"an answer that took longer than {longest_s:g} s; narrow it with match")
        return b"".join(pieces)

    def _vector(self, response: requests.Response, content: bytes) -> Vector:
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        api = isinstance(document, dict) and document.get("status") in ("success", "error")
        if response.status_code != 200 or not api or document["status"] == "error":
            raise self._error(self._refusal(response, document if api else None))
        warnings = document.get("warnings")
        if warnings:
            raise self._error(
                f"a partial answer, which is not used: {_listed(warnings)}; look at the servers it asks itself"
            )
        try:
            return _vector(document["data"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(
                f"an answer that its API does not describe ({type(error).__name__}: {error}); "
                "is url a Prometheus, and not something that looks like one?"
            ) from error

    def _refusal(self, response: requests.Response, document: dict[str, Any] | None) -> str:
        """Return the reason of a status or an invalid answer, and the remedy."""
        status, settings = response.status_code, self.settings
        if document is not None and document["status"] == "error":
            said = f"{document.get('errorType')}: {document.get('error')}"
            advice = "; check match" if document.get("errorType") == "bad_data" else ""
            return f"refused ({status}): {said}{advice}"
        if 300 <= status < 400:
            elsewhere = response.headers.get("Location", "nowhere")
            return f"leads on to {elsewhere}; set the address of Prometheus itself as url"
        if status in (401, 403):
            given = settings.token_file or settings.password_file
            advice = f"look at {given}" if given else "set token_file, or user and password_file"
            return f"lets nobody in like this ({status} {response.reason}); {advice}"
        if status == 404:
            return (
                "has no /api/v1/query; url is the address of Prometheus, with its path if it stands below one"
            )
        if status == 200:
            return "answers, but not as Prometheus does; check url"
        return f"answered {status} {response.reason}; look at its log"

    def _error(self, what: str) -> ProbeError:
        return ProbeError(f"prometheus {self.settings.url}: {what}")


def _vector(data: dict[str, Any]) -> Vector:
    """Return the samples of the document; raises KeyError, TypeError or ValueError for any other content.

    Values that are not finite are dropped: a NaN is a gap.
    """
    if data["resultType"] != "vector":
        raise ValueError(f"a {data['resultType']} where a vector was asked for")
    t, samples = None, []
    for element in data["result"]:
        labels, (at, text) = element["metric"], element["value"]
        if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
            raise TypeError(f"labels {labels!r}")
        t, value = float(at), float(text)
        if not math.isfinite(t):
            raise ValueError(f"time {at!r}")
        if math.isfinite(value):
            samples.append(Sample(labels=labels, value=value))
    return Vector(t=t, samples=tuple(samples))


def _listed(warnings: Any) -> str:
    return "; ".join(map(str, warnings)) if isinstance(warnings, list) else str(warnings)


def _reason(error: BaseException) -> str:
    """Return the innermost reason, the most specific one."""
    seen: BaseException = error
    while True:
        inner = getattr(seen, "reason", None) or (seen.args[0] if seen.args else None)
        if not isinstance(inner, BaseException):
            break
        seen = inner
    said = re.sub(r"\[[A-Z][^]]*\] | \(_ssl\.c:\d+\)", "", str(seen))
    return said.rpartition(": ")[2].rstrip(".") or type(error).__name__
