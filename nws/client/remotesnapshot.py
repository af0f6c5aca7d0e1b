"""Answers of a weather service as records: hosts, series, forecasts, and a snapshot of all of them.

Times are the service's own: an age is `RemoteSnapshot.now` less the time of the measurement, independent of the local
clock. An answer of another release that cannot be parsed is one `ServiceError`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from nws.base.errors import ServiceError
from nws.base.records import copied
from nws.links.composition import Composed, Link, Pair
from nws.messages.fieldtypes import Maybe, reading_answers, understood
from nws.messages.snapshotcolumns import SnapshotComposed, SnapshotOutlooks, SnapshotSeries, WeatherSnapshot
from nws.messages.weatherdocuments import Forecasts, Hosts, HostState, SeriesList
from nws.series import SHARES, Forecast, Outlook, Resource, Series

if TYPE_CHECKING:
    from nws.links.linkmatrix import LinkMatrix

FORMAT, VERSION = "nws-snapshot", 1

Document = dict[str, Any]
"""A JSON object as the service sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHost:
    """A host by the service's records.

    address : of its echo server.  cpus : usable by processes, 0 without a sensor
    memory_bytes : installed; None without a sensor
    lost : it has been silent for too long.  last_seen : seconds since the epoch, the service's clock
    cliques : in which it measures.  series : their number.  status : last counters of its sensor
    fault : why another monitor has no measurements of it, None if it has
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
    fault: str | None = None


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
        links_by_pair = {}
        for series, latency in self.forecasts.items():
            start, end = series.host, series.peer
            if series.resource is not Resource.LATENCY or end is None or not latency.samples:
                continue
            if latency.measured_at < since or start in lost or end in lost:
                continue
            bandwidth = self.forecasts.get(Series(Resource.BANDWIDTH, start, end))
            if bandwidth is None or not bandwidth.samples or bandwidth.measured_at < since:
                bandwidth = replace(latency, value=math.nan, rmse=math.nan)
            links_by_pair[start, end] = Link(
                latency_s=latency.value,
                latency_error_s=latency.rmse,
                bandwidth_Bps=bandwidth.value,
                bandwidth_error_Bps=bandwidth.rmse,
                measured_at=min(latency.measured_at, bandwidth.measured_at),
            )
        return links_by_pair

    def matrix(self, *, oldest_s: float = math.inf) -> LinkMatrix:
        """Return all pairs of all hosts at once, composed ones included, as arrays; for grids of many hosts."""
        from nws.links.linkmatrix import compose_all

        return compose_all([host.name for host in self.hosts], self.links(oldest_s=oldest_s))


def read_hosts(document: Document, url: str) -> tuple[float, tuple[RemoteHost, ...]]:
    """Return the service's time and its hosts by name, from ``GET /v1/hosts``. url : for the message of an error"""
    answer = understood(Hosts, document, url)
    return answer.now, _hosts(answer.hosts)


def read_kept(document: Document, url: str) -> list[KeptSeries]:
    """Return all series by name, from ``GET /v1/series``."""
    answer = understood(SeriesList, document, url)
    with reading_answers(url):
        entries = [
            KeptSeries(
                series=Series.parse(entry.series),
                samples=entry.samples,
                last=_number(entry.last),
                measured_at=_number(entry.measured_at),
                age_s=_number(entry.age_s),
            )
            for entry in answer.series
        ]
    return sorted(entries, key=lambda kept: str(kept.series))


def read_forecasts(document: Document, url: str) -> tuple[float, dict[Series, Forecast]]:
    """Return the service's time and forecasts in the order sent, from ``GET /v1/forecasts``."""
    answer = understood(Forecasts, document, url)
    with reading_answers(url):
        _check_shares(answer.shares)
        return answer.now, {
            Series.parse(row.series): Forecast(
                value=_number(row.value),
                mae=_number(row.mae),
                rmse=_number(row.rmse),
                method=row.method,
                samples=row.samples,
                measured_at=_number(row.measured_at),
                last=_number(row.last),
                outlooks=tuple(
                    _outlook(one.over_s, one.mean, one.held, one.outcomes, one.variation, one.quantiles)
                    for one in row.outlooks or ()
                ),
            )
            for row in answer.forecasts
        }


def read_snapshot(document: Document, url: str) -> RemoteSnapshot:
    """Return the records of ``GET /v1/snapshot``."""
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ServiceError(
            f"{url}: sent {document.get('format')!r} version {document.get('version')!r}; this release reads "
            f"{FORMAT} version {VERSION}: use releases of one age at both ends"
        )
    answer = understood(WeatherSnapshot, document, url)
    with reading_answers(url):
        composed = {} if answer.composed is None else _composed(answer.composed)
        return RemoteSnapshot(
            now=answer.now,
            grid=answer.grid,
            hosts=_hosts(answer.hosts),
            forecasts={
                **composed_forecasts(composed),
                **dict(_measured(answer.series, answer.methods, answer.outlooks)),
            },
            through={pair: one.through for pair, one in composed.items()},
        )


def composed_forecasts(composed: Mapping[Pair, Composed]) -> dict[Series, Forecast]:
    """Return two forecasts of each composed pair, with the path as their method; unknown values are left out."""
    forecasts = {}
    for (start, end), pair in composed.items():
        for resource, value, error in (
            (Resource.LATENCY, pair.latency_s, pair.latency_error_s),
            (Resource.BANDWIDTH, pair.bandwidth_Bps, pair.bandwidth_error_Bps),
        ):
            if math.isfinite(value):
                forecasts[Series(resource, start, end)] = Forecast(
                    value=value,
                    mae=math.nan,
                    rmse=error,
                    method=f"composed via {', '.join(pair.through)}",
                    samples=0,
                    measured_at=pair.measured_at,
                    last=math.nan,
                )
    return forecasts


def _hosts(states: Sequence[HostState]) -> tuple[RemoteHost, ...]:
    hosts = [
        copied(
            RemoteHost,
            state,
            address=state.address or None,
            site=state.site or None,
            cpu_model=" ".join(state.cpu_model.split()) or "unknown",
            memory_bytes=float(state.memory_bytes) if state.memory_bytes else None,
            last_seen=_number(state.last_seen),
        )
        for state in states
    ]
    return tuple(sorted(hosts, key=lambda host: host.name))


def _check_shares(shares: Sequence[float] | None) -> None:
    """Raise `ValueError` if the quantiles of a document are at other shares than those of this release."""
    if shares is not None and tuple(shares) != SHARES:
        raise ValueError(f"quantiles at {shares}, not at {list(SHARES)}")


def _outlook(
    over_s: float, mean: Maybe, held: Maybe, outcomes: Maybe, variation: Maybe, quantiles: Sequence[Maybe]
) -> Outlook:
    if len(quantiles) != len(SHARES):
        raise ValueError(f"{len(quantiles)} quantiles, not {len(SHARES)}")
    return Outlook(
        over_s=over_s,
        mean=_number(mean),
        held=_number(held),
        outcomes=_number(outcomes),
        variation=_number(variation),
        quantiles=tuple(map(_number, quantiles)),
    )


def _measured(
    columns: SnapshotSeries, methods: Sequence[str], outlooks: SnapshotOutlooks | None
) -> Iterator[tuple[Series, Forecast]]:
    spans: Sequence[float] = ()
    rows: Iterable[Any] = repeat((), len(columns.name))
    if outlooks is not None and outlooks.over_s:
        _check_shares(outlooks.shares)
        spans = outlooks.over_s
        parts = (outlooks.mean, outlooks.held, outlooks.outcomes, outlooks.variation, outlooks.quantiles)
        rows = zip(*parts, strict=True)
    c = columns
    for name, value, mae, rmse, method, samples, measured_at, last, row in zip(
        c.name, c.forecast, c.mae, c.rmse, c.method, c.samples, c.measured_at, c.last, rows, strict=True
    ):
        # a series that was never measured has no forecast
        if value is not None and measured_at is not None:
            yield (
                Series.parse(name),
                Forecast(
                    value=value,
                    mae=_number(mae),
                    rmse=_number(rmse),
                    method=methods[method],
                    samples=samples,
                    measured_at=measured_at,
                    last=_number(last),
                    outlooks=tuple(map(_outlook, spans, *row)) if row else (),
                ),
            )


def _composed(columns: SnapshotComposed) -> dict[Pair, Composed]:
    c = columns
    numbers = (c.latency_s, c.latency_error_s, c.bandwidth_Bps, c.bandwidth_error_Bps, c.measured_at)
    return {
        (start, end): Composed(
            latency_s=_number(latency),
            latency_error_s=_number(latency_error),
            bandwidth_Bps=_number(bandwidth),
            bandwidth_error_Bps=_number(bandwidth_error),
            measured_at=_number(measured_at),
            through=tuple(path),
        )
        for start, end, path, latency, latency_error, bandwidth, bandwidth_error, measured_at in zip(
            c.start, c.end, c.through, *numbers, strict=True
        )
    }


def _number(value: float | None) -> float:
    """Return a number; NaN for the null of JSON, which marks an unknown value."""
    return math.nan if value is None else value
