"""What an application costs by all that is known: benchmarks, and runs on slabs of this and other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apples.learning.corrections import correct
from apples.learning.overhead import fit_overhead
from apples.learning.runs import TrainingRuns, message_costs, start_cpu_s
from apples.model.template import Costs


def taught(own: TrainingRuns, others: Sequence[TrainingRuns], iterations: int) -> Costs:
    """Benchmarks corrected by all runs since; overhead fitted to runs of as many iterations.

    What a run computed longer than expected grows with its iterations and would pass for overhead in a shorter one.
    What runs on slabs of other sizes teach of rows is believed until runs on slabs of this size know better. All else
    hardly depends on slabs, so all runs are asked alike, each priced with the benchmarks of its own slabs.
    """
    everybody = (own, *others)
    everywhere = sorted((r for lessons in everybody for r in lessons.records), key=lambda r: r.id)
    start_s, (message_s, hops) = start_cpu_s(everywhere), message_costs(everywhere)
    corrected = [
        replace(
            correct(lessons, [other for other in everybody if other is not lessons]),
            start_cpu_s=start_s,
            message_cpu_s=message_s,
            reduction_hops=hops,
        )
        for lessons in everybody
    ]
    costs_of = {
        r.id: priced for lessons, priced in zip(everybody, corrected, strict=True) for r in lessons.records
    }
    costs = corrected[0]
    # What benchmarks showed of a start holds the same CPU time, on an idle CPU: it must not be paid twice.
    shown_s = costs.overhead.constant_s
    believed = replace(costs.overhead, constant_s=min(shown_s, max(shown_s - start_s, 0.0)))
    alike = [r for r in everywhere if r.workload.get("iterations", 1) == iterations]
    return replace(costs, overhead=fit_overhead(alike, lambda r: costs_of[r.id], prior=believed))
