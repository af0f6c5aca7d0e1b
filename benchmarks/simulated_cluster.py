"""How fast the simulated cluster is: processor seconds of each case of Tables 3 to 6, and ns per iteration of a rank.

    python benchmarks/simulated_cluster.py

One seed per case; the experiments run five, one process per processor. Processor time, so that other work on the
machine disturbs little.
"""

from __future__ import annotations

import time

from apples.experiments.coscheduled import SCENARIOS
from apples.experiments.coscheduled_runs import Case, compile_once, run_case
from apples.experiments.coscheduled_settings import load_settings
from apples.experiments.coscheduled_tables import ALGORITHMS


def main() -> None:
    settings = load_settings().flexible
    compile_once()
    total = 0.0
    print(f"{'':10}" + "".join(f"{algorithm:>18}" for algorithm in ALGORITHMS))
    for name, make in SCENARIOS.items():
        scenario = make(settings)
        steps = sum(len(job.nodes) * job.iterations for job in scenario.jobs)
        cells = []
        for policy in ALGORITHMS.values():
            case = Case(
                label=(name,),
                machine=settings.machine,
                jobs=scenario.jobs,
                policy=policy,
                seed=settings.seeds[0],
            )
            before = time.process_time()
            run_case(case)
            seconds = time.process_time() - before
            total += seconds
            cells.append(f"{seconds:7.2f} s {1e9 * seconds / steps:5.0f} ns")
        print(f"{name:10}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"all {len(settings.seeds)} seeds: {total * len(settings.seeds):.0f} processor seconds")


if __name__ == "__main__":
    main()
