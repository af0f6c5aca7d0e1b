"""Random damage to copies of a store: nothing wrong is served, and what was not hit survives a repair.

`benchmarks/store_damage.py` does the same a thousand times.
"""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "store_damage.py"


@pytest.fixture(scope="module")
def store_damage():
    if not BENCHMARK.exists():
        pytest.skip("the benchmarks are not part of this installation")
    spec = importlib.util.spec_from_file_location("store_damage", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["store_damage"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["store_damage"]


def test_damage_is_never_served_and_the_rest_is_repaired(store_damage):
    tally = store_damage.run(copies=10, seed=7, hours=4)
    assert not store_damage.failed(tally), tally.problems
    assert tally.counts["refused"] > 0 < tally.counts["answers"]
