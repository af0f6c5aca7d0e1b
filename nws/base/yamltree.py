"""YAML text into plain data that remembers its lines.

`yaml.compose` returns nodes with marks; they are turned into lists, dictionaries and scalars here, and every location
gets its line. Plain scalars follow the core schema of YAML 1.2 (section 10.3.2), not the 1.1 of PyYAML, which reads
``010`` as 8, ``12:30`` as 750 and ``no`` as false: here ``12:30``, ``no`` and ``1_000`` are texts, ``1e-4`` is a
number. Digits after a leading zero are text, too, because readers disagree on their base. Keys stay as written, merges
(``<<``) and aliases work. Duplicate keys and values that cannot be built are collected as problems, not raised. The
schema of the data is applied in `nws.base.reader`.
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any

Location = tuple[str | int, ...]
"""Keys and list indices from the top of a document to a place in it."""

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\.\d+|(0|[1-9]\d*)(\.\d*)?)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
#: Digits of the longest whole number; Python refuses to read far longer ones.
_MOST_DIGITS = 400
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
#: Type of the values that a scalar with a tag of its own may have.
_TAGGED: dict[str, type] = {"int": int, "float": float, "bool": bool, "null": type(None)}
#: Levels of nesting, and values with all aliases written out, that no configuration needs.
_DEEPEST = 100
_MOST_VALUES = 1_000_000
_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong at one place of a file. `line`: counted from 1."""

    line: int
    at: Location
    text: str


_TOO_DEEP = Problem(line=1, at=(), text="nested too deeply; write it flatter")


@dataclass(frozen=True, slots=True)
class Tree:
    """Plain data with, for every location, its line (from 1) and, for scalars, their text.

    broken : locations of values that could not be built; these values are None
    """

    value: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    texts: dict[Location, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: set[Location] = field(default_factory=set)

    def line(self, at: Location) -> int:
        """Return line of a place, or of the nearest thing around it."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)


def parse(text: str) -> Tree:
    """Return the one document in `text`; problems are in the tree."""
    import yaml

    if _is_deep(text):
        return Tree(None, problems=[_TOO_DEEP])
    loader = yaml.CSafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Tree(
                None, problems=[Problem(line=1, at=(), text="the file is empty; write the keys it needs")]
            )
        return _Builder(loader).build(node)
    except yaml.YAMLError as error:
        return Tree(None, problems=[_syntax_problem(error)])
    except _TooMany:
        text = f"more than {_MOST_VALUES} values once aliases are written out; write it without them"
        return Tree(None, problems=[Problem(line=1, at=(), text=text)])
    except RecursionError:
        return Tree(None, problems=[_TOO_DEEP])
    finally:
        loader.dispose()


def _is_deep(text: str) -> bool:
    """Return whether lists and mappings are nested beyond `_DEEPEST`: the C loader's recursion would end the
    process.
    """
    import yaml

    loader, depth = yaml.CSafeLoader(text), 0
    try:
        while loader.check_event():
            event = loader.get_event()
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                return True
    except yaml.YAMLError:
        # the loader that follows reports it properly; up to here it is flat enough
        return False
    finally:
        loader.dispose()
    return False


def _syntax_problem(error: Any) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = 1 if mark is None else mark.line + 1
    parts = [getattr(error, "context", None), getattr(error, "problem", None) or str(error)]
    said = ", ".join(part for part in parts if part)
    column = "" if mark is None else f" (column {mark.column + 1})"
    return Problem(
        line=line, at=(), text=f"not valid YAML: {said}{column}; check indentation, quotes and brackets"
    )


def core_value(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar by the core schema of YAML 1.2; raise `ValueError` if it is not finite."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) <= _MOST_DIGITS:
        if _DECIMAL.fullmatch(text):
            return int(text)
        if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
            return int(text, 0)
    finite = _FLOAT.fullmatch(text)
    if finite or _NOT_FINITE.fullmatch(text):
        value = float(text) if finite else math.inf
        if math.isfinite(value):
            return value
        raise ValueError(f"must be a finite number; got {text}, leave the key out for no limit")
    return text


class _TooMany(Exception):
    """The file has more values than `_MOST_VALUES`."""


class _Builder:
    """Turns nodes into a `Tree`."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._tree = Tree()
        self._open: list[Any] = []
        # An alias stands for the same node many times.
        self._implicit: dict[tuple[str, bool], str] = {}
        self._values = 0

    def build(self, node: Any) -> Tree:
        value = self._value(node, ())
        return replace(self._tree, value=value)

    def _value(self, node: Any, at: Location) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _TooMany
        self._tree.lines.setdefault(at, node.start_mark.line + 1)
        if any(node is parent for parent in self._open):
            self._complain(node, at, "an alias that contains itself; write the value out")
            self._tree.broken.add(at)
            return None
        if node.id == "scalar":
            return self._scalar(node, at)
        if node.tag not in _PLAIN_TAGS:
            self._complain(node, at, f"the tag {node.tag} is not known here; leave it out")
        self._open.append(node)
        try:
            if node.id == "sequence":
                return [self._value(item, (*at, i)) for i, item in enumerate(node.value)]
            return self._mapping(node, at)
        finally:
            self._open.pop()

    def _scalar(self, node: Any, at: Location) -> Any:
        self._tree.texts[at] = node.value
        try:
            return self._typed(node)
        except ValueError as error:
            self._complain(node, at, str(error))
        self._tree.broken.add(at)
        return None

    def _typed(self, node: Any) -> Any:
        """Return the value of a scalar; raise `ValueError` if it has none."""
        import yaml

        plain = not node.style
        # The tag that PyYAML gives a scalar without one; any other stands in the file.
        implicit = self._implicit.get((node.value, plain))
        if implicit is None:
            implicit = self._loader.resolve(yaml.ScalarNode, node.value, (plain, not plain))
            self._implicit[node.value, plain] = implicit
        if node.tag == implicit:
            return core_value(node.value) if plain else node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return node.value
        if kind not in _TAGGED:
            raise ValueError(f"the tag {node.tag} is not known here; leave it out")
        value = core_value(node.value)
        if kind == "float" and type(value) is int:
            return float(value)
        if type(value) is not _TAGGED[kind]:
            raise ValueError(f"{node.value!r} is not of its tag {node.tag}; leave the tag out")
        return value

    def _mapping(self, node: Any, at: Location) -> dict[str, Any]:
        value: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merge(value_node, at) | merged
                continue
            if key_node.id != "scalar":
                self._complain(key_node, at, "a key must be text; got a list or a mapping")
                continue
            key = key_node.value
            here = (*at, key)
            if key in value:
                first = self._tree.lines[here]
                self._complain(key_node, here, f"duplicate key; it stands in line {first} already, keep one")
                continue
            self._tree.lines[here] = key_node.start_mark.line + 1
            value[key] = self._value(value_node, here)
        return merged | value

    def _merge(self, node: Any, at: Location) -> dict[str, Any]:
        """Return keys that ``<<`` brings in; of several mappings the first wins, as YAML has it."""
        merged: dict[str, Any] = {}
        for source in node.value if node.id == "sequence" else [node]:
            if source.id != "mapping" or any(source is parent for parent in self._open):
                self._complain(source, at, "<< takes another mapping, or a list of them")
                continue
            merged = self._mapping(source, at) | merged
        return merged

    def _complain(self, node: Any, at: Location, text: str) -> None:
        self._tree.problems.append(Problem(line=node.start_mark.line + 1, at=at, text=text))
