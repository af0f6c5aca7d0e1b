"""F9 and F10 with few jobs: every row and table is there, options are applied, what is not legal is named."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from apples.errors import ConfigError
from apples_experiments import coscheduled_settings, plots
from apples_experiments.catalogue import run
from apples_experiments.command import experiment
from apples_experiments.dynamic_settings import Choices, load_settings
from apples_experiments.dynamic_workloads import application_kinds, applications, synthetic, synthetic_kinds


@pytest.fixture(scope="module")
def small():
    """F9 with two policies, two loads, two seeds and 6 jobs."""
    chosen = {"jobs": 6, "seeds": (1, 2), "loads": (0.5, 0.9), "policies": ("batch", "fcs")}
    return run("F9", lambda line: None, chosen)


def row(result, name):
    return next(row for row in result.rows if row.name == name)


def test_saturation_stands_beside_the_papers(small):
    assert row(small, "FCFS, saturation").paper == 78
    assert row(small, "FCS, saturation").paper == 88
    assert row(small, "FCS over FCFS, saturation").paper == pytest.approx(1.128, abs=1e-3)
    assert 0 < row(small, "FCFS, throughput with a full queue").ours <= 100


def test_what_is_shown_is_at_the_load_of_the_sweep_that_is_nearest(small):
    assert row(small, "FCFS, mean response at 90%").ours > 0
    assert not [row for row in small.rows if row.name.startswith(("GS", "SB"))]


def test_document_has_every_run(small):
    document = small.as_json()
    json.dumps(document, allow_nan=False)
    assert [(entry["policy"], entry["load"]) for entry in document["sweep"]] == [
        ("batch", 0.5), ("batch", 0.9), ("batch", 10.0), ("fcs", 0.5), ("fcs", 0.9), ("fcs", 10.0),
    ]  # fmt: skip
    assert all(len(entry["seeds"]) == 2 for entry in document["sweep"])
    assert len(document["saturation"]["fcs"]["by_seed"]) == 2
    offered = [seed["offered"] for entry in document["sweep"] for seed in entry["seeds"]]
    assert offered == pytest.approx([0.5, 0.5, 0.9, 0.9, 10.0, 10.0] * 2)


def test_notes_say_how_saturation_is_meant_and_how_far_seeds_are_apart(small):
    assert "Saturation: the offered load of which less than 95% is accepted." in small.notes
    assert any(note.startswith("FCS, single seeds: saturation ") for note in small.notes)


def test_all_panels_are_drawn(small, tmp_path):
    pytest.importorskip("matplotlib", reason="drawing needs the extra 'plot'")
    titles = [panel.title for panel in small.panels]
    assert titles[0] == "Figure 7a: mean response"
    assert titles[-1] == "Figure 8b: long half of the jobs at 90%"
    shares = small.panels[-1].curves[0].y
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    plots.draw(small.figure, tmp_path / "f9.png", small.panels)
    assert (tmp_path / "f9.png").read_bytes().startswith(b"\x89PNG")


def test_applications_at_two_rows():
    """One policy alone is compared with nobody."""
    chosen = {"jobs": 10, "seeds": (1,), "loads": (0.6,), "policies": ("gang",)}
    result = run("F10", lambda line: None, chosen)
    assert [row.name for row in result.rows][:3] == [
        "GS, saturation",
        "a machine that wastes nothing, saturation",
        "GS, throughput with a full queue",
    ]
    assert not any("over" in row.name for row in result.rows)
    assert len(result.panels) == 5


def test_load_may_come_of_longer_jobs():
    chosen = {"jobs": 10, "seeds": (1,), "loads": (0.3, 0.6), "policies": ("batch",), "vary": "runtimes"}
    result = run("F9", lambda line: None, chosen)
    assert any("jobs of a higher load are longer" in note for note in result.notes)
    assert [entry["load"] for entry in result.further["sweep"]] == [0.3, 0.6, 10.0]
    with pytest.raises(ConfigError, match="F10: load is varied by 'runtimes'; legal is arrivals"):
        run("F10", lambda line: None, {"vary": "runtimes"})


def test_kind_of_synthetic_job_is_there():
    settings, flexible = load_settings(), coscheduled_settings.load_settings().flexible
    kinds = synthetic_kinds(settings.synthetic, flexible.latency_s)
    assert len({kind.name for kind in kinds}) == len(kinds) == 27
    uneven = next(kind for kind in kinds if kind.name == "ring 0.001 s × 2")
    assert uneven.shares == (1.0, 1.0, 0.5, 0.5)
    assert uneven.step_s == pytest.approx(2 * 1.06e-3)


def test_applications_are_those_of_the_static_tables():
    sage, sweep3d = application_kinds(coscheduled_settings.load_settings().flexible)
    assert (sage.step_s, sweep3d.step_s) == pytest.approx((8e-3, 1.06e-3))
    assert sage.shares == pytest.approx((1.0, 0.2075, 0.2075, 0.2075))
    assert (sage.refill_s, sage.cold_slowdown) == (7e-3, 1.6)
    assert (sweep3d.refill_s, sweep3d.cold_slowdown) == (5e-3, 0.18)


def test_all_policies_see_the_same_jobs():
    settings, flexible = load_settings(), coscheduled_settings.load_settings().flexible
    for workloads, processors in (
        (synthetic(settings, flexible), 32),
        (applications(settings, flexible), 64),
    ):
        one, same = workloads.workload(1), workloads.workload(1)
        assert (one[0].run == same[0].run).all()
        assert one[1] == same[1]
        assert len(one[0]) == 1000
        assert one[0].procs.max() <= processors


def test_choices_take_the_place_of_settings():
    settings = load_settings()
    quick = Choices(quick=True).applied(settings)
    assert (quick.jobs, quick.seeds) == (settings.quick.jobs, settings.quick.seeds)
    assert quick.synthetic.loads == quick.applications.loads == settings.quick.loads
    assert quick.synthetic.shown in quick.synthetic.loads
    mixed = Choices(quick=True, jobs=7, loads=(0.9, 0.3)).applied(settings)
    assert (mixed.jobs, mixed.synthetic.loads, mixed.synthetic.shown) == (7, (0.3, 0.9), 0.9)
    assert Choices().applied(settings) == settings


def test_everything_that_is_not_legal_is_named():
    settings = load_settings()
    with pytest.raises(ConfigError) as caught:
        Choices(policies=("gang", "luck"), jobs=1, loads=(-0.5,), vary="luck").applied(settings)
    message = str(caught.value)
    assert "policy 'luck' is unknown here; legal are batch, gang, spin-block, fcs" in message
    assert "1 jobs; a workload has 2 or more" in message
    assert "load is varied by 'luck'; legal are arrivals, runtimes" in message
    assert "loads [-0.5]; legal are one or more, ascending and above 0" in message
    with pytest.raises(ConfigError, match="model is 'night'; legal are all, batch, interactive"):
        replace(settings, model="night")
    with pytest.raises(ConfigError, match="no policy to run; legal are one or more of batch"):
        replace(settings, policies=())


def call(*arguments):
    return CliRunner().invoke(experiment, arguments)


def test_options_on_the_command_line():
    done = call("f9", "--jobs", "8", "--seeds", "3", "--loads", "0.5", "--policies", "spin-block", "--json")
    document = json.loads(done.stdout)
    assert (document["seeds"], document["constants"]["jobs"]) == ([3], 8)
    assert "2/2 spin-block, load" in done.stderr


def test_options_of_other_experiments_are_refused():
    with pytest.raises(ConfigError, match="A3 runs as its settings say; --quick, --jobs is for F9, F10"):
        run("a3", print, {"quick": True, "jobs": 5})


def test_lists_that_are_none():
    done = call("F9", "--seeds", "1;2")
    assert done.exit_code == 2
    assert "'1;2'; legal are values with commas between them, N,N,…" in done.stderr
    assert "--quick needs the ID of an experiment" in call("--quick").stderr
