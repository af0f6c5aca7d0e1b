"""A1 and A3: the planner's host counts are the paper's, from the shipped grid file."""

from dataclasses import replace

import pytest

from apples.errors import ConfigError
from apples.model.grid import Snapshot
from apples.model.template import PAPER_OVERHEAD
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PAPER
from apples_experiments import host_counts
from apples_experiments.settings import load_settings


def test_table_1_comes_out(progress):
    result = host_counts.target_hosts(progress).as_json()
    assert result["sizes"] == [1000, 2000, 3000, 4000, 5000, 6000]
    assert result["hosts"] == [10, 12, 14, 16, 18, 18]
    assert result["ranges"] == [[8, 12], [12, 14], [14, 16], [14, 18], [16, 18], [18, 20]]
    assert {row["relative"] for row in result["rows"]} == {0.0}


def test_stated_benchmark_and_overhead_are_used(progress):
    result = host_counts.target_hosts(progress)
    overhead = result.constants["overhead"]
    assert overhead["per_rank2_s"] == PAPER_OVERHEAD.per_rank2_s
    assert overhead["constant_s"] == PAPER_OVERHEAD.constant_s
    assert result.constants["seconds_per_row"] == {"pentium2-400": {1: 0.195}}


def test_what_close_to_optimal_means_is_found_from_the_table(progress):
    notes = host_counts.target_hosts(progress).notes
    assert "come out for every one from 1.49 to 1.60 s" in notes[1]


def test_pool_is_used_up_to_eighteen_hosts(progress):
    result = host_counts.pool_limit(progress).as_json()
    assert result["pools"] == [10, 12, 14, 16, 18, 20, 22, 24, 26]
    assert result["hosts"] == [10, 12, 14, 16, 18, 18, 18, 18, 18]


@pytest.mark.parametrize(
    ("bm", "size", "wanted"), [(0.182, 5000, 16), (0.183, 5000, 18), (0.203, 2000, 12), (0.2045, 2000, 14)]
)
def test_interval_of_the_benchmark_is_where_the_note_says(bm, size, wanted):
    """Below it 5000 rows want 16 hosts, above it 2000 rows want 14: neither is Table 1."""
    file, costs = host_counts.known_costs(load_settings())
    costs = replace(costs, seconds_per_row={"pentium2-400": {1: bm}})
    plan = make_plan(Snapshot.nominal(file.grid), file.workload("pmhd3d", size), costs, PAPER)
    assert len(plan.hosts) == wanted


def test_grid_that_states_no_costs_is_refused(tmp_path):
    bare = tmp_path / "bare.yaml"
    bare.write_text("name: bare\nhosts: [{name: a}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="states no benchmark and demands of 'pmhd3d' under applications"):
        host_counts.known_costs(replace(load_settings(), grid=str(bare)))
