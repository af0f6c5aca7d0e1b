"""Configuration files: YAML into frozen dataclasses, every problem at once, each with file and line.

`load_yaml` reads a file (`read_yaml`, marks kept) and checks it against a dataclass (`validate`). Nothing is
guessed and
nothing is ignored: unknown and duplicate keys, wrong types and bad YAML are errors that list the legal values. The
modules with the schemas decide their meaning; quantities with units are in `nws.base.quantities`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nws.base.errors import ConfigError
from nws.base.quantities import ReadFrom
from nws.base.yamltree import Location, Problem, Tree, parse

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

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
    from pydantic import TypeAdapter, ValidationError

    _forbid_unknown_keys(kind, set())
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    problems = [*document.tree.problems, *further]
    try:
        # Strict JSON mode fits a file: lists become tuples, but "4" is no number and yes is no 1.
        value = adapter.validate_json(json.dumps(document.value, default=str), strict=True)
    except ValidationError as error:
        details = error.errors(include_url=False)
        explained = [problem for detail in details for problem in _explain(document, kind, detail)]
        document.fail(problems + [p for p in explained if p.at not in document.tree.broken])
    document.check(problems)
    return value


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


def _forbid_unknown_keys(kind: Any, seen: set[Any]) -> None:
    """Make pydantic refuse unknown keys in every dataclass within `kind`; its default is to ignore them."""
    kind = _strip(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind in seen:
            return
        seen.add(kind)
        if "__pydantic_config__" not in vars(kind):
            # mypy cannot know that pydantic reads this attribute off plain dataclasses.
            kind.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
        for hint in _fields(kind).values():
            _forbid_unknown_keys(hint, seen)
    for part in typing.get_args(kind):
        _forbid_unknown_keys(part, seen)


def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    # The names of the keys, where they differ from the fields' (`nws.base.quantities.without_units`).
    key = getattr(kind, "__pydantic_config__", {}).get("alias_generator", str)
    return {key(field.name): hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _explain(document: Document, kind: Any, detail: ErrorDetails) -> list[Problem]:
    """Return a pydantic error as problems: place, value, legal values."""
    at, parent = _place(document.value, kind, detail["loc"])
    return [document.problem(at, line) for line in _text(document, parent, at, detail).split("\n")]


def _place(value: Any, kind: Any, loc: Iterable[str | int]) -> tuple[Location, Any]:
    """Return (where in the file, type that holds the last part); labels that pydantic gives to unions are dropped."""
    at: list[str | int] = []
    parts, holder = list(loc), kind
    for index, part in enumerate(parts):
        inside = isinstance(value, list) and isinstance(part, int) and part < len(value)
        inside = inside or (isinstance(value, dict) and part in value)
        if not inside and index < len(parts) - 1:
            kind = _member(kind, str(part))
            continue
        at.append(part)
        holder = kind
        if inside:
            value, kind = value[part], _inner(kind, part)
    return tuple(at), holder


def _strip(kind: Any) -> Any:
    """Return `kind` as the file has it, without Annotated and without "or None"."""
    if typing.get_origin(kind) is typing.Annotated:
        inner, *notes = typing.get_args(kind)
        return _strip(next((note.entry for note in notes if isinstance(note, ReadFrom)), inner))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        members = [m for m in typing.get_args(kind) if m is not type(None)]
        if len(members) == 1:
            return _strip(members[0])
    return kind


def _member(kind: Any, label: str) -> Any:
    """Return the member of a union that pydantic labels so, else `kind` itself."""
    for member in typing.get_args(_strip(kind)):
        if getattr(_strip(member), "__name__", None) == label:
            return member
    return kind


def _inner(kind: Any, part: str | int) -> Any:
    """Return the type of the value at `part` of a `kind`; None if the types do not define it."""
    kind = _strip(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _fields(kind).get(str(part))
    arguments = [a for a in typing.get_args(kind) if a is not ...]
    if isinstance(part, int) and part < len(arguments):
        return arguments[part]
    return arguments[-1] if arguments else None


def _legal_keys(holder: Any) -> list[str]:
    kind = _strip(holder)
    return list(_fields(kind)) if dataclasses.is_dataclass(kind) and isinstance(kind, type) else []


def _text(document: Document, holder: Any, at: Location, detail: ErrorDetails) -> str:
    context: Mapping[str, Any] = detail.get("ctx", {})
    if detail["type"] == "unexpected_keyword_argument":
        legal = _legal_keys(holder)
        return f"unknown key{did_you_mean(str(at[-1]), legal)}; legal keys are {', '.join(legal)}"
    if detail["type"] in _MISSING:
        return f"missing; this key is needed here beside {_got_keys(detail['input'])}"
    if detail["type"] == "value_error":
        return str(context["error"])
    said = detail["msg"].removeprefix("Input ")
    message = _MESSAGES.get(detail["type"], said[:1].lower() + said[1:])
    return f"{message}; got {_shown(document, at, detail['input'])}{spelling_hint(detail['type'], detail['input'])}"


#: Words that YAML 1.1 reads as true and false.
_OLD_BOOLEANS = {"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}
_LEADING_ZERO = re.compile(r"([+-]?)0+(\d[\d_]*)", re.ASCII)


def spelling_hint(kind: str, value: Any) -> str:
    """Return how to write a value of the wrong type, for spellings of which readers of YAML differ."""
    if kind in ("string_type", "path_type"):
        return "" if isinstance(value, list | dict | None) else "; write it in quotes to make it text"
    if not isinstance(value, str):
        return ""
    if kind == "bool_type" and value.lower() in _OLD_BOOLEANS:
        return f"; write {_OLD_BOOLEANS[value.lower()]}"
    if kind not in ("int_type", "float_type"):
        return ""
    if zeros := _LEADING_ZERO.fullmatch(value):
        return f"; write {zeros[1]}{zeros[2].replace('_', '')} without the leading zero"
    digits = value.replace("_", "")
    return f"; write {digits}" if digits != value and digits.isdecimal() else ""


_MESSAGES = {
    "string_type": "should be text",
    "path_type": "should be text",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "dict_type": "should be a mapping of keys to values",
    "dataclass_type": "should be a mapping of keys to values",
    "dataclass_exact_type": "should be a mapping of keys to values",
}
_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}


def _got_keys(value: Any) -> str:
    return ", ".join(str(key) for key in value) if isinstance(value, dict) and value else "nothing"


def _shown(document: Document, at: Location, value: Any) -> str:
    """Return the value, as written in the file if that is short."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or value == "":
        return "nothing"
    return repr(value) if isinstance(value, str) else document.tree.texts.get(at, repr(value))
