"""The records of a run: plan, outcome, record. Frozen, without decisions.

A `Plan` is a chain of (host, rows) with its predicted times and reasons. An `Outcome` is a launcher's observation of
a run. A `Record` joins the two in the history; kept by `apples.costs.store`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apples.model.cut import Box, Cut, slab_boxes
from nws.base.notebook import Tabular


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Rank `rank` runs on slot `slot` of `host` and owns `rows` rows; predicted times in seconds (§3.1).

    box : of a rank that owns only a part of each of its rows, `part_of_row`; None for a slab
    """

    rank: int
    host: str
    slot: int
    rows: int
    compute_s: float
    communicate_s: float
    overhead_s: float
    box: Box | None = None
    part_of_row: float = 1.0

    @property
    def work(self) -> float:
        """Return the whole rows that have as many cells as the rank."""
        return self.rows * self.part_of_row

    @property
    def predicted_s(self) -> float:
        """Return T_i = Comp_i + Comm_i + Over_i in seconds."""
        return self.compute_s + self.communicate_s + self.overhead_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A host (or some of its slots) that the plan does not use, with the reason."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAllocation:
    """The solution that gave a plan its heights.

    method : "pulp" (an integer program), "minimax" or "lp"; empty for plans that divide the work by a rule
    bound_s : seconds before which no whole heights of the same ranks end, all forecasts coming true; None if unknown
    gap : distance of the plan from the bound, as a fraction of its time
    """

    method: str = ""
    bound_s: float | None = None
    gap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Tabular):
    """A chain of hosts with slab heights.

    assignments : in rank order; neighbours in the chain exchange halos
    predicted_s : expectation of the largest T_i, seconds.  low_s, high_s : its 10 and 90 % quantiles, by the forecasts
    horizon_s : CPU shares are forecasts of means over so long; 0: of the next measurement
    by_forecasts : low and high bound before runs calibrated them; None if they did not.  forecast_s : the expectation
    lateness_s : part of `predicted_s` beyond the largest T_i if all forecasts come true: some rank is later
    waiting_s : part of `lateness_s` that ranks wait for each other in turn, because shares change during the run
    order : its desirability order.  relaxed : constraints that had to be widened, in order
    taken : host → reason to take it.  left_out : the other hosts, with reasons
    allocation : of the heights.  search : a sentence on a search of hosts that was cut, with its gap; else empty
    candidates : number of schedules compared.  communication : factor on all exchanges (`apples.model.template.Costs`)
    prices : seconds that one unit more of each binding limit would save, a sentence each
    cost : predicted, in the unit of the hosts' prices; None without prices
    cut : of a program that takes two axes, None for others
    links : neighbours whose link loses packets or is much slower one way, a sentence each
    """

    scheduler: str
    application: str
    size: int
    model: str
    assignments: tuple[Assignment, ...]
    predicted_s: float
    low_s: float
    high_s: float
    order: str = ""
    relaxed: tuple[str, ...] = ()
    taken: tuple[tuple[str, str], ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    allocation: RowAllocation = RowAllocation()
    search: str = ""
    candidates: int = 1
    communication: float = 1.0
    prices: tuple[str, ...] = ()
    cost: float | None = None
    cut: Cut | None = None
    links: tuple[str, ...] = ()
    lateness_s: float = 0.0
    waiting_s: float = 0.0
    horizon_s: float = 0.0
    by_forecasts: tuple[float, float] | None = None
    forecast_s: float | None = None

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the heights of slabs or boxes in rank order."""
        return tuple(a.rows for a in self.assignments)

    @property
    def pieces(self) -> list[tuple[str, float]]:
        """Return host and whole rows of each rank, in rank order."""
        return [(a.host, a.work) for a in self.assignments]

    @property
    def typical_rows(self) -> float:
        """Return the rows of the slab around a row, in the mean over all rows."""
        works = [work for _, work in self.pieces]
        return sum(work * work for work in works) / sum(works)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Return the boxes of all ranks in rank order; none for a program that takes one axis only."""
        if self.cut is None:
            return ()
        boxes = tuple(a.box for a in self.assignments if a.box is not None)
        return boxes or slab_boxes(self.rows, self.cut.width)

    def table(self) -> Iterable[Mapping[str, object]]:
        """Return one row for each rank."""
        return (
            {"rank": one.rank, "host": one.host, "rows": one.rows, "predicted, s": one.predicted_s}
            for one in self.assignments
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return distinct hosts in rank order."""
        return tuple(dict.fromkeys(a.host for a in self.assignments))

    @property
    def host_hours(self) -> float:
        """Return hosts · predicted hours."""
        return len(self.hosts) * self.predicted_s / 3600


def unplanned(hosts: Sequence[str], *, scheduler: str, application: str) -> Plan:
    """Return a plan of ranks of one row on these hosts, in this order, for a launch without a prediction.

    The n-th rank of a host is on its n-th slot.
    """
    chain = tuple(
        Assignment(
            rank=rank,
            host=host,
            slot=hosts[:rank].count(host),
            rows=1,
            compute_s=0.0,
            communicate_s=0.0,
            overhead_s=0.0,
        )
        for rank, host in enumerate(hosts)
    )
    return Plan(
        scheduler=scheduler,
        application=application,
        size=len(chain),
        model="none",
        assignments=chain,
        predicted_s=0.0,
        low_s=0.0,
        high_s=0.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankObservation:
    """The times that one rank recorded of itself, seconds: setup before the loop, then the loop's parts.

    compute_s : its own sweeps.  communicate_s : halo exchange and its waits
    wait_s : the reduction that ends each iteration, mostly waiting for the slowest rank
    total_s : setup to end
    checkpoint_s, checkpoints : time spent writing them, and their number
    cpu_s : CPU time of its sweeps, None where it was not measured
    """

    rank: int
    host: str
    rows: int
    iterations: int
    setup_s: float
    compute_s: float
    communicate_s: float
    wait_s: float
    total_s: float
    checkpoint_s: float = 0.0
    checkpoints: int = 0
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatus:
    """The end of one rank: exit code, or the signal that killed it; both None if unknown.

    to_blame : it failed by itself, neither because another rank had failed nor because it was signalled
    peak_bytes : largest resident memory of its program, None where it is unknown
    """

    rank: int
    host: str
    exit_code: int | None
    signal: int | None = None
    pid: int | None = None
    to_blame: bool = False
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Rows that moved between the ranks of a run while it ran.

    iteration : of the decision.  before, after : slab heights in rank order
    gain_s, cost_s : predicted.  took_s : measured; None if the run ended before the measurement
    refused : why the run kept its slabs, empty if it did not
    """

    iteration: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    reason: str
    gain_s: float
    cost_s: float
    took_s: float | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A launcher's observation of one run.

    ended : "finished", "failed", "time limit", "interrupted", or "adapted": ended at the agent's own request, after a
        checkpoint, to resume from it with another plan
    exit_code : the highest over ranks, 128 + signal for a killed rank, 124, 125, 130 (see docs)
    observed_s : wall seconds from launch to end
    message : for the user, empty after success
    lost : hosts that were lost or drained, or where the launcher failed, with a predicate each, as in "was lost: …"
    kept_iterations : iterations of this attempt in its newest checkpoint, if the launcher knows them by itself
        (simulated runs have no files); None if the file must be read
    moves : of rows between the ranks during the run
    """

    ended: str
    exit_code: int
    observed_s: float
    statuses: tuple[RankStatus, ...] = ()
    observations: tuple[RankObservation, ...] = ()
    message: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    kept_iterations: int | None = None
    moves: tuple[Move, ...] = ()

    @property
    def finished(self) -> bool:
        """Return whether the application did all its work."""
        return self.ended == "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One launch of a run: the plan for the remaining work, and its end.

    number : from 1.  started_at : seconds since the epoch.  first_iteration : iterations done before
    iterations : to do in this launch.  checkpoint_every : iterations between its checkpoints, None for none before
    the end
    """

    number: int
    started_at: float
    first_iteration: int
    iterations: int
    plan: Plan
    outcome: Outcome
    checkpoint_every: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run in the history.

    id : unique, sorts by time.  started_at : seconds since the epoch.  world : name of the launcher
    workload : the model inputs used.  snapshot : JSON object of the snapshot of the plan
    key, slab_rows : application with its options, and machines; rows of the slabs of its benchmarks. Only runs of equal
        keys are fitted together, best those on slabs of one size
    sharing : the node manager's report on a run that took turns on its hosts, empty for others
    monitor : the monitor's report, empty for runs without one
    attempts : launches of the run; `plan` is the first one's, and `outcome` that of the run
    """

    id: str
    started_at: float
    world: str
    key: str
    plan: Plan
    outcome: Outcome | None
    slab_rows: int = 0
    snapshot: dict[str, Any] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    sharing: dict[str, Any] = field(default_factory=dict)
    monitor: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether `outcome` is that of `plan`, from the first iteration to the last in one launch and on
        its slabs.
        """
        if self.outcome is not None and self.outcome.moves:
            return False
        return not self.attempts or (len(self.attempts) == 1 and self.attempts[0].first_iteration == 0)
