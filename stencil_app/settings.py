"""From the words on the command line to one checked record: every problem found at once, none acted on.

Pure: the number of ranks is an argument; paths are read but nothing is created. The options of the physics are in their
own tables (`stencil_app.heat`, `stencil_app.jacobi2d`); those of the runtime are here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stencil_app.errors import UsageError
from stencil_app.mesh import decomposition
from stencil_app.mesh.decomposition import Decomposition
from stencil_app.options import Option, Value, benchmark_problems, parse_all, place_problems
from stencil_app.physics import Physics

ITERATIONS = Option(
    name="iterations", default="500", at_least=0, help="iteration to end at, counted from the very start"
)
RESIDUAL_EVERY = Option(
    name="residual_every", default="50", at_least=1, help="iterations from one residual to the next"
)
TOLERANCE = Option(
    name="tolerance", default="0", type=float, at_least=0.0, help="stop at the first residual this small"
)
CHECKPOINT_EVERY = Option(
    name="checkpoint_every", default="1", at_least=1, help="iterations from one checkpoint to the next"
)
SWEEPS = Option(
    name="sweeps",
    default="auto",
    choices=("auto", "1", "2", "4", "8", "16"),
    help="iterations for each exchange with the neighbours, at most; auto: chosen from the slabs",
)
SIZE = Option(name="size", default="1", at_least=1, help="rows, split evenly over the ranks")
ROWS = Option(name="rows", default="1", at_least=1, help="with --benchmark: rows of each rank")

NUMBERS = (SIZE, ITERATIONS, SWEEPS, RESIDUAL_EVERY, TOLERANCE, CHECKPOINT_EVERY, ROWS)
PATHS = {
    "record_dir": "directory for one record of each rank's times, rank-00000.json ...",
    "checkpoint": "write checkpoints to this file, one at the end at least",
    "restart": "go on from this checkpoint, on any slabs and ranks",
    "progress": "append a line of progress to this file every second",
    "watch_slabs": "look into this file for new slabs while the run goes on",
    "output": "write the final field to this file, .npy",
    "benchmark": "measure costs instead of running, write them to this file, .json",
}
_WITH_BENCHMARK = ("sweeps", "residual_every", "rows", "benchmark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A run, checked. `slabs` is None for a benchmark, whose slabs all have `rows` rows (None: chosen).

    sweeps : iterations for each exchange, None for the problem's choice
    """

    physics: Mapping[str, Value]
    slabs: Decomposition | None
    iterations: int
    residual_every: int
    sweeps: int | None
    tolerance: float | None
    checkpoint_every: int | None
    rows: int | None
    record_dir: Path | None
    checkpoint: Path | None
    restart: Path | None
    progress: Path | None
    watch_slabs: Path | None
    output: Path | None
    benchmark: Path | None


def check(physics: Physics, texts: Mapping[str, str | None], *, ranks: int, strays: list[str]) -> Settings:
    """Return the settings of a command line; raises `UsageError` with every problem.

    texts : texts by option name; None for options not given
    strays : problems found before, reported together with the others
    """
    given = {name for name, text in texts.items() if text is not None}
    values, problems = parse_all(physics.options, texts)
    numbers, more = parse_all(NUMBERS, texts)
    problems = [*strays, *problems, *more]
    problems += _combinations(given)
    paths = {name: Path(texts[name] or "") if name in given else None for name in PATHS}
    problems += place_problems(paths)
    output = paths["output"]
    if output is not None and output.suffix != ".npy":
        problems.append(f"--output {output}: the field is written as .npy; give a name that ends so")
    slabs = None
    if "benchmark" not in given:
        slabs = _slabs(texts, numbers.get("size"), ranks, problems)
    if problems:
        raise UsageError(problems)

    def if_given(name: str) -> Value | None:
        return numbers[name] if name in given else None

    return Settings(
        physics=values,
        slabs=slabs,
        iterations=int(numbers["iterations"]),
        residual_every=int(numbers["residual_every"]),
        sweeps=None if numbers["sweeps"] == SWEEPS.default else int(numbers["sweeps"]),
        tolerance=None if if_given("tolerance") is None else float(numbers["tolerance"]),
        checkpoint_every=None if if_given("checkpoint_every") is None else int(numbers["checkpoint_every"]),
        rows=None if if_given("rows") is None else int(numbers["rows"]),
        **paths,
    )


def _slabs(
    texts: Mapping[str, str | None], size: Value | None, ranks: int, problems: list[str]
) -> Decomposition | None:
    text = texts.get("slabs")
    if text is None and texts.get("size") is None:
        problems.append("--slabs or --size is missing: give the rows of each rank (20,22,22) or of all (64)")
        return None
    if text is None:
        if size is not None and int(size) < ranks:
            problems.append(
                f"--size {size}: {ranks} ranks need at least {ranks} rows, 1 each; "
                "give more rows or start fewer ranks"
            )
            return None
        return None if size is None else decomposition.even(int(size), ranks)
    try:
        slabs = decomposition.parse(text)
    except ValueError as error:
        problems.append(f"--slabs: {error}")
        return None
    if slabs.ranks != ranks:
        problems.append(
            f"--slabs {text}: {slabs.ranks} slab(s) for {ranks} rank(s); give one slab for each rank of "
            f"mpiexec, or start it with -n {slabs.ranks}"
        )
    if texts.get("size") is not None and size is not None and slabs.size != size:
        problems.append(f"--slabs {text}: {slabs.size} rows together, but --size is {size}; leave --size out")
    return slabs


def _combinations(given: set[str]) -> list[str]:
    problems = []
    if "checkpoint_every" in given and "checkpoint" not in given:
        problems.append("--checkpoint-every: needs --checkpoint FILE, where to write to")
    others = ("slabs", *(o.name for o in NUMBERS), *PATHS)
    words = "--rows, --sweeps, --residual-every and the options of the mesh"
    return problems + benchmark_problems(
        given, others, _WITH_BENCHMARK, words=words, rows_from="--slabs or --size"
    )
