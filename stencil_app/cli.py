"""The command `stencil-app`: one subcommand for each physics, `bsp` (a synthetic job) and `warm`.

Under `mpiexec` every rank reads the same command line. Rank 0 reports its errors once, and every rank ends with the
same exit code. MPI, numpy and numba are imported only when a run begins. stdout carries only the result.
"""

from __future__ import annotations

import sys
from time import perf_counter

import click

from nws.base.command import CommandGroup, run_program
from stencil_app.bsp.command import BSP
from stencil_app.mhd.command import MHD
from stencil_app.options import Option, unknown_words
from stencil_app.physics import Physics
from stencil_app.registry import registry
from stencil_app.settings import ITERATIONS, NUMBERS, PATHS, RESIDUAL_EVERY
from stencil_app.validate import validate

_SHOWN_DEFAULTS = (ITERATIONS, RESIDUAL_EVERY)


@click.group(cls=CommandGroup)
def commands() -> None:
    """Run iterative stencil codes in slabs of uneven height, one rank each; run them under mpiexec.

    \b
    mpiexec -n 3 stencil-app heat --slabs 20,22,22
    stencil-app jacobi2d --size 64 --iterations 2000
    """


@commands.command()
@click.option("--say", is_flag=True, help="say on stderr when something has to be compiled")
@click.argument("applications", nargs=-1)
def warm(applications: tuple[str, ...], say: bool) -> None:
    """Compile the kernels of APPLICATIONS (of all without any) into the cache, once, before ranks start."""
    from importlib import import_module

    kernels = {name: physics.module for name, physics in registry().items()}
    kernels |= {"bsp": "stencil_app.bsp.arithmetic", "mhd": "stencil_app.mhd.problem"}
    strangers = [name for name in applications if name not in kernels]
    if strangers:
        raise click.UsageError(
            f"no application is called {', '.join(strangers)}; legal are: {', '.join(kernels)}"
        )
    if say:
        from stencil_app.jit import when_compiling

        names = " and ".join(applications or kernels)
        when_compiling(lambda: click.echo(f"compiling {names} for this machine (once, then kept)", err=True))
    for name in applications or kernels:
        import_module(kernels[name])


def _parameter(option: Option, *, show_default: bool) -> click.Option:
    help_text = f"{option.help}  [{option.legal}; default {option.default}]" if show_default else option.help
    return click.Option([option.flag, option.name], metavar="|".join(option.choices) or "N", help=help_text)


def _command(physics: Physics) -> click.Command:
    parameters: list[click.Parameter] = [
        click.Option(["--slabs"], metavar="R0,R1,...", help="rows of each rank, in rank order"),
        *(_parameter(o, show_default=True) for o in physics.options),
        *(_parameter(o, show_default=o in _SHOWN_DEFAULTS) for o in NUMBERS),
        *(
            click.Option(["--" + name.replace("_", "-"), name], metavar="PATH", help=text)
            for name, text in PATHS.items()
        ),
        click.Argument(["strays"], nargs=-1, type=click.UNPROCESSED),
    ]

    def callback(strays: tuple[str, ...], **texts: str | None) -> None:
        sys.exit(_run(physics, texts, strays))

    return click.Command(
        physics.name,
        callback=callback,
        params=parameters,
        context_settings={"ignore_unknown_options": True},
        help=f"{physics.summary}. A row is a {physics.row}.",
    )


for _physics in registry().values():
    commands.add_command(_command(_physics))
commands.add_command(BSP)
commands.add_command(MHD)
commands.add_command(validate)


def main() -> None:
    """Run `stencil-app` as a program. Signals keep their action until the run takes them over."""
    # Unwinding would wait in MPI_Finalize for ranks that wait for this one.
    run_program(commands, "stencil-app", unwind=False, reports=_is_first_rank)


def _is_first_rank() -> bool:
    from stencil_app.running.mpi import world

    return world().rank == 0


def _run(physics: Physics, texts: dict[str, str | None], words: tuple[str, ...]) -> int:
    started = perf_counter()
    from stencil_app.running.mpi import aborting, world
    from stencil_app.settings import check

    comm = world()
    with aborting(comm):
        settings = check(physics, texts, ranks=comm.size, strays=_strays(physics, words))
        from stencil_app.running.session import run

        return run(comm, physics, settings, started)


def _strays(physics: Physics, words: tuple[str, ...]) -> list[str]:
    """Return unknown words as problems; the word after an unknown option is its value."""
    known = ["--slabs", *(o.flag for o in (*physics.options, *NUMBERS))]
    known += ["--" + name.replace("_", "-") for name in PATHS]
    return unknown_words(words, known)
