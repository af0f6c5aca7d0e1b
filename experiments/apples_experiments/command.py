"""`apples experiment`: run published rows again, and print the paper's values beside ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from apples.cli.console import Console
from apples.cli.report import table
from apples_experiments import catalogue, plots
from apples_experiments.result import Result

T = TypeVar("T")


def _numbers(
    kind: Callable[[str], T],
) -> Callable[[click.Context, click.Parameter, str | None], tuple[T, ...] | None]:
    """Return a click callback that parses a comma-separated list."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[T, ...] | None:
        if value is None:
            return None
        try:
            return tuple(kind(part.strip()) for part in value.split(","))
        except ValueError:
            raise click.BadParameter(
                f"{value!r}; legal are values with commas between them, {parameter.make_metavar(context)}"
            ) from None

    return read


@click.command()
@click.argument("experiment_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the paper's figure again (png, pdf, svg).",
)
@click.option("--quick", is_flag=True, help="F9, F10: few jobs, one seed, in less than a minute.")
@click.option("--jobs", type=click.IntRange(min=2), metavar="N", help="F9, F10: jobs of a workload.")
@click.option("--seeds", callback=_numbers(int), metavar="N,N,…", help="F9, F10: one workload for each.")
@click.option(
    "--loads", callback=_numbers(float), metavar="L,L,…", help="F9, F10: offered loads, 0.74 for 74 %."
)
@click.option(
    "--policies", callback=_numbers(str), metavar="NAME,…", help="F9, F10: batch, gang, spin-block, fcs."
)
@click.option("--vary", type=click.Choice(["arrivals", "runtimes"]), help="F9: what makes the load higher.")
def experiment(experiment_id: str | None, as_json: bool, plot: Path | None, **choices: Any) -> None:
    """Run experiment ID and print its rows beside the paper's; without ID, list the experiments."""
    chosen = {name: value for name, value in choices.items() if value}
    if experiment_id is None:
        given = ["plot"] if plot is not None else list(chosen)
        if given:
            raise click.UsageError(
                f"--{given[0]} needs the ID of an experiment; apples experiment lists them"
            )
        _list(as_json)
        return
    experiment = catalogue.find(experiment_id)
    if plot is not None:
        plots.check(plot)
    result = experiment.run(Console().note, chosen)
    if plot is not None:
        plots.draw(result.figure, plot, result.panels)
    if as_json:
        click.echo(json.dumps(experiment.document(result), allow_nan=False))
    else:
        click.echo(f"{experiment.id}: {experiment.title}\n")
        click.echo("\n".join(_lines(result)))


_LISTED = ("id", "title", "source", "runtime_s", "data")


def _list(as_json: bool) -> None:
    entries = catalogue.experiments().values()
    if as_json:
        listed = [{key: getattr(entry, key) for key in _LISTED} for entry in entries]
        click.echo(json.dumps({"experiments": listed}))
        return
    for entry in entries:
        needs = f"; needs {entry.data}" if entry.data else ""
        click.echo(f"{entry.id:<4}{_duration(entry.runtime_s):>7}  {entry.title}{needs}")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _lines(result: Result) -> list[str]:
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
    lines = table(["", "paper", "ours", "unit", "relative"], rows)
    if result.notes:
        lines += ["", *(f"* {note}" for note in result.notes)]
    return lines
