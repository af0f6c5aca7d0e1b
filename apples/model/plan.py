"""The records that flow through the agent: plan, outcome, record. Frozen, and free of any decision.

A `Plan` is a chain of (host, rows) with its predicted times and reasons. An `Outcome` is what a launcher
saw. A `Record` joins the two and is what history keeps; JSON form in `apples.learning.history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Rank `rank` runs on slot `slot` of `host` and owns `rows` rows; predicted times in seconds (§3.1)."""

    rank: int
    host: str
    slot: int
    rows: int
    compute_s: float
    communicate_s: float
    overhead_s: float

    @property
    def predicted_s(self) -> float:
        """T_i = Comp_i + Comm_i + Over_i."""
        return self.compute_s + self.communicate_s + self.overhead_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A host (or some of its slots) that the plan does not use, and why."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A chain of hosts with slab heights.

    assignments : in rank order; neighbours in the chain exchange halos
    predicted_s : max over ranks of T_i, seconds.  low_s, high_s : bounds from the forecasts' errors
    order : which desirability order it came from.  relaxed : constraints that had to be widened, in order
    taken : host → why it was taken.  left_out : the hosts that were not, with reasons
    candidates : schedules that were compared.  communication : factor on all exchanges (`apples.model.template.Costs`)
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
    candidates: int = 1
    communication: float = 1.0

    @property
    def rows(self) -> tuple[int, ...]:
        """Slab heights in rank order."""
        return tuple(a.rows for a in self.assignments)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts in rank order."""
        return tuple(dict.fromkeys(a.host for a in self.assignments))


def unplanned(hosts: Sequence[str], *, scheduler: str, application: str) -> Plan:
    """Ranks of one row on these hosts, in this order, for what is launched without a prediction.

    The n-th rank of a host is on its n-th slot
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
    """What one rank recorded of itself, seconds: setup before the loop, then the loop's parts.

    compute_s : its own sweeps.  communicate_s : halo exchange and its waits
    wait_s : the reduction that ends each iteration, mostly waiting for the slowest rank
    total_s : setup to end
    checkpoint_s, checkpoints : spent writing them, and how many
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatus:
    """How one rank ended: exit code, or the signal that killed it; both None if that is not known.

    to_blame : it failed by itself, neither because another rank had failed nor because it was told to end
    """

    rank: int
    host: str
    exit_code: int | None
    signal: int | None = None
    pid: int | None = None
    to_blame: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Rows that moved between the ranks of a run while it ran.

    iteration : after which this was decided.  before, after : slab heights in rank order
    gain_s, cost_s : predicted.  took_s : measured; None where the run ended before anybody knew
    refused : why the run kept its slabs, empty where it did not
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
    """What a launcher saw of one run.

    ended : "finished", "failed", "time limit", "interrupted", or "adapted": ended on the agent's own wish, after a
        checkpoint, to go on from it with another plan
    exit_code : the highest over ranks, 128 + signal for a killed rank, 124, 125, 130 (see docs)
    observed_s : wall seconds from launch to end
    message : for the user, empty when all is well
    lost : hosts that were lost, or where the launcher failed, and how; a predicate each, as in "was lost: …"
    kept_iterations : iterations of this attempt that its newest checkpoint holds, where the launcher knows that by
        itself (simulated runs have no files); None where the file is to be asked
    moves : of rows between the ranks on the way
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
        """Whether the application did all its work."""
        return self.ended == "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One launch of a run: what was planned for what was left then, and how it ended.

    number : from 1.  started_at : seconds since the epoch.  first_iteration : iterations that were done before
    iterations : that it was to do.  checkpoint_every : iterations between its checkpoints, None for none on the way
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
    """One run as history keeps it.

    id : unique, sorts by time.  started_at : seconds since the epoch.  world : launcher that ran it
    workload : the model inputs used.  snapshot : JSON document of the snapshot the plan was made on
    key : calibration key (application with its options, and machine): only like is fitted to like
    sharing : what the node manager saw of a run that took turns on its hosts, empty for others
    monitor : what the monitor saw in a run that had one, empty for others
    attempts : of the run loop; `plan` is the first one's, and `outcome` that of the whole
    """

    id: str
    started_at: float
    world: str
    key: str
    plan: Plan
    outcome: Outcome | None
    snapshot: dict[str, Any] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    sharing: dict[str, Any] = field(default_factory=dict)
    monitor: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether `outcome` is that of `plan`, from the first iteration to the last in one launch and on its slabs."""
        if self.outcome is not None and self.outcome.moves:
            return False
        return not self.attempts or (len(self.attempts) == 1 and self.attempts[0].first_iteration == 0)
