"""Scenario files: the shipped one is whole, and a wrong one is answered with every problem and its line."""

from dataclasses import replace

import pytest

from apples.errors import ConfigError
from apples.model.config import configs_dir
from apples.simulation.scenario import load_scenario

SHIPPED = (configs_dir() / "mock" / "centurion.yaml").read_text(encoding="utf-8")


def test_shipped_scenario_is_found_by_name():
    scenario, path = load_scenario("centurion")
    assert scenario.name == "centurion"
    assert path.name == "centurion.yaml"
    assert set(scenario.loads) == {"loaded", "unloaded"}


def test_all_problems_of_a_file_at_once_with_their_lines(tmp_path):
    wrong = SHIPPED.replace("cpus: 2 ", "cpus: none ").replace(
        "paging_slowdown: 100.0", "paging_slowdown: 0.5"
    )
    wrong = wrong.replace("finish_s: 1.0", "finish: 1.0")
    file = tmp_path / "wrong.yaml"
    file.write_text(wrong, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load_scenario(file)
    found = {p.split(": ")[1] for p in refused.value.problems}
    assert {"hosts.cpu_types.pentium2-400.cpus", "hosts.paging_slowdown", "startup.finish"} <= found
    lines = wrong.splitlines()
    for problem in refused.value.problems:
        where, at, _ = problem.split(": ", 2)
        name, line = where.rsplit(":", 1)
        assert name == str(file)
        assert at.split(".")[-1] in lines[int(line) - 1] or at == "startup.finish_s"


def test_unknown_load_is_answered_with_the_known_ones(quiet_grid):
    with pytest.raises(ConfigError, match="scenario 'quiet' has no load 'heavy'; legal are none"):
        quiet_grid(1, load="heavy")


def test_unknown_cpu_type_is_answered_with_the_known_ones(quiet_grid):
    with pytest.raises(ConfigError, match=r"says nothing of CPU type 'alpha' \(host h0\); it knows one, two"):
        quiet_grid(1, cpu_type="alpha")


def test_cpu_type_called_default_serves_all_others(quiet, quiet_grid):
    types = {"default": quiet.hosts.cpu_types["one"]}
    scenario = replace(quiet, hosts=replace(quiet.hosts, cpu_types=types))
    assert quiet_grid(1, scenario, cpu_type="alpha").machines.sweep_s == pytest.approx([0.01])
