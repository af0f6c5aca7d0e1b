"""`nws score FILE`: accuracy of the forecasters on a file of measurements, as a table or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nws.base.errors import WeatherError

if TYPE_CHECKING:
    from nws.forecasting.score import Accuracy, Score


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("-v", "--methods", is_flag=True, help="Also print every single method of the battery.")
@click.pass_context
def score(context: click.Context, file: Path, as_json: bool, methods: bool) -> None:
    """Score the forecasters on FILE, one step ahead.

    FILE is CSV, .gz or not, with a header and three columns: series, time, value. The first 20 samples of each
    series are not scored. MAE and RMSE are means over series, in the unit of the values.
    """
    from nws.forecasting.score import score_file

    try:
        result = score_file(file)
    except WeatherError as error:
        click.echo(str(error), err=True)
        context.exit(error.exit_code)
    if as_json:
        document = result.as_json()
        if methods:
            document["methods"] = {name: accuracy.as_json() for name, accuracy in result.methods.items()}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(_table(result, methods=methods))


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
