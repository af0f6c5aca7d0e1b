"""Tables that are shown anew every second (`--watch`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from apples.cli.report import cells

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

State = TypeVar("State")

_EVERY_S = 1.0


def grid(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table of rich's; a name that looks like its markup is printed as it is."""
    from rich.table import Table
    from rich.text import Text

    made = Table(*header)
    for row in rows:
        made.add_row(*map(Text, cells(row)))
    return made


def watch(
    state: State,
    survey: Callable[[], State],
    show: Callable[[State], RenderableType],
) -> None:
    """Show a state, and every second a new survey, until interrupted."""
    from rich.live import Live

    from apples.errors import SharingError

    with Live(show(state), auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(_EVERY_S)
            try:
                live.update(show(survey()), refresh=True)
            except SharingError as error:
                live.update(str(error), refresh=True)
