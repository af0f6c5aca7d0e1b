"""Share of runs that end between the bounds of their predictions, on the mock grid (should be 8 of 10).

    python benchmarks/bound_coverage.py

Each run has a world of its own seed; pools of 26 hosts, sizes 1000 to 6000, our planner. *idle* and *loaded* use the
overhead of the calibration runs on idle machines. *learning* starts with the paper's overhead, and learns overhead
and range from each loaded run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apples.learning.corrections import correct
from apples.learning.overhead import fit_overhead
from apples.learning.ranges import MOST, calibrate_range
from apples.learning.runs import TrainingRuns
from apples.model.plan import Record
from apples.model.template import PAPER_OVERHEAD, Costs
from apples.planning.planner import make_plan
from apples_experiments.mock_runs import PLANNERS, Session, calibrated
from apples_experiments.settings import WolskiSettings, load_settings

POOL = 26
#: Seeds of worlds; no experiment uses them.
FIRST_SEEDS = (90_000, 95_000)
IDLE_RUNS, LOADED_RUNS, LEARNING_RUNS = 24, 60, 80


def one_run(settings: WolskiSettings, case: tuple[int, int], load: str, costs: Costs) -> Record:
    """Return a run in a world of its own. `case`: (size, seed)."""
    size, seed = case
    session = Session(settings, seed=seed, load=load)
    return session.run(size, costs, make_plan, replace(PLANNERS["apples"], max_ranks=POOL))


def told(settings: WolskiSettings, load: str, runs: int, costs: Costs) -> list[Record]:
    """Return runs with the same costs throughout."""
    cases = [(settings.sizes[k % len(settings.sizes)], FIRST_SEEDS[0] + k) for k in range(runs)]
    return [one_run(settings, case, load, costs) for case in cases]


def learning(settings: WolskiSettings, first_seed: int, costs: Costs) -> list[Record]:
    """Return loaded runs, each of which learns from those before it."""
    rng = np.random.default_rng(first_seed)
    records: list[Record] = []
    for k in range(LEARNING_RUNS):
        size = int(rng.choice(settings.sizes))
        known = correct(TrainingRuns(records=records, benchmarks=costs))
        known = replace(known, overhead=fit_overhead(records, known, prior=costs.overhead))
        record = one_run(settings, (size, first_seed + k), "loaded", known)
        records.append(replace(record, plan=calibrate_range(record.plan, records[-MOST:])))
    return records


def report(name: str, records: list[Record]) -> None:
    """Print one line: shares inside and beyond the bounds, and the mean error of the prediction."""
    seen = [(r.plan, r.outcome.observed_s) for r in records if r.outcome is not None]
    inside = np.mean([plan.low_s <= observed <= plan.high_s for plan, observed in seen])
    beyond = np.mean([observed > plan.high_s for plan, observed in seen])
    error = np.mean([plan.predicted_s / observed - 1 for plan, observed in seen])
    print(
        f"{name:<10} runs {len(seen):4}  inside {inside:5.0%}  longer {beyond:5.0%}  mean error {error:+6.1%}"
    )


def main() -> None:
    """Print the three cases."""
    settings = load_settings()
    costs = calibrated(settings, "apples", lambda line: None)
    report("idle", told(settings, "unloaded", IDLE_RUNS, costs))
    report("loaded", told(settings, "loaded", LOADED_RUNS, costs))
    paper = replace(costs, overhead=PAPER_OVERHEAD)
    report("learning", [r for seed in FIRST_SEEDS for r in learning(settings, seed, paper)])


if __name__ == "__main__":
    main()
