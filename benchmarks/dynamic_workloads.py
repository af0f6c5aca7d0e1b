"""Cost of simulating a dynamic workload: CPU seconds of each policy, and simulated processor seconds for one of them.

    python benchmarks/dynamic_workloads.py        # F9, F10: 200 jobs of one seed at 74 % and with a full queue
    python benchmarks/dynamic_workloads.py --jobs 1000 --loads 0.74 10

One process, processor time, compiling not counted. A whole experiment is the same for five seeds, three loads and a
full queue, on all processors: `time apples experiment F9`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from apples.queueing.queue import warm
from apples_experiments import coscheduled_settings, dynamic_settings
from apples_experiments.coscheduled_runs import compile_once
from apples_experiments.dynamic_runs import run_case
from apples_experiments.dynamic_workloads import Set, applications, synthetic
from apples_experiments.dynamicjobs.jobs import loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.74, 10.0])
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    settings = replace(dynamic_settings.load_settings(), jobs=chosen.jobs)
    flexible = coscheduled_settings.load_settings().flexible
    compile_once()
    warm()
    print(f"{chosen.jobs} jobs, seed {chosen.seed}")
    print("          policy      load   CPU s  simulated s  CPU ms/simulated s  processor s/CPU s")
    for name, workloads in (("F9", synthetic(settings, flexible)), ("F10", applications(settings, flexible))):
        for policy in settings.policies:
            for load in chosen.loads:
                measure(name, workloads, policy, (load, chosen.seed))


def measure(name: str, workloads: Set, policy: str, what: tuple[float, int]) -> None:
    """Run one case and print its line."""
    load, seed = what
    trace, kinds = workloads.workload(seed)
    work = (loaded(trace, load, vary="arrivals"), kinds)
    before = time.process_time()
    course = run_case(workloads.site, policy, work, seed)
    cpu_s = time.process_time() - before
    simulated_s = float(course.finish.max())
    print(
        f"{name:>4}  {policy:>12}  {load:>6.0%}  {cpu_s:6.1f}  {simulated_s:11.0f}  "
        f"{1e3 * cpu_s / simulated_s:18.2f}  {course.processors * simulated_s / cpu_s:17.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
