"""Costs of an application from all evidence: benchmarks, and runs on slabs of this and other sizes."""

from collections.abc import Sequence
from dataclasses import replace

from apples.learning.corrections import correct
from apples.learning.overhead import fit_overhead
from apples.learning.runs import MessageCosts, TrainingRuns, message_costs, start_costs, with_measured_shares
from apples.model.template import Costs


def learned_costs(own: TrainingRuns, others: Sequence[TrainingRuns], iterations: int) -> Costs:
    """Return benchmarks corrected by all later runs, with the overhead fitted to runs of as many iterations.

    A run's excess compute time grows with its iterations and would pass for overhead in a shorter run. Evidence on rows
    from slabs of other sizes is used until runs on slabs of this size agree. All other costs hardly depend on slabs, so
    all runs count alike, each priced with the benchmarks of its own slabs.
    """
    everybody = with_measured_shares((own, *others))
    everywhere = sorted((r for lessons in everybody for r in lessons.records), key=lambda r: r.id)
    start_s, row_s = start_costs(everywhere, own.benchmarks.start_row_cpu_s)
    # A price measured between hosts is replaced by that of runs over hosts only.
    measured_s = own.benchmarks.message_cpu_s
    informative = [r for r in everywhere if not measured_s or len({a.host for a in r.plan.assignments}) > 1]
    messages = message_costs(informative) or MessageCosts(measured_s, 0.0, 0.0)
    corrected = [
        replace(
            correct(lessons, [other for other in everybody if other is not lessons]),
            start_cpu_s=start_s,
            start_row_cpu_s=row_s,
            **messages._asdict(),
        )
        for lessons in everybody
    ]
    costs_of = {
        r.id: priced for lessons, priced in zip(everybody, corrected, strict=True) for r in lessons.records
    }
    costs = corrected[0]
    # The start-up of a benchmark contains the same CPU time, on an idle CPU: it must not be counted twice.
    shown_s = costs.overhead.constant_s
    contained_s = start_s + row_s * own.benchmarks.slab_rows
    believed = replace(costs.overhead, constant_s=min(shown_s, max(shown_s - contained_s, 0.0)))
    alike = [r for r in everywhere if r.workload.get("iterations", 1) == iterations]
    return replace(costs, overhead=fit_overhead(alike, lambda r: costs_of[r.id], prior=believed))
