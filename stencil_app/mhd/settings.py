"""From the words of `stencil-app mhd PROBLEM` to one checked record: every problem found at once, none acted on.

Options of the problem are read from its own table and, if the command line does not name them, from a YAML file of
`name: value` lines. The case is made here too, because the number of rows depends on the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nws.base.command import missing
from stencil_app.errors import UsageError
from stencil_app.mesh import decomposition
from stencil_app.mesh.decomposition import Decomposition, cut_problem
from stencil_app.mhd.case import Case, Entry
from stencil_app.options import Option, Value, benchmark_problems, parse_all, place_problems

if TYPE_CHECKING:
    from stencil_app.mhd.initial import Frame

ITERATIONS = Option(
    name="iterations", default="0", at_least=0, help="cycle to end at; without it only time counts"
)
UNTIL = Option(
    name="until", default="0", type=float, at_least=0.0, help="time to end at instead of the problem's"
)
EVERY = Option(
    name="checkpoint_every", default="0", at_least=1, help="cycles from one checkpoint to the next"
)
HISTORY_EVERY = Option(
    name="history_every", default="10", at_least=1, help="cycles from line to line of --history"
)
ROWS = Option(name="rows", default="1", at_least=1, help="with --benchmark: rows of each rank")
NUMBERS = (ITERATIONS, UNTIL, EVERY, HISTORY_EVERY, ROWS)
PATHS = {
    "out": "write the solution to this file: .npz, .h5 (with .xdmf) or .png",
    "checkpoint": "write checkpoints to this file, one at the end at least",
    "restart": "go on from this checkpoint, on any slabs and ranks",
    "history": "write a table of conserved quantities to this file, .csv",
    "record_dir": "directory for one record of each rank's times, rank-00000.json ...",
    "progress": "append a line of progress to this file every second",
    "watch_slabs": "look into this file for new slabs while the run goes on",
    "parameters": "take options from this file of YAML, name: value",
    "benchmark": "measure costs instead of running, write them to this file, .json",
}
_WITH_BENCHMARK = ("rows", "parameters", "benchmark")
SLABS_HELP = "rows of each rank, in rank order; without it they are even"
RESLAB_HELP = "cycles at which to go over to other slabs, 40:3,9,4;80:6,5,5"

#: Formats of `stencil_app.mhd.solution`, and the optional package that each needs.
_PACKAGES = {".npz": None, ".h5": "h5py", ".png": "matplotlib"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MhdSettings:
    """A run, checked.

    parameters : all parameters of the answer, as checkpoints keep them
    cuts : slabs to change to, by cycle
    benchmark : file for the costs, instead of running, with slabs as high as in `slabs`
    """

    case: Case
    parameters: Mapping[str, Value]
    slabs: Decomposition
    cuts: Mapping[int, Decomposition]
    until: float
    iterations: int | None
    checkpoint_every: int | None
    history_every: int
    out: Path | None
    checkpoint: Path | None
    restart: Path | None
    history: Path | None
    record_dir: Path | None
    progress: Path | None
    watch_slabs: Path | None
    benchmark: Path | None


def check(entry: Entry, texts: Mapping[str, str | None], *, ranks: int, strays: list[str]) -> MhdSettings:
    """Return the settings of a command line; raises `UsageError` with every problem.

    texts : texts by option name; None for options not given
    """
    from stencil_app.mhd.initial import Frame

    texts, problems = _with_file(entry, texts)
    values, more = parse_all(entry.options, texts)
    numbers, most = parse_all([o for o in NUMBERS if texts.get(o.name) is not None], texts)
    paths = {
        name: Path(str(texts[name])) if texts.get(name) else None for name in PATHS if name != "parameters"
    }
    problems = [*strays, *problems, *more, *most, *_format_problems(paths["out"]), *place_problems(paths)]
    if texts.get("checkpoint_every") is not None and paths["checkpoint"] is None:
        problems.append("--checkpoint-every: needs --checkpoint FILE, where to write to")
    if texts.get("history_every") is not None and paths["history"] is None:
        problems.append("--history-every: needs --history FILE, where to write to")
    problems += _of_benchmark({name for name, text in texts.items() if text is not None})
    if problems:
        raise UsageError(problems)
    if paths["benchmark"] is not None:
        values = _of_equal_slabs(entry, values, (numbers.get("rows"), ranks))
    case = entry.make(values)
    frame = Frame(case)
    mesh = (frame.cells[2], frame.layout.least_rows)
    problems += _too_flat(frame)
    slabs = _slabs(texts.get("slabs"), mesh, ranks, problems)
    cuts = _cuts(texts.get("reslab"), mesh, ranks, problems)
    if problems or slabs is None:
        raise UsageError(problems)
    return MhdSettings(
        case=case,
        parameters={"problem": entry.name, **values},
        slabs=slabs,
        cuts=cuts,
        until=float(numbers.get("until", case.until)),
        iterations=int(numbers["iterations"]) if "iterations" in numbers else None,
        checkpoint_every=int(numbers["checkpoint_every"]) if "checkpoint_every" in numbers else None,
        history_every=int(numbers.get("history_every", HISTORY_EVERY.default)),
        **paths,
    )


def _of_benchmark(given: set[str]) -> list[str]:
    """Return conflicts with --benchmark, and options that need it."""
    others = ("slabs", "reslab", *(o.name for o in NUMBERS), *PATHS)
    words = "--rows and the options of the problem"
    return benchmark_problems(given, others, _WITH_BENCHMARK, words=words, rows_from="the mesh")


def _of_equal_slabs(
    entry: Entry, values: Mapping[str, Value], height: tuple[Value | None, int]
) -> dict[str, Value]:
    """Return option values of a mesh with equal slabs on each rank; rows None: the default."""
    from stencil_app.mhd.initial import Frame
    from stencil_app.running.costbenchmark import default_rows

    rows, ranks = height
    frame = Frame(entry.make(values))
    layout = frame.layout
    if not layout.slabbed:
        raise UsageError(
            f"--benchmark: {entry.name} as given has no axis to cut into slabs; take --ny or --nz above 1"
        )
    if rows is None:
        rows = default_rows(2 * layout.plane_bytes)
    if int(rows) < layout.least_rows:
        raise UsageError(f"--rows {rows}: the thinnest slab that can be is {layout.least_rows}")
    return {**values, f"n{'xyz'[frame.order[2]]}": int(rows) * ranks}


def _with_file(entry: Entry, texts: Mapping[str, str | None]) -> tuple[Mapping[str, str | None], list[str]]:
    """Return texts with those of --parameters for options that the command line lacks."""
    name = texts.get("parameters")
    if name is None:
        return texts, []
    from nws.base.errors import ConfigError
    from nws.base.reader import read_yaml

    try:
        document = read_yaml(name)
    except ConfigError as error:
        return texts, [f"--parameters {problem}" for problem in error.problems]
    if not isinstance(document.value, dict):
        return texts, [f"--parameters {name}: lines of the form name: value are needed"]
    legal = [option.name for option in (*entry.options, *NUMBERS)]
    unknown = (
        document.problem((key,), f"no option of {entry.name}; legal are {', '.join(dict.fromkeys(legal))}")
        for key in document.value
        if key not in legal
    )
    # The text as written: 0.10 stays 0.10, and 010 is no octal number.
    given = {key: document.tree.texts.get((key,), "") for key in document.value}
    try:
        document.check([*document.tree.problems, *unknown])
    except ConfigError as error:
        return texts, [f"--parameters {problem}" for problem in error.problems]
    return {**given, **{key: text for key, text in texts.items() if text is not None}}, []


def _too_flat(frame: Frame) -> list[str]:
    """Return why the ghosts of a box cannot be filled from its own cells along the slab axis."""
    cells, least = frame.cells[2], frame.layout.least_rows
    if cells >= least or frame.boundaries[2] == "outflow":
        return []
    axis = "xyz"[frame.order[2]]
    return [
        f"{cells} cells along {axis}: a box with {frame.boundaries[2]} walls needs 1 or at least {least}; "
        f"take --n{axis} 1 or --n{axis} {least}"
    ]


def _slabs(text: str | None, mesh: tuple[int, int], ranks: int, problems: list[str]) -> Decomposition | None:
    size, least = mesh
    if text is None:
        if size < least * ranks and ranks > 1:
            problems.append(
                f"{ranks} ranks: the mesh has {size} row(s), and a slab needs {least}; take more cells along the "
                f"slab axis (z, or y in the plane), or at most {max(1, size // least)} rank(s)"
            )
            return None
        return decomposition.even(size, ranks)
    problem = cut_problem(text, mesh, ranks)
    if problem is not None:
        problems.append(f"--slabs {problem}")
        return None
    return decomposition.parse(text)


def _cuts(
    text: str | None, mesh: tuple[int, int], ranks: int, problems: list[str]
) -> dict[int, Decomposition]:
    cuts: dict[int, Decomposition] = {}
    for piece in (text or "").split(";"):
        if not piece.strip():
            continue
        cycle, colon, heights = piece.strip().partition(":")
        if not colon or not cycle.isdigit():
            problems.append(f"--reslab {piece}: no cycle before the heights; give for instance 40:3,9,4")
            continue
        problem = cut_problem(heights, mesh, ranks)
        if problem is not None:
            problems.append(f"--reslab {cycle}: {problem}")
            continue
        cuts[int(cycle)] = decomposition.parse(heights)
    return cuts


def _format_problems(out: Path | None) -> list[str]:
    """Return why the solution cannot be written in the format that the file's name asks for."""
    if out is None:
        return []
    if out.suffix not in _PACKAGES:
        return [f"--out {out}: the solution is written as {', '.join(_PACKAGES)}; give such a name"]
    package = _PACKAGES[out.suffix]
    if package is not None and find_spec(package) is None:
        return [f"--out {out}: {missing(package)}, or write .npz"]
    return []
