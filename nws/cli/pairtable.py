"""Rows of `nws pairs` from a snapshot: both directions of every pair, filtered and sorted. Pure functions."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nws.base.errors import UnknownName
from nws.cli.common import finite
from nws.client.documents import RemoteSnapshot
from nws.series import Resource, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One ordered pair. Forecasts with their expected errors (RMSE) in s and bytes/s, NaN for unknown values.

    age_s: of its oldest part, seconds.  through: hosts on the path; empty for a measured pair
    latency_ratio, bandwidth_ratio: this direction over the other
    """

    start: str
    end: str
    latency_s: float
    latency_error_s: float
    bandwidth_Bps: float
    bandwidth_error_Bps: float
    age_s: float
    through: tuple[str, ...]
    latency_ratio: float
    bandwidth_ratio: float

    @property
    def asymmetry(self) -> float:
        """Return the ratio of the slower direction to the faster one, at least 1; NaN if unknown."""
        known = [r for r in (self.latency_ratio, self.bandwidth_ratio) if r > 0 and math.isfinite(r)]
        return max((max(r, 1 / r) for r in known), default=math.nan)


#: Sort key by option; unknown values are last.
SORTS: dict[str, Callable[[PairRow], float]] = {
    "name": lambda row: 0.0,
    "latency": lambda row: -row.latency_s,
    "bandwidth": lambda row: row.bandwidth_Bps,
    "age": lambda row: -row.age_s,
    "asymmetry": lambda row: -row.asymmetry,
}


def pair_rows(snapshot: RemoteSnapshot, *, only: Sequence[str] = ()) -> list[PairRow]:
    """Return all pairs with known values, by name; raises `UnknownName` for a host unknown to the snapshot.

    Args:
        only: of one host all its pairs, of several the pairs among them
    """
    known = {host.name for host in snapshot.hosts}
    known.update(name for s in snapshot.forecasts for name in (s.host, s.peer) if name is not None)
    unknown = [name for name in only if name not in known]
    if unknown:
        legal = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
        raise UnknownName(f"no host {', '.join(unknown)}; known are {legal or 'none'}")
    found: dict[tuple[str, str], None] = {}
    for series in snapshot.forecasts:
        if series.peer is None or series.peer == series.host:
            continue
        ends = {series.host, series.peer}
        if isinstance(series.resource, Resource) and _wanted(ends, only):
            found[series.host, series.peer] = None
    return [_row(snapshot, start, end) for start, end in sorted(found)]


def sort_rows(rows: Iterable[PairRow], by: str) -> list[PairRow]:
    """Return the rows with the worst first and unknown values last, then by name."""

    def key(row: PairRow) -> tuple[bool, float, str, str]:
        value = SORTS[by](row)
        return math.isnan(value), 0.0 if math.isnan(value) else value, row.start, row.end

    return sorted(rows, key=key)


def document(row: PairRow, stale_after_s: float) -> dict[str, Any]:
    """Return a JSON-ready row."""
    return {
        "from": row.start,
        "to": row.end,
        "latency_s": finite(row.latency_s),
        "latency_error_s": finite(row.latency_error_s),
        "bandwidth_Bps": finite(row.bandwidth_Bps),
        "bandwidth_error_Bps": finite(row.bandwidth_error_Bps),
        "age_s": finite(row.age_s),
        "stale": not row.age_s <= stale_after_s,
        "composed": bool(row.through),
        "through": list(row.through),
        "latency_ratio": finite(row.latency_ratio),
        "bandwidth_ratio": finite(row.bandwidth_ratio),
        "asymmetry": finite(row.asymmetry),
    }


def _wanted(ends: set[str], only: Sequence[str]) -> bool:
    if len(only) == 1:
        return only[0] in ends
    return not only or ends.issubset(only)


def _row(snapshot: RemoteSnapshot, start: str, end: str) -> PairRow:
    def forecast(resource: Resource, a: str, b: str) -> tuple[float, float, float]:
        series = Series(resource, a, b)
        if series not in snapshot.forecasts:
            return math.nan, math.nan, math.nan
        found = snapshot.forecasts[series]
        return found.value, found.rmse, snapshot.age_s(series)

    latency, latency_error, latency_age = forecast(Resource.LATENCY, start, end)
    bandwidth, bandwidth_error, bandwidth_age = forecast(Resource.BANDWIDTH, start, end)
    back_latency, _, _ = forecast(Resource.LATENCY, end, start)
    back_bandwidth, _, _ = forecast(Resource.BANDWIDTH, end, start)
    return PairRow(
        start=start,
        end=end,
        latency_s=latency,
        latency_error_s=latency_error,
        bandwidth_Bps=bandwidth,
        bandwidth_error_Bps=bandwidth_error,
        age_s=max((age for age in (latency_age, bandwidth_age) if not math.isnan(age)), default=math.nan),
        through=snapshot.through.get((start, end), ()),
        latency_ratio=_ratio(latency, back_latency),
        bandwidth_ratio=_ratio(bandwidth, back_bandwidth),
    )


def _ratio(there: float, back: float) -> float:
    return there / back if there > 0 and back > 0 else math.nan
