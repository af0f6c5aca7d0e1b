"""Grid files: hosts, links and what is known of applications; every problem with file and line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.model.config import find_config
from apples.model.grid import Host, LinkRule, Snapshot
from apples.model.gridfile import load_grid, load_grid_file
from apples.model.template import PAPER_OVERHEAD, Workload
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER
from tests.transcripts import recorded, text_of


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def to_file(text):
        Path("grid.yaml").write_text(text)
        return "grid.yaml"

    return to_file


@pytest.fixture
def problems(write):
    def find(text):
        with pytest.raises(ConfigError) as caught:
            load_grid(write(text))
        assert caught.value.exit_code == 2
        return list(caught.value.problems)

    return find


def test_name_is_all_a_host_needs(write):
    grid = load_grid(write("name: tiny\nhosts: [{name: alpha}]"))
    assert grid.hosts == (Host(name="alpha"),)
    assert (grid.name, grid.source) == ("tiny", "grid.yaml")


def test_brackets_make_many_hosts_with_an_address_each(write):
    text = "name: t\nhosts:\n- {name: 'n[08-10]', address: '10.0.0.[8-10]', slots: 4, site: s, memory: 2GB}"
    grid = load_grid(write(text))
    assert [(h.name, h.address) for h in grid.hosts] == [
        ("n08", "10.0.0.8"),
        ("n09", "10.0.0.9"),
        ("n10", "10.0.0.10"),
    ]
    assert grid.hosts[0] == Host(name="n08", address="10.0.0.8", slots=4, site="s", memory_bytes=2e9)


def test_most_specific_link_wins(write):
    text = text_of("apples/model/gridfile_links.txt")
    grid = load_grid(write(text))
    assert grid.links[0] == LinkRule(latency_s=0.02, bandwidth_Bps=1.25e5)
    latency = grid.nominal_links()[0]
    assert latency[0, 1] == 1e-3
    assert latency[0, 2] == latency[2, 0] == 5e-3
    assert latency[1, 2] == 2e-2
    assert grid.nominal_links()[1][0, 1] == 1.25e7


def test_what_is_known_of_an_application_becomes_costs_and_a_workload(write):
    text = text_of("apples/model/gridfile_applications.txt")
    file = load_grid_file(write(text))
    costs = file.applications["sweep"].costs
    assert costs is not None
    assert costs.seconds_per_row == {"old": {1: 0.002, 2: 0.003}}
    assert costs.overhead.seconds(0, 2) == 3.0
    assert costs.overhead.source == "a talk"
    assert file.workload("sweep", 500) == Workload(
        application="sweep",
        size=500,
        iterations=10,
        messages=20,
        bytes_exchanged=3e6,
        bytes_per_row=1e3,
        bytes_fixed=5e6,
        max_rows=99,
    )
    assert file.workload("other", 5) is None
    assert file.workload("unknown", 5) is None
    assert file.applications["other"].costs is None
    assert "unknown" not in file.applications


def test_all_problems_of_a_file_are_told_at_once(problems):
    text = text_of("apples/model/gridfile_wrong.txt")
    found = problems(text)
    expected = [
        ("grid.yaml:3: hosts.0.slots: ", "greater than or equal to 1; got 0"),
        (
            "grid.yaml:3: hosts.0.site: ",
            "east is the name of a host as well (line 6); give the site another name",
        ),
        ("grid.yaml:4: hosts.1.name: ", "host alpha stands in line 3 already"),
        (
            "grid.yaml:5: hosts.1.cores: ",
            "unknown key; legal keys are name, slots, cpu_type, site, address, memory",
        ),
        (
            "grid.yaml:6: hosts.2.memory: ",
            "'parsecs' is not a unit of memory size; legal are a number of bytes or",
        ),
        ("grid.yaml:7: hosts.3.address: ", "3 addresses for 2 hosts; write a bracket expression of as many"),
        ("grid.yaml:8: hosts.4.name: ", "'a b' is not a host name"),
        ("grid.yaml:10: links.default.latency: ", "latency must be 0 or more; got -1ms"),
        ("grid.yaml:10: links.default.bandwidth: ", "bandwidth must be more than 0; got 0"),
        ("grid.yaml:12: links.between.0.ends: ", "wset is no host and no site of this grid"),
        ("grid.yaml:13: links.between.1.ends: ", "both ends are the host b1; a link joins two hosts"),
        ("grid.yaml:15: links.between.3.ends: ", "this pair stands in line 14 already; keep one"),
        ("grid.yaml:16: links.between.4.ends", "missing; this key is needed here"),
        (
            "grid.yaml:18: applications.heat.seconds_per_row.defualt: ",
            "no host has this CPU type (did you mean default?)",
        ),
        (
            "grid.yaml:18: applications.heat.seconds_per_row.default: ",
            "'none' is no number of ranks; legal are whole",
        ),
    ]
    for start, said in expected:
        assert any(p.startswith(start) and said in p for p in found), (start, said, found)
    assert len(found) == len(expected)


@recorded("apples/model/gridfile_problems.txt", "text")
def test_what_is_wrong_says_what_is_legal(problems, answered, text):
    answered(problems(text))


def test_address_may_be_what_no_host_is_called_but_no_option(write, problems):
    grid = load_grid(
        write("name: t\nhosts: [{name: a, address: user@a.example}, {name: b, address: 'fe80::1'}]")
    )
    assert [h.address for h in grid.hosts] == ["user@a.example", "fe80::1"]
    assert problems("name: t\nhosts:\n- {name: a, address: -oProxyCommand=x}") == [
        "grid.yaml:3: hosts.0.address: '-oProxyCommand=x' is no address: it is empty, has a blank or begins with -"
    ]


def test_bracket_that_does_not_close_is_told_with_its_line(problems):
    (problem,) = problems("name: t\nhosts:\n- name: a\n- name: 'b[1-'")
    assert problem.startswith("grid.yaml:4: hosts.1.name: ")


@pytest.mark.parametrize("name", ["centurion", "local", "two-sites"])
def test_shipped_grids_load_and_make_a_snapshot(name):
    grid = load_grid(find_config(name))
    snapshot = Snapshot.nominal(grid)
    assert len(snapshot.hosts) == {"centurion": 34, "local": 2, "two-sites": 8}[name]
    assert np.all(np.asarray(snapshot.latency_s) > 0)


def test_centurion_states_the_papers_overhead_and_array_limit():
    file = load_grid_file(find_config("centurion"))
    stated = file.applications["pmhd3d"].overhead
    assert replace(stated, source="") == replace(PAPER_OVERHEAD, source="")
    assert "section 3.1" in stated.source
    workload = file.workload("pmhd3d", 1000)
    assert workload is not None
    assert workload.max_rows == 507
    assert workload.bytes_fixed + 507 * workload.bytes_per_row < 256e6


def test_centurion_gives_the_host_counts_of_table_1():
    """The benchmark in the file lies in the interval that Table 1 leaves, and traffic does not move the counts."""
    file = load_grid_file(find_config("centurion"))
    costs = file.applications["pmhd3d"].costs
    assert costs is not None
    snapshot = Snapshot.nominal(file.grid)
    counts = []
    for size in range(1000, 7000, 1000):
        workload = file.workload("pmhd3d", size)
        assert workload is not None
        counts.append(len(make_plan(snapshot, workload, costs, PAPER).assignments))
    assert counts == [10, 12, 14, 16, 18, 18]
