"""Entry point of every command: exit codes, error messages, signals and broken output streams.

Each package has a click command and passes it to `run_program`. A `ReportedError` becomes one message on standard
error and the exit code of its class. No error of the user's input or of the machine prints a traceback.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

import click

from nws.base.errors import ReportedError, UsageError
from nws.base.notes import with_levels
from nws.base.terminal import escaped_streams, visible

INTERRUPTED = 130

#: Type of options and arguments that name a file.
FILE = click.Path(path_type=Path)
#: Stands for the name of the file in `--help`.
FILE.name = "file"

#: Distribution whose version `--version` prints.
DISTRIBUTION = "apples-grid"

#: By package, the extra of the distribution that installs it.
EXTRAS = {
    **dict.fromkeys(("mpi4py", "numba"), "app"),
    **dict.fromkeys(("httptools", "orjson", "starlette", "uvicorn", "uvloop"), "server"),
    "matplotlib": "plot",
    "h5py": "hdf5",
    "pandas": "pandas",
}


def missing(package: str) -> str:
    """Return the sentence on a package that is not installed and belongs to an extra."""
    return f"needs {package}, which is not installed; run: pip install '{DISTRIBUTION}[{EXTRAS[package]}]'"


class _Lossy(io.FileIO):
    """A descriptor whose failing writes are lost: messages have nowhere else to go, and end no run."""

    def write(self, data: Any, /) -> int:
        """Write, and return the number of bytes given if that fails."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


#: Signals that end Python at once by default; batch systems send USR1 and USR2, too.
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Terminated(SystemExit):
    """Raised on one of `_ENDING`, so that `finally` blocks stop children and remove temporary files."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name.removeprefix("SIG")


def run_program(
    command: click.Command,
    name: str,
    arguments: Sequence[str] | None = None,
    *,
    unwind: bool = True,
    reports: Callable[[], bool] = lambda: True,
) -> NoReturn:
    """Run a click command as a program and exit with its code.

    Args:
        command: its return value is the exit code if it is an integer.
        name: starts each message line.
        arguments: words of the command line; `sys.argv` by default.
        unwind: raise `Terminated` on signals of `_ENDING`; otherwise the signals keep their action.
        reports: returns whether this process prints messages; of the ranks of a job, one does.
    """

    def report(text: str) -> None:
        if reports():
            _print_error("\n".join(f"{name}: {visible(line)}" for line in text.splitlines() or [""]))

    with_levels(command)
    _occupy_standard_descriptors()
    if unwind:
        _unwind_when_terminated()
    code: object = 1
    try:
        if _stdout() is None:
            raise OSError("standard output is closed")
        with escaped_streams():
            words = None if arguments is None else list(arguments)
            result = command.main(words, name, standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        report("interrupted")
        code = INTERRUPTED
    except Terminated as end:
        report(f"ended by signal {end.name}")
        code = end.code
    except SystemExit as end:
        code = end.code
    except click.ClickException as error:
        if reports():
            with suppress(OSError), escaped_streams():
                error.show()
        code = error.exit_code
    except ReportedError as error:
        report(str(error))
        code = error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        report(missing(package))
        code = UsageError.exit_code
    except BrokenPipeError:
        # The reader of the output closed it (`| head`); click exits the same way where it notices first.
        pass
    except OSError as error:
        # A full disk, a temporary directory that was removed, ...: reason and file are the message.
        report(str(error))
    sys.exit(_discard_unwritten(report, code))


def _occupy_standard_descriptors() -> None:
    """Open /dev/null for closed standard streams: else the next file opened would get their descriptors.

    `sys.stdout` stays None. What `sys.stderr` cannot write, as its reader left or its disk is full, is lost.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # open() returns the lowest free number, which is this one
            os.open(os.devnull, os.O_RDWR)
    streams: Any = sys
    for name, mode in (("stdin", "r"), ("stderr", "w")):
        if getattr(streams, name) is None:
            setattr(streams, name, open(os.devnull, mode))  # noqa: SIM115
    if streams.stderr is sys.__stderr__:
        # a program's own, and not a stream in memory
        writer = io.BufferedWriter(_Lossy(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(writer, sys.stderr.encoding, "backslashreplace", line_buffering=True)


def _stdout() -> Any:
    """Return `sys.stdout`; None if the program was started with a closed descriptor, unlike its declared type."""
    return sys.stdout


def _print_error(text: str) -> None:
    with suppress(OSError):
        click.echo(text, err=True)


def _discard_unwritten(report: Callable[[str], None], code: Any) -> Any:
    """Return the exit code after a last flush of standard output.

    A flush that fails is repeated by the interpreter at exit, which prints a traceback and exits with 120. So the
    descriptor is directed to /dev/null first.
    """
    if _stdout() is None:
        return code
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code in (0, None):
            if not isinstance(error, BrokenPipeError):
                report(str(error))
            return 1
    except ValueError:
        # closed by the program
        pass
    return code


def _unwind_when_terminated() -> None:
    """Raise `Terminated` on signals of `_ENDING`. By default they leave children and files."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    for number in _ENDING:
        # An ignored signal stays ignored (`nohup`).
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind)


@contextmanager
def signals_held_back() -> Iterator[Callable[[], None]]:
    """Delay SIGINT and signals of `_ENDING` until the yielded function is called, or until the end of the block.

    Each signal then has the action that it had before the block. Ignored signals stay ignored.
    """
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}

    def release() -> None:
        while handlers:
            number, handler = handlers.popitem()
            signal.signal(number, handler)
        while waiting:
            signal.raise_signal(waiting.pop(0))

    for number in handlers:
        signal.signal(number, wait)
    try:
        yield release
    finally:
        release()


class CommandGroup(click.Group):
    """A group of commands that suggests the nearest names for a misspelt one, and that has `--version`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"context_settings": {"help_option_names": ["-h", "--help"]}, **settings})
        click.version_option(package_name=DISTRIBUTION)(self)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name, with the options of the level; None for an unknown name."""
        command = self.command_named(cmd_name)
        return command if command is None else with_levels(command)

    def command_named(self, name: str) -> click.Command | None:
        """Return the command of a name, None for an unknown one."""
        return self.commands.get(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; raise `click.UsageError` that suggests names if there is none."""
        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        # Imported here: most calls name a command that exists.
        from difflib import get_close_matches

        near = " or ".join(repr(one) for one in get_close_matches(name, names))
        hint = f"Did you mean {near}?" if near else f"Legal are {', '.join(names)}."
        raise click.UsageError(f"No such command {name!r}. {hint}", ctx)


class Extension(NamedTuple):
    """A command of another distribution. group, name : its entry point.  directory : its place in a checkout"""

    group: str
    name: str
    directory: str

    def command(self) -> click.Command:
        """Return the installed command, or one that explains how to install it."""
        for point in entry_points(group=self.group, name=self.name):
            command = point.load()
            assert isinstance(command, click.Command)
            return command

        @click.command(context_settings={"ignore_unknown_options": True})
        @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        def not_installed(arguments: tuple[str, ...]) -> None:
            raise ReportedError(
                "this command is in a distribution of its own, which is not installed; "
                f"run `pip install {self.directory}` in a checkout of the project"
            )

        not_installed.help = (
            f"Not installed: run `pip install {self.directory}` in a checkout of the project."
        )
        return not_installed


class LazyGroup(CommandGroup):
    """A group that imports its commands when they are called, so that `--help` is fast.

    package : package of the modules of the commands.  lazy : one-line help by command
    modules : module by command, where it has another name.  elsewhere : commands of other distributions
    """

    def __init__(
        self,
        *,
        package: str,
        lazy: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, Extension] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._package, self._lazy = package, dict(lazy)
        self._modules, self._elsewhere = modules or {}, elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order given."""
        return list(self._lazy)

    def command_named(self, name: str) -> click.Command | None:
        """Import and return one command, None for an unknown name."""
        if name not in self._lazy:
            return None
        if name in self._elsewhere:
            return self._elsewhere[name].command()
        attribute = name.replace("-", "_")
        module = f"{self._package}.{self._modules.get(name, attribute)}"
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with their one-line help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._lazy.items()))
