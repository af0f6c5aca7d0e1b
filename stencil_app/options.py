"""Tables of the user's options: the same entries make the command line, its checks and its help.

Light on purpose (no numpy, no MPI), so that `--help` costs nothing. Values are parsed from text and all problems are
found at once, each with its place, the value given and the legal values.

Click commands made from tables of options. The checks of a command report unknown words with all other problems.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

Value = int | float | str


def unknown_words(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return a problem for each word of a command line; the word after an unknown option is its value.

    known : flags of the command
    """
    legal, problems = list(dict.fromkeys(known)), []
    after_option = False
    for word in words:
        if word.startswith("-"):
            near = get_close_matches(word.lstrip("-"), [flag.lstrip("-") for flag in legal], n=1)
            hint = f" (did you mean --{near[0]}?)" if near else ""
            problems.append(f"unknown option {word}{hint}; legal are {', '.join(legal)}")
        elif not after_option:
            problems.append(f"unexpected word {word!r}; everything is given by options, see --help")
        after_option = word.startswith("-")
    return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting of a physics. `choices` non-empty: one of these words; else a number of `type`.

    at_least, at_most, above : bounds of a number, None for none
    """

    name: str
    default: str
    help: str
    type: type[int] | type[float] = int
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def legal(self) -> str:
        """Return the legal values, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        kind = "a whole number" if self.type is int else "a number"
        limits = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.at_least), ("above", self.above), ("at most", self.at_most))
            if bound is not None
        ]
        return " ".join([kind, " and ".join(limits)]).strip()

    def parse(self, text: str) -> Value:
        """Return the value of `text`; raises `ValueError` with the whole message."""
        value: Value
        if self.choices:
            value, good = text, text in self.choices
        else:
            try:
                value = self.type(text)
            except ValueError:
                value, good = text, False
            else:
                good = self._within(value)
        if not good:
            raise ValueError(f"{self.flag}: got {text!r}; legal is {self.legal}")
        return value

    def _within(self, value: float) -> bool:
        return (
            abs(value) != float("inf")
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
        )


def parse_all(
    options: Iterable[Option], texts: Mapping[str, str | None]
) -> tuple[dict[str, Value], list[str]]:
    """Return values by name (defaults where `texts` has None or nothing) and every problem found."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for option in options:
        text = texts.get(option.name)
        try:
            values[option.name] = option.parse(option.default if text is None else text)
        except ValueError as error:
            problems.append(str(error))
    return values, problems


def place_problems(paths: Mapping[str, Path | None]) -> list[str]:
    """Return a problem for each path that cannot be what its option means; None for options not given."""
    problems = []
    for name, path in paths.items():
        if path is None or name == "watch_slabs":
            continue
        flag = f"--{name.replace('_', '-')} {path}"
        if name == "record_dir":
            if path.exists() and not path.is_dir():
                problems.append(f"{flag}: is a file; give a directory")
        elif name == "restart":
            if not path.is_file():
                problems.append(f"{flag}: no such file; give a file that --checkpoint wrote")
        elif path.is_dir():
            problems.append(f"{flag}: is a directory; give a file")
        elif not path.parent.is_dir():
            problems.append(f"{flag}: the directory {path.parent} does not exist; make it first")
        elif not os.access(path.parent, os.W_OK):
            problems.append(f"{flag}: the directory {path.parent} may not be written to")
    return problems


def benchmark_problems(
    given: Collection[str], others: Iterable[str], legal: Sequence[str], *, words: str, rows_from: str
) -> list[str]:
    """Return conflicts with --benchmark, and the option that needs it.

    others : names of the options of a run, `legal` ones included.  words : the legal ones.  rows_from : of runs
    """
    if "benchmark" not in given:
        needless = f"--rows: only with --benchmark; a run takes its rows from {rows_from}"
        return [needless] if "rows" in given else []
    flags = [f"--{name.replace('_', '-')}" for name in others if name in given and name not in legal]
    return [f"{', '.join(flags)}: not with --benchmark; legal are {words}"] if flags else []


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
