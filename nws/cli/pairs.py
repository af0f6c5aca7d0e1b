"""`nws pairs`: latency and bandwidth between all hosts, with age and asymmetry.

The output is a matrix as long as it fits a terminal, else a list. Pairs that are not measured are marked and listed
with their path. `nws.cli.pairtable` computes the rows, this module prints them.
"""

import math
import sys
from collections.abc import Callable, Sequence

import click

from nws.cli.common import echo_json, json_option
from nws.cli.forecastsource import ForecastSource, is_stale, stale_option, with_source
from nws.cli.pairtable import SORTS, PairRow, document, pair_rows, sort_rows
from nws.client.remoteweather import complete

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
    from nws.cli.tables import duration, echo_table, quantity

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
    from nws.cli.tables import fits_terminal

    return all(
        fits_terminal([max(map(len, column)) for column in zip(["", *names], *table, strict=True)])
        for table in tables.values()
    )


def _matrices(
    rows: Sequence[PairRow], names: Sequence[str], tables: dict[str, list[list[str]]], stale_after: float
) -> None:
    from nws.cli.tables import echo_table

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


def _latency(row: PairRow) -> str:
    from nws.cli.tables import quantity

    return quantity(row.latency_s, "s")


def _bandwidth(row: PairRow) -> str:
    from nws.cli.tables import quantity

    return quantity(row.bandwidth_Bps, "B/s")


def _age(row: PairRow) -> str:
    from nws.cli.tables import duration

    return duration(row.age_s)


#: Text of a matrix cell by title.
_CELLS: dict[str, Callable[[PairRow], str]] = {
    "latency": _latency,
    "bandwidth": _bandwidth,
    "age": _age,
    "asymmetry": lambda row: _times(row.asymmetry),
}
