"""Dynamic workloads under four schedulers: F9 and F10, section 5 of the FCS paper.

Figures are means over the seeds. The saturation of a policy is computed from the mean accepted load. Nothing is chosen
after the fact: kinds of jobs, seeds, loads and the share that counts as keeping up are in the settings file.
"""

from __future__ import annotations

from apples.errors import ConfigError
from apples_experiments import coscheduled_settings, dynamic_results as results
from apples_experiments.coscheduled import FCS_CONSTANTS
from apples_experiments.dynamic_runs import Sweep, sweep
from apples_experiments.dynamic_settings import Choices, DynamicSettings, load_settings
from apples_experiments.dynamic_workloads import Set, applications, synthetic
from apples_experiments.result import Figure, Progress, Result, Row

_VARIED = {
    "arrivals": "The load is varied by the time between arrivals; jobs are the same at every load.",
    "runtimes": "The load is varied by the run times; jobs of a higher load are longer.",
}


def synthetic_jobs(progress: Progress, choices: Choices | None = None) -> Result:
    """Return F9: synthetic applications on 32 processors, Figures 7 and 8."""
    settings, flexible = _settings(choices)
    workloads = synthetic(settings, flexible)
    swept = sweep(workloads, settings, progress)
    # 88 over 78 %; the conclusions say "approximately 16 percent higher"
    rows = _rows(swept, workloads, settings, ({"FCFS": 78.0, "FCS": 88.0}, 88 / 78))
    drawn = [*results.panels(swept, 7), *results.distributions(swept, workloads.shown)]
    return _result(settings, swept, rows, drawn)


def scientific_jobs(progress: Progress, choices: Choices | None = None) -> Result:
    """Return F10: SAGE and SWEEP3D on 64 processors, Figure 9.

    Raises:
        ConfigError: the load is to be varied by run times, but these are the applications' own.
    """
    settings, flexible = _settings(choices)
    if settings.vary != "arrivals":
        raise ConfigError(
            f"F10: load is varied by {settings.vary!r}; legal is arrivals, since run times are the applications' own"
        )
    workloads = applications(settings, flexible)
    swept = sweep(workloads, settings, progress)
    rows = _rows(swept, workloads, settings, ({}, 1.54))
    drawn = results.panels(swept, 9)
    return _result(settings, swept, rows, drawn)


def _settings(choices: Choices | None) -> tuple[DynamicSettings, coscheduled_settings.Flexible]:
    settings = (choices or Choices()).applied(load_settings())
    return settings, coscheduled_settings.load_settings().flexible


def _rows(
    swept: Sweep, workloads: Set, settings: DynamicSettings, paper: tuple[dict[str, float], float]
) -> list[Row]:
    """Return the rows. `paper`: saturation by algorithm, %, and FCS's over FCFS's."""
    saturated, gain = paper
    return [
        *results.saturation_rows(swept, settings.keeps_up, saturated),
        *results.throughput_rows(swept),
        *results.gain_rows(swept, settings.keeps_up, gain),
        *results.best_rows(swept, workloads.shown),
        *results.shown_rows(swept, workloads.shown),
    ]


def _result(settings: DynamicSettings, swept: Sweep, rows: list[Row], drawn: list[Figure]) -> Result:
    flexible = coscheduled_settings.load_settings().flexible
    return Result(
        rows=tuple(rows),
        constants={**settings.as_json(), "coscheduling": flexible.as_json(), "fcs": FCS_CONSTANTS},
        seeds=settings.seeds,
        figure=drawn[0],
        panels=tuple(drawn),
        further=results.as_json(swept, settings.keeps_up),
        notes=(
            f"Saturation: the offered load of which less than {settings.keeps_up:.0%} is accepted.",
            _VARIED[settings.vary],
            *results.saturation_notes(swept, settings.keeps_up),
        ),
    )
