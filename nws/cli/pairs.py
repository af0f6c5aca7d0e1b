"""`nws pairs`: latency and bandwidth between all hosts, with age and asymmetry.

The output is a matrix as long as it fits a terminal, else a list. Pairs that are not measured are marked and listed
with their path. `nws.cli.pairs` computes the rows, this module prints them.

Rows of `nws pairs` from a snapshot: both directions of every pair, filtered and sorted. Pure functions.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from nws.base.errors import UnknownName
from nws.cli.common import echo_json, finite_document, json_option
from nws.cli.forecastsource import ForecastSource, is_stale, stale_option, with_source
from nws.cli.tables import duration, echo_table, fits_terminal, quantity
from nws.client.remotesnapshot import RemoteSnapshot
from nws.client.remoteweather import complete
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
    rows: dict[tuple[str, str], None] = {}
    for series in snapshot.forecasts:
        if series.peer is None or series.peer == series.host:
            continue
        ends = {series.host, series.peer}
        if isinstance(series.resource, Resource) and _wanted(ends, only):
            rows[series.host, series.peer] = None
    return [_row(snapshot, start, end) for start, end in sorted(rows)]


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
        **finite_document(
            row, "latency_s", "latency_error_s", "bandwidth_Bps", "bandwidth_error_Bps", "age_s"
        ),
        "stale": not row.age_s <= stale_after_s,
        "composed": bool(row.through),
        "through": list(row.through),
        **finite_document(row, "latency_ratio", "bandwidth_ratio", "asymmetry"),
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
        forecast = snapshot.forecasts[series]
        return forecast.value, forecast.rmse, snapshot.age_s(series)

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


#: Maximum number of hosts for which a matrix fits a terminal.
MATRIX_MOST = 12


@click.command()
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Only pairs of this host; with several hosts, only pairs among them.",
)
@click.option(
    "--sort",
    type=click.Choice(list(SORTS)),
    help="List by name, or worst first: highest latency, lowest bandwidth, oldest, most asymmetric.",
)
@click.option(
    "--matrix/--list", default=None, help="Output format; by default a matrix on a terminal if it fits."
)
@stale_option
@with_source
@json_option
def pairs(
    *,
    source: ForecastSource,
    hosts: tuple[str, ...],
    sort: str | None,
    matrix: bool | None,
    stale_after: float,
    as_json: bool,
) -> None:
    """Latency and bandwidth between all pairs of hosts: forecast, expected error, age, and asymmetry.

    Asymmetry is the ratio of the slower to the faster direction, in latency or in bandwidth, whichever differs
    more. Pairs marked * are composed: they are not measured but estimated along a path of measured pairs.
    """
    snapshot = source.snapshot(hosts if len(hosts) > 1 else None)
    if len(hosts) == 1:
        # for many hosts the service composes only some pairs, for one host all
        snapshot = complete(snapshot, of=hosts[0])
    rows = sort_rows(pair_rows(snapshot, only=hosts), sort or "name")
    if as_json:
        echo_json({**source.where, "now": snapshot.now, "pairs": [document(r, stale_after) for r in rows]})
        return
    names = sorted({name for row in rows for name in (row.start, row.end)})
    tables = _tables(rows, names, stale_after) if len(names) <= MATRIX_MOST or matrix else {}
    fits = sys.stdout.isatty() and sort is None and bool(tables) and _fit(tables, names)
    if not rows:
        click.echo("no pair of hosts is measured", err=True)
    elif matrix if matrix is not None else fits:
        _matrices(rows, names, tables, stale_after)
    else:
        _list(rows, stale_after)


def _list(rows: Sequence[PairRow], stale_after: float) -> None:
    echo_table(
        ["from", "to", "latency", "±", "bandwidth", "±", "age", "asymmetry", "via", ""],
        [
            [
                row.start,
                row.end,
                quantity(row.latency_s, "s"),
                quantity(row.latency_error_s, "s"),
                quantity(row.bandwidth_Bps, "B/s"),
                quantity(row.bandwidth_error_Bps, "B/s"),
                duration(row.age_s),
                _times(row.asymmetry),
                "* " + ", ".join(row.through) if row.through else "",
                "stale" if is_stale(row.age_s, stale_after) else "",
            ]
            for row in rows
        ],
        numbers=[2, 3, 4, 5, 6, 7],
    )


def _tables(rows: Sequence[PairRow], names: Sequence[str], stale_after: float) -> dict[str, list[list[str]]]:
    """Return the rows of every matrix by title."""
    by_pair = {(row.start, row.end): row for row in rows}

    def text(cell: Callable[[PairRow], str], start: str, end: str) -> str:
        row = by_pair.get((start, end))
        return "" if row is None else cell(row) + _marks(row, stale_after)

    return {
        title: [[start, *(text(cell, start, end) for end in names)] for start in names]
        for title, cell in _CELLS.items()
    }


def _fit(tables: dict[str, list[list[str]]], names: Sequence[str]) -> bool:
    return all(
        fits_terminal([max(map(len, column)) for column in zip(["", *names], *table, strict=True)])
        for table in tables.values()
    )


def _matrices(
    rows: Sequence[PairRow], names: Sequence[str], tables: dict[str, list[list[str]]], stale_after: float
) -> None:
    for title, table in tables.items():
        click.echo(f"{title}, from (down) to (across)")
        echo_table(["", *names], table, numbers=range(1, len(names) + 1), warn=[False] * len(table))
        click.echo("")
    for row in rows:
        if row.through:
            click.echo(f"* {row.start} → {row.end} composed via {', '.join(row.through)}")
    if any(is_stale(row.age_s, stale_after) for row in rows):
        click.echo(f"! measured more than {stale_after:g} s ago")


def _marks(row: PairRow, stale_after: float) -> str:
    return ("*" if row.through else "") + ("!" if is_stale(row.age_s, stale_after) else "")


def _times(factor: float) -> str:
    return "-" if math.isnan(factor) else f"{factor:.3g}×"


#: Text of a matrix cell by title.
_CELLS: dict[str, Callable[[PairRow], str]] = {
    "latency": lambda row: quantity(row.latency_s, "s"),
    "bandwidth": lambda row: quantity(row.bandwidth_Bps, "B/s"),
    "age": lambda row: duration(row.age_s),
    "asymmetry": lambda row: _times(row.asymmetry),
}
