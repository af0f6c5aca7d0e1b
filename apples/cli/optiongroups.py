"""Option groups: frozen records with command line options as fields, and help printed under headings.

A record declares each option once: `option(...)` is both the field's default and the click option, and `--help` prints
the line of the field in the docstring of its record, as it prints the docstring of a command. `with_options` adds the
options of a record to a command, which then receives the record as its argument `options`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from inspect import cleandoc
from typing import Any, TypeVar, dataclass_transform

import click

from apples.errors import ConfigError
from nws.base.notes import with_levels

Record = TypeVar("Record")
T = TypeVar("T")

_KEY, _HEADING = "option", "Options"


def parse_settings(pairs: Iterable[str], flag: str = "--set", example: str = "nx=128") -> dict[str, str]:
    """Return KEY=VALUE pairs as a mapping; raise `ConfigError` naming every pair that is none."""
    wrong = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if wrong:
        raise ConfigError(
            [f"{flag} {pair}: expected KEY=VALUE, for example {flag} {example}" for pair in wrong]
        )
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


class Problems(list[str]):
    """Problems of a call, collected so that one error reports all of them."""

    def collect(self, read: Callable[[], T]) -> T | None:
        """Return the value of `read`; on a `ConfigError`, keep its problems and return None."""
        try:
            return read()
        except ConfigError as error:
            self.extend(error.problems)
            return None

    def check(self) -> None:
        """Raise `ConfigError` if there is any problem."""
        if self:
            raise ConfigError(self)


class HeadedOption(click.Option):
    """A click option with the heading under which `--help` prints it."""

    def __init__(self, *arguments: Any, heading: str = _HEADING, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.heading = heading


class HeadedCommand(click.Command):
    """A command with a `--help` that prints its options under their headings, in the order of declaration."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        with_levels(self)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            entry = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and entry is not None:
                sections.setdefault(getattr(parameter, "heading", _HEADING), []).append(entry)
        for heading, entries in sections.items():
            with formatter.section(heading):
                formatter.write_dl(entries)


def option(*declarations: str, default: Any = None, **settings: Any) -> Any:
    """Return a record's field that is also an option.

    Args:
        declarations: flags, as for `click.option`; the field's name is the parameter's name.
        default: value of the field and of the option.
        settings: further arguments of `click.option`, and `heading`.
    """
    if settings.get("is_flag") and default is None and "flag_value" not in settings:
        default = False
    return field(default=default, metadata={_KEY: (declarations, settings)})


@dataclass_transform(
    frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field, option)
)
def options_record(cls: type[Record]) -> type[Record]:
    """Make a class a frozen dataclass of options.

    It has neither comparison nor text representation: the code of these takes most of the time that `--help` of a
    command with 80 options spends on its records.
    """
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


def headed(heading: str) -> Callable[..., Any]:
    """Return `option` with its heading set."""

    def declare(*declarations: str, **settings: Any) -> Any:
        return option(*declarations, heading=heading, **settings)

    return declare


def given_words(record: Any, skip: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the options of a record that differ from their defaults, as words of a command line by long flag.

    skip : names of fields to leave out
    """
    words: dict[str, list[str]] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name in skip:
            continue
        if _KEY not in each.metadata:
            words |= given_words(value, skip)
        elif value != each.default:
            on, _, off = each.metadata[_KEY][0][-1].partition("/")
            if isinstance(value, bool):
                words[on] = [on if value else off]
            else:
                values = value if isinstance(value, tuple) else (value,)
                words[on] = [word for one in values for word in (on, str(one))]
    return words


def record_of(record: type[Record], values: Mapping[str, Any]) -> Record:
    """Return a record with the values of a command's parameters; fields without a value keep their default."""
    found: dict[str, Any] = {}
    for each in fields(record):  # type: ignore[arg-type]
        if _KEY not in each.metadata:
            found[each.name] = record_of(_nested(each), values)
        elif each.name in values:
            found[each.name] = values[each.name]
    return record(**found)


def with_options(
    record: type[Any], only: Collection[str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a record to a command.

    Args:
        record: class of the record; the command receives a value of it as the argument `options`.
        only: names of the fields to add; the others keep their defaults.
    """
    chosen = [leaf for leaf in _leaves(record) if only is None or leaf[0].name in only]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            given = {each.name: values.pop(each.name) for each, _ in chosen}
            return command(*arguments, **values, options=record_of(record, given))

        result: Callable[..., Any] = call
        for each, words in reversed(chosen):
            declarations, settings = each.metadata[_KEY]
            settings = {"help": words, "default": each.default, "cls": HeadedOption, **settings}
            result = click.option(each.name, *declarations, **settings)(result)
        return result

    return decorate


def _leaves(record: Any) -> Iterator[tuple[Field[Any], str | None]]:
    """Yield the fields that are options, those of nested records included, and what their docstrings say of them."""
    parts = re.split(r"^(\w+) : ", cleandoc(record.__doc__), flags=re.MULTILINE)[1:]
    texts = {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    for each in fields(record):
        if _KEY in each.metadata:
            yield each, texts.get(each.name)
        else:
            yield from _leaves(_nested(each))


def _nested(each: Field[Any]) -> Any:
    """Return the record that a field without an option holds: its default factory."""
    return each.default_factory
