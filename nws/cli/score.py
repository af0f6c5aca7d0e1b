"""`nws score FILE`: accuracy of the forecasters on a file of measurements, as a table or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nws.base.command import FILE
from nws.base.errors import WeatherError
from nws.cli.common import echo_json, json_option
from nws.cli.tables import echo_table

if TYPE_CHECKING:
    from nws.forecasting.accuracy import Accuracy, Score
    from nws.forecasting.horizonscore import HorizonScore

#: Longest horizon, and most of them.
_LONGEST, _MOST = 100_000, 20


def _horizons(context: click.Context, option: click.Parameter, text: str) -> list[int]:
    """Return numbers of samples without repetitions, rising."""
    try:
        horizons = {int(word) for word in text.split(",")} if text else set()
    except ValueError:
        horizons = {0}
    if not all(1 <= k <= _LONGEST for k in horizons) or len(horizons) > _MOST:
        raise click.BadParameter(
            f"{text!r}: expected at most {_MOST} whole numbers from 1 to {_LONGEST} with commas between them"
        )
    return sorted(horizons)


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--horizons",
    callback=_horizons,
    default="",
    metavar="K,K,…",
    help="Also score forecasts of the mean of the next K samples, for each K, such as 1,6,30,60.",
)
@json_option
@click.option("-v", "--methods", is_flag=True, help="Also print every single method of the battery.")
@click.pass_context
def score(context: click.Context, file: Path, horizons: list[int], as_json: bool, methods: bool) -> None:
    """Score the forecasters on FILE, one step ahead and by horizon.

    FILE (- for standard input) is CSV, .gz or not, as for `nws insert`: series, time, value. The first 20 samples of
    each series are not scored. MAE and RMSE are means over series, in the unit of the values.
    """
    from nws.forecasting.accuracy import score_series
    from nws.forecasting.horizonscore import score_horizons
    from nws.sources.csvfile import read_columns

    try:
        series = read_columns(str(file)).values_by_series()
        result = score_series(series, source=str(file))
        ahead = score_horizons(series, horizons, source=str(file)) if horizons else []
    except WeatherError as error:
        click.echo(str(error), err=True)
        context.exit(error.exit_code)
    if as_json:
        document = result.as_json()
        if methods:
            document["methods"] = {name: asdict(accuracy) for name, accuracy in result.methods.items()}
        if horizons:
            document["horizons"] = [asdict(row) for row in ahead]
        echo_json(document)
    else:
        click.echo(_table(result, methods=methods))
        if ahead:
            click.echo()
            _horizon_table(ahead)


def _horizon_table(rows: Sequence[HorizonScore]) -> None:
    """Print forecasts of means of the next k samples beside others: errors, then shares of intervals that held."""
    click.echo(
        "mean of the next k samples: mean absolute error; 80 % interval, its share that held and its score"
    )
    headings = ["k", "MAE", "last", "mean of k", "hindsight", "held", "10-90 %", "score", "score ± rmse"]
    cells = [
        [
            str(row.k),
            *(f"{x:.5g}" for x in (row.mae, row.mae_last, row.mae_mean_k, row.mae_hindsight)),
            f"{row.coverage:.2f}",
            f"{row.coverage_p10:.2f}-{row.coverage_p90:.2f}",
            *(f"{x:.5g}" for x in (row.winkler, row.winkler_reference)),
        ]
        for row in rows
    ]
    echo_table(headings, cells, numbers=range(len(headings)))


def _table(result: Score, *, methods: bool) -> str:
    rows: list[tuple[str, Accuracy]] = [
        ("battery, MAE pick", result.mae_pick),
        ("battery, MSE pick", result.mse_pick),
        ("last value", result.last_value),
        ("best in hindsight", result.best_in_hindsight),
    ]
    if methods:
        rows += result.methods.items()
    skipped = f" ({result.skipped} too short)" if result.skipped else ""
    lines = [
        f"{result.file}: {result.series} series{skipped}, {result.samples} samples, {result.scored} scored",
        f"{'':20}{'MAE':>12}{'RMSE':>12}",
        *(f"{name:20}{accuracy.mae:12.5g}{accuracy.rmse:12.5g}" for name, accuracy in rows),
        f"MAE of the battery is {100 * result.improvement_over_last_value:.1f} % below last value",
    ]
    return "\n".join(lines)
