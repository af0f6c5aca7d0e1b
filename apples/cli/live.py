"""Tables that are shown anew every second (`--watch`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

State = TypeVar("State")

_EVERY_S = 1.0


def watch(state: State, survey: Callable[[], State], lines: Callable[[State], Sequence[str]]) -> None:
    """Show the lines of a state, and every second those of a new survey, until interrupted."""
    from apples.errors import SharingError

    shown = lines(state)
    while True:
        click.clear()
        click.echo("\n".join(shown))
        time.sleep(_EVERY_S)
        try:
            shown = lines(survey())
        except SharingError as error:
            shown = [str(error)]
