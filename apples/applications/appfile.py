"""Application files: how to start a user's own MPI program on given pieces, in YAML.

A file gives what no measurement can find: the command, how pieces are passed, and limits. Reading it starts nothing.
All its errors are reported at once, with file and line. docs/application-files.md has the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from apples.applications.commandentries import Commands, Pattern, Words
from apples.applications.parameters import CountEntry, Formula, FormulaEntry, ParameterEntry
from apples.applications.rendering import (
    AXES,
    CHECKPOINT,
    OF_PART,
    PIECES,
    VARIABLES,
    TemplateProblem,
    Text,
    names_of,
)
from apples.model.limits import Limits
from apples.model.wholenumbers import WholeNumbers, WholeNumbersEntry
from nws.base.quantities import Amount_bytes, Count
from nws.base.reader import Document, read_yaml, validate
from nws.base.yamltree import Location, Problem

#: Formula of keys that are measured unless the file states them.
ZERO = Formula("0")

#: A name that can be a template variable, an option and part of a file name.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_APPLICATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
#: Templates within other keys.
_PARTS = (("restart", "command"), ("axes", "width"), ("benchmark", "command"), ("checkpoint", "read"))
#: Keys that are arithmetic of parameters.
FORMULAS = (
    *(("memory_per_row",), ("memory_fixed",), ("messages",), ("message_bytes",)),
    ("checkpoint", "bytes_per_row"),
)
#: A block scalar's header: the text begins on the line below it.
_BLOCK_HEADER = re.compile(r"[|>][0-9+-]*\s*(#.*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """How the program is measured.

    iterations : of short runs of the program under the monitor.  size : rows of `apples app check` without SIZE
    command : of a benchmark of the program's own instead, which writes its costs to `result`
    """

    iterations: Count | None = None
    size: Count = 64
    command: Words = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """Checkpoints in a file that AppLeS names.

    bytes_per_row : of a checkpoint.  read : prints the iterations in `checkpoint`; fails if it is of another run
    """

    bytes_per_row: FormulaEntry
    read: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How a program goes on from its own checkpoints, on any pieces.

    checkpoint : matches the whole name of a checkpoint in the program's directory; its group is the iterations in it
    command : template, with `done` and `checkpoint` beside the other variables
    """

    checkpoint: Pattern
    command: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class AxesEntry:
    """A second axis along which the program can be cut (`apples.model.cut.Axes`).

    width : number, or template of parameters
    """

    cut: Literal["rectilinear", "columns"]
    width: Count | str
    min_width: Count = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationEntry:
    """A whole application file.

    row : a row in the user's words.  mpi : the program's MPI library, None to find it from the program
    command, environment, files, prepare, finish, warm : templates; the last compiles, once on a machine
    serial : command of a run on one rank, if it differs; such a run is not measured
    sizes : of the program's meshes, None for any; it is then measured at the size of the run only
    ranks, min_ranks, max_ranks : legal numbers of ranks
    pieces : how the program gets them; None finds it from the templates
    parameters : further variables of the templates, changed by --set
    directory : where the program starts, relative to the file; None for anywhere
    progress : finds the iteration in a line of the program's output; None for the monitor's count
    records : pattern of the names of records that ranks write to `run_dir`; None for the monitor's observations
    checkpoint, restart : None if the program has no such checkpoints
    memory_per_row, memory_fixed : of one rank; 0 to measure them
    messages, message_bytes : to one neighbour in an iteration, and of one of them; 0 to measure them
    axes : None for slabs only
    needs_package : ranks import this package
    """

    name: str
    command: Words
    iterations: CountEntry
    benchmark: BenchmarkRun
    serial: Words = ()
    summary: str | None = None
    row: str = "row"
    sizes: WholeNumbersEntry | None = None
    ranks: WholeNumbersEntry = field(default_factory=WholeNumbers)
    min_ranks: Count = 1
    max_ranks: Count | None = None
    mpi: Literal["mpich", "openmpi", "intelmpi"] | None = None
    pieces: Literal["argument", "environment", "file", "even"] | None = None
    parameters: dict[str, ParameterEntry] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Commands = ()
    finish: Commands = ()
    warm: Words = ()
    directory: str | None = "."
    progress: Pattern | None = None
    records: str | None = None
    checkpoint: CheckpointEntry | None = None
    restart: Restart | None = None
    memory_per_row: FormulaEntry = ZERO
    memory_fixed: FormulaEntry = ZERO
    messages: FormulaEntry = ZERO
    message_bytes: FormulaEntry = ZERO
    min_rows: Count = 1
    max_rows: Count | None = None
    memory_shared: Amount_bytes = 0.0
    limits: Limits = field(default_factory=Limits)
    moves_rows: bool = False
    axes: AxesEntry | None = None
    needs_package: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFile:
    """An application file that was read. templates : each text of the file that is one, by its place"""

    path: Path
    entry: ApplicationEntry
    templates: Mapping[Location, Text]

    @property
    def directory(self) -> Path | None:
        """Return the absolute directory in which the program starts; None for anywhere."""
        if self.entry.directory is None:
            return None
        return (self.path.absolute().parent / self.entry.directory).resolve()

    @property
    def even(self) -> bool:
        """Return whether the program cannot take pieces that differ."""
        return self.entry.pieces == "even"

    @property
    def ranks(self) -> WholeNumbers:
        """Return the legal numbers of ranks."""
        entry = self.entry
        return replace(entry.ranks, at_least=entry.min_ranks, at_most=entry.max_ranks)


def read_application(path: str | Path) -> ApplicationFile:
    """Return an application file; raise `ConfigError` with every problem of the file."""
    document = read_yaml(path)
    templates = dict(_templates(document))
    entry = validate(document, ApplicationEntry, _problems(document, templates))
    file = ApplicationFile(path=Path(path), entry=entry, templates=templates)
    if file.ranks.following(1) is None:
        key = next(key for key in ("ranks", "max_ranks") if key in document.value)
        document.fail([document.problem((key,), f"no number of ranks is {file.ranks}")])
    texts = document.tree.texts
    for name, parameter in entry.parameters.items():
        at = ("parameters", name)
        written = texts.get(at) or texts.get((*at, "default"))
        entry.parameters[name] = replace(parameter, written=written)
    return file


def _templates(document: Document) -> Iterator[tuple[Location, Text]]:
    """Yield the texts of a file that are templates, whether or not the rest of the file is legal."""
    value = document.value if isinstance(document.value, dict) else {}
    lines = document.path.read_text(encoding="utf-8-sig").splitlines()
    lines_of = document.tree.lines
    for key in ("command", "serial", "prepare", "finish", "files", "environment", "warm"):
        for at, text in _texts(value.get(key), (key,)):
            line = lines_of.get(at) or document.tree.line(at)
            block = line <= len(lines) and _BLOCK_HEADER.search(lines[line - 1]) is not None
            yield at, Text(path=document.path, line=line + block, source=text)
    for key, part in _PARTS:
        entry = value.get(key)
        for at, text in _texts(entry.get(part), (key, part)) if isinstance(entry, dict) else ():
            yield at, Text(path=document.path, line=lines_of.get(at) or document.tree.line(at), source=text)


def _texts(value: object, at: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, list | dict):
        for key, item in enumerate(value) if isinstance(value, list) else value.items():
            yield from _texts(item, (*at, key))


def _problems(document: Document, templates: Mapping[Location, Text]) -> list[Problem]:
    """Return the problems that the types of the keys cannot express."""
    value = document.value
    if not isinstance(value, dict):
        return []
    found = [*_names(document, value), *_unknown_in_formulas(document, value)]
    parameters = value.get("parameters")
    further = [*(parameters if isinstance(parameters, dict) else ()), *_of_axes(value)]
    further += CHECKPOINT if value.get("checkpoint") is not None else ()
    used: dict[str, set[str]] = {}
    checked = names_of([(text, [*further, *OF_PART.get(str(at[0]), ())]) for at, text in templates.items()])
    for (at, text), (names, problems) in zip(templates.items(), checked, strict=True):
        if "\0" in text.source:
            problems.append(TemplateProblem(text.line, "has a NUL, which no program can get"))
        if at[0] == "axes" and (other := names & {*VARIABLES, *_of_axes(value)}):
            problems.append(
                TemplateProblem(
                    text.line,
                    f"{', '.join(sorted(other))} is not legal here: use parameters, because the program is measured "
                    "on fewer rows of the same width",
                )
            )
        used.setdefault(str(at[0]), set()).update(names)
        found += [Problem(line=p.line, at=at, text=p.text) for p in problems]
    if not found:
        found += _passing(document, value, used)
    return found


def _of_axes(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the variables of the file's cut on two axes; none without one."""
    axes = value.get("axes")
    return AXES.get(str(axes.get("cut")), ()) if isinstance(axes, dict) else ()


def _names(document: Document, value: Mapping[str, Any]) -> Iterator[Problem]:
    name = value.get("name")
    if isinstance(name, str) and not _APPLICATION.fullmatch(name):
        yield document.problem(
            ("name",), f"got {name!r}; legal are letters, digits, dots, underscores and dashes"
        )
    commands: list[Location] = [("command",), ("restart", "command"), ("checkpoint", "read")]
    for at in commands:
        if _at(value, at) == []:
            yield document.problem(at, "no program; give a list of texts, the program first")
    benchmark = value.get("benchmark")
    if isinstance(benchmark, dict) and not ("iterations" in benchmark or benchmark.get("command")):
        yield document.problem(
            ("benchmark",), "needs iterations of short runs, or the command of a benchmark"
        )
    if value.get("checkpoint") is not None and value.get("restart") is not None:
        yield document.problem(("restart",), "excludes checkpoint; leave one of them out")
    if value.get("directory", "") is None and value.get("files"):
        yield document.problem(("files",), "needs a directory to write them to")
    if value.get("axes") is not None:
        for key, other in (("pieces", "even"), ("moves_rows", True)):
            if value.get(key) == other:
                yield document.problem((key,), f"got {other}, which excludes axes; leave one of them out")
    parameters, reserved = value.get("parameters"), {*_RESERVED, *_of_axes(value)}
    for parameter in parameters if isinstance(parameters, dict) else ():
        if not _NAME.fullmatch(parameter) or parameter in reserved:
            why = "it has this meaning already" if parameter in reserved else "it cannot be a variable"
            yield document.problem(("parameters", parameter), f"not usable as a parameter: {why}")
    environment = value.get("environment")
    for name in environment if isinstance(environment, dict) else ():
        if not name or {"\0", "="} & set(name):
            yield document.problem(
                ("environment", name), "no name of a variable: it is empty, or has a NUL or ="
            )
    files, directory = value.get("files"), document.path.absolute().parent / str(value.get("directory") or "")
    for name in files if isinstance(files, dict) else ():
        if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            yield document.problem(("files", name), "should be a path below the directory of the program")
        elif (directory / name).resolve() == document.path.resolve():
            yield document.problem(("files", name), "is this file itself; give it another name")


def _at(value: object, at: Location) -> object:
    """Return the value at a place of a file; None if there is none."""
    for key in at:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _unknown_in_formulas(document: Document, value: Mapping[str, Any]) -> Iterator[Problem]:
    parameters = value.get("parameters")
    legal = set(parameters) if isinstance(parameters, dict) else set()
    for at in FORMULAS:
        try:
            names = Formula(str(_at(value, at))).names
        except ValueError:
            # Reading its type reports it.
            continue
        if other := sorted(names - legal):
            yield document.problem(
                at, f"{', '.join(other)} is no parameter; legal are parameters of this file"
            )


def _passing(document: Document, value: Mapping[str, Any], used: Mapping[str, set[str]]) -> Iterable[Problem]:
    """Return problems of how pieces and iterations reach the program."""
    everywhere = set().union(*used.values())
    if "iterations" not in everywhere:
        yield document.problem(
            ("iterations",), "no template uses {{ iterations }}, so a benchmark would be as long as the run"
        )
    pieces, needed = value.get("pieces"), {name for name in _of_axes(value) if "procs" not in name} or PIECES
    places = {"argument": "command", "environment": "environment", "file": "files"}
    if pieces is None and not everywhere & needed:
        yield document.problem(
            ("command",),
            f"no template uses {', '.join(sorted(needed))}, so the program cannot know its pieces; use one, or write "
            "pieces: even if it always divides its rows evenly",
        )
    elif isinstance(pieces, str) and pieces in places and not used.get(places[pieces], set()) & needed:
        yield document.problem(
            ("pieces",), f"got {pieces}, but no template of {places[pieces]} uses {', '.join(sorted(needed))}"
        )


_RESERVED = frozenset(
    {
        *PIECES,
        *CHECKPOINT,
        *(name for names in OF_PART.values() for name in names),
        "size",
        "ranks",
        "iterations",
        "run_dir",
        "python",
        "range",
        "true",
        "false",
        "none",
        "loop",
    }
)
