"""The command `stencil-app bsp`: words in, one report on stdout by rank 0, each error once."""

import json
import sys
from dataclasses import replace
from typing import Any

import click

from stencil_app.bsp.settings import NUMBERS, TEXTS, check
from stencil_app.commandline import option_command, parameter
from stencil_app.errors import OutputError


def _run(values: dict[str, Any], strays: list[str]) -> None:
    from stencil_app.running.mpi import aborting, agree, world

    as_json, comm = values.pop("as_json"), world()
    with aborting(comm):
        settings = check(values, strays)
        from stencil_app.bsp.syntheticjob import run, text_lines

        document = run(comm, settings)
        problems = []
        if comm.rank == 0:
            try:
                sys.stdout.write(
                    (json.dumps(document) if as_json else "\n".join(text_lines(document))) + "\n"
                )
                sys.stdout.flush()
            except OSError as error:
                problems.append(f"stdout: the report could not be written: {error.strerror}")
        agree(comm, problems, OutputError)


BSP = option_command(
    "bsp",
    [
        *(
            click.Option(
                [f"--{name}"], metavar="TEXT", help=text + (f"  [default {default}]" if default else "")
            )
            for name, (default, text) in TEXTS.items()
        ),
        *(parameter(replace(o, default="measured") if o.name == "rate" else o) for o in NUMBERS),
        click.Option(["--json", "as_json"], is_flag=True, help="one JSON document on stdout"),
    ],
    _run,
    "Synthetic job: compute, exchange with the neighbours, again. For experiments with schedulers.",
)
