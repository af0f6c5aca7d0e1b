"""Client of a weather service: its HTTP interface as methods, one for each path.

`ServiceClient` sends and receives documents as described in docs/weather-api.md, and turns every failure into one
sentence: `ServiceUnreachable` without an answer, a `ServiceError` with the server's own message after a refusal. It
keeps one connection open, uses no proxy and reads no .netrc, so that the given address is the one contacted. Nothing is
buffered or repeated except a query whose connection was closed while it was on its way. `nws.client.remotesnapshot`
makes records of the documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from nws.base.closing import Closing
from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client.endpoint import Endpoint, checked_url
from nws.client.remotesnapshot import Document

if TYPE_CHECKING:
    import requests

    from nws.series import Measurement


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
        """Return the JSON object that answers; raises `ServiceUnreachable`, and `ServiceError` after a refusal.

        query : parameters; None stands for absent.  accept : statuses that are no refusal, beside 2xx
        """
        import msgspec

        # arrays and numbers of numpy, which a client need not have
        data = None if body is None else msgspec.json.encode(body, enc_hook=lambda value: value.tolist())
        parameters = (
            {} if query is None else {key: value for key, value in query.items() if value is not None}
        )
        answer = self._send(method, path, parameters, data)
        if not (200 <= answer.status_code < 300 or answer.status_code in accept):
            raise self._refused(answer)
        document = _parsed(answer)
        if not isinstance(document, dict):
            raise ServiceError(
                f"{self.url}: {path} was answered with {_glimpse(answer)}, not a JSON object; {_OTHER}"
            )
        return document

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
        document = _parsed(answer)
        problem = document.get("error") if isinstance(document, dict) else None
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
    import msgspec

    try:
        return msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
    for sign, meaning in (
        ("Connection refused", "nobody listens there (connection refused)"),
        ("Name or service not known", "no host of that name"),
        ("Temporary failure in name resolution", "the name of the host could not be looked up now"),
        ("No address associated", "no host of that name"),
        ("No route to host", "no route to that host"),
        ("Network is unreachable", "the network is unreachable"),
    ):
        if sign in text:
            return meaning
    return "the connection broke before an answer came"


#: Series in one request: their names are part of its address, which servers bound.
NAMES_PER_REQUEST = 200


class ServiceClient(Connection, Closing):
    """One service; a context manager. Methods raise `ServiceUnreachable` and `ServiceError`.

    token : bearer token of the role that is needed
    ca : file of certificates that an https server is checked against instead of the system's
    host, key : identity of a host that writes its own series; `register` learns the key
    """

    @classmethod
    def at(cls, endpoint: Endpoint, *, timeout_s: float = 5.0) -> ServiceClient:
        """Return client of a service that options or the environment name."""
        return cls(endpoint.url, token=endpoint.token, ca=endpoint.ca, timeout_s=timeout_s)

    # name server

    def register(self, host: str, registration: Mapping[str, object]) -> Document:
        """Register a host; the answer has `now`, `every`, `schedule`, `peers`, and `key` the first time.

        When `host` is this client's host, a key in the answer is used from then on.
        """
        answer = self.ask("POST", f"/v1/hosts/{_quoted(host)}", body=registration)
        if host == self.host and isinstance(answer.get("key"), str):
            self.key = answer["key"]
        return answer

    def schedule(self) -> Document:
        """Return `now`, `schedule` and `peers` (host → address and port)."""
        return self.ask("GET", "/v1/schedule")

    def hosts(self) -> Document:
        """Return `now` and `hosts`, alive and lost."""
        return self.ask("GET", "/v1/hosts")

    def host_state(self, name: str) -> Document:
        """Return the service's record of one host; raises `NotFound`."""
        return self.ask("GET", f"/v1/hosts/{_quoted(name)}")

    def forget(self, name: str) -> None:
        """Make the service forget a host; needs the admin role. Raises `NotFound`."""
        self.ask("DELETE", f"/v1/hosts/{_quoted(name)}")

    # memory

    def put(
        self,
        measurements: Iterable[Measurement] = (),
        *,
        source: str | None = None,
        first: int | None = None,
        status: Mapping[str, object] | None = None,
    ) -> Document:
        """Deliver measurements in one batch; without any it is a sign of life.

        source, first : name of a numbered stream and the number of its first measurement here; measurements that
        the service
        has already are not kept twice.  status : counters of the sender
        """
        return self.put_batch(batch_document(measurements, source=source, first=first, status=status))

    def put_batch(self, batch: Mapping[str, object]) -> Document:
        """Return the same for a document that is made already; see `batch_document`."""
        return self.ask("POST", "/v1/measurements", body=batch)

    def series(self, *, host: str | None = None, resource: str | None = None) -> Document:
        """Return `now` and `series`: samples, last value and age of each."""
        return self.ask("GET", "/v1/series", query={"host": host, "resource": resource})

    def samples(
        self,
        name: str,
        *,
        since: float | None = None,
        until: float | None = None,
        resolution: str = "auto",
        most: int | None = None,
    ) -> Document:
        """Return columns `t` and `value` of one series; since, until : seconds since the epoch.

        resolution : ``raw``, ``60``, ``600`` or ``auto``.  most : samples at most
        """
        query = {"since": since, "until": until, "resolution": resolution, "most": most}
        return self.ask("GET", f"/v1/series/{_quoted(name)}/samples", query=query)

    def plot(
        self,
        name: str,
        *,
        since: float | None = None,
        until: float | None = None,
        points: int | None = None,
    ) -> Document:
        """Return the data of a plot of one series: values, forecasts made before each, and their errors."""
        query = {"since": since, "until": until, "points": points}
        return self.ask("GET", f"/v1/series/{_quoted(name)}/plot", query=query)

    # forecaster

    def forecasts(self, names: Sequence[str] = (), *, over_s: Sequence[float] = ()) -> Document:
        """Return `now` and `forecasts`, of all series without names.

        over_s : spans of their outlooks, seconds
        """
        spans = list(over_s) or None
        if not names:
            return self.ask("GET", "/v1/forecasts", query={"over": spans})
        parts = [
            self.ask(
                "GET",
                "/v1/forecasts",
                query={"series": list(names[at : at + NAMES_PER_REQUEST]), "over": spans},
            )
            for at in range(0, len(names), NAMES_PER_REQUEST)
        ]
        return parts[-1] | {"forecasts": [row for part in parts for row in part["forecasts"]]}

    def snapshot(
        self,
        *,
        hosts: Sequence[str] | None = None,
        composed: bool = False,
        over_s: Sequence[float] = (),
    ) -> Document:
        """Return forecasts of everything, or of these hosts and the pairs among them, in one document of columns.

        composed : also unmeasured pairs, estimated from others.  over_s : spans of the series' outlooks, seconds
        """
        query = {
            "hosts": None if hosts is None else ",".join(hosts),
            "composed": "true" if composed else None,
            "over": list(over_s) or None,
        }
        return self.ask("GET", "/v1/snapshot", query=query)

    # events and health

    def events(
        self, *, since: float | None = None, until: float | None = None, most: int | None = None
    ) -> Document:
        """Return `events`: time, kind, host and text of each."""
        return self.ask("GET", "/v1/events", query={"since": since, "until": until, "most": most})

    def event(self, kind: str, text: str, *, t: float, host: str | None = None) -> None:
        """Report an event at `t` seconds since the epoch; kind : a-z and blanks, at most 40."""
        self.ask("POST", "/v1/events", body={"t": t, "kind": kind, "host": host, "text": text})

    def health(self) -> Document:
        """Return `status` and why it is not ``ok``, also from a server that cannot do its work."""
        return self.ask("GET", "/healthz", accept=(503,))


def batch_document(
    measurements: Iterable[Measurement],
    *,
    source: str | None = None,
    first: int | None = None,
    status: Mapping[str, object] | None = None,
) -> Document:
    """Return body of a delivery: names of the series once, then a column each of their places, times and values."""
    places: dict[str, int] = {}
    index, times, values = [], [], []
    for measurement in measurements:
        index.append(places.setdefault(str(measurement.series), len(places)))
        times.append(measurement.t)
        values.append(measurement.value)
    batch: Document = {"series": list(places), "index": index, "t": times, "value": values}
    for key, value in (("source", source), ("first", first), ("status", status)):
        if value is not None:
            batch[key] = value
    return batch


def _quoted(name: str) -> str:
    return quote(name, safe="")
