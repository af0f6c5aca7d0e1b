"""The command `stencil-app`: one subcommand for each physics, `bsp` (a synthetic job) and `warm`.

Under `mpiexec` every rank reads the same command line. Rank 0 reports its errors once, and every rank ends with the
same exit code. MPI, numpy and numba are imported only when a run begins. stdout carries only the result.

The command `stencil-app validate`: values of the application beside references, one line each, or as JSON.

Exit code 0 when every check passes, 1 when one does not. It runs in one process; the help states its run time.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from time import perf_counter

import click

from nws.base.command import CommandGroup, run_program
from stencil_app.bsp.bspcommand import BSP
from stencil_app.files.iterations import iterations_command
from stencil_app.heat import HEAT
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.mhd.mhdcommand import MHD
from stencil_app.options import option_command, parameter, path_parameters
from stencil_app.physics import Physics
from stencil_app.settings import ITERATIONS, NUMBERS, PATHS, RESIDUAL_EVERY


@click.command()
@click.option("--quick", is_flag=True, help="small meshes: about half a minute instead of some minutes")
@click.option("--json", "as_json", is_flag=True, help="one JSON document")
@click.option(
    "--data",
    metavar="DIR",
    help="reference solutions; without them the checks that need them are left out  [default $APPLES_DATA/mhd]",
)
def validate(quick: bool, as_json: bool, data: str | None) -> None:
    """Errors of the application beside those of references, problem by problem."""
    directory = Path(data) if data else Path(os.environ.get("APPLES_DATA", "."), "mhd")
    if data and not directory.is_dir():
        raise click.UsageError(f"--data {data}: no such directory")
    from stencil_app.mhd.validation import checks

    results = []
    left_out = not directory.is_dir()
    for check in checks(quick=quick, data=None if left_out else directory):
        results.append(check)
        if not as_json:
            reference = "" if check.reference is None else f"reference {check.reference:.4g}, "
            verdict = "ok  " if check.passed else "FAIL"
            click.echo(
                f"{verdict} {check.problem}: {check.what}: {check.figure:.4g} ({reference}limit {check.limit:.4g})"
            )
    passed = all(check.passed for check in results)
    if as_json:
        document = {
            "quick": quick,
            "references": None if left_out else str(directory),
            "passed": passed,
            "checks": [check.document() for check in results],
        }
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    elif left_out:
        click.echo(
            "no reference solutions: Brio-Wu and the Orszag-Tang slice are left out; see --data",
            err=True,
        )
    sys.exit(0 if passed else 1)


_SHOWN_DEFAULTS = (ITERATIONS, RESIDUAL_EVERY)


def registry() -> dict[str, Physics]:
    """Return all physics by name."""
    return {physics.name: physics for physics in (HEAT, JACOBI2D)}


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
    kernels |= {"bsp": "stencil_app.bsp.arithmetic", "mhd": "stencil_app.mhd.equations"}
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
commands.add_command(BSP)
commands.add_command(MHD)
commands.add_command(validate)
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
