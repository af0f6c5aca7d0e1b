"""A2 and A4-A9 with few runs: every row is there, training and scoring are apart, pairs share a world."""

import pytest

from apples_experiments import loaded_runs, model_accuracy, planning_cost, schedules
from apples_experiments.mock_runs import calibrated, shuffled
from apples_experiments.settings import load_settings


def by_name(result):
    return {row.name: row for row in result.rows}


def test_sizes_and_pools_within_the_array_limit_are_the_papers_62_runs():
    assert len(load_settings().combinations(507)) == load_settings().scored.runs == 62


def test_shuffled_pairs_are_used_equally_often():
    drawn = shuffled([(1, 1), (2, 2), (3, 3)], 7, seed=1)
    assert sorted(drawn.count(p) for p in set(drawn)) == [2, 2, 3]
    assert drawn == shuffled([(1, 1), (2, 2), (3, 3)], 7, seed=1)


def test_calibration_and_scored_runs_have_different_seeds():
    settings = load_settings()
    loaded = range(settings.loaded.first_seed, settings.loaded.first_seed + settings.loaded.runs)
    assert len({settings.calibration.seed, settings.scored.seed, *loaded}) == 2 + settings.loaded.runs


def test_costs_are_learnt_from_benchmarks_and_runs(few, progress):
    costs = calibrated(few, "paper", progress)
    assert costs.row_seconds("pentium2-400", 1) == pytest.approx(0.000975, rel=0.03)
    assert costs.overhead.source == "fitted to 12 runs"
    assert costs.overhead.seconds(1000, 14) > costs.overhead.seconds(1000, 8) > 10


def test_model_is_scored_on_other_runs(few, progress):
    result = model_accuracy.model_accuracy(progress)
    rows = by_name(result)
    assert rows["runs"].ours == 4
    assert 0 < rows["mean |error|"].ours <= rows["largest |error|"].ours < 20
    assert result.seeds == (31, 42)
    assert len(result.further["runs"]) == 4


def test_comparison_is_made_back_to_back_in_one_world(few, progress):
    case = (1000, 14, 1000)
    found = loaded_runs.compare(few, case, "paper", progress, ("default", "smart-user"))
    assert list(found.seconds) == ["paper", "default", "smart-user"]
    assert found.hosts["default"] == 14
    assert found.hosts["paper"] <= 14
    assert found.gain("paper") == 1 - found.seconds["paper"] / found.seconds["default"]
    assert loaded_runs.compare(few, case, "paper", progress, ("default", "smart-user")) == found


def test_a4_has_every_pool_in_worlds_of_its_own(few, progress):
    result = loaded_runs.by_pool(progress)
    rows = by_name(result)
    assert {"AppLeS at pool 8", "default at pool 14", "our planner at pool 14"} <= set(rows)
    assert len(set(result.seeds)) == 2
    assert rows["default minus AppLeS, mean of pools 4-12"].paper == 22.5


def test_a5_counts_and_averages_the_runs_it_lists(few, progress):
    result = loaded_runs.improvement(progress)
    rows = by_name(result)
    listed = [run["improvement"] for run in result.further["runs"]]
    assert rows["mean improvement"].ours == pytest.approx(100 * sum(listed) / 3)
    assert rows["runs slower at all"].ours == sum(gain < 0 for gain in listed)
    assert sum(result.figure.curves[0].y) == 3


def test_a6_compares_three_schedulers_at_every_size(few, progress):
    rows = by_name(loaded_runs.three_schedulers(progress))
    assert {"AppLeS at size 1000", "default at size 2000", "smart user at size 2000"} <= set(rows)
    assert rows["sizes at which AppLeS is fastest"].paper == 2


def test_a7_measures_what_planning_costs(few, progress):
    rows = by_name(planning_cost.planning_cost(progress))
    assert rows["hosts"].ours == 34
    assert rows["schedules compared"].ours == 51
    assert rows["order and plan"].ours > 0
    assert rows["series forecast"].ours == 34 * 3 + 34 * 33 * 2
    assert rows["forecasts fetched"].ours > 0


def test_a8_no_plan_breaks_a_limit(few, progress):
    rows = by_name(schedules.constraints(progress))
    assert rows["plans"].ours == 4
    assert rows["plans that place all work in whole rows"].ours == 100
    assert rows["ranks over the forecast of free memory"].ours == 0
    assert rows["largest slab"].ours <= 507


def test_a9_planner_and_second_reading_of_figure_2_agree(few, progress):
    rows = by_name(schedules.figure_2(progress))
    assert rows["schedules compared: 3 orders, even n"].ours == 51
    same = rows["cases with the same number of hosts"]
    assert same.ours == same.paper == 4
    assert rows["largest difference of predicted time"].ours < 0.5
