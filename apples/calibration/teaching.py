"""What an application costs by all that is known: benchmarks, and runs on slabs of this and other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apples.calibration.corrections import correct
from apples.calibration.overhead import fit_overhead
from apples.calibration.runs import Lessons, message_costs, start_cpu_s
from apples.plan import Record
from apples.template import Costs


def taught(own: Lessons, others: Sequence[Lessons], iterations: int) -> Costs:
    """Benchmarks corrected by all runs since; overhead fitted to runs of as many iterations.

    What a run computed longer than expected grows with its iterations and would pass for overhead in a shorter one.
    Runs on slabs of other sizes are asked first, each priced with the benchmarks of its own; what they teach is
    believed until runs on slabs of this size know better.
    """
    elsewhere = sorted((r for lessons in others for r in lessons.records), key=lambda r: r.id)
    # What ranks compute before their first iteration, and for messages, hardly depends on slabs.
    everywhere = sorted([*own.records, *elsewhere], key=lambda r: r.id)
    start_s, (message_s, hops) = start_cpu_s(everywhere), message_costs(everywhere)

    def beyond(costs: Costs) -> Costs:
        return replace(costs, start_cpu_s=start_s, message_cpu_s=message_s, reduction_hops=hops)

    corrected = beyond(correct(own, others))
    costs_of: dict[str, Costs] = {}
    for lessons in others:
        costs = beyond(correct(lessons, [own, *(other for other in others if other is not lessons)]))
        costs_of.update(dict.fromkeys((r.id for r in lessons.records), costs))
    # What benchmarks showed of a start holds the same CPU time, on an idle CPU: it must not be paid twice.
    shown_s = corrected.overhead.constant_s
    believed = replace(corrected.overhead, constant_s=min(shown_s, max(shown_s - start_s, 0.0)))
    prior = fit_overhead(_alike(elsewhere, iterations), lambda r: costs_of[r.id], prior=believed)
    overhead = fit_overhead(_alike(own.records, iterations), corrected, prior=prior)
    return replace(corrected, overhead=overhead)


def _alike(records: Sequence[Record], iterations: int) -> list[Record]:
    return [r for r in records if r.workload.get("iterations", 1) == iterations]
