"""One connection to a weather service: requests are sent, every failure becomes one sentence.

`ServiceUnreachable` is raised without an answer, a `ServiceError` with the server's own message after a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client.endpoint import checked_url

if TYPE_CHECKING:
    import requests

    from nws.client.documents import Document


class Connection:
    """A connection that is made at the first request and kept open.

    url : ``http://HOST:PORT`` or ``https://HOST:PORT``.  token, ca : bearer token, file of certificates to trust
    host, key : identity of a host, sent with every request
    timeout_s : for making a connection, and for each pause in an answer; it may be set between requests
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: Path | None = None,
        host: str | None = None,
        key: str | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self.url, self.host, self.key, self.timeout_s = checked_url(url), host, key, timeout_s
        self._token, self._ca = token, ca
        self._session: requests.Session | None = None

    def close(self) -> None:
        """Let go of the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        accept: tuple[int, ...] = (),
    ) -> Document:
        """Return the JSON object that answers a request; arguments as for `call`."""
        answer = self.call(method, path, query=query, body=body, accept=accept)
        document = _parsed(answer)
        if not isinstance(document, dict):
            raise ServiceError(
                f"{self.url}: {path} was answered with {_glimpse(answer)}, not a JSON object; {_OTHER}"
            )
        return document

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        accept: tuple[int, ...] = (),
    ) -> requests.Response:
        """Return the answer to a request; raises `ServiceUnreachable`, and `ServiceError` after a refusal.

        query : parameters; None stands for absent.  accept : statuses that are no refusal, beside 2xx
        """
        import orjson

        data = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        asked = {} if query is None else {key: value for key, value in query.items() if value is not None}
        answer = self._send(method, path, asked, data)
        if 200 <= answer.status_code < 300 or answer.status_code in accept:
            return answer
        raise self._refused(answer)

    def _send(
        self, method: str, path: str, query: Mapping[str, object], data: bytes | None
    ) -> requests.Response:
        import requests

        headers = {} if data is None else {"Content-Type": "application/json"}
        for name, value in (("X-NWS-Host", self.host), ("X-NWS-Key", self.key)):
            if value is not None:
                headers[name] = value
        # a connection kept open may be closed by the server just as a request goes out; asking again does no harm
        attempts = 2 if method == "GET" and self._session is not None else 1
        for left in range(attempts - 1, -1, -1):
            try:
                return self._connected().request(
                    method,
                    self.url + path,
                    params=query,  # type: ignore[arg-type]
                    data=data,
                    headers=headers,
                    timeout=self.timeout_s,
                    allow_redirects=False,
                )
            except requests.ConnectionError as error:
                if left and not isinstance(error, requests.exceptions.SSLError | requests.Timeout):
                    continue
                raise self._unreachable(error) from error
            except requests.RequestException as error:
                raise self._unreachable(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _connected(self) -> requests.Session:
        if self._session is None:
            import requests

            session = requests.Session()
            # a .netrc entry would replace the token, a proxy would see it
            session.trust_env = False
            if self._ca is not None:
                session.verify = str(self._ca)
            if self._token is not None:
                session.headers["Authorization"] = f"Bearer {self._token}"
            self._session = session
        return self._session

    def _unreachable(self, error: Exception) -> ServiceUnreachable:
        return ServiceUnreachable(f"{self.url}: {_reason(error, self.timeout_s)}")

    def _refused(self, answer: requests.Response) -> ServiceError:
        status = answer.status_code
        told = _parsed(answer)
        problem = told.get("error") if isinstance(told, dict) else None
        if not isinstance(problem, dict) or not isinstance(problem.get("message"), str):
            where = f", which points to {answer.headers['Location']}" if "Location" in answer.headers else ""
            return ServiceError.of(status, f"{self.url}: answered {status} {answer.reason}{where}; {_OTHER}")
        problems = [str(line) for line in problem.get("problems") or ()]
        lines = dict.fromkeys([problem["message"], *problems])
        wait = answer.headers.get("Retry-After", "")
        return ServiceError.of(
            status,
            f"{self.url}: " + "\n".join(lines),
            problems=problems,
            retry_after_s=float(wait) if wait.isdecimal() else None,
        )


_OTHER = "is this the address of a weather service?"


def _parsed(answer: requests.Response) -> object:
    """Return the JSON value of the answer; None when it is not JSON."""
    import orjson

    try:
        return orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        return None


def _glimpse(answer: requests.Response) -> str:
    kind = answer.headers.get("Content-Type", "unknown type").partition(";")[0]
    return f"{len(answer.content)} bytes of {kind}"


def _reason(error: Exception, timeout_s: float) -> str:
    """Return why there was no answer, without the layers that reported it."""
    import requests

    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        short = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        return f"its certificate is not trusted ({short or 'TLS failed'}); name the file that it is signed with (--ca)"
    if isinstance(error, requests.Timeout):
        return f"no answer within {timeout_s:g} s"
    for sign, told in (
        ("Connection refused", "nobody listens there (connection refused)"),
        ("Name or service not known", "no host of that name"),
        ("Temporary failure in name resolution", "the name of the host could not be looked up now"),
        ("No address associated", "no host of that name"),
        ("No route to host", "no route to that host"),
        ("Network is unreachable", "the network is unreachable"),
    ):
        if sign in text:
            return told
    return "the connection broke before an answer came"
