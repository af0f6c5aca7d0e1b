"""`nws forecast [SERIES…]`: forecast, expected errors, method and age of series; with `--over`, of means over spans."""

from __future__ import annotations

from collections.abc import Mapping

import click

from nws.base.durations import format_seconds, parse_period
from nws.base.errors import ConfigError
from nws.cli.common import echo_json, finite, finite_document, json_option, series_document
from nws.cli.forecastsource import ForecastSource, is_stale, stale_option, with_source
from nws.series import LONGEST_SPAN_S, MOST_SPANS, SHARES, SHORTEST_SPAN_S, Forecast, Outlook, Series


def _spans(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[float]:
    """Return spans in seconds without repetitions, rising; legal on input are durations such as 90, 10m and 1h30m."""
    spans = set()
    for text in texts:
        try:
            span = parse_period(text, what="span")
        except ConfigError as error:
            raise click.BadParameter(str(error)) from None
        if not SHORTEST_SPAN_S <= span <= LONGEST_SPAN_S:
            raise click.BadParameter(
                f"{text}: expected {SHORTEST_SPAN_S:g} s to {LONGEST_SPAN_S / 86400:g} days"
            )
        spans.add(span)
    if len(spans) > MOST_SPANS:
        raise click.BadParameter(f"{len(spans)} spans: expected {MOST_SPANS} at most")
    return sorted(spans)


@click.command()
@click.argument("series", nargs=-1)
@click.option(
    "--over",
    multiple=True,
    callback=_spans,
    metavar="SPAN",
    help="Forecast the mean over so long from now, such as 10m, with its 80 % interval. May be repeated.",
)
@stale_option
@with_source
@json_option
def forecast(
    *,
    source: ForecastSource,
    series: tuple[str, ...],
    over: list[float],
    stale_after: float,
    as_json: bool,
) -> None:
    """Forecast the next value of each SERIES (all by default), from the last stored day."""
    now, forecasts = source.forecasts(series, over)
    if as_json:
        rows = [_document(s, f, now, stale_after) for s, f in forecasts.items()]
        shares = {"shares": SHARES} if over else {}
        echo_json({**source.where, "now": now, **shares, "forecasts": rows})
    elif over:
        _outlook_table(forecasts, now, stale_after)
    else:
        _table(forecasts, now, stale_after)


def _document(series: Series, forecast: Forecast, now: float, stale_after: float) -> dict[str, object]:
    age_s = now - forecast.measured_at
    document = series_document(
        series,
        **finite_document(forecast, "value", "mae", "rmse", "method", "samples", "last", "measured_at"),
        age_s=age_s,
        stale=is_stale(age_s, stale_after),
    )
    if forecast.outlooks:
        document["outlooks"] = [_outlook_document(one) for one in forecast.outlooks]
    return document


def _outlook_document(outlook: Outlook) -> dict[str, object]:
    return {
        **finite_document(outlook, "over_s", "mean", "held", "outcomes", "variation"),
        "quantiles": [finite(one) for one in outlook.quantiles],
    }


def _table(forecasts: Mapping[Series, Forecast], now: float, stale_after: float) -> None:
    from nws.cli.tables import duration, echo_table, quantity

    rows = []
    for series, forecast in forecasts.items():
        unit, age_s = series.resource.unit, now - forecast.measured_at
        rows.append(
            [
                str(series),
                *(quantity(x, unit) for x in (forecast.value, forecast.mae, forecast.rmse)),
                forecast.method,
                str(forecast.samples),
                duration(age_s),
                "stale" if is_stale(age_s, stale_after) else "",
            ]
        )
    headings = ["series", "forecast", "MAE", "RMSE", "method", "samples", "age", ""]
    echo_table(headings, rows, numbers=[1, 2, 3, 5, 6])


def _outlook_table(forecasts: Mapping[Series, Forecast], now: float, stale_after: float) -> None:
    """Print one line per series and span; `held` is the share of past 80 % intervals that held."""
    from nws.cli.tables import duration, echo_table, quantity

    rows = []
    for series, forecast in forecasts.items():
        unit, age_s = series.resource.unit, now - forecast.measured_at
        for one in forecast.outlooks:
            rows.append(
                [
                    str(series),
                    format_seconds(one.over_s),
                    *(quantity(x, unit) for x in (one.median, one.mean, one.low, one.high)),
                    f"{one.held:.0%} of {one.outcomes:.0f}" if one.outcomes >= 0.5 else "unknown",
                    duration(age_s),
                    "stale" if is_stale(age_s, stale_after) else "",
                ]
            )
    headings = ["series", "over", "median", "mean", "low", "high", "80 % held", "age", ""]
    echo_table(headings, rows, numbers=range(1, 8))
