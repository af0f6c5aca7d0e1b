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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from apples.model.grid import FloatArray
from apples.model.pairs import PairValues, both_ways
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

    slope : seconds per row, `coupling` included.  fixed : Comm + Over.  communicate : Comm alone
    cap : most rows.  bend : rows after which a row costs `spill_factor` times as much
    """

    slope: FloatArray
    fixed: FloatArray
    communicate: FloatArray
    cap: FloatArray
    bend: FloatArray
    spill_factor: float

    def take(self, where: IntArray | slice) -> Self:
        """Return the lines of some members only."""
        names = [one.name for one in fields(self) if one.name != "spill_factor"]
        arrays: dict[str, Any] = {name: getattr(self, name)[where] for name in names}
        return replace(self, **arrays)

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


@dataclass(frozen=True, slots=True, eq=False)
class RankCosts(RankLines):
    """The cost lines of a problem with their parts; all float64[L].

    overhead : the part of Over that is equal in a chain: a cost of its length, and the start on its busiest CPU
    handling : the rest of Over, a rank's messages on its CPU share and the reductions
    coupling : factor by which each rank is delayed when others lack their CPUs; the paper's model has 1
    """

    overhead: FloatArray
    handling: FloatArray
    coupling: FloatArray


def rank_lines(problem: Problem, chains: Chains, options: PlanningOptions) -> RankCosts:
    """Return the cost lines of every member of every chain."""
    lines = unordered_lines(problem, chains, options)
    communicate, latency_s = COMMUNICATION[options.model](problem, chains)
    reductions = problem.reduction_hops * chains.spread(chains.highest(latency_s))
    return replace(
        lines,
        fixed=lines.fixed + communicate + reductions,
        communicate=communicate,
        handling=lines.handling + reductions,
    )


def unordered_lines(problem: Problem, chains: Chains, options: PlanningOptions) -> RankCosts:
    """Return the part of the cost lines that is the same in every order of the ranks: no exchange, no reduction."""
    hosts = problem.host_of[chains.members]
    sharing = chains.ranks_on_host(problem)
    # looked up once, because plans of larger pools spend most of their time here
    slope, share = problem.slope[hosts, sharing], problem.priced_share[hosts, sharing]
    overhead: FloatArray = problem.overhead[chains.lengths]
    if problem.start_cpu_s:
        overhead += problem.start_cpu_s * chains.highest(1 / share)
    overhead = chains.spread(overhead)
    handling = np.zeros(len(share))
    if problem.messages_cpu_s:
        # a rank without a neighbour has no messages
        handling = chains.spread(np.where(chains.lengths > 1, problem.messages_cpu_s, 0.0)) / share
    coupling = np.ones(len(share))
    if options.model != "paper":
        absent = -np.log(problem.presence[hosts, sharing])
        iteration_s = problem.size / chains.total(1 / slope) / problem.workload.iterations
        others, iteration_s = chains.spread(chains.total(absent)) - absent, chains.spread(iteration_s)
        coupling = waiting_factor(others, iteration_s)
    spills = options.allow_spill or options.model == "exchange"
    return RankCosts(
        slope=slope * coupling,
        fixed=overhead + handling,
        communicate=np.zeros(len(hosts)),
        cap=problem.cap[hosts, sharing],
        bend=np.minimum(problem.memory_rows[hosts, sharing], NO_BEND)
        if spills
        else np.full(len(hosts), NO_BEND),
        spill_factor=options.spill_factor,
        overhead=overhead,
        handling=handling,
        coupling=coupling,
    )


def waiting_factor(absent: FloatArray, iteration_s: FloatArray) -> FloatArray:
    """Return the factor by which a rank is delayed by ranks that lack their CPUs at times, float64[...] ≥ 1.

    absent : sum of -ln(presence) over the other ranks.  iteration_s : length of an iteration without waiting

    Iterations much shorter than a time slice only proceed while all ranks have their CPUs at once: the factor is the
    product of all presences, not the smallest. Iterations much longer average over many slices. The remaining wait of
    each message for a CPU is in the price of a message, so no term of the order of slice / iteration is added here.
    """
    return np.exp(absent / (1 + (iteration_s / TIME_SLICE_S) ** 2))


def _neighbours(
    problem: Problem, chains: Chains, quantities: Sequence[PairValues]
) -> list[tuple[FloatArray, FloatArray]]:
    """Return each quantity towards the left and the right neighbour of each member; 0 where there is none."""
    hosts = problem.host_of[chains.members]
    return [
        (
            np.where(chains.at_start, 0.0, np.append(0.0, to_left)),
            np.where(chains.at_end, 0.0, np.append(to_right, 0.0)),
        )
        for to_left, to_right in both_ways(quantities, hosts[:-1], hosts[1:])
    ]


def paper_communication(problem: Problem, chains: Chains) -> tuple[FloatArray, FloatArray]:
    """Return Comm_i as printed in §3.1, seconds, and the slower latency to a neighbour.

    A rank at the end of the chain has one neighbour.
    """
    quantities = (problem.latency_s, problem.bandwidth_Bps, problem.side)
    latency, bandwidth, side = _neighbours(problem, chains, quantities)
    sides = (~chains.at_start).astype(np.float64) + ~chains.at_end
    both_Bps = np.add(*bandwidth)
    transfer = np.divide(
        sides * problem.bytes_exchanged, both_Bps, out=np.zeros_like(both_Bps), where=both_Bps > 0
    )
    communicate: FloatArray = transfer + problem.messages * np.add(*latency)
    # A sum of two bandwidths would hide that one of the two links is broken.
    return np.where(np.maximum(*side) < UNUSABLE_S, communicate, UNUSABLE_S), np.maximum(*latency)


def exchange_communication(problem: Problem, chains: Chains) -> tuple[FloatArray, FloatArray]:
    """Return the slower of the two neighbour exchanges, seconds, with the latency of every message; and that latency.

    All transfers that leave a host share its one interface at the same time.
    """
    quantities = (problem.latency_s, problem.side, problem.transfer)
    latency, (left, right), (more_left, more_right) = _neighbours(problem, chains, quantities)
    flows = _flows(problem, chains)
    busier = np.maximum(flows[:-1], flows[1:]) - 1
    right[:-1] += more_right[:-1] * busier
    left[1:] += more_left[1:] * busier
    return np.maximum(left, right), np.maximum(*latency)


def _flows(problem: Problem, chains: Chains) -> FloatArray:
    """Return the exchanges of the same chain that leave each member's host, float64[L]."""
    hosts = problem.host_of[chains.members]
    leaves = np.zeros(len(hosts) + 1)
    leaves[1:-1] = hosts[:-1] != hosts[1:]
    leaves[chains.starts] = 0.0
    mine: FloatArray = leaves[:-1] + leaves[1:]
    return mine if problem.single_slots else chains.sum_on_host(problem, mine)


COMMUNICATION: dict[str, Callable[[Problem, Chains], tuple[FloatArray, FloatArray]]] = {
    "paper": paper_communication,
    "exchange": exchange_communication,
}
