"""Share of an iteration of `mhd` that overlaps the exchange of rows, by the clock of one rank.

    python benchmarks/swept_ahead.py [--rows 40 56 100] [--iterations 60]

The messages of an exchange are in flight while the rank computes the inner planes' rate and runs their predictor
(`stencil_app.running.runtime`). Prints the share of both in all computing, for slabs of these numbers of rows of the
mesh of `testbed_runs.py`.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from stencil_app import cli
from stencil_app.mesh.halo import Halo
from stencil_app.mhd.problem import MhdProblem

MESH = ("--nx", "32", "--ny", "32")


def timed(name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Return the method of that name, wrapped to record its seconds; `rate_bits` apart for ends and inner planes."""
    method = getattr(MhdProblem, name)

    def call(self: MhdProblem, *args: Any, **options: Any) -> Any:
        begun = perf_counter()
        found = method(self, *args, **options)
        spent[f"{name} of ends" if options.get("ends") else name] += perf_counter() - begun
        return found

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[40, 56, 100])
    parser.add_argument("--iterations", type=int, default=60)
    options = parser.parse_args()
    spent: dict[str, float] = defaultdict(float)
    for name in ("sweep_ahead", "sweep", "rate_bits"):
        setattr(MhdProblem, name, timed(name, spent))
    # A rank without neighbours would have its rows at once, and overlap nothing.
    Halo.arrives = lambda self, field, patience_s: False  # type: ignore[method-assign]
    for rows in options.rows:
        spent.clear()
        command = ["mhd", "blast", *MESH, "--nz", str(rows), "--iterations", str(options.iterations)]
        with contextlib.suppress(SystemExit):
            cli.commands.main(command, prog_name="stencil-app", standalone_mode=False)
        if not spent["sweep_ahead"]:
            raise SystemExit("nothing was swept ahead; see what the run said")
        ahead = (spent["sweep_ahead"] + spent["rate_bits"]) / sum(spent.values())
        print(f"{rows} rows: {ahead:.3f} of an iteration is ahead", flush=True)


if __name__ == "__main__":
    main()
