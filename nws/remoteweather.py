"""The weather of many hosts, forecast by a service elsewhere: its snapshot as records of ours.

One request answers for everything. Pairs that nobody measures are composed, unless there are too many
(`COMPOSED_MOST`); such a forecast says so in its method: ``composed via e1, w1``. Times are the
service's own: an age is `RemoteSnapshot.now` less the time of the measurement, whatever the clock here says. Whether a
forecast is too old to be used is for the user to decide. Source: Wolski et al. 2000, §4.1 (the pool in one step).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nws.composition import Composed, Link, compose
from nws.endpoint import Endpoint
from nws.errors import ServiceError, UsageError
from nws.remote import Document, ServiceClient
from nws.series import Forecast, Resource, Series

FORMAT, VERSION = "nws-snapshot", 1

#: Hosts up to which pairs are asked for composed; a thousand hosts have a million pairs.
COMPOSED_MOST = 256

#: Hosts up to which they are named in the request; of more the whole snapshot is asked for and sorted out here.
NAMED_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHost:
    """A host as the service knows it.

    address : where it takes probes.  cpus : that processes may use.  memory_bytes : installed; None: unknown
    lost : it has been silent for too long.  last_seen : seconds since the epoch, the service's clock
    """

    name: str
    address: str | None = None
    site: str | None = None
    cpus: int = 1
    cpu_model: str = "unknown"
    memory_bytes: float | None = None
    lost: bool = False
    last_seen: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """All a service knows at one instant.

    now : the service's clock, seconds since the epoch.  grid : name it gives itself
    forecasts : of measured and of composed series.  through : hosts on the way of each composed pair
    """

    now: float
    grid: str
    hosts: tuple[RemoteHost, ...]
    forecasts: Mapping[Series, Forecast]
    through: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def age_s(self, series: Series) -> float:
        """Seconds since the series, or the oldest part of it, was measured."""
        return max(self.now - self.forecasts[series].measured_at, 0.0)


class RemoteWeather:
    """The weather from a service; a context manager. Answers as `nws.client.Weather` does, for all hosts there.

    url, token, ca, timeout_s : as for `ServiceClient`.  hosts : only these and the pairs among them; None for all
    composed : whether pairs that nobody measures are composed from others
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: Path | None = None,
        hosts: Sequence[str] | None = None,
        composed: bool = True,
        timeout_s: float = 5.0,
    ) -> None:
        self._client = ServiceClient(url, token=token, ca=ca, timeout_s=timeout_s)
        self._wanted = None if hosts is None else tuple(dict.fromkeys(hosts))
        self._composed = composed

    @classmethod
    def at(
        cls, endpoint: Endpoint, *, hosts: Sequence[str] | None = None, timeout_s: float = 5.0
    ) -> RemoteWeather:
        """Weather of a service that options or the environment name."""
        return cls(endpoint.url, token=endpoint.token, ca=endpoint.ca, hosts=hosts, timeout_s=timeout_s)

    @property
    def client(self) -> ServiceClient:
        """What speaks to the service."""
        return self._client

    def forecasts(self) -> Mapping[Series, Forecast]:
        """Forecasts of every series, in one step; raises `ServiceUnreachable`, `ServiceError`."""
        return self.snapshot().forecasts

    def hosts(self) -> tuple[RemoteHost, ...]:
        """All hosts of the service, or those asked for, alive and lost, by name."""
        found = read_hosts(self._client.hosts(), self._client.url)
        return tuple(h for h in found if self._wanted is None or h.name in self._wanted)

    def snapshot(self, hosts: Sequence[str] | None = None) -> RemoteSnapshot:
        """Everything at one instant. hosts : only these, instead of those this weather was made for."""
        wanted = self._wanted if hosts is None else tuple(dict.fromkeys(hosts))
        if wanted is None:
            found = read_snapshot(self._client.snapshot(), self._client.url)
            return complete(found) if self._composed and len(found.hosts) <= COMPOSED_MOST else found
        if not wanted:
            raise UsageError(
                "a snapshot of no host was asked for; name at least one, or leave out `hosts` for all"
            )
        composed = self._composed and 1 < len(wanted) <= COMPOSED_MOST
        named = wanted if len(wanted) <= NAMED_MOST else None
        document = self._client.snapshot(hosts=named, composed=composed)
        return read_snapshot(document, self._client.url, only=frozenset(wanted))

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __enter__(self) -> RemoteWeather:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_hosts(document: Document, url: str) -> tuple[RemoteHost, ...]:
    """Hosts of an answer, by name; raises `ServiceError` when it cannot be understood. url : for the message."""
    try:
        found = [
            RemoteHost(
                name=entry["name"],
                address=entry.get("address"),
                site=entry.get("site"),
                cpus=max(int(entry.get("cpus") or 1), 1),
                cpu_model=" ".join(str(entry.get("cpu_model") or "unknown").split()),
                memory_bytes=entry.get("memory_bytes"),
                lost=bool(entry.get("lost")),
                last_seen=_number(entry.get("last_seen")),
            )
            for entry in document["hosts"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_understood(url, error) from error
    return tuple(sorted(found, key=lambda host: host.name))


def read_snapshot(document: Document, url: str, *, only: frozenset[str] | None = None) -> RemoteSnapshot:
    """Records of a snapshot's document; raises `ServiceError` when it cannot be understood.

    only : leave out what belongs to other hosts
    """
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ServiceError(
            f"{url}: sent {document.get('format')!r} version {document.get('version')!r}; this release reads "
            f"{FORMAT} version {VERSION}: use releases of one age at both ends"
        )
    try:
        forecasts = {
            series: forecast
            for series, forecast in _measured(document["series"])
            if only is None or (series.host in only and (series.peer or series.host) in only)
        }
        composed = {
            pair: one
            for pair, one in _composed(document.get("composed") or {}).items()
            if one.through and (only is None or only.issuperset(pair))
        }
        hosts = tuple(h for h in read_hosts(document, url) if only is None or h.name in only)
        return RemoteSnapshot(
            now=float(document["now"]),
            grid=str(document.get("grid") or ""),
            hosts=hosts,
            forecasts={**composed_forecasts(composed), **forecasts},
            through={pair: one.through for pair, one in composed.items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise _not_understood(url, error) from error


def links(forecasts: Mapping[Series, Forecast]) -> dict[tuple[str, str], Link]:
    """Pairs of which at least the latency is forecast, as parts of paths; what is composed already is none."""
    found = {}
    for series, latency in forecasts.items():
        if series.resource is not Resource.LATENCY or series.peer is None or not latency.samples:
            continue
        bandwidth = forecasts.get(Series(Resource.BANDWIDTH, series.host, series.peer))
        ages = [latency.measured_at] if bandwidth is None else [latency.measured_at, bandwidth.measured_at]
        found[series.host, series.peer] = Link(
            latency_s=latency.value,
            latency_error_s=latency.rmse,
            bandwidth_Bps=math.nan if bandwidth is None else bandwidth.value,
            bandwidth_error_Bps=math.nan if bandwidth is None else bandwidth.rmse,
            measured_at=min(ages),
        )
    return found


def composed_forecasts(composed: Mapping[tuple[str, str], Composed]) -> dict[Series, Forecast]:
    """Two forecasts of each composed pair, with the path as their method; what is not known is left out."""
    found = {}
    for (start, end), pair in composed.items():
        for resource, value, error in (
            (Resource.LATENCY, pair.latency_s, pair.latency_error_s),
            (Resource.BANDWIDTH, pair.bandwidth_Bps, pair.bandwidth_error_Bps),
        ):
            if math.isfinite(value):
                found[Series(resource, start, end)] = Forecast(
                    value=value,
                    mae=math.nan,
                    rmse=error,
                    method=f"composed via {', '.join(pair.through)}",
                    samples=0,
                    measured_at=pair.measured_at,
                    last=math.nan,
                )
    return found


def complete(snapshot: RemoteSnapshot) -> RemoteSnapshot:
    """The snapshot with every pair of its hosts that a path of measured pairs joins; no path crosses a lost host."""
    lost = {host.name for host in snapshot.hosts if host.lost}
    known = {pair: link for pair, link in links(snapshot.forecasts).items() if not lost.intersection(pair)}
    names = [host.name for host in snapshot.hosts]
    missing = [(a, b) for a in names for b in names if a != b and (a, b) not in known]
    found = compose(known, missing)
    return replace(
        snapshot,
        forecasts={**composed_forecasts(found), **snapshot.forecasts},
        through={**{pair: one.through for pair, one in found.items()}, **snapshot.through},
    )


def _measured(columns: Mapping[str, Any]) -> Iterator[tuple[Series, Forecast]]:
    names = ("name", "forecast", "mae", "rmse", "method", "samples", "measured_at", "last")
    for name, value, mae, rmse, method, samples, measured_at, last in zip(
        *(columns[column] for column in names), strict=True
    ):
        if value is None or measured_at is None:
            continue
        yield (
            Series.parse(name),
            Forecast(
                value=value,
                mae=_number(mae),
                rmse=_number(rmse),
                method=method,
                samples=samples,
                measured_at=measured_at,
                last=_number(last),
            ),
        )


def _composed(columns: Mapping[str, Any]) -> dict[tuple[str, str], Composed]:
    if not columns:
        return {}
    names = ("latency_s", "latency_error_s", "bandwidth_Bps", "bandwidth_error_Bps", "measured_at")
    return {
        (start, end): Composed(
            **dict(zip(names, map(_number, numbers), strict=True)), through=tuple(map(str, path))
        )
        for start, end, path, *numbers in zip(
            *(columns[column] for column in ("from", "to", "through", *names)), strict=True
        )
    }


def _number(value: object) -> float:
    """JSON's null is a number that is not known."""
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def _not_understood(url: str, error: Exception) -> ServiceError:
    what = f"no {error}" if isinstance(error, KeyError) else str(error)
    return ServiceError(
        f"{url}: its answer cannot be understood ({what}); use releases of one age at both ends"
    )
