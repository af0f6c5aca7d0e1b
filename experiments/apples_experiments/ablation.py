"""Effect of each choice of our planner on two sites (B1). Each variant undoes one choice and keeps the rest.

All variants plan at the same instant: the world is opened again from the same seed. Equal plans therefore take equal
times to the last bit, and a difference is the plan's. A variant with the paper's model plans twice: once with the
overhead fitted under that model, and once with the overhead that our model learnt. No paper has these figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from apples.model.plan import Record
from apples.planning.planningoptions import PAPER
from apples_experiments.result import Progress, Row
from apples_experiments.site_runs import (
    OURS,
    Scheduler,
    SiteSettings,
    learnt_costs,
    observed_s,
    open_site,
    run,
)

#: Our planner with one choice undone, or with one option enabled that is off by default.
VARIANTS: dict[str, Scheduler] = {
    "model paper": Scheduler(options=replace(OURS, model="paper"), learns="paper"),
    "model paper, our overhead": Scheduler(options=replace(OURS, model="paper")),
    "order desirability": Scheduler(options=replace(OURS, rank_order=PAPER.rank_order)),
    "no improvement": Scheduler(options=replace(OURS, improve=PAPER.improve)),
    "even counts": Scheduler(options=replace(OURS, counts=PAPER.counts)),
    "allocation lp": Scheduler(options=replace(OURS, allocation=PAPER.allocation)),
    "forecasts of the next measurement": Scheduler(options=replace(OURS, horizon=PAPER.horizon)),
    "quantile 0.9": Scheduler(options=replace(OURS, quantile=0.9)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """One variant beside the full planner at the same instant. `full_s`, `seconds`: observed run time of each."""

    variant: str
    size: int
    seed: int
    full_s: float
    seconds: float
    same_plan: bool

    @property
    def ratio(self) -> float:
        """Return run time over the full planner's run time."""
        return self.seconds / self.full_s


def undo_each(settings: SiteSettings, progress: Progress) -> list[Undone]:
    """Return all variants in the first of the worlds of every size."""
    undone = []
    for size in settings.sizes:
        progress(f"size {size}, {settings.ablation_worlds} worlds, {len(VARIANTS)} variants of our planner")
        for seed in settings.seeds(size)[: settings.ablation_worlds]:
            full = _at_opening(settings, (size, seed), Scheduler(), progress)
            for name, scheduler in VARIANTS.items():
                record = _at_opening(settings, (size, seed), scheduler, progress)
                undone.append(
                    Undone(
                        variant=name,
                        size=size,
                        seed=seed,
                        full_s=observed_s(full),
                        seconds=observed_s(record),
                        same_plan=_chain(record) == _chain(full),
                    )
                )
    return undone


def ablation_rows(undone: list[Undone]) -> tuple[Row, ...]:
    """Return for each variant its run time over the full planner's, and how often it was slower and faster."""
    rows = []
    for name in VARIANTS:
        mine = [u for u in undone if u.variant == name]
        ratios = np.array([u.ratio for u in mine])
        for what, value in (
            ("run time over ours, mean", 100 * float(ratios.mean() - 1)),
            ("run time over ours, median", 100 * float(np.median(ratios) - 1)),
            ("same plan", 100 * float(np.mean([u.same_plan for u in mine]))),
            ("slower", 100 * float((ratios > 1).mean())),
            ("faster", 100 * float((ratios < 1).mean())),
        ):
            rows.append(Row(name=f"{name}: {what}", paper=None, ours=value, unit="%"))
    return tuple(rows)


def by_size(undone: list[Undone]) -> dict[str, Mapping[int, float]]:
    """Return variant → size → mean run time over the full planner's, JSON-ready."""
    sizes = sorted({u.size for u in undone})
    return {
        name: {
            size: float(np.mean([u.ratio for u in undone if (u.variant, u.size) == (name, size)]))
            for size in sizes
        }
        for name in VARIANTS
    }


def _at_opening(
    settings: SiteSettings, case: tuple[int, int], scheduler: Scheduler, progress: Progress
) -> Record:
    """Return the run of a scheduler at the opening of a world. `case`: (size, seed)."""
    size, seed = case
    costs = learnt_costs(settings, scheduler.learns, progress)
    return run(open_site(settings, seed=seed, load="loaded"), size, costs, scheduler)


def _chain(record: Record) -> list[tuple[str, int]]:
    return [(a.host, a.rows) for a in record.plan.assignments]
