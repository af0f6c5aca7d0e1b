"""`nws forecast [SERIES…]`: forecast, both expected errors, method and age of series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nws.cli.common import echo_json, finite, json_option
from nws.cli.forecastsource import ForecastSource, is_stale, stale_option, with_source

if TYPE_CHECKING:
    from nws.series import Forecast, Series


@click.command()
@click.argument("series", nargs=-1)
@stale_option
@with_source
@json_option
def forecast(*, source: ForecastSource, series: tuple[str, ...], stale_after: float, as_json: bool) -> None:
    """Forecast the next value of each SERIES (all by default), from the last stored day."""
    now, forecasts = source.forecasts(series)
    if as_json:
        rows = [_document(s, f, now, stale_after) for s, f in forecasts.items()]
        echo_json({**source.where, "now": now, "forecasts": rows})
    else:
        _table(forecasts, now, stale_after)


def _document(series: Series, forecast: Forecast, now: float, stale_after: float) -> dict[str, object]:
    age_s = max(now - forecast.measured_at, 0.0)
    return {
        "series": str(series),
        "unit": series.resource.unit,
        "value": finite(forecast.value),
        "mae": finite(forecast.mae),
        "rmse": finite(forecast.rmse),
        "method": forecast.method,
        "samples": forecast.samples,
        "last": finite(forecast.last),
        "measured_at": forecast.measured_at,
        "age_s": age_s,
        "stale": is_stale(age_s, stale_after),
    }


def _table(forecasts: dict[Series, Forecast], now: float, stale_after: float) -> None:
    from nws.cli.tables import duration, echo_table, quantity

    rows = []
    for series, found in forecasts.items():
        unit, age_s = series.resource.unit, max(now - found.measured_at, 0.0)
        rows.append(
            [
                str(series),
                *(quantity(x, unit) for x in (found.value, found.mae, found.rmse)),
                found.method,
                str(found.samples),
                duration(age_s),
                "stale" if is_stale(age_s, stale_after) else "",
            ]
        )
    headings = ["series", "forecast", "MAE", "RMSE", "method", "samples", "age", ""]
    echo_table(headings, rows, numbers=[1, 2, 3, 5, 6])
