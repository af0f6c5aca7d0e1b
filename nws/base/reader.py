"""Configuration files: YAML into frozen dataclasses, every problem at once, each with file and line.

`load_yaml` reads a file (`read_yaml`, marks kept) and checks it against a dataclass (`validate`). Nothing is
guessed and
nothing is ignored: unknown and duplicate keys, wrong types and bad YAML are errors that list the legal values. The
modules with the schemas decide their meaning; quantities with units are in `nws.base.quantities`.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from nws.base.errors import ConfigError
from nws.base.quantities import Parsed, ReadFrom, key_of
from nws.base.yamltree import Location, Problem, Tree, parse

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML file that was read. `path`: as the user wrote it. `tree`: plain value and the location of its parts."""

    path: Path
    tree: Tree

    @property
    def value(self) -> Any:
        """Return the file as plain lists, dictionaries (keys as written) and scalars."""
        return self.tree.value

    def problem(self, at: Location, text: str) -> Problem:
        """Return a problem at a place, for `validate`'s `further` or `fail`."""
        return Problem(line=self.tree.line(at), at=at, text=text)

    def check(self, problems: Iterable[Problem]) -> None:
        """Raise `ConfigError` with all the problems, if there are any."""
        if collected := list(problems):
            self.fail(collected)

    def fail(self, problems: Iterable[Problem]) -> typing.NoReturn:
        """Raise `ConfigError` with all the problems in the order of the file."""
        ordered = sorted(dict.fromkeys(problems), key=lambda p: p.line)
        raise ConfigError([_line(self.path, p) for p in ordered]) from None


def load_yaml(path: str | Path, kind: type[T]) -> T:
    """Return the contents of the file as a `kind` (a dataclass, or a list or dictionary of them).

    Raises `ConfigError` with every problem at once, one line each: ``grid.yaml:6: hosts.1.cores: unknown key …``.
    """
    return validate(read_yaml(path), kind)


def read_yaml(path: str | Path) -> Document:
    """Return the file as plain data with marks; raises `ConfigError` when it cannot be read or is not one document."""
    path = Path(path)
    text = _read_text(path)
    tree = parse(text)
    document = Document(path=path, tree=tree)
    if tree.problems and tree.value is None:
        document.fail(tree.problems)
    return document


def validate(document: Document, kind: type[T], further: Iterable[Problem] = ()) -> T:
    """Return the document as a `kind`; `further` problems that the caller found are reported with those found here."""
    conversion = _Conversion(document)
    value = conversion.convert(document.value, kind, ())
    explained = [problem for problem in conversion.problems if problem.at not in document.tree.broken]
    document.check([*document.tree.problems, *further, *explained])
    return value  # type: ignore[no-any-return]


def under(folder: Path, value: Any) -> Any:
    """Return a value of settings, with the paths in it relative to a folder."""
    if isinstance(value, Path):
        return folder / value.expanduser()
    if isinstance(value, tuple):
        return tuple(under(folder, one) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: under(folder, getattr(value, each.name)) for each in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value


def did_you_mean(name: str, legal: Iterable[str]) -> str:
    """Return `` (did you mean X?)`` when a legal name is near, else nothing."""
    near = difflib.get_close_matches(name, list(legal), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; give the path of a YAML file") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte = error.object[error.start]
        raise ConfigError(
            f"{path}:{line}: byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; check the file and its permissions"
        ) from None


def _line(path: Path, problem: Problem) -> str:
    key = ".".join(str(part) for part in problem.at)
    return (
        f"{path}:{problem.line}: {key}: {problem.text}" if key else f"{path}:{problem.line}: {problem.text}"
    )


#: By type, the types of plain data that it is made of, and their name in messages.
_SCALARS: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    Path: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
}


class _Reported(Exception):
    """The problems of a value have been reported."""


class _Conversion:
    """Conversion of a document by annotations. `problems`: all that were found, and not only the first.

    Nothing is converted but whole numbers to floats, lists to tuples, text to paths and mappings to dataclasses.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def convert(self, value: Any, kind: Any, at: Location) -> Any:
        """Return the value as a `kind`; report problems and return None if it is none."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if kind is Any:
            return value
        if kind in _SCALARS:
            return self._scalar(value, kind, at)
        if dataclasses.is_dataclass(kind):
            return self._record(value, kind, at)
        if origin is typing.Annotated:
            return self._annotated(value, arguments, at)
        if origin in (typing.Union, types.UnionType):
            return self._member(value, arguments, at)
        if origin is typing.Literal:
            *first, last = map(repr, arguments)
            return value if value in arguments else self._mismatch(value, f"{', '.join(first)} or {last}", at)
        if origin in (tuple, list):
            return self._sequence(value, origin, arguments, at)
        return self._mapping(value, arguments, at)

    def _report(self, at: Location, text: str) -> None:
        self.problems += [self._document.problem(at, line) for line in text.split("\n")]

    def _mismatch(self, value: Any, legal: str, at: Location) -> None:
        self._report(
            at, f"should be {legal}; got {_shown(self._document, at, value)}{spelling_hint(legal, value)}"
        )

    def _attempt(self, make: Callable[[], Any], at: Location) -> Any:
        try:
            return make()
        except ValueError as error:
            self._report(at, str(error))
        except _Reported:
            pass
        return None

    def _scalar(self, value: Any, kind: Any, at: Location) -> Any:
        legal, name = _SCALARS[kind]
        if not isinstance(value, legal) or isinstance(value, bool) != (kind is bool):
            return self._mismatch(value, name, at)
        try:
            return kind(value)
        except OverflowError:
            return self._mismatch(value, name, at)

    def _annotated(self, value: Any, arguments: tuple[Any, ...], at: Location) -> Any:
        kind, note = arguments
        if isinstance(note, Parsed):
            return self._attempt(lambda: note.parse(value), at)
        if isinstance(note, ReadFrom):
            return self._attempt(lambda: note.made(lambda: self._flawless(value, note.entry, at)), at)
        made = self._attempt(lambda: self._flawless(value, kind, at), at)
        wrong = None if made is None else note.problem(made)
        return made if wrong is None else self._mismatch(value, wrong, at)

    def _flawless(self, value: Any, kind: Any, at: Location) -> Any:
        """Return the value as a `kind`; raise `_Reported` after reporting problems."""
        before = len(self.problems)
        made = self.convert(value, kind, at)
        if len(self.problems) > before:
            raise _Reported
        return made

    def _member(self, value: Any, members: tuple[Any, ...], at: Location) -> Any:
        """Return the value as the first type of a union that it is of; None is itself."""
        if value is None and type(None) in members:
            return None
        before = len(self.problems)
        for member in members:
            if member is not type(None):
                try:
                    made = self._flawless(value, member, at)
                except _Reported:
                    continue
                del self.problems[before:]
                return made
        return None

    def _sequence(self, value: Any, make: Any, kinds: tuple[Any, ...], at: Location) -> Any:
        if not isinstance(value, list | tuple):
            return self._mismatch(value, "a list", at)
        if len(kinds) == 1 or kinds[-1] is ...:
            kinds = (kinds[0],) * len(value)
        elif len(value) != len(kinds):
            return self._mismatch(value, f"a list of {len(kinds)}", at)
        return make(
            self.convert(one, kind, (*at, i)) for i, (one, kind) in enumerate(zip(value, kinds, strict=True))
        )

    def _mapping(self, value: Any, kinds: tuple[Any, Any], at: Location) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, "a mapping of keys to values", at)
        key_kind, kind = kinds
        if key_kind is int and (wrong := [key for key in value if not str(key).isdecimal()]):
            return self._mismatch(wrong[0], "whole numbers as keys", at)
        return {
            int(key) if key_kind is int else key: self.convert(one, kind, (*at, key))
            for key, one in value.items()
        }

    def _record(self, value: Any, kind: Any, at: Location) -> Any:
        if not isinstance(value, dict):
            return self._mismatch(value, "a mapping of keys to values", at)
        before, made = len(self.problems), {}
        names = {key_of(kind, field.name): field for field in dataclasses.fields(kind) if field.init}
        hints = _hints(kind)
        for key, field in names.items():
            if key in value:
                made[field.name] = self.convert(value[key], hints[field.name], (*at, key))
            elif field.default is field.default_factory is dataclasses.MISSING:
                beside = ", ".join(map(str, value)) or "nothing"
                self._report((*at, key), f"missing; this key is needed here beside {beside}")
        for key in (key for key in value if key not in names):
            text = f"unknown key{did_you_mean(str(key), names)}; legal keys are {', '.join(names)}"
            self._report((*at, key), text)
        return None if len(self.problems) > before else self._attempt(lambda: kind(**made), at)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


#: Words that YAML 1.1 reads as true and false.
_OLD_BOOLEANS = {"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}
_LEADING_ZERO = re.compile(r"([+-]?)0+(\d[\d_]*)", re.ASCII)


def spelling_hint(kind: str, value: Any) -> str:
    """Return how to write a value that should be a `kind`, for spellings of which readers of YAML differ."""
    if kind == "text":
        return "" if isinstance(value, list | dict | None) else "; write it in quotes to make it text"
    if not isinstance(value, str):
        return ""
    if kind == "true or false" and value.lower() in _OLD_BOOLEANS:
        return f"; write {_OLD_BOOLEANS[value.lower()]}"
    if kind not in ("a whole number", "a number"):
        return ""
    if zeros := _LEADING_ZERO.fullmatch(value):
        return f"; write {zeros[1]}{zeros[2].replace('_', '')} without the leading zero"
    digits = value.replace("_", "")
    return f"; write {digits}" if digits != value and digits.isdecimal() else ""


def _shown(document: Document, at: Location, value: Any) -> str:
    """Return the value, as written in the file if that is short."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or value == "":
        return "nothing"
    return repr(value) if isinstance(value, str) else document.tree.texts.get(at, repr(value))
