"""Click commands made from tables of options. The checks of a command report unknown words with all other problems."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from stencil_app.options import Option, unknown_words


def parameter(option: Option, *, show_default: bool = True) -> click.Option:
    """Return the click option of a table's entry."""
    help_text = f"{option.help}  [{option.legal}; default {option.default}]" if show_default else option.help
    return click.Option([option.flag, option.name], metavar="|".join(option.choices) or "N", help=help_text)


def path_parameters(paths: Mapping[str, str]) -> list[click.Option]:
    """Return the click options of paths. paths : help by name"""
    return [
        click.Option(["--" + name.replace("_", "-"), name], metavar="PATH", help=text)
        for name, text in paths.items()
    ]


def option_command(
    name: str,
    parameters: Sequence[click.Option],
    run: Callable[[dict[str, Any], list[str]], int | None],
    description: str,
) -> click.Command:
    """Return a command that has only options.

    run : called with the values by name and the problems of unknown words; returns the exit code
    """
    known = [each.opts[0] for each in parameters]

    def callback(strays: tuple[str, ...], **values: Any) -> None:
        sys.exit(run(values, unknown_words(strays, known)))

    return click.Command(
        name,
        callback=callback,
        params=[*parameters, click.Argument(["strays"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=description,
    )
