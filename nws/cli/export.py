"""`nws export [SERIES…]`: all stored samples as CSV, readable by `nws score` and `nws insert`, or as JSON."""

import math
from itertools import chain

import click

from nws.base.errors import UsageError
from nws.cli.common import echo_json, json_option, series_document
from nws.cli.forecastsource import ForecastSource, with_source

#: Lines per write.
_LINES = 1000


@click.command()
@click.argument("series", nargs=-1)
@click.option("--since", type=float, metavar="T", help="Only samples at or after T, seconds since the epoch.")
@click.option("--until", type=float, metavar="T", help="Only samples at or before T.")
@with_source
@json_option
def export(
    *,
    source: ForecastSource,
    series: tuple[str, ...],
    since: float | None,
    until: float | None,
    as_json: bool,
) -> None:
    """Print all samples of each SERIES (all by default), oldest first: series, t (seconds since the epoch), value."""
    first, last = -math.inf if since is None else since, math.inf if until is None else until
    if not first <= last:
        raise UsageError(
            f"--since {since} --until {until}: expected numbers, the first no later than the other"
        )
    columns = source.columns(series, first, last)
    if as_json:
        echo_json(
            {
                **source.where,
                "series": [
                    series_document(one, t=list(samples.times), value=list(samples.values))
                    for one, samples in columns
                ],
            }
        )
        return
    # report an unreadable source before any output
    begun = next(columns, None)
    click.echo("series,t,value")
    for one, samples in chain([] if begun is None else [begun], columns):
        # repr is exact: reading it back gives the same number
        lines = [f"{one},{t!r},{value!r}" for t, value in zip(samples.times, samples.values, strict=True)]
        for at in range(0, len(lines), _LINES):
            click.echo("\n".join(lines[at : at + _LINES]))
