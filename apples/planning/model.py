"""The performance model: T_i = Comp_i + Comm_i + Over_i; the slowest rank sets the length of the run.

Comp_i = x_i·BM_i/Avail_i is linear in the slab height x_i, so for planning a rank is a straight line:
`slope`·x + `fixed`, bent once where the slab exceeds memory. Two ways to price communication:

*paper* (§3.1 as printed): MB/(b_left + b_right) + M·(l_left + l_right), where MB counts both neighbours;
*exchange*: the exchanges with both neighbours overlap, so only the slower side counts. Exchanges that leave a host
share its interface, so the slots of a host should be adjacent. Ranks also wait for each other in every iteration
(`coupling`).

Over_i depends on the number of ranks. In *exchange* it also depends on the busiest of their CPUs (the first iteration
waits for it) and on the rank's own CPU (its messages wait for it); reductions cross the slowest link. Source: Wolski
et al. 2000, §3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import FloatArray
from apples.model.pairs import PairValues
from apples.planning.chains import Chains
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, IntArray, Problem

#: More rows than any slab: the bend of a rank whose memory never binds (infinity would not survive
#: the arithmetic on both sides of a bend).
NO_BEND = 1e15


#: Time slice of a busy host (assumed: Linux, a few milliseconds).
TIME_SLICE_S = 4e-3


@dataclass(frozen=True, slots=True, eq=False)
class RankLines:
    """The costs of each member of each chain; all float64[L], seconds and rows.

    slope : seconds per row, `coupling` included.  fixed : Comm + Over, `handling` included.  communicate : Comm alone
    cap : most rows.  bend : rows after which a row costs `spill_factor` times as much
    """

    slope: FloatArray
    fixed: FloatArray
    communicate: FloatArray
    cap: FloatArray
    bend: FloatArray
    spill_factor: float

    def take(self, where: IntArray | slice) -> RankLines:
        """Return the lines of some members only."""
        return RankLines(
            slope=self.slope[where],
            fixed=self.fixed[where],
            communicate=self.communicate[where],
            cap=self.cap[where],
            bend=self.bend[where],
            spill_factor=self.spill_factor,
        )

    def seconds(self, rows: FloatArray) -> FloatArray:
        """Return T_i of slabs of these heights, float64[L]."""
        inside = np.minimum(rows, self.bend)
        return self.fixed + self.slope * (inside + self.spill_factor * (rows - inside))

    def rows_by(self, seconds: FloatArray) -> FloatArray:
        """Return the rows each member finishes in `seconds`, within its cap; negative if it cannot start by then."""
        rows = (seconds - self.fixed) / self.slope
        over = rows > self.bend
        if over.any():
            rows = np.where(over, self.bend + (rows - self.bend) / self.spill_factor, rows)
        return np.minimum(rows, self.cap)

    def row_rate(self, seconds: FloatArray) -> FloatArray:
        """Return rows per further second at `seconds`: 0 at the cap, smaller beyond the bend."""
        rows = (seconds - self.fixed) / self.slope
        over = rows >= self.bend
        beyond = np.where(over, self.bend + (rows - self.bend) / self.spill_factor, rows)
        rate = np.where(over, 1 / (self.slope * self.spill_factor), 1 / self.slope)
        return np.where(beyond >= self.cap, 0.0, rate)


def rank_lines(problem: Problem, chains: Chains, options: PlanningOptions) -> RankLines:
    """Return the cost lines of every member of every chain."""
    lines = unordered_lines(problem, chains, options)
    communicate = COMMUNICATION[options.model](problem, chains)
    fixed = lines.fixed + communicate + reductions(problem, chains)
    return replace(lines, fixed=fixed, communicate=communicate)


def unordered_lines(problem: Problem, chains: Chains, options: PlanningOptions) -> RankLines:
    """Return the part of the cost lines that is the same in every order of the ranks: no exchange, no reduction."""
    hosts = problem.host_of[chains.members]
    sharing = chains.ranks_on_host(problem)
    spills = options.allow_spill or options.model == "exchange"
    # looked up once, because plans of larger pools spend most of their time here
    slope, share = problem.slope[hosts, sharing], problem.priced_share[hosts, sharing]
    return RankLines(
        slope=slope * _coupling(problem, chains, options, slope, problem.presence[hosts, sharing]),
        fixed=chains.spread(_overheads(problem, chains, share)) + _messages(problem, chains, share),
        communicate=np.zeros(len(hosts)),
        cap=problem.cap[hosts, sharing],
        bend=np.minimum(problem.memory_rows[hosts, sharing], NO_BEND)
        if spills
        else np.full(len(hosts), NO_BEND),
        spill_factor=options.spill_factor,
    )


def overheads(problem: Problem, chains: Chains) -> FloatArray:
    """Return Over of every chain, float64[K] seconds: a cost of its length, and the start on its busiest CPU."""
    hosts, sharing = problem.host_of[chains.members], chains.ranks_on_host(problem)
    return _overheads(problem, chains, problem.priced_share[hosts, sharing])


def _overheads(problem: Problem, chains: Chains, share: FloatArray) -> FloatArray:
    overhead: FloatArray = problem.overhead[chains.lengths]
    if problem.start_cpu_s:
        overhead += problem.start_cpu_s * chains.highest(1 / share)
    return overhead


def handling(problem: Problem, chains: Chains) -> FloatArray:
    """Return the seconds of each rank for its messages on its CPU share, and for reductions, float64[L]."""
    return messages(problem, chains) + reductions(problem, chains)


def messages(problem: Problem, chains: Chains) -> FloatArray:
    """Return the seconds of each rank's messages on its CPU share, float64[L]; 0 for a rank without a neighbour."""
    hosts, sharing = problem.host_of[chains.members], chains.ranks_on_host(problem)
    return _messages(problem, chains, problem.priced_share[hosts, sharing])


def _messages(problem: Problem, chains: Chains, share: FloatArray) -> FloatArray:
    if not problem.messages_cpu_s:
        return np.zeros(len(share))
    talks = (chains.lengths > 1).astype(np.float64)
    seconds: FloatArray = chains.spread(talks * problem.messages_cpu_s) / share
    return seconds


def reductions(problem: Problem, chains: Chains) -> FloatArray:
    """Return the seconds of the reductions over the slowest link of each member's chain, float64[L]."""
    slowest_s = chains.highest(np.maximum(*_neighbours(problem, chains, problem.latency_s)))
    return problem.reduction_hops * chains.spread(slowest_s)


def coupling(problem: Problem, chains: Chains, options: PlanningOptions) -> FloatArray:
    """Return the factor by which each rank is delayed when others lack their CPUs, float64[L] ≥ 1.

    The paper's model leaves this to the overhead.
    """
    hosts, sharing = problem.host_of[chains.members], chains.ranks_on_host(problem)
    return _coupling(
        problem, chains, options, problem.slope[hosts, sharing], problem.presence[hosts, sharing]
    )


def _coupling(
    problem: Problem, chains: Chains, options: PlanningOptions, slope: FloatArray, presence: FloatArray
) -> FloatArray:
    if options.model == "paper":
        return np.ones(len(chains.members))
    absent = -np.log(presence)
    iteration_s = problem.size / chains.total(1 / slope) / problem.workload.iterations
    return waiting_factor(chains.spread(chains.total(absent)) - absent, chains.spread(iteration_s))


def waiting_factor(absent: FloatArray, iteration_s: FloatArray) -> FloatArray:
    """Return the factor by which a rank is delayed by ranks that lack their CPUs at times, float64[...] ≥ 1.

    absent : sum of -ln(presence) over the other ranks.  iteration_s : length of an iteration without waiting

    Iterations much shorter than a time slice only proceed while all ranks have their CPUs at once: the factor is the
    product of all presences, not the smallest. Iterations much longer average over many slices. The remaining wait of
    each message for a CPU is in the price of a message, so no term of the order of slice / iteration is added here.
    """
    factor: FloatArray = np.exp(absent / (1 + (iteration_s / TIME_SLICE_S) ** 2))
    return factor


def _neighbours(problem: Problem, chains: Chains, pair: PairValues) -> tuple[FloatArray, FloatArray]:
    """Return `pair` towards the left and the right neighbour of each member; 0 where there is none."""
    hosts = problem.host_of[chains.members]
    right = np.zeros(len(hosts))
    right[:-1] = pair[hosts[:-1], hosts[1:]]
    right[chains.starts[1:] - 1] = 0.0
    left = np.zeros(len(hosts))
    left[1:] = pair[hosts[1:], hosts[:-1]]
    left[chains.starts[:-1]] = 0.0
    return left, right


def paper_communication(problem: Problem, chains: Chains) -> FloatArray:
    """Return Comm_i as printed in §3.1, seconds; a rank at the end of the chain has one neighbour."""
    latency = np.add(*_neighbours(problem, chains, problem.latency_s))
    bandwidth = np.add(*_neighbours(problem, chains, problem.bandwidth_Bps))
    sides = np.add(*_neighbours(problem, chains, PairValues.same(problem.latency_s.classes, 1.0)))
    transfer = np.divide(
        sides * problem.bytes_exchanged, bandwidth, out=np.zeros_like(bandwidth), where=bandwidth > 0
    )
    communicate: FloatArray = transfer + problem.messages * latency
    # A sum of two bandwidths would hide that one of the two links is broken.
    slower = np.maximum(*_neighbours(problem, chains, problem.side))
    return np.where(slower < UNUSABLE_S, communicate, UNUSABLE_S)


def exchange_communication(problem: Problem, chains: Chains) -> FloatArray:
    """Return the slower of the two neighbour exchanges, seconds, with the latency of every message.

    All transfers that leave a host share its one interface at the same time.
    """
    left, right = _neighbours(problem, chains, problem.side)
    more_left, more_right = _neighbours(problem, chains, problem.transfer)
    flows = _flows(problem, chains)
    busier = np.maximum(flows[:-1], flows[1:]) - 1
    right[:-1] += more_right[:-1] * busier
    left[1:] += more_left[1:] * busier
    return np.maximum(left, right)


def _flows(problem: Problem, chains: Chains) -> FloatArray:
    """Return the exchanges of the same chain that leave each member's host, float64[L]."""
    hosts = problem.host_of[chains.members]
    leaves = np.zeros(len(hosts) + 1)
    leaves[1:-1] = hosts[:-1] != hosts[1:]
    leaves[chains.starts] = 0.0
    mine: FloatArray = leaves[:-1] + leaves[1:]
    return mine if problem.single_slots else chains.sum_on_host(problem, mine)


COMMUNICATION: dict[str, Callable[[Problem, Chains], FloatArray]] = {
    "paper": paper_communication,
    "exchange": exchange_communication,
}
