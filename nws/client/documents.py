"""Answers of a weather service as records: hosts, series, forecasts, and a snapshot of all of them.

Times are the service's own: an age is `RemoteSnapshot.now` less the time of the measurement, independent of the local
clock. An answer of another release that cannot be parsed is one `ServiceError`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from nws.base.errors import ServiceError, UsageError
from nws.links.composition import Composed, Link, Pair
from nws.series import SHARES, Forecast, Outlook, Resource, Series

if TYPE_CHECKING:
    from nws.links.linkmatrix import LinkMatrix

FORMAT, VERSION = "nws-snapshot", 1

#: Parts of an outlook after its span, in the order of `_outlook`.
_OUTLOOK = ("mean", "held", "outcomes", "variation", "quantiles")

Document = dict[str, Any]
"""A JSON object as the service sends it."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHost:
    """A host by the service's records.

    address : of its echo server.  cpus : usable by processes, 0 without a sensor
    memory_bytes : installed; None without a sensor
    lost : it has been silent for too long.  last_seen : seconds since the epoch, the service's clock
    cliques : in which it measures.  series : their number.  status : last counters of its sensor
    """

    name: str
    address: str | None = None
    site: str | None = None
    cpus: int = 0
    cpu_model: str = "unknown"
    memory_bytes: float | None = None
    lost: bool = False
    last_seen: float = math.nan
    cliques: tuple[str, ...] = ()
    series: int = 0
    status: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSeries:
    """A series without a forecast. last : newest value.  age_s : of it, seconds."""

    series: Series
    samples: int
    last: float
    measured_at: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """All that is known at one instant.

    now : the service's clock, seconds since the epoch.  grid : name it gives itself
    forecasts : of measured and of composed series.  through : hosts on the way of each composed pair
    """

    now: float
    grid: str
    hosts: tuple[RemoteHost, ...]
    forecasts: Mapping[Series, Forecast]
    through: Mapping[Pair, tuple[str, ...]] = field(default_factory=dict)

    def age_s(self, series: Series) -> float:
        """Return seconds since the series, or the oldest part of it, was measured."""
        return max(self.now - self.forecasts[series].measured_at, 0.0)

    def restrict(self, names: Sequence[str]) -> RemoteSnapshot:
        """Return the same instant with only these hosts and the pairs among them."""
        only = frozenset(names)
        return replace(
            self,
            hosts=tuple(host for host in self.hosts if host.name in only),
            forecasts={
                s: f for s, f in self.forecasts.items() if s.host in only and (s.peer or s.host) in only
            },
            through={pair: path for pair, path in self.through.items() if only.issuperset(pair)},
        )

    def links(self, *, oldest_s: float = math.inf) -> dict[Pair, Link]:
        """Return pairs of which at least the latency is measured, as parts of paths; none to or from a lost host.

        oldest_s : older measurements are not used
        """
        lost = {host.name for host in self.hosts if host.lost}
        since = self.now - oldest_s
        found = {}
        for series, latency in self.forecasts.items():
            start, end = series.host, series.peer
            if series.resource is not Resource.LATENCY or end is None or not latency.samples:
                continue
            if latency.measured_at < since or start in lost or end in lost:
                continue
            bandwidth = self.forecasts.get(Series(Resource.BANDWIDTH, start, end))
            if bandwidth is None or not bandwidth.samples or bandwidth.measured_at < since:
                bandwidth = replace(latency, value=math.nan, rmse=math.nan)
            found[start, end] = Link(
                latency_s=latency.value,
                latency_error_s=latency.rmse,
                bandwidth_Bps=bandwidth.value,
                bandwidth_error_Bps=bandwidth.rmse,
                measured_at=min(latency.measured_at, bandwidth.measured_at),
            )
        return found

    def matrix(self, *, oldest_s: float = math.inf) -> LinkMatrix:
        """Return all pairs of all hosts at once, composed ones included, as arrays; for grids of many hosts."""
        from nws.links.linkmatrix import compose_all

        return compose_all([host.name for host in self.hosts], self.links(oldest_s=oldest_s))


def read_hosts(document: Document, url: str) -> tuple[float, tuple[RemoteHost, ...]]:
    """Return the service's time and its hosts by name, from ``GET /v1/hosts``. url : for the message of an error."""
    return _understood(url, lambda: (float(document["now"]), _hosts(document["hosts"])))


def read_kept(document: Document, url: str) -> list[KeptSeries]:
    """Return all series by name, from ``GET /v1/series``."""
    return _understood(
        url,
        lambda: sorted(
            (
                KeptSeries(
                    series=Series.parse(entry["series"]),
                    samples=int(entry["samples"]),
                    last=_number(entry["last"]),
                    measured_at=_number(entry["measured_at"]),
                    age_s=_number(entry["age_s"]),
                )
                for entry in document["series"]
            ),
            key=lambda kept: str(kept.series),
        ),
    )


def read_forecasts(document: Document, url: str) -> tuple[float, dict[Series, Forecast]]:
    """Return the service's time and forecasts in the order sent, from ``GET /v1/forecasts``."""

    def read() -> tuple[float, dict[Series, Forecast]]:
        _check_shares(document)
        found = {
            Series.parse(entry["series"]): Forecast(
                value=_number(entry["value"]),
                mae=_number(entry["mae"]),
                rmse=_number(entry["rmse"]),
                method=str(entry["method"]),
                samples=int(entry["samples"]),
                measured_at=_number(entry["measured_at"]),
                last=_number(entry["last"]),
                outlooks=tuple(
                    _outlook(one["over_s"], *(one[part] for part in _OUTLOOK))
                    for one in entry.get("outlooks") or ()
                ),
            )
            for entry in document["forecasts"]
        }
        return float(document["now"]), found

    return _understood(url, read)


def read_snapshot(document: Document, url: str) -> RemoteSnapshot:
    """Return the records of ``GET /v1/snapshot``."""
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ServiceError(
            f"{url}: sent {document.get('format')!r} version {document.get('version')!r}; this release reads "
            f"{FORMAT} version {VERSION}: use releases of one age at both ends"
        )

    def read() -> RemoteSnapshot:
        composed = _composed(document.get("composed") or {})
        outlooks = document.get("outlooks") or {}
        _check_shares(outlooks)
        return RemoteSnapshot(
            now=float(document["now"]),
            grid=str(document.get("grid") or ""),
            hosts=_hosts(document["hosts"]),
            forecasts={
                **composed_forecasts(composed),
                **dict(_measured(document["series"], document["methods"], outlooks)),
            },
            through={pair: one.through for pair, one in composed.items()},
        )

    return _understood(url, read)


def composed_forecasts(composed: Mapping[Pair, Composed]) -> dict[Series, Forecast]:
    """Return two forecasts of each composed pair, with the path as their method; unknown values are left out."""
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


def _hosts(entries: Sequence[Mapping[str, Any]]) -> tuple[RemoteHost, ...]:
    found = [
        RemoteHost(
            name=str(entry["name"]),
            address=entry.get("address") or None,
            site=entry.get("site") or None,
            cpus=max(int(entry.get("cpus") or 0), 0),
            cpu_model=" ".join(str(entry.get("cpu_model") or "unknown").split()),
            memory_bytes=float(entry["memory_bytes"]) if entry.get("memory_bytes") else None,
            lost=bool(entry.get("lost")),
            last_seen=_number(entry.get("last_seen")),
            cliques=tuple(map(str, entry.get("cliques") or ())),
            series=int(entry.get("series") or 0),
            status=dict(entry.get("status") or {}),
        )
        for entry in entries
    ]
    return tuple(sorted(found, key=lambda host: host.name))


def _check_shares(document: Mapping[str, Any]) -> None:
    """Raise `ValueError` if the quantiles of a document are at other shares than those of this release."""
    if tuple(document.get("shares", SHARES)) != SHARES:
        raise ValueError(f"quantiles at {document['shares']}, not at {list(SHARES)}")


def _outlook(
    over_s: Any, mean: Any, held: Any, outcomes: Any, variation: Any, quantiles: Sequence[Any]
) -> Outlook:
    if len(quantiles) != len(SHARES):
        raise ValueError(f"{len(quantiles)} quantiles, not {len(SHARES)}")
    return Outlook(
        over_s=float(over_s),
        mean=_number(mean),
        held=_number(held),
        outcomes=_number(outcomes),
        variation=_number(variation),
        quantiles=tuple(map(_number, quantiles)),
    )


def _measured(
    columns: Mapping[str, Any], methods: Sequence[str], outlooks: Mapping[str, Any]
) -> Iterator[tuple[Series, Forecast]]:
    names = ("name", "forecast", "mae", "rmse", "method", "samples", "measured_at", "last")
    spans = outlooks.get("over_s", ())
    parts = [outlooks[part] for part in _OUTLOOK] if spans else []
    rows = zip(*parts, strict=True) if spans else repeat((), len(columns["name"]))
    for name, value, mae, rmse, method, samples, measured_at, last, row in zip(
        *(columns[column] for column in names), rows, strict=True
    ):
        # a series that was never measured has no forecast
        if value is not None and measured_at is not None:
            yield (
                Series.parse(name),
                Forecast(
                    value=float(value),
                    mae=_number(mae),
                    rmse=_number(rmse),
                    method=methods[method],
                    samples=samples,
                    measured_at=float(measured_at),
                    last=_number(last),
                    outlooks=tuple(map(_outlook, spans, *row)) if row else (),
                ),
            )


def _composed(columns: Mapping[str, Any]) -> dict[Pair, Composed]:
    if not columns:
        return {}
    numbers = ("latency_s", "latency_error_s", "bandwidth_Bps", "bandwidth_error_Bps", "measured_at")
    return {
        (start, end): Composed(
            **dict(zip(numbers, map(_number, row), strict=True)), through=tuple(map(str, path))
        )
        for start, end, path, *row in zip(
            *(columns[column] for column in ("from", "to", "through", *numbers)), strict=True
        )
    }


def _number(value: Any) -> float:
    """Return a number; NaN for the null of JSON, which marks an unknown value."""
    return math.nan if value is None else float(value)


def _understood(url: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except (LookupError, TypeError, ValueError, AttributeError, UsageError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ServiceError(
            f"{url}: its answer cannot be understood ({reason}); use releases of one age at both ends"
        ) from error
