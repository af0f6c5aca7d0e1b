"""Templates of application files: Jinja2 in a sandbox, undefined names are errors with file and line.

A template sees plain values only. It cannot reach attributes of Python objects, files or the environment.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apples.errors import ConfigError
from apples.model.cut import Box, band_heights, column_counts, column_widths
from nws.base.bounded import CPU_S, LimitReached, within_limits

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

#: Variables that tell a program its pieces.
PIECES = frozenset({"rows", "first_rows", "cuts", "weights"})

#: Cut on two axes → further variables of its templates; all but the numbers of columns and bands describe the pieces.
AXES = {
    "rectilinear": ("lx", "ly", "procs_x", "procs_y", "boxes"),
    "columns": ("lx", "columns", "boxes"),
}

#: Variable of slabs that boxes do not have.
SLABS_ONLY = "cuts"

#: Further variables of the command that goes on from a checkpoint which the program wrote by itself.
RESTART = ("done", "checkpoint")

#: Further variables of a program that keeps its checkpoints in a file which AppLeS names; without a value where there
#: is none.
CHECKPOINT = ("checkpoint", "checkpoint_every", "resume_from")

#: Further variables of a part of the file.
OF_PART = {"restart": RESTART, "benchmark": ("result",), "checkpoint": ("verify",)}

#: All variables, in the order of the documentation.
VARIABLES = (
    *("size", "ranks", "rows", "first_rows", "cuts", "weights"),
    *("iterations", "run_dir", "python"),
)

#: Bytes of a rendered template.
MOST_BYTES = 16 << 20

_TOO_LONG = f"it takes more than {CPU_S} s, or more than {MOST_BYTES >> 20} MB"

#: Digits of a fraction: enough for planes of any mesh, and the same text on every host.
_DIGITS = 12


#: An expression that needs no Jinja, whose import takes as long as planning: a name, or a list joined by a text.
_PLAIN = re.compile(r"\{\{ *([A-Za-z_]\w*) *(?:\| *join\('([^'\\{}]*)'\) *)?\}\}", re.ASCII)
_BRACKETS = re.compile(r"\{[{%#]")


class TemplateProblem(Exception):
    """A template that is not legal or cannot be rendered. line : in its file.  text : without the place"""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line, self.text = line, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One template. path : of its file.  line : where the text begins there, from 1"""

    path: Path
    line: int
    source: str

    def names(self, further: Collection[str]) -> tuple[set[str], list[TemplateProblem]]:
        """Return the variables that the template uses, and a problem for each that is not defined.

        further : legal names beside `VARIABLES`; those of boxes exclude `SLABS_ONLY`
        """
        legal = [*VARIABLES, *further]
        if "boxes" in further:
            legal.remove(SLABS_ONLY)
        if (plain := self.plain_names) is not None and plain <= set(legal):
            return plain, []
        # before the copies of this process that need it
        _environment()
        try:
            used, problems = json.loads(within_limits(partial(self._parsed, legal), MOST_BYTES))
        except LimitReached:
            return set(), [TemplateProblem(self.line, f"not a template: {_TOO_LONG}")]
        return set(used), [TemplateProblem(line, text) for line, text in problems]

    def _parsed(self, legal: Sequence[str]) -> bytes:
        """Return the used variables, and the line and text of each problem, as JSON.

        Jinja computes constant parts of expressions as it looks for names.
        """
        try:
            used, problems = self._used(legal)
        except TemplateProblem as problem:
            used, problems = set(), [problem]
        return json.dumps([sorted(used), [(one.line, one.text) for one in problems]]).encode()

    def _used(self, legal: Sequence[str]) -> tuple[set[str], list[TemplateProblem]]:
        from jinja2 import TemplateSyntaxError, meta, nodes

        try:
            tree = _environment().parse(self.source)
        except TemplateSyntaxError as error:
            raise TemplateProblem(self.line + error.lineno - 1, f"not a template: {error.message}") from None
        except RecursionError:
            raise TemplateProblem(self.line, "not a template: brackets are nested too deep") from None
        used = meta.find_undeclared_variables(tree)
        unknown = used - set(legal) - set(_environment().globals)
        problems = {
            (node.name, node.lineno): TemplateProblem(
                self.line + node.lineno - 1,
                f"{node.name} is not defined; legal are {', '.join(legal)}",
            )
            for node in tree.find_all(nodes.Name)
            if node.name in unknown
        }
        return used, list(problems.values())

    @property
    def plain_names(self) -> set[str] | None:
        """Return the variables of a text that needs no Jinja; None for others."""
        if _BRACKETS.search(_PLAIN.sub("", self.source)):
            return None
        return {match[1] for match in _PLAIN.finditer(self.source)}

    def lacks_value(self, values: Mapping[str, Any]) -> bool:
        """Return whether a variable of a plain text has no value."""
        return any(values.get(name, "") is None for name in self.plain_names or ())

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with the values filled in; raise `ConfigError` with file and line."""
        if self.plain_names is not None:
            return _PLAIN.sub(lambda match: _shown(values[match[1]], match[2]), self.source)
        _environment()
        try:
            answer = within_limits(partial(self._answer, values), MOST_BYTES).decode(
                "utf-8", "surrogateescape"
            )
        except LimitReached:
            answer = f"{self.line}: {_TOO_LONG}"
        if answer.startswith("="):
            return answer[1:]
        raise ConfigError(f"{self.path}:{answer.replace(':', ': the template cannot be rendered:', 1)}")

    def _answer(self, values: Mapping[str, Any]) -> bytes:
        """Return the rendered text behind an equals sign, or the line and the reason why there is none."""
        try:
            answer = f"={_environment().from_string(self.source).render(values)}"
        except Exception as error:
            # A template is the user's program: rendering may raise anything.
            answer = f"{self.line + _line_of(error) - 1}: {str(error) or type(error).__name__}"
        return answer.encode("utf-8", "surrogateescape")


def names_of(
    texts: Sequence[tuple[Text, Collection[str]]],
) -> list[tuple[set[str], list[TemplateProblem]]]:
    """Return the result of `Text.names` for each text with its further names."""
    return [text.names(further) for text, further in texts]


def _shown(value: Any, joint: str | None) -> str:
    return str(value) if joint is None else joint.join(map(str, value))


def variables(rows: Sequence[int], iterations: int, run_dir: Path) -> dict[str, Any]:
    """Return the values of `VARIABLES` for these pieces.

    cuts : len(rows) - 1 positions between pieces as fractions of the size.  weights : shares that sum to 1
    """
    size, first = sum(rows), [0, *accumulate(rows)]
    return {
        "size": size,
        "ranks": len(rows),
        "rows": list(rows),
        "first_rows": first[:-1],
        "cuts": [round(row / size, _DIGITS) for row in first[1:-1]],
        "weights": [round(each / size, _DIGITS) for each in rows],
        "iterations": iterations,
        "run_dir": str(run_dir),
        "python": sys.executable,
    }


def box_variables(cut: str, boxes: Sequence[Box]) -> dict[str, Any]:
    """Return the values of `AXES` for these boxes in rank order, and of the variables that differ from those of slabs.

    first_rows : first row of each rank.  weights : shares of all cells
    """
    size, width = max(b.y + b.height for b in boxes), max(b.x + b.width for b in boxes)
    lx, ly = column_widths(boxes), band_heights(boxes)
    values = {
        "lx": list(lx),
        "ly": list(ly),
        "procs_x": len(lx),
        "procs_y": len(ly),
        "columns": list(column_counts(boxes)),
        "boxes": [{"x": b.x, "y": b.y, "width": b.width, "height": b.height} for b in boxes],
    }
    return {
        "size": size,
        "first_rows": [b.y for b in boxes],
        "weights": [round(b.width * b.height / (size * width), _DIGITS) for b in boxes],
    } | {name: values[name] for name in AXES[cut]}


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Without keep_trailing_newline a rendered file would lose the end of its last line.
    found = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    found.globals = {"range": found.globals["range"]}
    return found


def _line_of(error: BaseException) -> int:
    """Return the line of a template in which an error was raised; 1 if it is unknown."""
    lines = [line for name, line in _frames(error) if name == "<template>"]
    return lines[-1] if lines else getattr(error, "lineno", None) or 1


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
