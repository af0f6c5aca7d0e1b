"""The candidate schedules: the n most desirable hosts of each order, slabs for each, cheapest first (§3.2, §3.3).

Every candidate is first priced in real rows, all at once. That is a lower bound of its makespan for every allocation
of slabs, so whole rows are only settled for candidates that can still win.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray
from apples.planning import heights
from apples.planning.chains import Chains
from apples.planning.minimax import makespans, minimax_rows, whole_rows
from apples.planning.model import RankLines, rank_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem

#: Numbers of ranks that are all tried, and the relative distance of larger ones.
EVERY, APART = 512, 0.01


#: Most members priced at once, and in the first step when there are more.
MANY_MEMBERS, _FIRST_MEMBERS = 400_000, 20_000


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSchedule:
    """A chain with whole slab heights: processors and rows, int64[n] each, and the predicted makespan.

    order : the desirability order of its candidate.  relaxed : the limits widened to make it feasible
    """

    chain: IntArray
    rows: IntArray
    makespan_s: float
    order: str = ""
    relaxed: tuple[str, ...] = ()


def host_counts(problem: Problem, options: PlanningOptions, usable: int) -> IntArray:
    """Return the numbers of ranks to try, of those that the program takes.

    The given one, every count, or even counts (one if that is the only count).
    """
    possible = min(usable, problem.size // problem.min_rows)
    most = options.most_ranks(possible)
    legal: IntArray = np.flatnonzero(problem.legal[: most + 1])
    if options.ranks is not None:
        legal = legal[legal >= options.ranks]
    elif options.counts == "even" and most > 1:
        legal = legal[legal % 2 == 0]
    elif options.improve:
        legal = legal[_thinned(len(legal)) - 1]
    return legal


def most_legal(problem: Problem, ranks: int) -> int:
    """Return the largest number of ranks up to `ranks` that the program takes, 0 if there is none."""
    return int(np.flatnonzero(problem.legal[: ranks + 1]).max(initial=0))


def _thinned(most: int) -> IntArray:
    """Return every number of ranks up to `EVERY`, then numbers a hundredth apart, to `most`.

    Near the best number the makespan changes with the square of the distance, and the search moves on from there.
    """
    every = np.arange(1, min(EVERY, most) + 1)
    if most <= EVERY:
        return every
    steps = math.ceil(math.log(most / EVERY) / math.log1p(APART))
    return np.union1d(every, np.geomspace(EVERY, most, steps + 1).astype(np.int64))


def seconds_per_rank(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> FloatArray:
    """Return T_i of every rank of a schedule, float64[n]."""
    lines = rank_lines(problem, Chains.of([schedule.chain]), options)
    return lines.seconds(schedule.rows.astype(np.float64))


def real_makespans(problem: Problem, chains: Chains, options: PlanningOptions) -> FloatArray:
    """Return the best common finish of every chain in real rows, float64[K]; inf if a limit forbids it.

    Constraints on the rows of several hosts are ignored.
    """
    return _finishes(problem, chains, rank_lines(problem, chains, options))[0]


def _finishes(problem: Problem, chains: Chains, lines: RankLines) -> tuple[FloatArray, FloatArray]:
    """Return the best common finish of every chain and the latest one that the limits on hosts allow, seconds."""
    finish = makespans(lines, chains, problem.size, problem.min_rows)
    finish = np.where(problem.legal[chains.lengths], finish, np.inf)
    if problem.limits is None:
        return finish, np.full(len(chains), np.inf)
    ranks_on = chains.ranks_by_host(problem)
    latest = problem.limits.latest(ranks_on)
    return np.where(problem.limits.allow(ranks_on) & (finish <= latest), finish, np.inf), latest


def keeps_limits(problem: Problem, schedule: CandidateSchedule) -> bool:
    """Return whether a schedule keeps the legal numbers of ranks, and people's limits on hosts, budget and deadline."""
    if not problem.legal[len(schedule.chain)]:
        return False
    if problem.limits is None:
        return True
    ranks_on = Chains.of([schedule.chain]).ranks_by_host(problem)
    in_time = schedule.makespan_s <= problem.limits.latest(ranks_on)[0]
    return bool(problem.limits.allow(ranks_on)[0]) and bool(in_time)


def best_of(
    problem: Problem,
    chains: Chains,
    options: PlanningOptions,
    *,
    below: float = math.inf,
    tries: int | None = None,
) -> tuple[int, CandidateSchedule] | None:
    """Return index and schedule of the chain with the smallest makespan in whole rows; None if none is under `below`.

    tries : largest number of chains to round, the most promising first; None for no limit

    Of very many members, the chains with the lowest bound are priced first, so that most others need no price.
    """
    if tries is not None or len(chains.members) <= MANY_MEMBERS:
        return _best_priced(problem, chains, options, below, tries)
    bound = _lower_bounds(problem, chains)
    order = np.argsort(bound, kind="stable")
    best: tuple[int, CandidateSchedule] | None = None
    done, members = 0, _FIRST_MEMBERS
    while done < len(order) and bound[order[done]] < below:
        lengths = np.cumsum(chains.lengths[order[done:]])
        batch = order[done : done + max(int(np.searchsorted(lengths, members)), 1)]
        done, members = done + len(batch), min(4 * members, MANY_MEMBERS)
        batch = np.sort(batch[bound[batch] < below])
        chosen = np.isin(np.arange(len(chains)), batch)
        priced = _best_priced(problem, chains.select(chosen)[0], options, below, None)
        if priced is not None:
            best, below = (int(batch[priced[0]]), priced[1]), priced[1].makespan_s
    return best


def _lower_bounds(problem: Problem, chains: Chains) -> FloatArray:
    """Return seconds that no allocation of each chain undercuts: its overhead, and all rows at full speed."""
    speed = 1 / problem.slope[problem.host_of[chains.members], 1]
    return problem.overhead[chains.lengths] + problem.size / chains.total(speed)


def _best_priced(
    problem: Problem, chains: Chains, options: PlanningOptions, below: float, tries: int | None
) -> tuple[int, CandidateSchedule] | None:
    """Return the result of `best_of` from the price of every chain."""
    lines = rank_lines(problem, chains, options)
    finish, latest = _finishes(problem, chains, lines)
    best: tuple[int, CandidateSchedule] | None = None
    for k in np.argsort(finish, kind="stable")[:tries]:
        if not finish[k] < below:
            break
        schedule = _settle(
            problem, chains.chain(k), lines.take(chains.part(int(k))), options, float(finish[k])
        )
        if schedule is not None and schedule.makespan_s < below and schedule.makespan_s <= latest[k]:
            best, below = (int(k), schedule), schedule.makespan_s
    return best


def _settle(
    problem: Problem, chain: IntArray, lines: RankLines, options: PlanningOptions, finish: float
) -> CandidateSchedule | None:
    """Return whole rows for one chain by the chosen allocation; None when its limits cannot hold the work."""
    relaxed: tuple[str, ...] = ()
    if options.allocation != "lp" and not problem.coupling:
        rows = minimax_rows(lines, problem.size, problem.min_rows, finish)
    else:
        tolerance = options.tolerance if options.allocation == "lp" else math.inf
        allocation = heights.allocate(problem, chain, lines, tolerance)
        if allocation is None:
            return None
        if allocation.tolerance != tolerance:
            relaxed = (_widened(tolerance, allocation.tolerance),)
        check = heights.coupling_check(problem, chain)
        rows = whole_rows(lines, allocation.rows, problem.size, problem.min_rows, check)
    if rows.sum() != problem.size:
        return None
    return CandidateSchedule(
        chain, rows, float(lines.seconds(rows.astype(np.float64)).max()), relaxed=relaxed
    )


def _widened(was: float, now: float) -> str:
    new = "none" if math.isinf(now) else f"{now:.0%}"
    return f"time balance tolerance widened from {was:.0%} to {new}"


def enumerate_orders(
    problem: Problem,
    orders: Iterable[tuple[str, IntArray]],
    position: IntArray | None,
    options: PlanningOptions,
) -> list[tuple[str, Chains]]:
    """Return the chains of every desirability order, one per host count; of equal orders only those of the first."""
    listed: dict[bytes, tuple[str, Chains]] = {}
    for name, order in orders:
        counts = host_counts(problem, options, len(order))
        if len(counts) and order.tobytes() not in listed:
            listed[order.tobytes()] = name, Chains.prefixes(order, counts, position)
    return list(listed.values())
