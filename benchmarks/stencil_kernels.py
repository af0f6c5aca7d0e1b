"""Iterations of heat and of Jacobi: this build, C with the least traffic (`benchmarks/c/stencils.c`), another build.

    python -m benchmarks stencil_kernels [--rounds 9] [--cells 256] [--points 4096] [--other DIR] [--sweeps 1 8 16]

Each round measures all variants in turns, on one rank and on two: this build with each number of sweeps for an
exchange, C without any exchange, and the build in the directory DIR (`git archive COMMIT stencil_app nws`). Builds
measure themselves (`stencil-app heat --benchmark`): CPU seconds of an iteration with its share of residuals. Prints
10^9 cells a second, medians over rounds and their range, and medians of the ratios to C and to the other build.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.common.report import BIN, ROOT, in_turns, machine, median, output, ratios, say, spread, table


def build_rate(ranks: int, words: tuple[str, ...], directory: Path, cells: int) -> float:
    """Return 10^9 cells a second of a build: words of its benchmark, cells of the whole mesh."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [str(BIN / "mpiexec"), "-n", str(ranks), sys.executable, "-P", "-m", "stencil_app", *words]
        output([*command, "--benchmark", file.name], PYTHONPATH=str(directory))
        document = json.loads(Path(file.name).read_text("utf-8"))
    seconds = document["rows"] * document["seconds_per_row"] + (document["exchange_s"] or 0.0)
    return cells / 1e9 / float(seconds)


def c_rate(ranks: int, command: tuple[str, ...], cells: int) -> float:
    """Return 10^9 cells a second of the C program; the slowest of `ranks` at once counts."""
    lines = output([str(BIN / "mpiexec"), "-n", str(ranks), *command]).split()
    return cells / 1e9 / max(map(float, lines))


def main(
    *,
    rounds: int = 9,
    cells: int = 256,
    points: int = 4096,
    other: Path | None = None,
    sweeps: tuple[int, ...] = (1, 8, 16),
) -> None:
    """Compare iteration rates.

    rounds: of all variants
    cells: of heat along each axis
    points: of Jacobi along each axis
    other: directory of another build
    sweeps: iterations for an exchange
    """
    say(machine())
    with tempfile.TemporaryDirectory() as directory:
        program = str(Path(directory, "stencils"))
        source = str(ROOT / "benchmarks/c/stencils.c")
        output(["cc", "-O3", "-march=native", "-ffp-contract=off", "-o", program, source])
        for name, n, lines in (("heat", cells, cells), ("jacobi2d", points, 1)):
            for ranks in (1, 2):
                whole, rows = n * n * lines, n // ranks
                words = (name, "--nx", str(n), *(("--ny", str(n)) if lines > 1 else ()), "--rows", str(rows))
                of = partial(build_rate, ranks, cells=whole)
                c_words = (program, name, str(n), str(lines), str(rows), "9")
                variants: dict[str, Callable[[], float]] = {"C": partial(c_rate, ranks, c_words, whole)}
                if other is not None:
                    variants["other"] = partial(of, words, other)
                for t in sweeps:
                    variants[f"T = {t}"] = partial(of, (*words, "--sweeps", str(t)), ROOT)
                rates = in_turns(variants, rounds)
                say(f"{name}, {n} rows on {ranks} rank(s)")
                table(
                    ("variant", "10^9 cells/s", "over C", "over other"),
                    [
                        (
                            key,
                            spread(of_key),
                            *(
                                median(ratios(of_key, rates[base]))
                                for base in ("C", "other")
                                if base in rates
                            ),
                        )
                        for key, of_key in rates.items()
                    ],
                    widths=(9, 24),
                )
    say(machine())
