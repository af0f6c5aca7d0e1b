"""Speed of the simulated cluster: processor seconds of each case of Tables 3 to 6, and ns per iteration of a rank.

    python benchmarks/simulated_cluster.py
    python benchmarks/simulated_cluster.py --tables    # F4 to F7 whole, all seeds, seconds by the clock

Without `--tables` one seed per case; processor time, so that other work on the machine disturbs little.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

from apples_experiments.coscheduled import SCENARIOS, run_scenario
from apples_experiments.coscheduled_runs import ClusterCase, compile_once, run_case
from apples_experiments.coscheduled_settings import load_settings
from apples_experiments.coscheduled_tables import ALGORITHMS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="time F4 to F7 with all seeds")
    whole_tables() if parser.parse_args().tables else one_by_one()


def whole_tables() -> None:
    """Time every table with all seeds, on all processors of this machine."""
    settings = load_settings().flexible
    compile_once()
    first, load = time.perf_counter(), os.getloadavg()[0]
    for name, make in SCENARIOS.items():
        before = time.perf_counter()
        run_scenario(settings, make(settings), lambda done: None)
        print(f"{name}  {time.perf_counter() - before:6.1f} s", flush=True)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"all {time.perf_counter() - first:6.1f} s by the clock, {children.ru_utime + children.ru_stime:.0f} s of "
        f"{len(os.sched_getaffinity(0))} processors; load before: {load:.1f}"
    )


def one_by_one() -> None:
    """Time one seed of each case."""
    settings = load_settings().flexible
    compile_once()
    total = 0.0
    print(f"{'':10}" + "".join(f"{algorithm:>18}" for algorithm in ALGORITHMS))
    for name, make in SCENARIOS.items():
        scenario = make(settings)
        steps = sum(len(job.nodes) * job.iterations for job in scenario.jobs)
        cells = []
        for policy in ALGORITHMS.values():
            case = ClusterCase(
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
