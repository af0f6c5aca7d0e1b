"""The best chain of a small pool: every set of slots, every order, by dynamic programming over prefixes.

A makespan T is reachable if some chain can place all rows by T. The rows that a rank finishes by T depend on its set
(CPU shares, overhead, waiting) and on its two neighbours (exchange). So of two prefixes of a set with the same members
and the same last two, only the one with more rows matters (Held and Karp 1962). Prefixes that cannot place the work
are dropped, all sets are advanced at once, and T falls to the makespan of the best chain found until none is left.

A reduction waits for the slowest link of the chain. So each set is tried with limits of the latency of its links, at
the price of that limit.

Exact in whole rows if each host has one slot. The exchanges of a host whose slots are not adjacent are known only at
the end of a chain. So prefixes are compared by their least cost if they come to each host equally often, and the
`LEAVES` best chains of a set are priced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.candidates import CandidateSchedule, best_of, host_counts
from apples.planning.chains import Chains
from apples.planning.model import RankLines, unordered_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, BoolArray, IntArray, Problem

#: Largest pool, in processors, whose plan is exact.
MOST = 10
#: Chains priced of each set and round if the dynamic program only bounds their cost.
LEAVES = 48
#: Most limits of the slowest latency that a set is tried with; between two of them the higher one is the price.
LIMITS = 28
#: Most prefixes kept at once; more are dropped, the least promising first.
WIDTH = 60_000
#: Sets advanced at once; the most promising come first, so that later ones are dropped by their bound.
_BATCHES = (4, 32)
_LEAST_GAIN = 1e-9


def applies(problem: Problem, options: PlanningOptions) -> bool:
    """Return whether the pool is small enough, and priced by rules this search knows."""
    plain = options.model == "exchange" and options.allocation != "lp" and not problem.coupling
    return plain and options.improve and problem.processors <= MOST


def best_chain(
    problem: Problem, options: PlanningOptions, start: CandidateSchedule | None
) -> CandidateSchedule | None:
    """Return the schedule with the smallest makespan; None if no chain can hold the work.

    start : a known schedule; it is returned if nothing is better
    """
    current, finish = start, UNUSABLE_S / 2 if start is None else start.makespan_s
    sets = _Sets.of(problem, options, finish)
    if sets is None:
        return start
    done = 0
    for size in (*_BATCHES, len(sets.member)):
        # The order of the bounds does not depend on the finish: later batches hold what earlier ones left.
        batch = sets.within(finish)
        if done == 0:
            order = batch[np.argsort(sets.earliest[batch], kind="stable")]
        some = np.intersect1d(order[done : done + size], batch)
        done += size
        while len(some):
            leaves = _advance(problem, sets, some, finish * (1 - _LEAST_GAIN))
            if leaves is None:
                break
            best = best_of(problem, leaves.chains, options, below=finish)
            if best is None:
                break
            current, finish = best[1], best[1].makespan_s
            some = np.intersect1d(leaves.sets, sets.within(finish))
    return current if current is None or current is start else _named(current)


def _named(schedule: CandidateSchedule) -> CandidateSchedule:
    return CandidateSchedule(schedule.chain, schedule.rows, schedule.makespan_s, "every order")


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """K sets of N processors that could hold the work, and what their members cost in any order.

    member : bool[K, N].  slope, fixed, cap, bend : float64[K, N], inf or 0 for processors outside the set
    least : float64[K, N], seconds of the cheapest two exchanges of a member: the slower one
    less : float64[K, N], seconds of its cheapest exchange, for the ends of the chain
    busy : int64[K], 1 if every exchange between hosts has to share an interface with another one
    link : float64[2, N, N+1], seconds of an exchange by `busy`; column N is no neighbour
    latency : float64[N, N+1], seconds of the slower direction.  limit : float64[K], slowest latency of a set's links
    latest : float64[K], longest makespan that people's limits allow.  earliest : float64[K], lower bound of it
    """

    member: BoolArray
    slope: FloatArray
    fixed: FloatArray
    cap: FloatArray
    bend: FloatArray
    spill: float
    least: FloatArray
    less: FloatArray
    busy: IntArray
    link: FloatArray
    latency: FloatArray
    limit: FloatArray
    latest: FloatArray
    earliest: FloatArray
    size: int
    min_rows: int

    @classmethod
    def of(cls, problem: Problem, options: PlanningOptions, finish: float) -> _Sets | None:
        """Return the sets whose members can hold the work and might place it by `finish`; None if there is none."""
        member = _slot_sets(problem, options)
        if not len(member):
            return None
        chains = Chains(np.nonzero(member)[1], np.concatenate(([0], np.cumsum(member.sum(axis=1)))))
        lines = unordered_lines(problem, chains, options)
        holds = (chains.total(lines.cap) >= problem.size) & (chains.highest(-lines.cap) <= -problem.min_rows)
        latest = np.full(len(chains), np.inf)
        if problem.limits is not None:
            ranks_on = chains.ranks_by_host(problem)
            holds &= problem.limits.allow(ranks_on)
            latest = problem.limits.latest(ranks_on)
        if not holds.any():
            return None
        chains, where = chains.select(holds)
        lines = lines.take(where)
        rate = 1 / lines.slope
        due = np.minimum(finish, latest[holds] * (1 + 1e-12))
        early = (problem.size + chains.total(rate * lines.fixed)) / chains.total(rate) < due
        if not early.any():
            return None
        chains, where = chains.select(early)
        holds[holds] = early
        return cls._dense(problem, member[holds], lines.take(where), latest[holds])

    @classmethod
    def _dense(cls, problem: Problem, member: BoolArray, lines: RankLines, latest: FloatArray) -> _Sets:
        hosts, processors = problem.host_of, member.shape[1]
        pair = problem.side[np.ix_(hosts, hosts)]
        more = problem.transfer[np.ix_(hosts, hosts)]
        # A link that is broken one way is of no use to either end.
        broken = np.maximum(pair, pair.T) >= UNUSABLE_S
        link = np.where(broken, UNUSABLE_S, np.stack([pair, pair + more]))
        latency = problem.latency_s[np.ix_(hosts, hosts)]
        slowest = np.maximum(latency, latency.T)
        limits = _latency_limits(slowest) if problem.reduction_hops else np.array([np.inf])
        copies = len(limits)

        def dense(values: FloatArray, outside: float) -> FloatArray:
            table = np.full(member.shape, outside)
            table[member] = values
            return np.repeat(table, copies, axis=0)

        on = np.zeros((len(member), len(problem.hosts)), dtype=bool)
        np.logical_or.at(on.T, hosts, member.T)
        busy = np.repeat((on.sum(axis=1) > 2).astype(np.int64), copies)
        limit = np.tile(limits, len(member))
        fixed = dense(lines.fixed, 0.0)
        members = np.repeat(member, copies, axis=0)
        ranks = members.sum(axis=1)[:, None]
        if problem.reduction_hops:
            fixed = fixed + np.where(ranks > 1, problem.reduction_hops * limit[:, None], 0.0)
        joined = members[:, None, :] & ~np.eye(processors, dtype=bool) & (slowest <= limit[:, None, None])
        cheapest = np.sort(np.where(joined, link[busy], np.inf), axis=2)[:, :, :2]
        less = np.where(ranks > 1, cheapest[:, :, 0], 0.0)
        least = np.where(ranks > 2, cheapest[:, :, min(1, processors - 1)], less)
        found = cls(
            member=members,
            slope=dense(lines.slope, 1.0),
            fixed=fixed,
            cap=np.minimum(dense(lines.cap, 0.0), problem.size),
            bend=dense(lines.bend, 0.0),
            spill=lines.spill_factor,
            least=least,
            less=less,
            busy=busy,
            link=np.concatenate((link, np.zeros((2, processors, 1))), axis=2),
            latency=np.concatenate((slowest, np.zeros((processors, 1))), axis=1),
            limit=limit,
            latest=np.repeat(latest, copies),
            earliest=np.zeros(len(members)),
            size=problem.size,
            min_rows=problem.min_rows,
        )
        rate = np.where(members, 1 / found.slope, 0.0)
        starts = np.where(members, fixed + np.minimum(less, UNUSABLE_S), 0.0)
        found.earliest[:] = (problem.size + (rate * starts).sum(axis=1)) / rate.sum(axis=1)
        return found

    def rows(self, sets: IntArray, member: IntArray, seconds: FloatArray) -> FloatArray:
        """Return the whole rows of members in `seconds` without their fixed costs; negative if too few."""
        slope, cap, bend = self.slope[sets, member], self.cap[sets, member], self.bend[sets, member]
        rows = seconds / slope
        rows = np.where(rows > bend, bend + (rows - bend) / self.spill, rows)
        rows = np.floor(np.minimum(rows, cap) + 1e-9)
        return np.where(rows >= self.min_rows, rows, -np.inf)

    def by(self, sets: IntArray, finish: float) -> FloatArray:
        """Return the seconds within which each set has to end to end before `finish` and in time for its limits."""
        return np.minimum(finish, self.latest[sets])

    def most(self, sets: IntArray, finish: float) -> tuple[FloatArray, FloatArray]:
        """Return the most rows of each member between two others, and at an end, float64[K', N] each."""
        everyone = np.arange(self.member.shape[1])[None, :]
        left = self.by(sets, finish)[:, None] - self.fixed[sets]
        inside = self.rows(sets[:, None], everyone, left - self.least[sets])
        end = self.rows(sets[:, None], everyone, left - self.less[sets])
        outside = ~self.member[sets]
        return np.where(outside, 0.0, inside), np.where(outside, 0.0, end)

    def within(self, finish: float) -> IntArray:
        """Return the sets whose members could place the work before `finish` by their cheapest exchanges."""
        sets: IntArray = np.flatnonzero(self.earliest < finish)
        inside, end = self.most(sets, finish * (1 - _LEAST_GAIN))
        # At most two members are ends; a member that only fits there counts as one of them.
        gain = np.where(np.isneginf(inside), end, end - np.where(np.isneginf(inside), 0.0, inside))
        gain = np.where(np.isnan(gain), -np.inf, gain)
        two = np.sort(gain, axis=1)[:, -2:].sum(axis=1)
        total = np.where(np.isneginf(inside), 0.0, inside).sum(axis=1) + two
        fits = (np.isneginf(inside).sum(axis=1) <= 2) & (total >= self.size)
        left: IntArray = sets[fits]
        return left


def _latency_limits(slowest: FloatArray) -> FloatArray:
    """Return the latencies that may be the slowest of a chain, ascending; at most `LIMITS` of them."""
    values = np.unique(slowest)
    return values[np.unique(np.ceil(np.linspace(0, len(values) - 1, LIMITS)).astype(np.int64))]


def _slot_sets(problem: Problem, options: PlanningOptions) -> BoolArray:
    """Return every set of processors with an allowed number of ranks, bool[K, N]; a host's slots fill in order."""
    n = problem.processors
    member: BoolArray = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1 == 1
    again = np.flatnonzero(problem.slot_of > 0)
    filled = (member[:, again] <= member[:, again - 1]).all(axis=1)
    return member[filled & np.isin(member.sum(axis=1), host_counts(problem, options, n))]


@dataclass(frozen=True, slots=True, eq=False)
class _Leaves:
    """Chains that may place the work in time, and the sets they come from, each once."""

    chains: Chains
    sets: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _Prefixes:
    """S prefixes. members : int64[S, l], processors in rank order.  place : index in the batch's sets, int64[S]

    used : int64[S], bit mask of the members.  placed : rows of all members but the last, float64[S]
    open : rows that members outside and the last one can place at most
    """

    members: IntArray
    place: IntArray
    used: IntArray
    placed: FloatArray
    open: FloatArray

    def take(self, where: IntArray | BoolArray) -> _Prefixes:
        return _Prefixes(
            self.members[where],
            self.place[where],
            self.used[where],
            self.placed[where],
            self.open[where],
        )


def _advance(problem: Problem, sets: _Sets, some: IntArray, finish: float) -> _Leaves | None:
    """Return complete chains of the sets `some` that can place the work by `finish`, the best of each set."""
    inside, end = sets.most(some, finish)
    gain = np.where(sets.member[some], np.maximum(end - np.maximum(inside, 0.0), 0.0), 0.0).max(axis=1)
    inside = np.maximum(inside, 0.0)
    lengths = sets.member[some].sum(axis=1)
    at, first = np.nonzero(sets.member[some])
    first_slot = problem.slot_of[first] == 0
    at, first = at[first_slot], first[first_slot]
    front = _Prefixes(
        members=first[:, None],
        place=at,
        used=1 << first,
        placed=np.zeros(len(at)),
        open=inside.sum(axis=1)[at],
    )
    leaves: list[tuple[IntArray, IntArray]] = []
    n = problem.processors
    while len(front.place):
        complete = lengths[front.place] == front.members.shape[1]
        if complete.any():
            leaves += _finished(problem, sets, some, front.take(complete), finish)
            front = front.take(~complete)
        if not len(front.place):
            break
        front = _extended(problem, sets, some, front, finish, inside, gain)
        front = _undominated(problem, front, n)
    if not leaves:
        return None
    chains = Chains.of([chain for _, rows in leaves for chain in rows])
    return _Leaves(chains, np.unique(np.concatenate([some[at] for at, _ in leaves])))


def _finished(
    problem: Problem, sets: _Sets, some: IntArray, front: _Prefixes, finish: float
) -> list[tuple[IntArray, IntArray]]:
    """Return [(set of each chain, chains int64[·, l])] of the complete prefixes that place the work."""
    total = front.placed + _last_rows(
        sets, some, front, np.full(len(front.place), problem.processors), finish
    )
    good = np.flatnonzero(total >= sets.size)
    order = good[np.lexsort((-total[good], front.place[good]))]
    starts = np.searchsorted(front.place[order], front.place[order], side="left")
    keep = order[np.arange(len(order)) - starts < (1 if problem.single_slots else LEAVES)]
    return [(front.place[keep], front.members[keep])] if len(keep) else []


def _last_rows(
    sets: _Sets, some: IntArray, front: _Prefixes, following: IntArray, finish: float
) -> FloatArray:
    """Return the rows of each prefix's last member if `following` is next (N for nothing), float64[S]."""
    last, none = front.members[:, -1], sets.member.shape[1]
    before = front.members[:, -2] if front.members.shape[1] > 1 else np.full(len(last), none)
    these = some[front.place]
    busy = sets.busy[these]
    wait = np.maximum(sets.link[busy, last, before], sets.link[busy, last, following])
    wait = np.where(sets.latency[last, following] > sets.limit[these], UNUSABLE_S, wait)
    return sets.rows(these, last, sets.by(these, finish) - sets.fixed[these, last] - wait)


def _extended(
    problem: Problem,
    sets: _Sets,
    some: IntArray,
    front: _Prefixes,
    finish: float,
    inside: FloatArray,
    gain: FloatArray,
) -> _Prefixes:
    """Return every prefix with every further member of its set that may still place the work by `finish`."""
    n = problem.processors
    free = sets.member[some[front.place]] & ((front.used[:, None] >> np.arange(n)) & 1 == 0)
    again = np.flatnonzero(problem.slot_of > 0)
    free[:, again] &= (front.used[:, None] >> (again - 1)) & 1 == 1
    which, following = np.nonzero(free)
    base = front.take(which)
    last = base.members[:, -1]
    rows = _last_rows(sets, some, base, following, finish)
    left = base.open - inside[base.place, last]
    reach = base.placed + rows
    good = np.flatnonzero(reach + left + gain[base.place] >= sets.size)
    base = base.take(good)
    following = following[good]
    return _Prefixes(
        members=np.column_stack((base.members, following)),
        place=base.place,
        used=base.used | (1 << following),
        placed=reach[good],
        open=left[good],
    )


def _visits(problem: Problem, members: IntArray) -> IntArray:
    """Return one number for how often each prefix comes to each host, int64[S]; 0 if hosts have one slot each."""
    if problem.single_slots:
        return np.zeros(len(members), dtype=np.int64)
    hosts = problem.host_of[members]
    comes = np.ones(hosts.shape, dtype=bool)
    comes[:, 1:] = hosts[:, 1:] != hosts[:, :-1]
    weight = np.int64(MOST + 1) ** np.arange(len(problem.hosts))
    visits: IntArray = (comes * weight[hosts]).sum(axis=1)
    return visits


def _undominated(problem: Problem, front: _Prefixes, n: int) -> _Prefixes:
    """Return the prefixes of each set, members and last two that place most rows."""
    if len(front.place) < 2:
        return front
    key = ((front.place << n | front.used) * n + front.members[:, -2]) * n + front.members[:, -1]
    visits = _visits(problem, front.members)
    order = np.lexsort((-front.placed, visits, key))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (key[order[1:]] != key[order[:-1]]) | (visits[order[1:]] != visits[order[:-1]])
    survivors = order[first]
    if len(survivors) > WIDTH:
        score = (front.placed + front.open)[survivors]
        survivors = survivors[np.argsort(-score, kind="stable")[:WIDTH]]
    return front.take(survivors)
