"""`apples pieces SIZE`: the numbers of a plan alone, for users who start their jobs themselves."""

from dataclasses import replace

import click

from apples.cli.optiongroups import HeadedCommand, with_options
from apples.cli.runoptions import OutputOptions, RunOptions

#: Options of `apples-run` that shape a plan.
PLANNING = (
    *("grid_file", "hosts", "hostfile", "include", "exclude", "launcher", "launcher_options"),
    *("partition", "account", "qos", "reservation", "constraint", "nodes"),
    *("mock", "scenario", "load", "seed", "nws", "nws_token_file", "nws_ca", "nws_stale_after"),
    *("scheduler", "ranks", "max_ranks", "model", "counts", "allocation", "rank_order", "improve"),
    *("horizon", "quantile", "tolerance", "allow_spill", "cut", "app", "settings"),
    *("at_most", "licences", "together", "apart", "price", "budget", "deadline"),
)


@click.command(cls=HeadedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("size", type=click.IntRange(min=1))
@with_options(RunOptions, only=PLANNING)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "lammps", "petsc", "pism", "openfoam", "meep"]),
    default="text",
    show_default=True,
    help="Text for people, JSON with all numbers, or the input of a code.",
)
@click.pass_context
def pieces(context: click.Context, /, size: int, form: str, options: RunOptions) -> None:
    """Plan a run of SIZE rows and print its pieces: rows, cuts, weights, hosts, host file and rank file.

    Starts no program of yours: an application file must have been measured before (apples app check).
    """
    from apples.cli.assemble import assemble
    from apples.cli.console import Console
    from apples.model.pieces import formatted, pieces_of
    from apples.run.loop import AttemptLoop

    options = replace(options.for_context(context), output=OutputOptions(dry_run=True))
    loop = AttemptLoop(*assemble(size, options, Console()))
    click.echo(formatted(pieces_of(loop.decide().plan), form), nl=False)
