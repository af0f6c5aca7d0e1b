"""The experiments' own settings with few runs, so that every path is walked in seconds."""

from dataclasses import replace

import pytest

from apples_experiments import loaded_runs, model_accuracy, planning_cost, schedules
from apples_experiments.settings import RunSet, load_settings


def silent(line):
    """Progress that nobody reads."""


@pytest.fixture
def progress():
    return silent


@pytest.fixture
def few(monkeypatch):
    """Two sizes, two pools, a few runs; the modules read these settings."""
    full = load_settings()
    settings = replace(
        full,
        sizes=(1000, 2000),
        pools=(8, 14),
        calibration=RunSet(runs=12, seed=full.calibration.seed),
        scored=RunSet(runs=4, seed=full.scored.seed),
        loaded=replace(full.loaded, runs=3, repeats=1),
    )
    for module in (loaded_runs, model_accuracy, planning_cost, schedules):
        monkeypatch.setattr(module, "load_settings", lambda: settings)
    return settings
