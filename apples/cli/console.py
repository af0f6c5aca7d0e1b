"""Progress and messages of every command, on standard error.

Standard output belongs to the program that runs, or to the one JSON document.
"""

from __future__ import annotations

from contextlib import suppress

import click


class Console:
    """Progress and messages of a command, on stderr.

    quiet : errors only.  verbose : details, too
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose

    def note(self, text: str) -> None:
        """Print a step that may take a moment."""
        if not self.quiet:
            self._write(f"· {text}")

    def detail(self, text: str) -> None:
        """Print a detail that only `-v` shows."""
        if self.verbose:
            self._write(f"  {text}")

    def lines(self, lines: list[str]) -> None:
        """Print a block of text, unless quiet."""
        if not self.quiet:
            self._write("\n".join(lines))

    def _write(self, text: str) -> None:
        with suppress(BrokenPipeError):
            click.echo(text, err=True)
