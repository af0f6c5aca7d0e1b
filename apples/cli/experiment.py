"""`apples experiment`: rows of the papers run again, the paper's figure beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from apples.experiments.result import Result


@click.command()
@click.argument("experiment_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the paper's figure again (png, pdf, svg).",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def experiment(experiment_id: str | None, as_json: bool, plot: Path | None, quiet: bool) -> None:
    """Run experiment ID and print its rows beside the paper's; without ID, list the experiments."""
    from apples.cli.console import Console
    from apples.experiments import catalogue, plots

    if experiment_id is None:
        if plot is not None:
            raise click.UsageError("--plot needs the ID of an experiment; apples experiment lists them")
        _list(as_json)
        return
    if plot is not None:
        plots.check(plot)
    result = catalogue.run(experiment_id, Console(quiet=quiet).note)
    if plot is not None:
        plots.draw(result.figure, plot)
    if as_json:
        click.echo(json.dumps(result.as_json(), allow_nan=False))
    else:
        click.echo("\n".join(_lines(result)))


def _list(as_json: bool) -> None:
    from apples.experiments.catalogue import CATALOGUE

    if as_json:
        listed = [{"id": name, "title": entry.title} for name, entry in CATALOGUE.items()]
        click.echo(json.dumps({"experiments": listed}))
        return
    for name, entry in CATALOGUE.items():
        click.echo(f"{name:<4} {entry.title}")


def _lines(result: Result) -> list[str]:
    from apples.cli.report import table

    rows = [
        [
            row.name,
            "-" if row.paper is None else f"{row.paper:.4g}",
            f"{row.ours:.4g}",
            row.unit,
            "-" if row.relative is None else f"{row.relative:+.1%}",
        ]
        for row in result.rows
    ]
    lines = [f"{result.id}: {result.title}", "", *table(["", "paper", "ours", "unit", "relative"], rows)]
    if result.notes:
        lines += ["", *(f"* {note}" for note in result.notes)]
    return lines
