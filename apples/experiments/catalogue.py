"""Which experiments there are, and the module that runs each; imported only when it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from apples.errors import ConfigError
from apples.experiments.result import Result

Progress = Callable[[str], None]
"""Receives one line for the user's eyes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An experiment: what it shows, and the function that runs it, as ``module:function``.

    choices : the class of what its users may choose, as ``module:class``; its function takes one besides
    """

    title: str
    runs: str
    choices: str | None = None


_HERE = "apples.experiments"
_DYNAMIC = "dynamic_settings:Choices"
CATALOGUE: dict[str, Entry] = {
    "A1": Entry("hosts targeted on idle, equal machines, sizes 1000-6000", "host_counts:target_hosts"),
    "A2": Entry("performance model against observed times, idle machines", "model_accuracy:model_accuracy"),
    "A3": Entry("pool limit: size 5000, pools 4-26", "host_counts:pool_limit"),
    "A4": Entry("size 1000, loaded, pools 4-26, against the default scheduler", "loaded_runs:by_pool"),
    "A5": Entry("83 loaded runs, improvement over the default scheduler", "loaded_runs:improvement"),
    "A6": Entry("three schedulers at pool 26, sizes 1000-6000", "loaded_runs:three_schedulers"),
    "A7": Entry("cost of scheduling 34 hosts", "planning_cost:planning_cost"),
    "A8": Entry("all work placed, no host spills", "schedules:constraints"),
    "A9": Entry("Figure 2 of the paper, line for line", "schedules:figure_2"),
    "B1": Entry("our planner beside the paper's on two sites with a slow link", "two_sites:two_sites"),
    "F4": Entry("two balanced jobs under four schedulers, Table 3", "coscheduled:balanced_jobs"),
    "F5": Entry("load-imbalanced jobs under four schedulers, Table 4", "coscheduled:imbalanced_jobs"),
    "F6": Entry("complementing jobs under four schedulers, Table 5", "coscheduled:complementing_jobs"),
    "F7": Entry("balanced and imbalanced jobs together, Table 6", "coscheduled:mixed_jobs"),
    "F8": Entry(
        "SWEEP3D and SAGE under four schedulers, Tables 7-9", "coscheduled_applications:applications"
    ),
    "F9": Entry(
        "1,000 synthetic jobs that arrive over time under four schedulers, Figures 7 and 8",
        "dynamic:synthetic_jobs",
        _DYNAMIC,
    ),
    "F10": Entry(
        "SAGE and SWEEP3D that arrive over time under four schedulers, Figure 9",
        "dynamic:scientific_jobs",
        _DYNAMIC,
    ),
    "C2": Entry("message-driven coscheduling by traffic, Figure 2", "message_driven:by_traffic"),
    "C3": Entry("message-driven coscheduling by degree, Figure 3", "message_driven:by_degree"),
    "C4": Entry("message-driven coscheduling against batch, Figure 4", "message_driven:queue_wait"),
    "C5": Entry("guaranteed minimum execution time, Figure 5", "message_driven:gmet_sweep"),
    "C6": Entry("time slice of message-driven coscheduling, Figure 6", "message_driven:slice_sweep"),
    "W1": Entry("adjusted run times: run time over request on two logs", "walltime_accuracy:ratio"),
    "W2": Entry("spread of that ratio by key of similar jobs", "walltime_accuracy:spread"),
    "W3": Entry("accuracy of adjusted requests by key and percentile", "walltime_accuracy:by_key"),
    "W4": Entry("shares of jobs over- and underestimated", "walltime_accuracy:shares"),
    "W5": Entry("window of history", "walltime_accuracy:by_window"),
    "W6": Entry("EASY with WFP, regular adjustment, by month", "walltime_months:wfp_regular"),
    "W7": Entry("EASY with WFP, selective adjustment, by month", "walltime_months:wfp_selective"),
    "W8": Entry("EASY with FCFS, regular adjustment, by month", "walltime_months:fcfs_regular"),
    "W9": Entry("EASY with FCFS, selective adjustment, by month", "walltime_months:fcfs_selective"),
}


def run(name: str, progress: Progress, chosen: Mapping[str, Any] | None = None) -> Result:
    """Run one experiment. chosen : what the user wants otherwise than the settings, by name

    Raises `ConfigError` listing the legal ids, or those that leave something to choose.
    """
    entry = CATALOGUE.get(name.upper())
    if entry is None:
        raise ConfigError(f"unknown experiment {name!r}; legal are {', '.join(CATALOGUE)}")
    experiment = _load(entry.runs)
    if not chosen:
        return cast(Result, experiment(progress))
    if entry.choices is None:
        free = ", ".join(other for other, its in CATALOGUE.items() if its.choices is not None)
        options = ", ".join(f"--{option}" for option in chosen)
        raise ConfigError(f"{name.upper()} runs as its settings say; {options} is for {free}")
    return cast(Result, experiment(progress, _load(entry.choices)(**chosen)))


def _load(where: str) -> Callable[..., Any]:
    module, _, name = where.partition(":")
    return cast(Callable[..., Any], getattr(import_module(f"{_HERE}.{module}"), name))
