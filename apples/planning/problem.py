"""The planner's inputs as arrays: cost of a row and capacity of each host, cost of each neighbour.

A *processor* is one slot of one host. Hosts that cannot take part (no benchmark, no CPU left, no memory for one row)
are set aside here with the reason; all later steps work on the remaining hosts. Source: Wolski et al. 2000, §3.1
(Comp_i, Comm_i), §3.3 (memory and array limits).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apples.errors import ConfigError, NoFeasiblePlan
from apples.model.grid import LEAST_SHARE, Conditions, FloatArray, Host, Snapshot
from apples.model.pairs import PairValues, combined, several, taken
from apples.model.template import Costs, LinearConstraint, Workload
from apples.planning.host_table import QUANTILES, HostDemands, host_table, is_known, own_host
from apples.planning.hostlimits import HostLimits, host_limits
from apples.planning.planningoptions import PlanningOptions
from apples.planning.tcp import retransmission_wait_s, throughput_Bps
from nws.base.hostlist import fold
from nws.base.records import copied
from nws.base.wording import counted

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

#: Cost of an exchange over a broken link: finite, so that arithmetic stays sound, and so
#: long that no chain with such a link in it counts as a schedule.
UNUSABLE_S = 1e12


@dataclass(frozen=True, slots=True, eq=False)
class LinkErrors:
    """Errors of the forecasts of links, computed for the pairs of a chain only.

    values, errors : (latency, bandwidth) between the usable hosts
    waiting, moving : messages and bytes over all iterations, times the factor of the costs
    """

    values: tuple[PairValues, PairValues]
    errors: tuple[PairValues, PairValues]
    waiting: float
    moving: float

    def between(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return the standard deviation of an exchange from hosts to hosts, float64[L] seconds."""
        at = start, end
        latency, bandwidth = (value[at] for value in self.values)
        works = works_at(latency, bandwidth)
        waits = self.waiting * np.where(works, latency, 0.0) * self._relative(0, at)
        moves = self.moving / np.where(works, bandwidth, 1.0) * self._relative(1, at)
        return np.where(works, np.hypot(waits, moves), 0.0)

    def _relative(self, which: int, at: tuple[IntArray, ...]) -> FloatArray:
        """Return errors divided by their values; an unknown one counts as the worst known of the pool, none as 0."""
        relative, unknown = _relative_error(self.errors[which][at], self.values[which][at])
        if not unknown.any():
            return relative
        everywhere = combined(lambda e, v: _relative_error(e, v)[0], self.errors[which], self.values[which])
        return np.where(unknown, everywhere.most(), relative)


def _relative_error(error: FloatArray, value: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return errors divided by their values, 0 where they are not known, and where that is."""
    known = (error >= 0) & (error < np.inf) & (value > 0) & (value < np.inf)
    relative = np.divide(error, value, out=np.zeros_like(value), where=known)
    return relative, np.isnan(error) | (error < 0) | (error == np.inf)


def works_at(latency: FloatArray, bandwidth: FloatArray) -> NDArray[np.bool_]:
    """Return where a link works: its latency is a duration, and it has a bandwidth."""
    return (latency >= 0) & (latency < np.inf) & (bandwidth > 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """One planning problem over H usable hosts with N slots; M is the largest slot count.

    host_of, slot_of : int64[N], processor → host index, slot number; slots without room for a slab are left off
    slope : float64[H, M+1], [h, m] seconds for one row, all iterations, when m ranks share host h
    cap : float64[H, M+1], most whole rows of one of m ranks on host h, all limits together
    memory_rows : float64[H, M+1], whole rows that fit in memory (= part of `cap` unless spilling is allowed)
    share : float64[H, M+1], CPU share forecast for each of m ranks
    share_quantiles : float64[shares, H, M+1], its quantiles at `nws.series.SHARES`, with the error of the cost of a row
    priced_share : float64[H, M+1], share behind `slope`: `share`, less the error that the quantile requires
    presence : float64[H, M+1], fraction of time in which others leave a rank its CPU (`Conditions.presence`)
    variation : float64[H, M+1], standard deviation of the share during the run, as a share of its mean
    guessed : bool[H, M+1], whether nothing is known about the error of the share
    side : seconds to exchange with a neighbour on host j, all iterations; `UNUSABLE_S` for broken links
    communication : factor that is part of `side` and `transfer` (`apples.model.template.Costs`)
    transfer : the part of `side` that occupies the interfaces of both hosts; 0 within a host
    overhead, overhead_error_s : float64[N+1], Over for P ranks, without starting, and its standard deviation
    start_cpu_s : CPU seconds of a rank until its first iteration (`apples.model.template.Costs`)
    messages_cpu_s : CPU seconds of a rank for its messages, all iterations
    reduction_hops : latencies of a chain's slowest link that its reductions take, all iterations
    limits : people's limits on the choice of hosts, None for none
    losses : share of packets lost, and the seconds of their retransmissions in `side`; None if no link loses any
    legal : bool[N+1], whether the program takes so many ranks.  row_error : of the logarithm of all rows' seconds
    alike : int64[N], equal for processors that plans may exchange; None if every host has links of its own
    processors : N.  single_slots : whether every host has one slot, so that no ranks share a host
    """

    size: int
    min_rows: int
    hosts: tuple[Host, ...]
    host_of: IntArray
    slot_of: IntArray
    slope: FloatArray
    cap: FloatArray
    memory_rows: FloatArray
    share: FloatArray
    share_quantiles: FloatArray
    priced_share: FloatArray
    presence: FloatArray
    variation: FloatArray
    guessed: BoolArray
    side: PairValues
    transfer: PairValues
    link_errors: LinkErrors
    communication: float
    overhead: FloatArray
    overhead_error_s: FloatArray
    row_error: float
    start_cpu_s: float
    messages_cpu_s: float
    reduction_hops: float
    messages: float
    bytes_exchanged: float
    latency_s: PairValues
    bandwidth_Bps: PairValues
    coupling: tuple[LinearConstraint, ...]
    excluded: tuple[tuple[str, str], ...]
    workload: Workload
    legal: BoolArray
    limits: HostLimits | None = None
    alike: IntArray | None = None
    losses: tuple[PairValues, PairValues] | None = None
    processors: int = field(init=False)
    single_slots: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "processors", len(self.host_of))
        object.__setattr__(self, "single_slots", self.slope.shape[1] == 2)

    @property
    def has_closed_links(self) -> bool:
        """Return whether any link of the pool works in no more than one direction."""
        return self.side.most() >= UNUSABLE_S

    @property
    def shortest_s(self) -> float:
        """Return the seconds of a run on all processors that never wait for each other."""
        ranks = np.arange(1, self.slope.shape[1])
        slots = np.bincount(self.host_of, minlength=len(self.hosts))
        speed = np.where(ranks <= slots[:, None], ranks / self.slope[:, 1:], 0.0)
        return self.size / float(speed.max(axis=1).sum()) + float(self.overhead.min())


def build(snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions) -> Problem:
    """Return the arrays of the problem; raises `NoFeasiblePlan` when no host can take part.

    A forecast that is not a number excludes its host or link. An unknown error counts as the worst known one of
    the pool. Slots that cannot have their smallest slab beside the others are left off.
    """
    _check(workload)
    demands = HostDemands(
        workload=workload,
        costs=costs,
        options=options,
        min_rows=max(workload.min_rows, 1),
        unknown_error=max(filter(is_known, (c.availability.error for c in snapshot.conditions)), default=0.0),
    )
    tables_of, excluded = _tables(snapshot.hosts, snapshot.conditions, demands)
    if not tables_of:
        # Busy hosts are better than none: the run takes long, and its prediction says so.
        busy = [one.at_least(LEAST_SHARE) for one in snapshot.conditions]
        tables_of, excluded = _tables(snapshot.hosts, busy, demands)
    if not tables_of:
        raise NoFeasiblePlan(_nobody(workload, excluded))
    hosts = tuple(snapshot.hosts[h] for h in tables_of)
    tables, costs = _side_by_side(list(tables_of.values())), _as_modelled(costs, workload, options)
    network = _network(snapshot, list(tables_of), workload, costs.communication)
    slots = [int((table[1, 1:] >= demands.min_rows).sum()) for table in tables_of.values()]
    coupling = tuple(c for c in workload.constraints if _is_coupling(c, hosts))
    limits = host_limits(workload.limits | options.limits, hosts, snapshot.hosts)
    overhead, overhead_error_s = _overhead(costs, workload, sum(slots))
    return copied(
        Problem,
        network,
        size=workload.size,
        min_rows=demands.min_rows,
        hosts=hosts,
        host_of=np.repeat(np.arange(len(hosts)), slots),
        slot_of=np.concatenate([np.arange(n) for n in slots]),
        slope=tables[0],
        cap=tables[1],
        memory_rows=tables[2],
        share=tables[3],
        share_quantiles=tables[QUANTILES:],
        priced_share=tables[4],
        presence=tables[7],
        variation=tables[5],
        guessed=tables[6] > 0,
        link_errors=network.errors,
        communication=costs.communication,
        overhead=overhead,
        overhead_error_s=overhead_error_s,
        row_error=costs.row_error,
        start_cpu_s=costs.start_cpu_s,
        messages_cpu_s=costs.message_cpu_s * workload.messages,
        reduction_hops=costs.reduction_hops * workload.messages,
        messages=workload.messages,
        bytes_exchanged=workload.bytes_exchanged,
        coupling=coupling,
        excluded=tuple(excluded),
        workload=workload,
        legal=np.array([ranks in workload.ranks for ranks in range(sum(slots) + 1)]),
        limits=limits,
        alike=_alike(network.side, tables, slots, restrictions(hosts, coupling, limits)),
    )


def _check(workload: Workload) -> None:
    if workload.iterations < 1:
        raise ConfigError(f"{workload.application}: got {workload.iterations} iterations; use 1 or more")


def _overhead(costs: Costs, workload: Workload, slots: int) -> tuple[FloatArray, FloatArray]:
    """Return Over for each number of ranks and its standard deviation, 0 where unknown, float64[slots + 1] each."""
    seconds, errors = (
        [of(workload.size, ranks) for ranks in range(slots + 1)]
        for of in (costs.overhead.seconds, costs.overhead.error)
    )
    return np.array(seconds), np.array([error if is_known(error) else 0.0 for error in errors])


def restrictions(
    hosts: tuple[Host, ...], coupling: tuple[LinearConstraint, ...], limits: HostLimits | None
) -> FloatArray:
    """Return each host's coefficients in all constraints and limits, and its price, float64[H, R]."""
    columns = [np.array([c.coefficients.get(host.name, 0.0) for host in hosts]) for c in coupling]
    if limits is not None:
        columns += [*limits.uses, *limits.ranks, limits.price]
    return np.column_stack([np.zeros(len(hosts)), *columns])


def _alike(
    side: PairValues, tables: FloatArray, slots: list[int], restrictions: FloatArray
) -> IntArray | None:
    """Return the same number for slots of hosts with equal links, costs, capacity and restrictions, int64[N].

    None without classes. A host with a single pair is like no other.
    """
    classes = side.classes
    if classes.kind is None:
        return None
    loops = np.zeros(classes.hosts)
    single = np.unique(np.concatenate(classes.ends))
    loops[single] = 1 + single
    table = np.nan_to_num(tables).transpose(1, 0, 2).reshape(classes.hosts, -1)
    known = np.column_stack((classes.kind, loops, slots, table, restrictions))
    _, host = np.unique(known, axis=0, return_inverse=True)
    widest = max(slots)
    alike: IntArray = np.repeat(host.ravel() * widest, slots) + np.concatenate([np.arange(n) for n in slots])
    return alike


def _as_modelled(costs: Costs, workload: Workload, options: PlanningOptions) -> Costs:
    """Return the costs as the paper's model has them: no reductions; starts and messages are overhead."""
    if options.model != "paper":
        return costs
    idle_s = costs.start_cpu_s + costs.message_cpu_s * workload.messages
    overhead = replace(costs.overhead, constant_s=costs.overhead.constant_s + idle_s)
    return replace(
        costs,
        overhead=overhead,
        communication=1.0,
        start_cpu_s=0.0,
        message_cpu_s=0.0,
        reduction_hops=0.0,
    )


def _tables(
    hosts: Sequence[Host], conditions: Sequence[Conditions], demands: HostDemands
) -> tuple[dict[int, FloatArray], list[tuple[str, str]]]:
    """Return the table of each host that can take part, by its index, and the others with their reasons."""
    tables_of, excluded = dict[int, FloatArray](), list[tuple[str, str]]()
    for h, (host, of_host) in enumerate(zip(hosts, conditions, strict=True)):
        reason, table = host_table(host, of_host, demands)
        if reason is None:
            tables_of[h] = table
        else:
            excluded.append((host.name, reason))
    return tables_of, excluded


def _nobody(workload: Workload, excluded: list[tuple[str, str]]) -> str:
    """Return why no host can take part; hosts with the same reason are listed together."""
    reasons: dict[str, list[str]] = {}
    for name, reason in excluded:
        reasons.setdefault(reason, []).append(name)
    why = "; ".join(f"{fold(names)}: {reason}" for reason, names in reasons.items()) or "the pool is empty"
    return f"no host can take part in a run of {counted(workload.size, workload.row)}: {why}"


def _side_by_side(rows: list[FloatArray]) -> FloatArray:
    """Return tables of hosts with different slot counts as one, float64[ROWS, H, M+1].

    Short ones repeat their last column.
    """
    widest = max(table.shape[1] for table in rows)
    if all(table.shape[1] == widest for table in rows):
        return np.stack(rows, axis=1)
    return np.stack([np.pad(table, ((0, 0), (0, widest - table.shape[1])), "edge") for table in rows], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """Links between the usable hosts, all values finite."""

    latency_s: PairValues
    bandwidth_Bps: PairValues
    side: PairValues
    transfer: PairValues
    errors: LinkErrors
    losses: tuple[PairValues, PairValues] | None


def _network(snapshot: Snapshot, keep: list[int], workload: Workload, factor: float) -> _Network:
    """Return seconds to exchange with one neighbour over all iterations, times `factor`.

    A link without a bandwidth, or with an invalid latency, is unusable: it costs `UNUSABLE_S`.
    """
    links = [
        snapshot.latency_s,
        snapshot.bandwidth_Bps,
        snapshot.latency_error_s,
        snapshot.bandwidth_error_Bps,
        *([] if snapshot.loss is None else [snapshot.loss]),
    ]
    if len(keep) < len(snapshot.hosts):
        links = taken(links, np.array(keep, dtype=np.int64))
    waiting, moving = workload.messages * factor, workload.bytes_exchanged * factor
    errors = LinkErrors((links[0], links[1]), (links[2], links[3]), waiting, moving)
    unusable = UNUSABLE_S if waiting > 0 or moving > 0 else 0.0

    def of_links(s: FloatArray, b: FloatArray) -> Sequence[FloatArray]:
        works = works_at(s, b)
        bandwidth = np.where(works, b, 1.0)
        transfer = np.where(works, moving / bandwidth, 0.0)
        return np.where(works, s, 0.0), bandwidth, transfer, np.where(works, waiting * s + transfer, unusable)

    latency, bandwidth, transfer, side = several(of_links, links[0], links[1])
    losses = None
    if snapshot.loss is not None:
        losses = _losses(links[4], latency, bandwidth, (waiting, moving))
        side = combined(lambda s, more: np.where(s < UNUSABLE_S, s + more, s), side, losses[1])
    return _Network(latency, bandwidth, side, _between_hosts(transfer), errors, losses)


def _losses(
    loss: PairValues, latency: PairValues, bandwidth: PairValues, demands: tuple[float, float]
) -> tuple[PairValues, PairValues]:
    """Return the share of packets lost, and the seconds of their retransmissions over all iterations.

    demands : messages and bytes over all iterations
    """
    waiting, moving = demands
    trip = combined(lambda there, back: there + back, latency, latency.back())

    def seconds(p: FloatArray, trip_s: FloatArray, width: FloatArray) -> FloatArray:
        slower = moving / throughput_Bps(width, p, trip_s) - moving / width
        return waiting * retransmission_wait_s(p, trip_s) + slower

    return loss, combined(seconds, loss, trip, bandwidth)


def _between_hosts(values: PairValues) -> PairValues:
    """Return the values with 0 within hosts."""
    table = values.table.copy()
    if values.classes.kind is None:
        np.fill_diagonal(table, 0.0)
    return replace(values, table=table, within=np.zeros_like(values.within))


def _is_coupling(constraint: LinearConstraint, hosts: tuple[Host, ...]) -> bool:
    """Return whether the allocation must know a constraint (a plain limit on one host is part of `cap`).

    It must even if only one of its hosts is left: the use of the absent hosts is then 0, not unlimited.
    """
    if own_host(constraint) is not None:
        return False
    names = {h.name for h in hosts}
    return constraint.bound < 0 or any(c and name in names for name, c in constraint.coefficients.items())
