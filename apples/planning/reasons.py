"""Reasons of a plan: the cost of each rank, why each host was taken, why the others were left out.

A host that was left out is explained by the plan with it added where it fits best: the length of that run, and its
largest part. When there is no plan, the binding limit is named.
"""

import math

import numpy as np

from apples.model.plan import Assignment, LeftOut
from apples.planning import hostprogram, placement
from apples.planning.bounds import UncertainRanks
from apples.planning.candidates import CandidateSchedule, most_legal, real_makespans
from apples.planning.chains import Chains
from apples.planning.host_table import own_host
from apples.planning.model import rank_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, Problem
from apples.planning.rank_order import tree_positions
from apples.planning.search import LEAST_GAIN, first_free
from nws.base.wording import counted, ordinal, plural, times_as_long

#: Ratio of the two directions of a link that is worth a sentence, and the most links with one.
_ONE_WAY, _LINKS_LISTED = 1.5, 8
#: Most hosts whose exclusion is explained by a plan of their own.
_EXPLAINED = 256


def assignments(
    problem: Problem, schedule: CandidateSchedule, ranks: UncertainRanks, options: PlanningOptions
) -> tuple[Assignment, ...]:
    """Return the chain in rank order with its predicted seconds by part, priced at the forecasts themselves.

    Waiting for ranks that lack their CPU counts as communication.
    """
    chains = Chains.of([schedule.chain])
    lines = rank_lines(problem, chains, options)
    busy = ranks.compute()
    compute = busy / lines.coupling
    communicate, overhead = lines.communicate + busy - compute, lines.overhead + lines.handling
    used: dict[int, int] = {}
    result = []
    for rank, h in enumerate(problem.host_of[schedule.chain].tolist()):
        slot = used.get(h, 0)
        used[h] = slot + 1
        result.append(
            Assignment(
                rank=rank,
                host=problem.hosts[h].name,
                slot=slot,
                rows=int(schedule.rows[rank]),
                compute_s=float(compute[rank]),
                communicate_s=float(communicate[rank]),
                overhead_s=float(overhead[rank]),
            )
        )
    return tuple(result)


def links(problem: Problem, schedule: CandidateSchedule) -> tuple[str, ...]:
    """Return a sentence for each link of the chain that loses packets, or takes much longer one way than back."""
    hosts = problem.host_of[schedule.chain]
    sentences: dict[str, float] = {}
    for a, b in zip(hosts[:-1].tolist(), hosts[1:].tolist(), strict=True):
        there, back = float(problem.side[a, b]), float(problem.side[b, a])
        names = problem.hosts[a].name, problem.hosts[b].name
        for (one, other), pair in ((names, (a, b)), (names[::-1], (b, a))):
            loss, seconds = (0.0, 0.0) if problem.losses is None else (float(v[pair]) for v in problem.losses)
            if loss > 0:
                text = f"{one} → {other} loses {loss:.2g} of its packets: {seconds:.3g} s of retransmissions"
                sentences[text] = seconds
        if a != b and max(there, back) > max(_ONE_WAY * min(there, back), LEAST_GAIN * schedule.makespan_s):
            slow, fast = (names, names[::-1]) if there > back else (names[::-1], names)
            sentences[
                f"{' → '.join(slow)} takes {max(there, back):.3g} s, {' → '.join(fast)} {min(there, back):.3g} s"
            ] = max(there, back)
    return tuple(sorted(sentences, key=lambda text: -sentences[text])[:_LINKS_LISTED])


def taken(problem: Problem, schedule: CandidateSchedule) -> tuple[tuple[str, str], ...]:
    """Return (host, reason) for every host of the chain, in rank order."""
    hosts = problem.host_of[schedule.chain]
    speed = 1 / problem.slope[:, 1]
    position = np.empty(len(speed), dtype=np.int64)
    position[np.argsort(-speed, kind="stable")] = np.arange(1, len(speed) + 1)
    result = []
    for h in dict.fromkeys(hosts.tolist()):
        mine = hosts == h
        m = int(mine.sum())
        rows = int(schedule.rows[mine].sum())
        share = float(problem.share[h, m])
        limit = float(problem.cap[h, m]) * m
        full = "; holds no more" if rows >= limit else ""
        if (schedule.rows[mine] > problem.memory_rows[h, m]).any():
            full += "; more than fits in memory"
        result.append(
            (
                problem.hosts[h].name,
                f"{counted(rows, problem.workload.row)} in {counted(m, 'rank')} at {share:.2f} of a CPU each, "
                f"{ordinal(int(position[h]))} of {len(speed)} by speed{full}",
            )
        )
    return tuple(result)


def left_out(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> tuple[LeftOut, ...]:
    """Return every unused host of the pool, and every unused slot of a used host, with the reason."""
    result = [LeftOut(host=name, reason=reason) for name, reason in problem.excluded]
    result += _without_room(problem, schedule)
    spare = first_free(problem, schedule.chain)
    if not len(spare):
        return tuple(result)
    used = set(problem.host_of[schedule.chain].tolist())
    for processor, reason in zip(spare.tolist(), _why_not(problem, schedule, spare, options), strict=True):
        h = int(problem.host_of[processor])
        slots = problem.hosts[h].slots - int((problem.host_of[schedule.chain] == h).sum())
        what = f"{slots} of {problem.hosts[h].slots} slots unused: " if h in used else ""
        result.append(LeftOut(host=problem.hosts[h].name, reason=what + reason))
    return tuple(result)


def _without_room(problem: Problem, schedule: CandidateSchedule) -> list[LeftOut]:
    """Return slots that could never hold the smallest slab beside the others, on hosts whose other slots are
    all used.
    """
    known = np.bincount(problem.host_of, minlength=len(problem.hosts))
    used = np.bincount(problem.host_of[schedule.chain], minlength=len(problem.hosts))
    return [
        LeftOut(
            host=host.name,
            reason=f"{host.slots - n} of {host.slots} slots unused: no room for one more slab of "
            + counted(problem.min_rows, problem.workload.row),
        )
        for host, n, m in zip(problem.hosts, known.tolist(), used.tolist(), strict=True)
        if host.slots > n == m
    ]


def _why_not(
    problem: Problem, schedule: CandidateSchedule, spare: IntArray, options: PlanningOptions
) -> list[str]:
    chain = schedule.chain
    if options.ranks is not None:
        return [f"exactly {options.ranks} ranks were asked for"] * len(spare)
    if options.max_ranks is not None and len(chain) >= options.max_ranks:
        return [f"the run may use {options.max_ranks} ranks at most"] * len(spare)
    if not problem.legal[len(chain) + 1]:
        return [
            f"{problem.workload.application} does not run on {len(chain) + 1} ranks, but on: {problem.workload.ranks}"
        ] * len(spare)
    if len(chain) >= problem.size // problem.min_rows:
        return [f"there is no {problem.workload.row} left for another rank"] * len(spare)
    if len(spare) > _EXPLAINED:
        return ["more hosts would not end the run sooner"] * len(spare)
    position = tree_positions(problem)
    chains = Chains.of([_with(chain, int(p), position) for p in spare])
    finish = real_makespans(problem, chains, options)
    old, new = rank_lines(problem, Chains.of([chain]), options), rank_lines(problem, chains, options)
    more = new.overhead[chains.at_start] - old.overhead[0]
    communicate_s = chains.highest(new.communicate)
    later = chains.highest(new.handling) - old.handling.max()
    reasons = []
    for t, comm, longer, late in zip(
        finish.tolist(), communicate_s.tolist(), more.tolist(), later.tolist(), strict=True
    ):
        if not math.isfinite(t):
            limits = " within the limits" if problem.limits else ""
            reasons.append(f"with it the work cannot be placed{limits}")
            continue
        change = t / schedule.makespan_s - 1
        costs = f"overhead {longer:+.3g} s, slowest exchange {comm - old.communicate.max():+.3g} s"
        costs += f", messages and reductions {late:+.3g} s" if late else ""
        if problem.coupling:
            reasons.append(f"the further constraints are met without it ({costs})")
        elif change < -LEAST_GAIN:
            reasons.append(
                f"with it the run might take {t:.4g} s, {-change:.1%} less, but no candidate had it ({costs})"
            )
        elif change > 0:
            reasons.append(f"with it the run would take {t:.4g} s, {times_as_long(1 + change)} ({costs})")
        else:
            reasons.append(
                f"with it the run would take {t:.4g} s, not sooner in whole {plural(problem.workload.row)} ({costs})"
            )
    return reasons


def _with(chain: IntArray, processor: int, position: IntArray) -> IntArray:
    """Return the chain with one processor more, beside the member nearest to it in the full chain."""
    beside = int(np.argmin(np.abs(position[chain] - position[processor])))
    after = position[processor] > position[chain[beside]]
    return np.insert(chain, beside + int(after), processor)


def lacks_room(problem: Problem, options: PlanningOptions) -> str | None:
    """Return one sentence if the pool as a whole cannot hold the work; None if it can."""
    row, size = problem.workload.row, problem.size
    if size < problem.min_rows:
        return f"size {size} is too small: a rank needs at least {counted(problem.min_rows, row)}"
    if options.ranks is not None and options.ranks > min(problem.processors, size // problem.min_rows):
        return (
            f"{options.ranks} ranks were asked for, but the pool has {problem.processors} usable slots and "
            f"{counted(size, row)} make at most {size // problem.min_rows} ranks"
        )
    if not most_legal(problem, options.most_ranks(min(problem.processors, size // problem.min_rows))):
        most = f", and {options.max_ranks} at most were asked for" if options.max_ranks else ""
        return (
            f"{problem.workload.application} runs on these numbers of ranks only: {problem.workload.ranks}; "
            f"the pool has {counted(problem.processors, 'usable slot')} for {counted(size, row)}{most}"
        )
    hosts, hold = _room(problem, options)
    if hold < size:
        return (
            f"{counted(size, row)} do not fit: {counted(hosts, 'host')} can hold {counted(round(hold), row)} "
            f"({', '.join(_limits_of_rows(problem, options))}); use a smaller size or more hosts"
        )
    return None


def why_infeasible(problem: Problem, options: PlanningOptions) -> str:
    """Return one sentence naming the binding limits, with the numbers a user needs.

    Each limit named would by itself let the work be placed, as the mixed-integer program of `placement` found.
    """
    lacking = lacks_room(problem, options)
    if lacking is not None:
        return lacking
    row, size = problem.workload.row, problem.size
    placed = placement.most_rows(problem, options)
    most = "" if placed is None else f", {placed.rows.sum()} at most"
    if placed is not None and math.floor(placed.most + 1e-6) > placed.rows.sum():
        most = f", {placed.rows.sum()} as far as the search went, {placed.most:.0f} at most"
    words = {
        hostprogram.LINKS: "some links do not work",
        hostprogram.RANKS: f"the run may use {_most_ranks(problem, options)} ranks at most",
        hostprogram.CAPACITY: " and ".join(_limits_of_rows(problem, options)),
    }
    named = placement.binding(problem, options)
    listed = "; ".join(words.get(limit, f"the constraint {limit}") for limit in named)
    return (
        f"no choice of hosts places all {counted(size, row)}{most}: "
        f"{listed or f'every rank takes at least {problem.min_rows}'}"
    )


def _most_ranks(problem: Problem, options: PlanningOptions) -> int:
    return most_legal(problem, options.most_ranks(problem.processors))


def _limits_of_rows(problem: Problem, options: PlanningOptions) -> list[str]:
    """Return the limits on the rows of single ranks, in words."""
    row, limits = problem.workload.row, []
    if problem.workload.max_rows is not None:
        limits.append(f"array limit {problem.workload.max_rows} {plural(row)} a rank")
    if problem.workload.bytes_per_row > 0 and not options.allow_spill:
        limits.append(f"memory at {problem.workload.bytes_per_row / 1e6:.3g} MB a {row}")
    return limits + [c.name for c in problem.workload.constraints if own_host(c) is not None]


def _room(problem: Problem, options: PlanningOptions) -> tuple[int, float]:
    """Return (hosts, most rows of all of them together) within the number of ranks the options allow."""
    most = np.array(
        [
            max(m * float(problem.cap[h, m]) for m in range(1, x.slots + 1))
            for h, x in enumerate(problem.hosts)
        ]
    )
    ranks = _most_ranks(problem, options)
    singly = np.sort(problem.cap[problem.host_of, 1])[::-1][:ranks]
    return min(len(most), ranks), min(float(np.sort(most)[::-1][:ranks].sum()), float(singly.sum()))
