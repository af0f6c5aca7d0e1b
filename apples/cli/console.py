"""What every command shares: messages on stderr, one line per error, the right exit code, no traceback.

Everything of ours goes to stderr; stdout belongs to the program that runs, or to the one JSON document.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click

from apples.errors import ApplesError
from nws.base.errors import WeatherError

INTERRUPTED = 130


class _Terminated(SystemExit):
    """TERM or HUP came while nobody was there to pass it on: unwind, so that children and files go with us."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name.removeprefix("SIG")


class Console:
    """Progress and messages for people, on stderr.

    quiet : errors only.  verbose : also what is only of interest when something is odd
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose

    def note(self, text: str) -> None:
        """A step that may take a moment."""
        if not self.quiet:
            self._write(f"· {text}")

    def detail(self, text: str) -> None:
        """Something only `-v` shows."""
        if self.verbose:
            self._write(f"  {text}")

    def lines(self, lines: list[str]) -> None:
        """A block of text, unless quiet."""
        if not self.quiet:
            self._write("\n".join(lines))

    def _write(self, text: str) -> None:
        with suppress(BrokenPipeError):
            click.echo(text, err=True)


def run_command(command: click.Command, name: str) -> NoReturn:
    """Run a click command as a program and leave with its exit code; errors become one message."""
    _unwind_when_terminated()
    try:
        code = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        click.echo(f"{name}: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except KeyboardInterrupt:
        click.echo(f"{name}: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except _Terminated as end:
        click.echo(f"{name}: ended by signal {end.name}", err=True)
        raise
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ApplesError, WeatherError) as error:
        for line in str(error).splitlines():
            click.echo(f"{name}: {line}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output left; there is nobody to tell. (click ends so where it notices first.)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # The disk is full, a temporary directory is gone, …: the reason and the file say it all.
        click.echo(f"{name}: {error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _unwind_when_terminated() -> None:
    """By default these signals end Python on the spot, with children and temporary files left behind."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise _Terminated(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # A signal that is ignored stays ignored (`nohup`).
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind)


@contextmanager
def signals_held_back() -> Iterator[Callable[[], None]]:
    """Signals that would end this program wait until the function that it yields is called, or until the end.

    Each then does what it would have done; those that are ignored stay so.
    """
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}

    def let_through() -> None:
        while handlers:
            number, handler = handlers.popitem()
            signal.signal(number, handler)
        while waiting:
            signal.raise_signal(waiting.pop(0))

    for number in handlers:
        signal.signal(number, wait)
    try:
        yield let_through
    finally:
        let_through()


Lazy = Callable[[], click.Command]


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `--help` stays fast."""

    def __init__(self, *, lazy: dict[str, tuple[str, Lazy]], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order they were given."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        entry = self._lazy.get(cmd_name)
        return None if entry is None else entry[1]()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands with their one-line help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (text, _) in self._lazy.items()])
