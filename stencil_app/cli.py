"""The command `stencil-app`: one subcommand for each physics, `iterations` and `warm`.

Under `mpiexec` every rank reads the same command line. Rank 0 reports its errors once, and every rank ends with the
same exit code. MPI, numpy and numba are imported only when a run begins. stdout carries only the result.

`bsp` and `validate`, which measure this application and others, are commands of the distribution in `experiments/`.
"""

from functools import partial
from time import perf_counter

import click

from nws.base.command import CommandGroup, Extension, run_program
from stencil_app.files.iterations import iterations_command
from stencil_app.heat import HEAT
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.mhd.mhdcommand import MHD
from stencil_app.options import option_command, parameter, path_parameters
from stencil_app.physics import Physics
from stencil_app.settings import ITERATIONS, NUMBERS, PATHS, RESIDUAL_EVERY

_SHOWN_DEFAULTS = (ITERATIONS, RESIDUAL_EVERY)


def registry() -> dict[str, Physics]:
    """Return all physics by name."""
    return {physics.name: physics for physics in (HEAT, JACOBI2D)}


class _Commands(CommandGroup):
    """The commands of this distribution, and those of the experiments, which are imported when they are called."""

    elsewhere = ("bsp", "validate")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.elsewhere])

    def command_named(self, name: str) -> click.Command | None:
        if name in self.elsewhere:
            return Extension("stencil_app.commands", name, "./experiments").command()
        return super().command_named(name)


@click.group(cls=_Commands)
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
    kernels["mhd"] = "stencil_app.mhd.equations"
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


def _command(physics: Physics) -> click.Command:
    parameters = [
        click.Option(["--slabs"], metavar="R0,R1,...", help="rows of each rank, in rank order"),
        *map(parameter, physics.options),
        *(parameter(o, show_default=o in _SHOWN_DEFAULTS) for o in NUMBERS),
        *path_parameters(PATHS),
    ]
    description = f"{physics.summary}. A row is a {physics.row}."
    return option_command(physics.name, parameters, partial(_run, physics), description)


def _run(physics: Physics, texts: dict[str, str | None], strays: list[str]) -> int:
    started = perf_counter()
    from stencil_app.running.mpi import aborting, world
    from stencil_app.settings import check

    comm = world()
    with aborting(comm):
        settings = check(physics, texts, ranks=comm.size, strays=strays)
        from stencil_app.running.slabrun import run

        return run(comm, physics, settings, started)


for _physics in registry().values():
    commands.add_command(_command(_physics))
commands.add_command(MHD)
commands.add_command(iterations_command(registry()))


def main() -> None:
    """Run `stencil-app` as a program. Signals keep their action until the run takes them over."""
    # Unwinding would wait in MPI_Finalize for ranks that wait for this one.
    run_program(commands, "stencil-app", unwind=False, reports=_is_first_rank)


def _is_first_rank() -> bool:
    from stencil_app.running.mpi import world

    try:
        return world().rank == 0
    except ModuleNotFoundError:
        # without mpi4py each process is alone
        return True
