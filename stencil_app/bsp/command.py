"""The command `stencil-app bsp`: words in, one report on stdout by rank 0, each error once."""

from __future__ import annotations

import json
import sys

import click

from stencil_app.bsp.settings import NUMBERS, TEXTS, check
from stencil_app.errors import OutputError
from stencil_app.options import Option, unknown_words


def _parameters() -> list[click.Parameter]:
    texts = [
        click.Option([f"--{name}"], metavar="TEXT", help=text + (f"  [default {default}]" if default else ""))
        for name, (default, text) in TEXTS.items()
    ]
    return [*texts, *(_parameter(option) for option in NUMBERS)]


def _parameter(option: Option) -> click.Option:
    default = f"; default {option.default}" if option.name != "rate" else "; default: measured"
    return click.Option(
        [option.flag, option.name],
        metavar="|".join(option.choices) or "N",
        help=f"{option.help}  [{option.legal}{default}]",
    )


def _run(strays: tuple[str, ...], as_json: bool, **texts: str | None) -> None:
    from stencil_app.running.mpi import aborting, agree, world

    comm = world()
    with aborting(comm):
        settings = check(texts, _stray_problems(strays))
        from stencil_app.bsp.job import run, text_lines

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


def _stray_problems(words: tuple[str, ...]) -> list[str]:
    """Return unknown words as problems; the word after an unknown option is its value."""
    known = [f"--{name}" for name in TEXTS] + [option.flag for option in NUMBERS] + ["--json"]
    return unknown_words(words, known)


BSP = click.Command(
    "bsp",
    callback=_run,
    params=[
        *_parameters(),
        click.Option(["--json", "as_json"], is_flag=True, help="one JSON document on stdout"),
        click.Argument(["strays"], nargs=-1, type=click.UNPROCESSED),
    ],
    context_settings={"ignore_unknown_options": True},
    help="Synthetic job: compute, exchange with the neighbours, again. For experiments with schedulers.",
)
