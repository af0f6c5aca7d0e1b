"""`apples experiment`: the command of the distribution `apples-experiments`, found by its entry point."""

from importlib.metadata import entry_points
from typing import cast

import click

from apples.errors import ApplesError

GROUP = "apples.experiments"


def find_command() -> click.Command:
    """Return the installed command, or one that explains how to install it."""
    for point in entry_points(group=GROUP, name="command"):
        return cast(click.Command, point.load())
    return not_installed


@click.command("experiment", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def not_installed(arguments: tuple[str, ...]) -> None:
    """Run published rows again. Not installed: run `pip install ./experiments` in a checkout of the project."""
    raise ApplesError(
        "the experiments are a distribution of their own, which is not installed; "
        "run `pip install ./experiments` in a checkout of the project"
    )


experiment = find_command()
