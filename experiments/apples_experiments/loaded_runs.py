"""AppLeS against other schedulers on loaded machines: A4 by pool, A5 over 83 runs, A6 at pool 26.

Every comparison has a world of its own. The schedulers run back to back, AppLeS first (Wolski et al. 2000, §4.3), and
the same load continues during all runs. AppLeS may use any hosts, at most `pool` of them; the others use the first
hosts of the grid. `paper` is the paper's scheduler, `apples` ours. Both are scored, each first in its world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from apples.planning.baselines import default_plan, smart_user_plan
from apples.planning.planner import make_plan
from apples_experiments.mock_runs import PLANNERS, Planner, Session, calibrated, constants, shuffled
from apples_experiments.result import Curve, Figure, Progress, Result, Row
from apples_experiments.settings import WolskiSettings, load_settings

#: The pool sizes in which the paper's two curves of Figure 5 follow the same trend, and their distance.
_SAME_TREND = range(4, 13)
_PAPER_GAIN_S = 22.5
_A4_SIZE = 1000
#: Bins of Figure 7, percent; values beyond them count in the outermost.
_BINS = np.arange(-100.0, 101.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs of several schedulers, one after the other, in one world. Both fields map a scheduler's name.

    seconds: observed run time
    hosts: number of hosts used
    """

    size: int
    pool: int
    seed: int
    seconds: Mapping[str, float]
    hosts: Mapping[str, int]

    def gain(self, scheduler: str) -> float:
        """Return the fraction of default's run time that the scheduler saves."""
        return 1 - self.seconds[scheduler] / self.seconds["default"]


BASELINES: dict[str, Planner] = {"default": default_plan, "smart-user": smart_user_plan}


def compare(
    settings: WolskiSettings,
    case: tuple[int, int, int],
    planner: str,
    progress: Progress,
    baselines: tuple[str, ...] = ("default",),
) -> Comparison:
    """Return one comparison.

    Args:
        case: (size, pool, seed).
        planner: "paper" or "apples", which runs before the baselines.
    """
    size, pool, seed = case
    costs = calibrated(settings, planner, progress)
    options = replace(PLANNERS[planner], max_ranks=pool)
    session = Session(settings, seed=seed, load="loaded")
    turns: dict[str, Planner] = {planner: make_plan, **{name: BASELINES[name] for name in baselines}}
    records = {name: session.run(size, costs, plan, options) for name, plan in turns.items()}
    return Comparison(
        size=size,
        pool=pool,
        seed=seed,
        seconds={n: r.outcome.observed_s for n, r in records.items() if r.outcome is not None},
        hosts={n: len(r.plan.hosts) for n, r in records.items()},
    )


def by_pool(progress: Progress) -> Result:
    """Return A4: size 1000, pools 4-26, mean over worlds."""
    settings = load_settings()
    seeds = {pool: _seeds(settings, settings.loaded.repeats, group=pool) for pool in settings.pools}
    comparisons: dict[str, list[Comparison]] = {}
    for planner in PLANNERS:
        progress(f"size {_A4_SIZE}, {len(seeds)} pools, {settings.loaded.repeats} worlds each, {planner}")
        comparisons[planner] = [
            compare(settings, (_A4_SIZE, pool, seed), planner, progress)
            for pool, worlds in seeds.items()
            for seed in worlds
        ]

    def mean(planner: str, scheduler: str) -> dict[int, float]:
        return {
            pool: float(np.mean([c.seconds[scheduler] for c in comparisons[planner] if c.pool == pool]))
            for pool in settings.pools
        }

    paper, default, ours = mean("paper", "paper"), mean("paper", "default"), mean("apples", "apples")
    return Result(
        rows=_pool_rows(paper, default, ours),
        constants=constants(settings, calibrated(settings, "paper", progress)),
        seeds=tuple(seed for worlds in seeds.values() for seed in worlds),
        figure=_seconds_figure(
            "Run time of size 1000 on loaded machines (Figure 5)",
            "pool [hosts]",
            {"AppLeS (paper)": paper, "default": default, "AppLeS (ours)": ours},
        ),
        notes=(
            "The paper draws one run for each pool and says 20-25 s for pools 4-12; ours are means over "
            f"{settings.loaded.repeats} worlds for each pool.",
        ),
    )


def _pool_rows(
    paper: Mapping[int, float], default: Mapping[int, float], ours: Mapping[int, float]
) -> tuple[Row, ...]:
    """Return rows of A4 from mean seconds by pool, of the paper's scheduler, default and our planner."""
    small = [p for p in paper if p in _SAME_TREND]
    large = [p for p in paper if p not in _SAME_TREND]
    gain = float(np.mean([default[p] - paper[p] for p in small]))
    faster = sum(paper[p] < default[p] for p in large)
    flat, diverges = paper[large[-1]] / paper[small[-1]], default[large[-1]] / default[small[-1]]
    rows = [
        Row(name="default minus AppLeS, mean of pools 4-12", paper=_PAPER_GAIN_S, ours=gain, unit="s"),
        Row(name="AppLeS at pool 26 over pool 12", paper=1.0, ours=flat, unit=""),
        Row(name="default at pool 26 over pool 12", paper=None, ours=diverges, unit=""),
        Row(name="pools over 12 at which AppLeS is faster", paper=len(large), ours=faster, unit="pools"),
    ]
    for pool in paper:
        rows.append(Row(name=f"AppLeS at pool {pool}", paper=None, ours=paper[pool], unit="s"))
        rows.append(Row(name=f"default at pool {pool}", paper=None, ours=default[pool], unit="s"))
        rows.append(Row(name=f"our planner at pool {pool}", paper=None, ours=ours[pool], unit="s"))
    return tuple(rows)


def improvement(progress: Progress) -> Result:
    """Return A5: 83 runs over all sizes and pools; mean improvement over default, and the number of slower runs."""
    settings = load_settings()
    loaded_settings = settings.loaded
    seeds = _seeds(settings, loaded_settings.runs)
    max_rows = Session(settings, seed=loaded_settings.first_seed, load="loaded").world.workload(1).max_rows
    pairs = shuffled(settings.combinations(max_rows), loaded_settings.runs, seed=loaded_settings.first_seed)
    comparisons: dict[str, list[Comparison]] = {}
    for planner in PLANNERS:
        progress(f"{loaded_settings.runs} comparisons, {planner}")
        comparisons[planner] = [
            compare(settings, (size, pool, seed), planner, progress)
            for (size, pool), seed in zip(pairs, seeds, strict=True)
        ]
    gains = {planner: np.array([c.gain(planner) for c in comparisons[planner]]) for planner in PLANNERS}
    lost = {planner: int((gain < -loaded_settings.lost_beyond).sum()) for planner, gain in gains.items()}
    rows = (
        Row(name="mean improvement", paper=30.0, ours=100 * float(gains["paper"].mean()), unit="%"),
        Row(name="runs", paper=83, ours=len(pairs), unit="runs"),
        Row(name="runs considerably slower than default", paper=1, ours=lost["paper"], unit="runs"),
        Row(name="runs slower at all", paper=None, ours=int((gains["paper"] < 0).sum()), unit="runs"),
        Row(name="median improvement", paper=None, ours=100 * float(np.median(gains["paper"])), unit="%"),
        Row(
            name="our planner: mean improvement",
            paper=30.0,
            ours=100 * float(gains["apples"].mean()),
            unit="%",
        ),
        Row(name="our planner: considerably slower", paper=1, ours=lost["apples"], unit="runs"),
        Row(
            name="our planner: slower at all", paper=None, ours=int((gains["apples"] < 0).sum()), unit="runs"
        ),
    )
    percent = np.clip(100 * gains["paper"], _BINS[0], _BINS[-1])
    counts = np.histogram(percent, bins=_BINS)[0]
    return Result(
        rows=rows,
        constants={
            **constants(settings, calibrated(settings, "paper", progress)),
            "considerably_slower_beyond": loaded_settings.lost_beyond,
        },
        seeds=seeds,
        figure=Figure(
            title="Improvement of AppLeS over the default scheduler (Figure 7)",
            x_label="improvement [%]",
            y_label="runs",
            curves=(
                Curve(
                    label="AppLeS (paper)",
                    x=tuple((_BINS[:-1] + 5).tolist()),
                    y=tuple(counts.astype(float).tolist()),
                    style="bars",
                ),
            ),
        ),
        further={"runs": [_run_json(c, "paper") for c in comparisons["paper"]]},
        notes=("The paper does not say from where on a run is considerably slower; here from 10 % on.",),
    )


def three_schedulers(progress: Progress) -> Result:
    """Return A6: AppLeS, default and smart user at pool 26, mean over worlds for every size."""
    settings = load_settings()
    seeds = {size: _seeds(settings, settings.loaded.repeats, group=size) for size in settings.sizes}
    pool = settings.loaded.pool
    comparisons: list[Comparison] = []
    for size, worlds in seeds.items():
        progress(f"size {size}, pool {pool}, {len(worlds)} worlds")
        for seed in worlds:
            comparisons.append(
                compare(settings, (size, pool, seed), "paper", progress, ("default", "smart-user"))
            )
    schedulers = ("paper", "default", "smart-user")
    means = {
        scheduler: {
            size: float(np.mean([c.seconds[scheduler] for c in comparisons if c.size == size]))
            for size in settings.sizes
        }
        for scheduler in schedulers
    }
    fastest = sum(means["paper"][size] == min(means[s][size] for s in schedulers) for size in settings.sizes)
    each = sum(c.seconds["paper"] == min(c.seconds.values()) for c in comparisons)
    rows = [
        Row(name="sizes at which AppLeS is fastest", paper=len(settings.sizes), ours=fastest, unit="sizes"),
        Row(
            name="single comparisons that AppLeS wins",
            paper=None,
            ours=100 * each / len(comparisons),
            unit="%",
        ),
    ]
    labels = {"paper": "AppLeS", "default": "default", "smart-user": "smart user"}
    for size in settings.sizes:
        rows += [
            Row(name=f"{labels[s]} at size {size}", paper=None, ours=means[s][size], unit="s")
            for s in schedulers
        ]
    return Result(
        rows=tuple(rows),
        constants=constants(settings, calibrated(settings, "paper", progress)),
        seeds=tuple(seed for worlds in seeds.values() for seed in worlds),
        figure=_seconds_figure(
            "Run time with a pool of 26 hosts (Figure 8)", "size", {labels[s]: means[s] for s in schedulers}
        ),
        notes=("The paper gives this as a figure only.",),
    )


def _seeds(settings: WolskiSettings, count: int, *, group: int = 0) -> tuple[int, ...]:
    """Return the seeds of that many worlds; each group (a pool, a size) has worlds of its own."""
    first = settings.loaded.first_seed * (1 + group)
    return tuple(range(first, first + count))


def _seconds_figure(title: str, x_label: str, curves: Mapping[str, Mapping[int, float]]) -> Figure:
    return Figure(
        title=title,
        x_label=x_label,
        y_label="run time [s]",
        curves=tuple(
            Curve(label=label, x=tuple(map(float, points)), y=tuple(points.values()))
            for label, points in curves.items()
        ),
    )


def _run_json(comparison: Comparison, planner: str) -> dict[str, float]:
    return {
        "size": comparison.size,
        "pool": comparison.pool,
        "seed": comparison.seed,
        "apples_s": comparison.seconds[planner],
        "default_s": comparison.seconds["default"],
        "hosts": comparison.hosts[planner],
        "improvement": comparison.gain(planner),
    }
