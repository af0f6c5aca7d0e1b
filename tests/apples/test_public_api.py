"""The names that users import, and the examples of docs/python-api.md."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints

import numpy as np
import pytest

import apples
import nws
from apples.costs.store import new_id, open_history
from apples.model.plan import Outcome, Record
from apples.planning.planningoptions import PlanningKeywords, PlanningOptions
from tests.transcripts import recorded

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Runs the examples of one section of the page, over a state of their own."""

    def run(title):
        monkeypatch.setenv("APPLES_STATE", str(tmp_path / "state"))
        (section,) = [s for s in PAGE.read_text().split("\n## ") if s.startswith(f"{title}\n")]
        found = doctest.DocTestParser().get_doctest(section.replace("```\n", ""), {}, title, str(PAGE), 0)
        assert found.examples
        report = []
        assert doctest.DocTestRunner().run(found, out=report.append).failed == 0, "".join(report)

    return run


def test_example_plan_for_grid_file(example):
    example("Plan for a grid file")


@pytest.mark.mpi
def test_example_plan_and_run(example):
    example("Plan and run on this machine")


def test_example_read_forecast(example):
    example("Read a forecast")


@pytest.mark.parametrize("package", [apples, nws])
def test_public_names_are_sorted_and_defined(package):
    assert dir(package) == package.__all__ == sorted(package.__all__)
    assert re.match(r"\d+\.\d+", package.__version__)
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith(("apples.", "nws."))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_public_names():
    assert set(apples.__all__) >= {
        "plan",
        "PlannedRun",
        "submit",
        "SubmittedJob",
        "Plan",
        "Record",
        "Outcome",
    }
    assert set(nws.__all__) >= {"Forecast", "LocalWeather", "RemoteWeather", "Series", "ServiceClient"}


@pytest.mark.parametrize("name", ["apples", "nws", "stencil_app"])
def test_packages_are_typed(name):
    assert (Path(importlib.import_module(name).__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("name", ["apples", "nws"])
def test_doctests_of_the_package(name, tmp_path, monkeypatch):
    monkeypatch.setenv("APPLES_STATE", str(tmp_path / "state"))
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_import_loads_nothing_heavy():
    code = "import apples, nws, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "click", "pydantic", "sqlite3", "yaml"} & set(done.stdout.split())


@recorded("apples/wrong_arguments.txt", "call")
def test_argument_of_another_type_is_a_reported_error(answered, call):
    with pytest.raises(nws.ReportedError) as caught:
        eval(call, {"apples": apples, "nws": nws})
    answered(str(caught.value))


def test_keywords_of_plan_are_the_planning_options():
    assert get_type_hints(PlanningKeywords) == get_type_hints(PlanningOptions)


def test_plan_takes_the_numbers_of_numpy():
    planned = apples.plan(np.int64(1000), app="pmhd3d", grid="centurion", quantile=np.float64(0.5))
    assert sum(planned.plan.rows) == 1000


def test_history_rows_become_html_a_frame_and_a_plot(monkeypatch):
    outcome = Outcome(ended="finished", exit_code=0, observed_s=2.0)
    plan = apples.plan(1000, app="pmhd3d", grid="centurion", ranks=2)
    record = Record(id=new_id(0.0), started_at=0.0, world="mpiexec", key="k", plan=plan.plan, outcome=outcome)
    open_history(print).append(record)
    (run,) = runs = apples.history()
    assert (run.application, run.size, run.observed_s, run.ended) == ("pmhd3d", 1000, 2.0, "finished")
    assert run.error == pytest.approx(run.predicted_s / 2.0 - 1)
    axes = runs.plot()
    # The line of right predictions makes room for no runs that are not there.
    assert (len(axes.collections), axes.get_xlim()[1] < run.predicted_s < axes.get_ylim()[1]) == (1, True)
    assert "<td>pmhd3d</td><td>1000</td>" in runs._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=len))
    assert runs.to_pandas() == 1
    assert plan._repr_html_().count("<tr>") == 3
    assert repr(plan).startswith("<pmhd3d 1000 on 2 ranks: ")
