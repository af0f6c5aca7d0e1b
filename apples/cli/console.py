"""Progress and messages of every command, on standard error.

Standard output belongs to the program that runs, or to the one JSON document.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nws.base.notes import DEBUG, INFO, shows, write

#: Longest silence of a command that prepares a run, seconds, and how often it is looked at.
_SILENCE_S, _LOOK_S = 4.5, 0.25


class Console:
    """Progress and messages of a command, on stderr, at the level of `nws.base.notes`. quiet : errors only"""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet, self.verbose = quiet or not shows(INFO), shows(DEBUG)
        self._printed_s = self._noted_s = time.monotonic()
        self._last = "starting"

    def note(self, text: str) -> None:
        """Print a step that may take a moment."""
        if not self.quiet:
            self._write(f"· {text}")
            self._last, self._noted_s = text, self._printed_s

    @contextmanager
    def never_silent(self) -> Iterator[None]:
        """Print a line at least every 5 s during the block: imports, measurements and compilation can be slow."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_S):
                now_s = time.monotonic()
                if now_s - self._printed_s > _SILENCE_S:
                    self._write(f"· {self._last}: {now_s - self._noted_s:.0f} s so far")

        watcher = threading.Thread(target=watch, name="never silent", daemon=True)
        if not self.quiet:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if not self.quiet:
                watcher.join()

    def running(self, text: str) -> None:
        """Remember a step that may take a moment, for the lines of `never_silent`, and print it with `-v`."""
        self._last, self._noted_s = text, time.monotonic()
        self.detail(text)

    def detail(self, text: str) -> None:
        """Print a detail that only `-v` shows."""
        if self.verbose:
            self._write(f"  {text}")

    def lines(self, lines: list[str]) -> None:
        """Print a block of text, unless quiet."""
        if not self.quiet:
            self._write("\n".join(lines))

    def _write(self, text: str) -> None:
        self._printed_s = time.monotonic()
        write(text)


class ProgressNotes:
    """Notes on the progress of a run, rarer the longer it lasts: after 5 s, and then each time half as long again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 5.0

    def show(self, document: Mapping[str, Any]) -> None:
        """Print iterations and the time left of a progress document, if the last note is old enough."""
        if document["elapsed_s"] < self._next_s:
            return
        self._next_s = min(1.5 * document["elapsed_s"], document["elapsed_s"] + 300.0)
        done, total, left_s = document["iteration"], document["iterations"], document["left_s"]
        if total is None:
            self._console.note(
                f"{done} steps of the communication pattern, or of the program's output, so far"
            )
        else:
            share = done / total if total else 1.0
            self._console.note(f"iteration {done} of {total} ({share:.0%}), about {left_s:.3g} s left")
