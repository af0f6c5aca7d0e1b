"""B1 with few worlds: turns share a world and go round, training and scoring are apart, rows say what was run."""

from dataclasses import replace

import pytest

from apples.errors import ConfigError
from apples.planning.baselines import default_plan
from apples.planning.planningoptions import PAPER
from apples_experiments import ablation, site_runs, two_sites
from apples_experiments.ablation import VARIANTS, undo_each
from apples_experiments.settings import CONFIGS, RunSet
from apples_experiments.site_runs import (
    OURS,
    Scheduler,
    crossings,
    learnt_costs,
    load_site_settings,
    observed_s,
    open_site,
    run,
)
from apples_experiments.two_sites import SCHEDULERS, SchedulerComparison, take_turns


@pytest.fixture
def settings():
    """Two sizes, two worlds each, a dozen calibration runs."""
    full = load_site_settings()
    return replace(
        full,
        sizes=(64, 256),
        calibration=RunSet(runs=12, seed=full.calibration.seed),
        loaded=replace(full.loaded, worlds=2),
        ablation_worlds=1,
    )


@pytest.fixture
def result(settings, progress, monkeypatch):
    monkeypatch.setattr(two_sites, "load_site_settings", lambda: settings)
    return two_sites.two_sites(progress)


def by_name(result):
    return {row.name: row.ours for row in result.rows}


def test_no_two_worlds_share_a_seed_and_none_is_the_calibrations():
    settings = load_site_settings()
    seeds = [seed for size in settings.sizes for seed in settings.seeds(size)]
    assert len({settings.calibration.seed, *seeds}) == 1 + settings.loaded.worlds * len(settings.sizes)
    assert settings.loaded.worlds >= 12


def test_scheduler_begins_equally_often():
    assert load_site_settings().loaded.worlds % len(SCHEDULERS) == 0


def test_costs_know_both_slots_of_a_host_and_the_model_they_were_learnt_under(settings, progress):
    ours = learnt_costs(settings, "exchange", progress)
    assert 1.0 < ours.row_seconds("node", 2) / ours.row_seconds("node", 1) < 1.3
    assert ours.overhead.source == "fitted to 12 runs"
    paper = learnt_costs(settings, "paper", progress)
    assert paper.seconds_per_row == ours.seconds_per_row
    assert paper.overhead != ours.overhead


def test_default_scheduler_crosses_the_slow_link_once_and_pays_for_it(settings, progress):
    costs = learnt_costs(settings, "exchange", progress)
    world = open_site(settings, seed=1, load="loaded")
    ours = run(world, 256, costs, Scheduler())
    everybody = run(world, 256, costs, Scheduler(planner=default_plan))
    assert crossings(ours.plan, world.pool) == 0
    assert crossings(everybody.plan, world.pool) == 1
    assert observed_s(everybody) > 10 * observed_s(ours)


def test_who_begins_goes_round_and_a_world_repeats_itself(settings, progress, monkeypatch):
    order = []

    def listening(world, size, costs, scheduler):
        order.append(next(name for name, known in SCHEDULERS.items() if known is scheduler))
        return run(world, size, costs, scheduler)

    monkeypatch.setattr(two_sites, "run", listening)
    turns = take_turns(settings, (64, 1), 1, progress)
    assert order == ["paper", "paper, our overhead", "default", "smart-user", "apples"]
    assert list(turns.seconds) == list(SCHEDULERS)
    assert take_turns(settings, (64, 1), 6, progress) == turns


def test_winner_ran_shortest():
    turns = SchedulerComparison(
        size=64,
        seed=1,
        seconds={"apples": 3.0, "paper": 2.0},
        predicted_s={},
        ranks={},
        crossings={},
    )
    assert turns.winner == "paper"


def test_each_variant_undoes_one_choice():
    for name, scheduler in VARIANTS.items():
        options = scheduler.options
        changed = [field for field in OURS.__slots__ if getattr(options, field) != getattr(OURS, field)]
        assert len(changed) == 1, name
    undone = {
        field
        for scheduler in VARIANTS.values()
        for field in OURS.__slots__
        if getattr(scheduler.options, field) != getattr(OURS, field)
    }
    assert {field for field in OURS.__slots__ if getattr(PAPER, field) != getattr(OURS, field)} <= undone


def test_variants_meet_the_same_instant_so_that_equal_plans_take_equal_times(settings, progress, monkeypatch):
    monkeypatch.setattr(ablation, "VARIANTS", {"nothing undone": Scheduler()})
    found = undo_each(settings, progress)
    assert [u.size for u in found] == [64, 256]
    assert all(u.same_plan and u.seconds == u.full_s and u.ratio == 1.0 for u in found)


def test_b1_counts_what_it_lists_and_says_what_went_in(result):
    rows = by_name(result)
    runs = result.further["runs"]
    assert len(runs) == 4
    won = [min(r["seconds"], key=r["seconds"].get) == "apples" for r in runs]
    assert rows["apples: worlds won"] == pytest.approx(100 * sum(won) / 4)
    assert sum(rows[f"{s}: worlds won"] for s in SCHEDULERS) == pytest.approx(100)
    at_64 = [r["seconds"]["paper"] for r in runs if r["size"] == 64]
    assert rows["paper at size 64, mean"] == pytest.approx(sum(at_64) / 2)
    assert rows["default: runs that cross the slow link"] == 100
    # the paper has none
    assert {row.paper for row in result.rows} == {None}
    assert set(result.constants["overhead"]) == {"exchange", "paper"}
    assert set(result.further["ablation"]) == set(VARIANTS)
    assert {f"{variant}: slower" for variant in VARIANTS} <= set(by_name(result))
    assert [curve.label for curve in result.figure.curves] == list(SCHEDULERS)
    assert len(result.seeds) == 1 + 4


def test_unknown_key_of_the_settings_is_refused_with_its_line(tmp_path, monkeypatch):
    shipped = (CONFIGS / "two-sites.yaml").read_text()
    file = tmp_path / "two-sites.yaml"
    file.write_text(shipped.replace("ablation_worlds:", "ablations:"))
    monkeypatch.setattr(site_runs, "SETTINGS", str(file))
    with pytest.raises(ConfigError, match=r"two-sites.yaml:\d+: ablations: unknown key"):
        load_site_settings()
