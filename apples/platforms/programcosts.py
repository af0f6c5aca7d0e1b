"""Costs of a program from short runs under the monitor, in CPU time, so that other load does not count.

Two runs that differ only in their iterations give the CPU seconds of one row and iteration: start-up and end cancel.
Runs on pieces of different height give the memory of a row, and show whether the program honours its pieces at all.
Source of the method: Wolski et al. 2000, §3.1 (BM_i), measured there by hand.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from apples.errors import LaunchError
from apples.model.plan import RankObservation
from apples.model.template import Benchmark
from apples.monitoring.counters import PageCounters

#: CPU seconds by which the longer run must exceed the shorter, so that clock ticks and page faults do not matter.
ENOUGH_CPU_S = 0.2

#: The same for the cost of a row.
STEADY_CPU_S = 1.0

#: CPU seconds, and part of the longer run's, below which their difference may be chance.
LEAST_CPU_S, LEAST_PART = 0.01, 0.03

#: Least part of the CPU time expected from its rows that a rank with more rows must use beyond one with fewer.
_HONOURED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRun:
    """One short run. rows : pieces in rank order.  ranks : counters of each rank.  wall_s : from launch to end

    peak_bytes : largest resident memory of each rank, None where it is unknown
    """

    rows: tuple[int, ...]
    iterations: int
    wall_s: float
    ranks: Sequence[PageCounters]
    peak_bytes: Sequence[int | None] = ()


def growths_s(short: ShortRun, long: ShortRun) -> list[float]:
    """Return the CPU seconds outside MPI that the longer run took beyond the shorter, of each rank."""
    return [b.t_cpu_s - a.t_cpu_s for a, b in zip(short.ranks, long.ranks, strict=True)]


def cpu_growth_s(short: ShortRun, long: ShortRun) -> float:
    """Return the growth of the rank with most."""
    return max(growths_s(short, long), default=0.0)


def benchmark_of(name: str, short: ShortRun, long: ShortRun) -> Benchmark:
    """Return the benchmark from two runs on the same pieces; raise `LaunchError` if they show no cost of a row."""
    more = long.iterations - short.iterations
    growth_s, whole_s = cpu_growth_s(short, long), max(rank.t_cpu_s for rank in long.ranks)
    if growth_s < max(LEAST_CPU_S, LEAST_PART * whole_s):
        loops = short.ranks[0].iterations
        same = loops > 0 and loops == long.ranks[0].iterations
        counted = f"; its loop had {loops} iterations both times: the check does not change its length" * same
        raise LaunchError(
            f"{name} took {growth_s:.3f} s more CPU time for {long.iterations} than for {short.iterations} iterations, "
            "too little to measure; check that its command passes {{ iterations }} on, or give more of them under "
            f"`benchmark`{counted}"
        )
    row_s = statistics.fmean(
        s / more / rows for s, rows in zip(growths_s(short, long), long.rows, strict=True)
    )
    iteration_s = max(long.wall_s - short.wall_s, 0.0) / more
    setup_s = [
        max(a.t_cpu_s - short.iterations * rows * row_s, 0.0)
        for a, rows in zip(short.ranks, short.rows, strict=True)
    ]
    return Benchmark(
        ranks=len(long.rows),
        seconds_per_row=row_s,
        startup_s=max(short.wall_s - short.iterations * iteration_s, 0.0),
        bytes_per_row=0.0,
        setup_cpu_s=statistics.fmean(setup_s),
    )


def counted_each(short: ShortRun, long: ShortRun) -> float | None:
    """Return the iterations that rank 0's monitor counts for each of the program's; None if it sees no loop."""
    counted = long.ranks[0].iterations - short.ranks[0].iterations
    return counted / (long.iterations - short.iterations) if counted > 0 else None


def messages_of(short: ShortRun, long: ShortRun) -> float:
    """Return the messages to one neighbour in each iteration, from two runs of a pair of ranks.

    A program that only calls collective operations waits as often as its ranks communicate.
    """
    more = long.iterations - short.iterations
    sent = max(b.sent - a.sent for a, b in zip(short.ranks, long.ranks, strict=True)) / more
    waits = max(b.c_comm - a.c_comm for a, b in zip(short.ranks, long.ranks, strict=True)) / more
    return max(sent if sent > 0 else waits, 0.0)


def beside_mpi(short: ShortRun, long: ShortRun) -> float:
    """Return the CPU seconds of threads that call no MPI, for each of those that do, from runs of one rank."""
    growth = cpu_growth_s(short, long)
    return max(_outside(short, long)[0], 0.0) / growth if growth > 0 else 0.0


def _outside(short: ShortRun, long: ShortRun) -> list[float]:
    """Return by how many CPU seconds of each rank, beside those outside MPI, the longer run exceeds the shorter."""
    return [
        (b.cpu_s - b.t_cpu_s) - (a.cpu_s - a.t_cpu_s) for a, b in zip(short.ranks, long.ranks, strict=True)
    ]


def message_cpu_s_of(short: ShortRun, long: ShortRun, threads: float = 0.0) -> float | None:
    """Return the CPU seconds in MPI for each message to the neighbour, from two runs of a pair of ranks.

    The rank with less waited less for the other, and so polled less. None for a program without messages.

    Args:
        threads: `beside_mpi` of the program
    """
    more = messages_of(short, long) * (long.iterations - short.iterations)
    computed = zip(_outside(short, long), growths_s(short, long), strict=True)
    inside = [own - threads * cpu_s for own, cpu_s in computed]
    return max(min(inside), 0.0) / more if more > 0 else None


def bytes_of(short: ShortRun, long: ShortRun) -> float:
    """Return the bytes to one neighbour in each iteration, from two runs of a pair of ranks."""
    sent = [[sum(to.bytes for to in rank.neighbours) for rank in run.ranks] for run in (short, long)]
    more = max((b - a for a, b in zip(*sent, strict=True)), default=0)
    return max(more / (long.iterations - short.iterations), 0.0)


def memory_of(runs: Sequence[ShortRun]) -> tuple[float, float]:
    """Return the bytes of a row and of a rank beside its rows, from ranks with different pieces; never negative.

    (0, 0) if all pieces are alike or the memory is unknown.
    """
    seen = [
        (rows, peak)
        for run in runs
        for rows, peak in zip(run.rows, run.peak_bytes, strict=True)
        if peak is not None
    ]
    (few, low), (many, high) = (min(seen), max(seen)) if seen else ((0, 0), (0, 0))
    if many <= few:
        return 0.0, 0.0
    row_bytes = max((high - low) / (many - few), 0.0)
    return row_bytes, max(low - few * row_bytes, 0.0)


def ignores_pieces(short: ShortRun, long: ShortRun) -> bool:
    """Return whether the CPU times of ranks with different pieces do not follow their rows.

    Of two ranks, the one with more rows must take at least half of the additional CPU time that its rows would cost.
    """
    growth = growths_s(short, long)
    total_s, size = sum(growth), sum(long.rows)
    high, low = (long.rows.index(pick(long.rows)) for pick in (max, min))
    expected_s = total_s * (long.rows[high] - long.rows[low]) / size
    return growth[high] - growth[low] < _HONOURED * expected_s


def ignores_changes(pair: tuple[ShortRun, ShortRun], turned: tuple[ShortRun, ShortRun]) -> bool:
    """Return whether the CPU times of ranks do not follow the changes of their rows from one pair of runs to another.

    By the growth of each rank with iterations, so that neither its start nor its further work counts.
    """
    before, after = growths_s(*pair), growths_s(*turned)
    rows = [b - a for a, b in zip(pair[1].rows, turned[1].rows, strict=True)]
    row_s = sum((b - a) * n for a, b, n in zip(before, after, rows, strict=True)) / sum(n**2 for n in rows)
    expected_s = (sum(before) + sum(after)) / (2 * sum(pair[1].rows))
    return row_s < _HONOURED * expected_s


def observations_of(
    counters: Sequence[PageCounters],
    rows: Sequence[int],
    hosts: Sequence[str],
    *,
    iterations: int,
    setup_cpu_s: Sequence[float],
) -> tuple[RankObservation, ...]:
    """Return the observations of a run from the counters of its ranks.

    Args:
        counters: of the ranks that left some
        rows, hosts: of every rank
        iterations: of the run
        setup_cpu_s: CPU seconds of every rank beside them
    """
    found = []
    for rank in counters:
        if rank.rank >= len(rows):
            continue
        outside_s, own_setup_s = max(rank.elapsed_s - rank.t_comm_s, 0.0), setup_cpu_s[rank.rank]
        # A rank without a whole CPU takes longer for its setup, as it does for its rows.
        setup_s = outside_s * min(own_setup_s / rank.t_cpu_s, 1.0) if rank.t_cpu_s > 0 else 0.0
        found.append(
            RankObservation(
                rank=rank.rank,
                host=hosts[rank.rank],
                rows=rows[rank.rank],
                iterations=iterations,
                setup_s=setup_s,
                compute_s=outside_s - setup_s,
                communicate_s=rank.t_comm_s,
                wait_s=0.0,
                total_s=rank.elapsed_s,
                cpu_s=rank.t_cpu_s - own_setup_s if rank.t_cpu_s > own_setup_s else None,
            )
        )
    return tuple(sorted(found, key=lambda seen: seen.rank))
