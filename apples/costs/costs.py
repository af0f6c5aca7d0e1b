"""The costs of a request, as pure functions of its evidence: benchmarks, corrected by finished runs.

The order of precedence: benchmarks of this very request, options and kind of machine; if there are none and none can be
made, the grid file's values. The overhead begins as that of launches of the benchmark (or the grid file). Finished runs
of all slab sizes move both (`apples.costs.posterior`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from apples.costs.evidence import Evidence, Slab
from apples.costs.growth import setup_of, with_growth
from apples.costs.posterior import learn
from apples.costs.runs import TrainingRun, TrainingRuns
from apples.model.plan import Plan
from apples.model.template import Costs, Overhead, Workload

#: Rows of slabs within a tenth of a power of two of those of a benchmark cost the same; others lie between two.
_SAME = 0.1

#: Newest runs on slabs of each size that are used; earlier ones are nearly forgotten.
_NEWEST = 30


def costs_of(evidence: Evidence, slab: Slab) -> Costs:
    """Return corrected benchmarks and fitted overhead; CPU types of which nothing is known are missing."""
    same, others = training_runs(evidence, slab)
    return learn(same, others).costs.at(slab.height)


def training_runs(evidence: Evidence, slab: Slab) -> tuple[TrainingRuns, list[TrainingRuns]]:
    """Return runs on slabs of this size, and those on slabs of each other size, with the benchmarks known now."""
    sizes = [rows for rows in evidence.near(slab.rows) if rows in evidence.runs]
    others = [_with_benchmarks(evidence, Slab(rows=n, height=n), evidence.runs[n][-_NEWEST:]) for n in sizes]
    return _with_benchmarks(evidence, slab, evidence.runs.get(slab.rows, ())[-_NEWEST:]), others


def _with_benchmarks(evidence: Evidence, slab: Slab, runs: Sequence[TrainingRun]) -> TrainingRuns:
    rows = evidence.in_use(slab)
    measured = evidence.tables.get(rows)
    if measured is not None and evidence.by_slab:
        near = {n: evidence.tables[n] for n in evidence.near(rows) if n in evidence.tables}
        measured = replace(with_growth(measured, rows, near), start_row_cpu_s=setup_cpu_s(evidence, slab)[1])
    since = {t: of.measured_at for t, of in evidence.benchmarks.get(rows, {}).items()}
    return TrainingRuns(runs=runs, benchmarks=_completed(measured, evidence.stated), since=since)


def _completed(measured: Costs | None, stated: Costs | None) -> Costs:
    """Return measured costs, and the grid file's for CPU types without a benchmark."""
    if measured is None or stated is None:
        return measured or stated or Costs(seconds_per_row={})
    return replace(
        measured,
        seconds_per_row={**stated.seconds_per_row, **measured.seconds_per_row},
        overhead=measured.overhead if stated.overhead == Overhead() else stated.overhead,
    )


def demands(evidence: Evidence, slab: Slab, workload: Workload) -> Workload:
    """Return the workload with the messages and the memory that short runs have measured, unless it states them."""
    benchmarks = evidence.used_benchmarks(slab)
    sent = [b.messages for b in benchmarks if b.messages is not None]
    carried = [b.bytes_exchanged for b in benchmarks if b.bytes_exchanged is not None]
    return replace(
        workload,
        messages=workload.messages or max(sent, default=0.0) * workload.iterations,
        bytes_exchanged=workload.bytes_exchanged or max(carried, default=0.0) * workload.iterations,
        bytes_per_row=workload.bytes_per_row or max((b.bytes_per_row for b in benchmarks), default=0.0),
        bytes_fixed=max([workload.bytes_fixed, *(b.bytes_fixed for b in benchmarks)]),
    )


def setup_cpu_s(evidence: Evidence, slab: Slab) -> tuple[float, float]:
    """Return CPU seconds of a rank beside its iterations and those of each of its rows; 0 if they are unknown."""
    used = evidence.in_use(slab)
    setups = {
        rows: max(b.setup_cpu_s for of in evidence.benchmarks[rows].values() for b in of.benchmarks)
        for rows in (used, *evidence.near(used))
        if rows in evidence.benchmarks
    }
    return setup_of(setups, slab.height)


def counted_each(evidence: Evidence, slab: Slab) -> float | None:
    """Return the iterations that the monitor counts for each of the program's; None if they are unknown."""
    counts = (b.counted_each for b in reversed(evidence.used_benchmarks(slab)))
    return next((count for count in counts if count is not None), None)


def slab_of(evidence: Evidence, slab: Slab, plan: Plan) -> Slab:
    """Return the slabs of a plan; `slab` itself where rows cost the same in all slabs.

    So they do in a simulation, and where slabs of another size were not measured and may not be measured now.
    """
    if not evidence.by_slab:
        return slab
    planned = evidence.slab(plan.typical_rows)
    return planned if planned.rows == slab.rows or evidence.available(planned) else slab


def second_size(evidence: Evidence, slab: Slab) -> Slab | None:
    """Return the size on the other side of these slabs, for the costs between; None if one size is enough."""
    steps = math.log2(slab.height / slab.rows)
    if not evidence.by_slab or abs(steps) < _SAME:
        return None
    second = evidence.slab(slab.rows * 2.0 ** math.copysign(1.0, steps))
    return None if second.rows == slab.rows else second
