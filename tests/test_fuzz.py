"""A short run of the generated inputs for all listeners and state files; `benchmarks/fuzz.py` has the long one."""

import random

import pytest

INPUTS = {"queue": 600, "node": 400, "manager": 400, "agent": 400}
FILES = (
    "queue store",
    "node journal",
    "battery states",
    "sensor spool",
    "weather store",
    "history",
    "benchmark store",
    "run directory",
    "grid file",
    "queue settings",
    "weather settings",
    "sharing settings",
    "application file",
)


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_ends_a_daemon(benchmark_module, name):
    engine, listeners = benchmark_module("fuzz_engine"), benchmark_module("fuzz_listeners")
    chance = random.Random(3)
    with listeners.LISTENERS[name](chance) as listener:
        result = engine.attack(listener, INPUTS[name], chance)
    assert result.inputs >= INPUTS[name]
    assert any(answer != "closed" for _, answer in result.answers), "they reach far enough"


@pytest.mark.parametrize("name", FILES)
def test_no_damaged_file_is_an_unknown_error(benchmark_module, name):
    assert "40 inputs" in benchmark_module("fuzz_files").attack_file(name, 40, 3)
