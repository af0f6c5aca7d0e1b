"""`apples experiment`: rows of the papers run again, the paper's figure beside ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from apples.experiments.result import Result

T = TypeVar("T")


def _numbers(
    kind: Callable[[str], T],
) -> Callable[[click.Context, click.Parameter, str | None], tuple[T, ...] | None]:
    """Reads a list with commas."""

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
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
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
def experiment(
    experiment_id: str | None, as_json: bool, plot: Path | None, quiet: bool, **choices: Any
) -> None:
    """Run experiment ID and print its rows beside the paper's; without ID, list the experiments."""
    from apples.cli.console import Console
    from apples.experiments import catalogue, plots

    chosen = {name: value for name, value in choices.items() if value}
    if experiment_id is None:
        given = ["plot"] if plot is not None else list(chosen)
        if given:
            raise click.UsageError(
                f"--{given[0]} needs the ID of an experiment; apples experiment lists them"
            )
        _list(as_json)
        return
    if plot is not None:
        plots.check(plot)
    result = catalogue.run(experiment_id, Console(quiet=quiet).note, chosen)
    if plot is not None:
        plots.draw(result.figure, plot, result.panels)
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
