"""`nws forecast [SERIES…]`: what the battery expects next, with both expected errors and the method."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nws.cli.common import chosen, echo_json, existing, finite, json_option, store_option

if TYPE_CHECKING:
    from nws.series import Forecast, Series


@click.command()
@click.argument("series", nargs=-1)
@store_option
@json_option
def forecast(*, series: tuple[str, ...], store: Path | None, as_json: bool) -> None:
    """Forecast the next value of each SERIES (all by default), from the last day that is kept."""
    from nws.client import LocalWeather

    with LocalWeather(existing(store)) as weather:
        forecasts = weather.forecasts()
        wanted = chosen(series, forecasts)
    now = time.time()
    if as_json:
        echo_json({"forecasts": [_document(s, forecasts[s], now) for s in wanted]})
    else:
        _table([(s, forecasts[s]) for s in wanted], now)


def _document(series: Series, forecast: Forecast, now: float) -> dict[str, object]:
    return {
        "series": str(series),
        "unit": series.resource.unit,
        "value": forecast.value,
        "mae": finite(forecast.mae),
        "rmse": finite(forecast.rmse),
        "method": forecast.method,
        "samples": forecast.samples,
        "last": forecast.last,
        "measured_at": forecast.measured_at,
        "age_s": max(now - forecast.measured_at, 0.0),
    }


def _table(forecasts: list[tuple[Series, Forecast]], now: float) -> None:
    from nws.cli.tables import duration, echo_table, quantity

    rows = []
    for series, found in forecasts:
        unit = series.resource.unit
        rows.append(
            [
                str(series),
                *(quantity(x, unit) for x in (found.value, found.mae, found.rmse)),
                found.method,
                str(found.samples),
                duration(max(now - found.measured_at, 0.0)),
            ]
        )
    echo_table(
        ["series", "forecast", "MAE", "RMSE", "method", "samples", "age"], rows, numbers=[1, 2, 3, 5, 6]
    )
