"""Our planner beside the paper's where it matters which hosts are neighbours: two sites, a slow link, two slots (B1).

The paper's own machines are equal and near each other, and there both planners do equally well (A5). Here five
schedulers run in each world, back to back as in Wolski et al. 2000, §4.3. Each begins in equally many worlds, so that
the order does not favour one of them. The paper's planner takes part twice: with the overhead that its own model
learnt, and with the overhead that ours learnt. `ablation` measures each choice of ours. No paper has these figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.baselines import default_plan, smart_user_plan
from apples.planning.planningoptions import PAPER
from apples_experiments.ablation import ablation_rows, by_size, undo_each
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.site_runs import (
    SETTINGS,
    Scheduler,
    SiteSettings,
    crossings,
    learnt_costs,
    load_site_settings,
    observed_s,
    open_site,
    run,
)

#: The schedulers. The smart user counts hosts with our model and our overhead.
SCHEDULERS: dict[str, Scheduler] = {
    "apples": Scheduler(),
    "paper": Scheduler(options=PAPER, learns="paper"),
    "paper, our overhead": Scheduler(options=PAPER),
    "default": Scheduler(planner=default_plan),
    "smart-user": Scheduler(planner=smart_user_plan),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerComparison:
    """Runs of several schedulers, one after the other, in one world, by name.

    seconds: observed
    predicted_s: by the model of each
    crossings: of the slow link, along the chain
    """

    size: int
    seed: int
    seconds: Mapping[str, float]
    predicted_s: Mapping[str, float]
    ranks: Mapping[str, int]
    crossings: Mapping[str, int]

    @property
    def winner(self) -> str:
        """Return the scheduler with the shortest run."""
        return min(self.seconds, key=lambda name: self.seconds[name])


def two_sites(progress: Progress) -> Result:
    """Return B1: five schedulers at every size, then our planner with one choice undone at a time."""
    settings = load_site_settings()
    found = []
    for size in settings.sizes:
        progress(f"size {size}, {settings.loaded.worlds} worlds, {len(SCHEDULERS)} schedulers")
        for first, seed in enumerate(settings.seeds(size)):
            found.append(take_turns(settings, (size, seed), first, progress))
    undone = undo_each(settings, progress)
    return Result(
        rows=(
            *_overall_rows(found, settings.loaded.lost_beyond),
            *_size_rows(found, settings),
            *ablation_rows(undone),
        ),
        constants=_constants(settings, progress),
        seeds=(
            settings.calibration.seed,
            *(seed for size in settings.sizes for seed in settings.seeds(size)),
        ),
        figure=_figure(found, settings),
        further={"runs": [asdict(turns) for turns in found], "ablation": by_size(undone)},
        notes=(
            "No paper has these figures. Grid, truth and load are assumed; none of them was changed after a result.",
            "Means are ruled by few runs: those that cross the slow link, and those whose memory others took after "
            "the decision. Medians say what is usual.",
            "The paper's model does not see what the slow link costs, so that the calibration runs that have to cross "
            "it look like overhead of every run: told that, its planner keeps to few ranks; told the overhead that "
            "our model learns, it takes more of them, and some runs cross.",
        ),
    )


def take_turns(
    settings: SiteSettings, case: tuple[int, int], first: int, progress: Progress
) -> SchedulerComparison:
    """Return one world. `case`: (size, seed). `first`: index of the scheduler that begins, modulo their number."""
    size, seed = case
    names = list(SCHEDULERS)
    first %= len(names)
    costs = {name: learnt_costs(settings, s.learns, progress) for name, s in SCHEDULERS.items()}
    world = open_site(settings, seed=seed, load="loaded")
    records = {
        name: run(world, size, costs[name], SCHEDULERS[name]) for name in (*names[first:], *names[:first])
    }
    return SchedulerComparison(
        size=size,
        seed=seed,
        seconds={name: observed_s(records[name]) for name in names},
        predicted_s={name: records[name].plan.predicted_s for name in names},
        ranks={name: len(records[name].plan.assignments) for name in names},
        crossings={name: crossings(records[name].plan, world.pool) for name in names},
    )


def _overall_rows(found: list[SchedulerComparison], lost_beyond: float) -> list[Row]:
    """Return rows over all sizes: wins, ours against the paper's, crossings, and accuracy of predictions."""
    ratios = _of(found, "paper") / _of(found, "apples")
    percent = {
        "worlds in which ours is faster than the paper's": ratios > 1,
        "worlds in which ours is considerably slower": ratios < 1 - lost_beyond / (1 + lost_beyond),
        "worlds in which the paper's is considerably slower": ratios > 1 + lost_beyond,
    }
    rows = [_row(f"{s}: worlds won", np.mean([t.winner == s for t in found]), "%") for s in SCHEDULERS]
    rows += [_row(name, np.mean(holds), "%") for name, holds in percent.items()]
    rows.append(_row("paper's run time over ours, median", np.median(ratios), ""))
    rows.append(_row("paper's run time over ours, mean", np.mean(ratios), ""))
    for s in SCHEDULERS:
        rows.append(
            _row(f"{s}: runs that cross the slow link", np.mean([t.crossings[s] > 0 for t in found]), "%")
        )
    for s in SCHEDULERS:
        errors = [abs(t.predicted_s[s] / t.seconds[s] - 1) for t in found]
        rows.append(_row(f"{s}: median |error| of the prediction", np.median(errors), "%"))
    return rows


def _size_rows(found: list[SchedulerComparison], settings: SiteSettings) -> list[Row]:
    rows = []
    for size in settings.sizes:
        here = [t for t in found if t.size == size]
        for s in SCHEDULERS:
            seconds = _of(here, s)
            rows.append(_row(f"{s} at size {size}, median", np.median(seconds), "s"))
            rows.append(_row(f"{s} at size {size}, mean", np.mean(seconds), "s"))
    return rows


def _row(name: str, value: Any, unit: str) -> Row:
    return Row(name=name, paper=None, ours=(100 if unit == "%" else 1) * float(value), unit=unit)


def _of(found: list[SchedulerComparison], scheduler: str) -> FloatArray:
    """Return observed seconds of a scheduler, float64[worlds]."""
    return np.array([t.seconds[scheduler] for t in found])


def _figure(found: list[SchedulerComparison], settings: SiteSettings) -> Figure:
    """Return a figure of work per second, since run times differ by two orders of magnitude."""
    return Figure(
        title="Two sites, loaded: work done in a second of run time (median)",
        x_label="size [rows]",
        y_label="rows per second of run time",
        curves=tuple(
            Curve(
                label=s,
                x=tuple(map(float, settings.sizes)),
                y=tuple(
                    size / float(np.median(_of([t for t in found if t.size == size], s)))
                    for size in settings.sizes
                ),
            )
            for s in SCHEDULERS
        ),
    )


def _constants(settings: SiteSettings, progress: Progress) -> dict[str, Any]:
    learnt = {s.learns: learnt_costs(settings, s.learns, progress) for s in SCHEDULERS.values()}
    return {
        "grid": f"configs/{settings.grid}.yaml",
        "scenario": f"configs/mock/{settings.scenario}.yaml",
        "settings": f"apples_experiments/configs/{SETTINGS}.yaml",
        "calibration_runs": settings.calibration.runs,
        "considerably_slower_beyond": settings.loaded.lost_beyond,
        "seconds_per_row": {cpu: dict(table) for cpu, table in learnt["exchange"].seconds_per_row.items()},
        "overhead": {model: asdict(costs.overhead) for model, costs in learnt.items()},
    }
