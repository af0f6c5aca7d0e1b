"""Text for the terminal: the plan's table, the reasons, and predicted against observed times.

Plain text that fits 80 columns for ordinary host names; the same on a terminal and in a log.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nws.base.hostlist import fold
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.model.grid import Snapshot
    from apples.model.plan import Assignment, Attempt, Move, Plan, Record
    from apples.monitoring.counters import PageCounters
    from apples.monitoring.efficiencies import Efficiencies
    from apples.run.agent import Decision

State = TypeVar("State")

#: Ranks listed one by one; of longer chains the table shows the first and the last.
_LISTED = 40

#: Judged runs from which the report states how often ranges held.
_JUDGED = 5
#: Time of an iteration with MPI's own waits, as a part of that with block, from which on a report says so.
_FASTER = 0.97
#: Number of composed pairs whose path is printed.
_COMPOSED_LISTED = 10

#: Columns of a finished run by rank.
RANK_HEADER = ("host", "rank", "rows", "predicted", "observed", "waited")


def sharing_lines(sharing: Mapping[str, Any]) -> list[str]:
    """Return the lines on a run that shared its hosts: by a node manager, or by its own waits."""
    if "ranks" in sharing:
        beside = [
            f"{'fits' if one['fits'] else 'does not fit'} beside {job}: {one['own']:.2f} × its own time alone, "
            f"{one['other']:.2f} × that of {job}"
            for job, one in sharing.get("beside", {}).items()
        ]
        return process_lines(sharing["ranks"]) + beside
    waited_s, used_s = sharing["waited_s"], sharing["used_s"]
    costs = wait_cost_line(sharing["best"], sharing["costs"])
    return [
        *costs,
        f"ranks waited {seconds(waited_s)} in MPI, slept {sharing['sleeps']} times and used {seconds(used_s)} of CPU "
        "time for it",
    ]


def wait_cost_line(best: str | None, costs: Mapping[str, float]) -> list[str]:
    """Return a line on the chosen way to wait and the costs of the others; empty if none was measured."""
    others = [f"{cost:.2f} × as long with {way}" for way, cost in costs.items() if way != best]
    return [f"ranks wait by {best}; an iteration takes {', '.join(others)}"] if others else []


def block_lines(figures: Iterable[PageCounters]) -> list[str]:
    """Return a line for ranks that block as the user asked, if MPI's own waits were measured to be faster."""
    return [
        f"MPI's own waits would be faster than block: an iteration takes {cost:.2f} × as long with them"
        for rank in figures
        if rank.best_wait == "block" and (cost := rank.wait_costs.get("mpi", 1.0)) < _FASTER
    ][:1]


def process_lines(processes: Iterable[object]) -> list[str]:
    """Return a table of the ranks, and the efficiencies if they were measured. `processes`: reports or documents"""
    from msgspec import convert

    from apples.daemons.nodeclient import measured_efficiencies
    from apples.daemons.nodemessages import ProcessReport

    reports = convert(list(processes), list[ProcessReport])
    known = sorted(reports, key=lambda process: process.rank)
    if not known:
        return ["no rank of the job has registered with the node manager; see its messages above"]
    rows = [
        [
            f"rank {process.rank}",
            process.process_class,
            *map(seconds, (process.t_cpu_s, process.t_comm_s, process.granularity_s, process.stopped_s)),
        ]
        for process in known
    ]
    lines = table(["shared", "class", "T_cpu", "T_comm", "granularity", "stopped"], rows)
    measured = measured_efficiencies(known)
    if measured is not None:
        lines.append(
            f"parallel efficiency {measured.parallel:.0%} = load balance {measured.load_balance:.0%} × "
            f"communication {measured.communication:.0%} × CPU share {measured.cpu_share:.0%} × "
            f"activity {measured.activity:.0%}"
        )
    return lines


def cells(row: Sequence[object]) -> list[str]:
    """Return the texts of a row; None is a dash."""
    return ["-" if cell is None else str(cell) for cell in row]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table; the first column is left-aligned, the others right-aligned."""
    texts = [header, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
        ]
        return "  ".join(cells).rstrip()

    return [line(row) for row in texts]


def seconds(value: float | None) -> str:
    """Return seconds as text with three or four significant digits; a dash for None, NaN and infinity."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.0f} s" if value >= 1000 else f"{value:.3g} s" if value < 100 else f"{value:.1f} s"


def _rows(assignment: Assignment) -> str:
    """Return the rows of a rank; of a box also the cells in each, `rows×cells`."""
    box = assignment.box
    return str(assignment.rows) if box is None else f"{assignment.rows}×{box.width}"


def plan_lines(decision: Decision) -> list[str]:
    """Return the chain with rows and predicted parts, as for `--dry-run`."""
    rows = [
        [a.host, a.rank, _rows(a), *map(seconds, (a.compute_s, a.communicate_s, a.overhead_s, a.predicted_s))]
        for a in decision.plan.assignments
    ]
    header = ["host", "rank", "rows", "compute", "communicate", "overhead", "predicted"]
    return [*table(header, _shortened(rows)), *_summary(decision.plan, decision)]


def rank_lines(plan: Plan, record: Record) -> list[str]:
    """Return a table of predicted and observed times by rank of a plan; those of an attempt that has ended."""
    observed = {} if record.outcome is None else {o.rank: o for o in record.outcome.observations}
    rows = []
    for a in plan.assignments:
        rank = observed.get(a.rank)
        times = (None, None) if rank is None else (rank.compute_s, rank.communicate_s + rank.wait_s)
        rows.append([a.host, a.rank, _rows(a), *map(seconds, (a.compute_s, *times))])
    return table(RANK_HEADER, _shortened(rows))


def run_lines(decision: Decision, record: Record) -> list[str]:
    """Return a table of predicted and observed times by rank, then the run's times and the prediction error.

    decision : of the last attempt.
    """
    from apples.run.documents import error

    outcome = record.outcome
    assert outcome is not None
    several = len(record.attempts) > 1
    lines = rank_lines(decision.plan, record)
    lines += [_moved(move) for move in outcome.moves]
    lines += _summary(record.plan if several else decision.plan, decision)
    if several:
        lines += ["", *attempt_lines(record.attempts)]
    if outcome.finished:
        off = "" if several else _off(error(decision.plan.predicted_s, outcome))
        lines.append(f"observed  {seconds(outcome.observed_s)}{off}")
    else:
        lines.append(f"the run {_ended(outcome.ended)} after {seconds(outcome.observed_s)}")
    return lines


def attempt_lines(attempts: Sequence[Attempt]) -> list[str]:
    """Return a table of attempts: hosts, iterations, predicted and observed times, and the reason of the end."""
    from apples.run.documents import error

    rows = [
        [
            f"attempt {one.number}",
            len(one.plan.hosts),
            one.first_iteration,
            one.first_iteration + one.iterations,
            *map(seconds, (one.plan.predicted_s, one.outcome.observed_s)),
        ]
        for one in attempts
    ]
    lines = table(["", "hosts", "from", "to iteration", "predicted", "observed"], rows)
    for number, one in enumerate(attempts, 1):
        lost = "; ".join(f"{host} {how}" for host, how in one.outcome.lost.items())
        off = _off(error(one.plan.predicted_s, one.outcome))
        lines[number] += off or f", {_ended(one.outcome.ended)}{': ' if lost else ''}{lost}"
    return lines


def _off(error: float | None) -> str:
    """Return the error of a prediction as text, empty for None."""
    return "" if error is None else f", prediction {abs(error):.1%} too {'long' if error > 0 else 'short'}"


def _moved(move: Move) -> str:
    """Return a line on one move of rows and its result."""
    heights = ",".join(map(str, move.after))
    came = f"refused: {move.refused}" if move.refused else f"took {seconds(move.took_s)}"
    return f"slabs {heights} from iteration {move.iteration}, gain {seconds(move.gain_s)} predicted, {came}"


def explanation_lines(decision: Decision) -> list[str]:
    """Return the reasons to take or leave each host (`--explain`)."""
    plan = decision.plan
    lines = [f"why ({plan.candidates} schedules compared, model {plan.model}):"]
    lines += [f"  + {host}: {reason}" for host, reason in plan.taken]
    left_out: dict[str, list[str]] = {}
    for left in plan.left_out:
        left_out.setdefault(left.reason, []).append(left.host)
    lines += [f"  - {fold(hosts)}: {reason}" for reason, hosts in left_out.items()]
    lines += _search_lines(plan)
    lines += [f"  ~ {text}" for text in plan.relaxed]
    lines += [f"  $ {text}" for text in plan.prices]
    if plan.cut is not None:
        lines.append(f"  # {plan.cut.why}")
    lines += [f"  > {text}" for text in plan.links]
    lines += [f"  · {text}" for text in decision.notes]
    if decision.keep is not None and decision.interval is not None:
        every = decision.interval.every
        often = "at the end only" if every is None else f"every {every} iterations"
        lines.append(f"  · checkpoints {often} to {decision.keep.file}: {decision.interval.why}")
    return lines + weather_lines(decision.snapshot)


def weather_lines(snapshot: Snapshot) -> list[str]:
    """Return forecasts of hosts and links, with their sources and ages."""
    from apples.model.snapshotdocument import host_groups

    lines = [f"  weather from {snapshot.source}:"]
    for names, _, conditions in host_groups(snapshot)[:_LISTED]:
        share, memory_bytes = conditions.availability, conditions.memory_bytes.value
        error = share.error if math.isfinite(share.error) else 0.0
        free = f"{memory_bytes / 1e9:.2f} GB" if math.isfinite(memory_bytes) else "unknown"
        lines.append(
            f"    {fold(names)}: {share.value:.2f} of a CPU ± {error:.2f} {'assumed ' * share.assumed}"
            f"({share.method}, {counted(share.samples, 'sample')}{_old(share.age_s)}), {free} free"
        )
    return lines + _link_lines(snapshot)


def _search_lines(plan: Plan) -> list[str]:
    """Return lines on the solution that gave the heights, and on a search of hosts that was cut."""
    names = {
        "pulp": "an integer program (PuLP, HiGHS)",
        "minimax": "minimax",
        "lp": "the paper's linear program",
    }
    allocation, lines = plan.allocation, []
    if allocation.method:
        bound_s = allocation.bound_s
        bound = (
            "" if bound_s is None else f": none end before {seconds(bound_s)}, gap {allocation.gap or 0:.2%}"
        )
        lines.append(f"  = rows by {names[allocation.method]}{bound}")
    return lines + ([f"  = {plan.search}"] if plan.search else [])


#: Activity from which on it is left out of the text.
_ACTIVE = 0.995


def monitor_lines(figures: Sequence[PageCounters]) -> list[str]:
    """Return computing and waiting times of each rank, and the job's efficiencies (`--monitor`)."""
    from apples.monitoring.efficiencies import efficiencies, observed

    if not figures:
        return ["monitor: no rank has started MPI, so there are no figures"]
    ranks = sorted(figures, key=lambda rank: rank.rank)
    rows = [
        [
            rank.rank,
            rank.host,
            *map(seconds, (rank.t_cpu_s, rank.t_comm_s)),
            rank.c_comm,
            seconds(rank.reading.granularity_s),
        ]
        for rank in ranks
    ]
    lines = table(["rank", "host", "computed", "in MPI", "events", "granularity"], _shortened(rows))
    job = observed(ranks)
    unfinished = [str(rank.rank) for rank in job.ranks if not rank.finalized]
    if unfinished:
        lines.append(f"ranks that did not reach MPI_Finalize, as far as they came: {', '.join(unfinished)}")
    if job.missing:
        lines.append(f"ranks that left no figures: {', '.join(map(str, job.missing))}")
    metrics = efficiencies(ranks)
    return lines if metrics is None else [*lines, _efficiency_line(metrics, ranks[0].mpi)]


def _efficiency_line(metrics: Efficiencies, mpi: str) -> str:
    activity = "" if metrics.activity >= _ACTIVE else f" × activity {metrics.activity:.1%}"
    return (
        f"parallel efficiency {metrics.parallel:.1%} = load balance {metrics.load_balance:.1%} × "
        f"communication {metrics.communication:.1%} × CPU share {metrics.cpu_share:.1%}{activity}  ({mpi})"
    )


def _link_lines(snapshot: Snapshot) -> list[str]:
    """Return the sources of the link values, and the path of each composed pair; empty for one host."""
    from apples.model.snapshotdocument import composed_pairs, link_sources

    sources = link_sources(snapshot)
    if sources is None or not (sources.measured or sources.composed):
        return []
    counts = {"measured": sources.measured, "composed": sources.composed, "nominal": sources.nominal}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    lines = [f"    links: {kinds}, the oldest {sources.oldest_s:.0f} s old"]
    lines += [
        f"      {start} → {end} composed via {', '.join(through)}{_old(age_s)}"
        for start, end, through, age_s in composed_pairs(snapshot, _COMPOSED_LISTED)
    ]
    if sources.composed > len(lines) - 1:
        lines.append(f"      and {sources.composed - len(lines) + 1} more composed pairs")
    return lines


def _old(age_s: float) -> str:
    return f", {age_s:.0f} s old" if math.isfinite(age_s) else ""


def _summary(plan: Plan, decision: Decision) -> list[str]:
    likely = "" if plan.low_s == plan.high_s else f"  (likely {seconds(plan.low_s)} … {seconds(plan.high_s)})"
    ranges = decision.coverage
    if likely and ranges.judged >= _JUDGED:
        likely = f"{likely[:-1]}; such ranges held in {ranges.held} of {ranges.judged} runs)"
    lines = [f"predicted {seconds(plan.predicted_s)}{likely}"]
    if decision.even is not None:
        observed_s = decision.even_observed_s
        observed = "" if observed_s is None else f", {seconds(observed_s)} observed"
        lines.append(
            f"even pieces on all hosts would take {seconds(decision.even.predicted_s)} (predicted{observed})"
        )
    return lines


def _ended(how: str) -> str:
    words = {"failed": "failed", "time limit": "hit its time limit", "interrupted": "was interrupted"}
    words["adapted"] = "went on with another plan"
    return words.get(how, how)


def _shortened(rows: list[list[object]]) -> list[list[object]]:
    if len(rows) <= _LISTED:
        return rows
    half = _LISTED // 2
    return [*rows[:half], [f"… {len(rows) - 2 * half} more", *[""] * (len(rows[0]) - 1)], *rows[-half:]]


def watch(state: State, survey: Callable[[], State], lines: Callable[[State], Sequence[str]]) -> None:
    """Show the lines of a state, and every second those of a new survey, until interrupted (`--watch`)."""
    from apples.errors import SharingError

    shown = lines(state)
    while True:
        click.clear()
        click.echo("\n".join(shown))
        time.sleep(1.0)
        try:
            shown = lines(survey())
        except SharingError as error:
            shown = [str(error)]
