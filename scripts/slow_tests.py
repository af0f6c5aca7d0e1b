"""Write `tests/slow.txt`: the test functions that plain `pytest` leaves out, chosen by measured time.

    pytest -n 2 --dist worksteal --all --costs costs.tsv
    python scripts/slow_tests.py costs.tsv [--limit SECONDS]

A function is slow if setup, call and teardown of its tests take longer than the limit on average. Prints how many
tests are quick and their sum of seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

SLOW_FILE = Path(__file__).resolve().parent.parent / "tests" / "slow.txt"


def read(path: Path) -> dict[str, float]:
    """Return the seconds of each test by its node id; of a test that ran twice, the shorter run."""
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        cost, when, node = line.split("\t", 2)
        seconds[node][when] = min(float(cost), seconds[node].get(when, float("inf")))
    return {node: sum(phases.values()) for node, phases in seconds.items()}


def function_of(node: str) -> str:
    """Return path and function of a node id, as `tests/conftest.py` compares them."""
    path, _, name = node.partition("[")[0].partition("::")
    return f"{path}::{name.rpartition('::')[2]}"


def main(arguments: list[str]) -> int:
    """Write the file and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("costs", type=Path, help="file written by pytest --costs")
    parser.add_argument("--limit", type=float, default=0.15, help="seconds above which a test is slow")
    options = parser.parse_args(arguments)
    seconds = read(options.costs)
    tests: dict[str, list[float]] = defaultdict(list)
    for node, cost in seconds.items():
        tests[function_of(node)].append(cost)
    slow = {name for name, costs in tests.items() if sum(costs) / len(costs) > options.limit}
    quick = [cost for node, cost in seconds.items() if function_of(node) not in slow]
    SLOW_FILE.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")
    print(f"{len(slow)} slow functions; {len(quick)} of {len(seconds)} tests are quick, {sum(quick):.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
