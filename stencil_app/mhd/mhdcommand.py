"""The command `stencil-app mhd PROBLEM`: one subcommand for each file in `stencil_app/mhd/problems`.

The problems are the names of the files, so that a new one is one file; its module is imported only when it is used.
Words are checked by `stencil_app.mhd.settings`.
"""

import sys
from functools import partial
from time import perf_counter

import click

from stencil_app.mhd.case import Entry, entry, names, summary
from stencil_app.mhd.settings import HISTORY_EVERY, NUMBERS, PATHS, RESLAB_HELP, SLABS_HELP
from stencil_app.options import option_command, parameter, path_parameters


def _command(problem: Entry) -> click.Command:
    parameters = [
        *map(parameter, problem.options),
        *(parameter(o, show_default=o is HISTORY_EVERY) for o in NUMBERS),
        click.Option(["--slabs"], metavar="R0,R1,...", help=SLABS_HELP),
        click.Option(["--reslab"], metavar="CYCLE:R0,R1,...;...", help=RESLAB_HELP),
        *path_parameters(PATHS),
    ]
    description = (
        f"{problem.summary}. A row is a plane across z; in a box of one cell along z, a line across y."
    )
    return option_command(problem.name, parameters, partial(_run, problem), description)


class _Problems(click.Group):
    """Problems by the names of their files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(entry(cmd_name)) if cmd_name in names() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in names() and not args[0].startswith("-"):
            from nws.base.reader import did_you_mean

            near = did_you_mean(args[0], names())
            ctx.fail(f"no problem {args[0]!r}{near}; there are {', '.join(names())}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Problems"):
            formatter.write_dl([(name, summary(name)) for name in names()])


def _run(problem: Entry, texts: dict[str, str | None], strays: list[str]) -> int:
    started = perf_counter()
    from stencil_app.mhd.settings import check
    from stencil_app.running.mpi import aborting, world

    comm = world()
    with aborting(comm):
        settings = check(problem, texts, ranks=comm.size, strays=strays)
        if comm.rank == 0 and sys.stderr.isatty():
            # a user is waiting at the terminal; programs use `stencil-app warm --say`
            from stencil_app.jit import when_compiling

            when_compiling(lambda: click.echo("compiling mhd for this machine (once, then kept)", err=True))
        from stencil_app.mhd.mhdrun import run

        return run(comm, settings, started)


MHD = _Problems(
    "mhd",
    help="Ideal magnetohydrodynamics in three dimensions, in slabs along the last axis of the box.",
    no_args_is_help=True,
)
