"""Notes: texts of commands on standard error beside errors, as many as `-q`, `-v` or `--log-level` asks for.

Every command has these options (`with_levels`). Daemons write their log at the same level. Errors are always printed.
"""

from contextlib import suppress
from typing import Any, Final

import click

from nws.base.errors import UsageError

#: Names of the levels; numbers as in `logging`, whose import would cost every rank a few milliseconds.
LEVELS: Final = {"error": 40, "warning": 30, "info": 20, "debug": 10}
INFO, DEBUG = LEVELS["info"], LEVELS["debug"]

_level = INFO


def level() -> int:
    """Return the level of this process."""
    return _level


def shows(number: int) -> bool:
    """Return whether texts of a level are printed."""
    return number >= _level


def write(text: str) -> None:
    """Print a text; its reader may have left."""
    with suppress(BrokenPipeError):
        click.echo(text, err=True)


def note(text: str) -> None:
    """Print a note, or a line of a daemon's log."""
    if shows(INFO):
        write(text)


def step(text: str) -> None:
    """Print a step of a command."""
    note(f"· {text}")


def level_words() -> list[str]:
    """Return the options that give another command this level."""
    return [f"--log-level={name}" for name, number in LEVELS.items() if number == _level != INFO]


def with_levels(command: click.Command) -> click.Command:
    """Return the command with the options of the level, once; without a letter that it uses for something else."""
    used = {word for parameter in command.params for word in parameter.opts}
    parsing = {"allow_interspersed_args": True, **command.context_settings}
    if parsing.get("ignore_unknown_options") and parsing.get("allow_interspersed_args"):
        # Words among its own are options of another program, such as `sbatch -q`.
        used |= {"-q", "--quiet", "-v", "--verbose"}
    if "--log-level" not in used:
        for words, settings in _OPTIONS:
            if free := [word for word in words if word not in used]:
                command.params.append(click.Option(free, expose_value=False, callback=_choose, **settings))
    return command


def _choose(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    global _level
    if value is None:
        return
    if context.meta.setdefault(__name__, parameter) is not parameter:
        # click closes no context whose words are wrong.
        _level = INFO
        raise UsageError("--quiet, --verbose and --log-level exclude each other; give one of them")
    before, _level = _level, LEVELS[value]

    def restore() -> None:
        global _level
        _level = before

    # A program has one command; in tests, several run in one process.
    context.call_on_close(restore)


_OPTIONS: tuple[tuple[list[str], dict[str, Any]], ...] = (
    (["-q", "--quiet"], {"flag_value": "error", "help": "Print errors and results only."}),
    (["-v", "--verbose"], {"flag_value": "debug", "help": "Print details, too."}),
    (
        ["--log-level"],
        {"type": click.Choice(list(LEVELS)), "help": "Texts that are printed beside results (default info)."},
    ),
)
