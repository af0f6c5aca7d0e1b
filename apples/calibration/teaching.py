"""What an application costs by all that is known: benchmarks, and runs on slabs of this and other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apples.calibration.corrections import correct
from apples.calibration.overhead import fit_overhead
from apples.calibration.runs import Lessons, message_costs, start_cpu_s
from apples.template import Costs


def taught(own: Lessons, others: Sequence[Lessons], iterations: int) -> Costs:
    """Benchmarks corrected by all runs since; overhead fitted to runs of as many iterations.

    What a run computed longer than expected grows with its iterations and would pass for overhead in a shorter one.
    What runs on slabs of other sizes teach of rows is believed until runs on slabs of this size know better. All else
    hardly depends on slabs, so all runs are asked alike, each priced with the benchmarks of its own slabs.
    """
    everywhere = sorted((r for of in (own, *others) for r in of.records), key=lambda r: r.id)
    start_s, (message_s, hops) = start_cpu_s(everywhere), message_costs(everywhere)
    costs_of: dict[str, Costs] = {}

    def corrected(lessons: Lessons) -> Costs:
        costs = correct(lessons, [other for other in (own, *others) if other is not lessons])
        costs = replace(costs, start_cpu_s=start_s, message_cpu_s=message_s, reduction_hops=hops)
        costs_of.update((r.id, costs) for r in lessons.records)
        return costs

    costs, *_ = [corrected(lessons) for lessons in (own, *others)]
    # What benchmarks showed of a start holds the same CPU time, on an idle CPU: it must not be paid twice.
    shown_s = costs.overhead.constant_s
    believed = replace(costs.overhead, constant_s=min(shown_s, max(shown_s - start_s, 0.0)))
    alike = [r for r in everywhere if r.workload.get("iterations", 1) == iterations]
    return replace(costs, overhead=fit_overhead(alike, lambda r: costs_of[r.id], prior=believed))
