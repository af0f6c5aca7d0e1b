"""When to end a run with a checkpoint and resume it on other hosts: arguments are samples of the pool.

A change of hosts costs a checkpoint, a start and a plan. The remaining run must become shorter by a minimum with all of
that counted, and several consecutive samples of the pool must agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apples.model.grid import Estimate, Snapshot
from apples.model.template import Costs
from apples.planning.adapting.settings import HostSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """One sample of the pool. rest_s : remaining seconds on the present hosts, on their best slabs.

    fresh_s : remaining seconds by a new plan over the whole pool, its start counted.  hosts : of that plan
    change_s : seconds to write a checkpoint and read it again
    """

    rest_s: float
    fresh_s: float
    change_s: float
    hosts: tuple[str, ...]


class HostPolicy:
    """The policy of one run over all its attempts. changes : changes of hosts so far."""

    def __init__(self, settings: HostSettings | None = None) -> None:
        self.changes = 0
        self._settings = settings or HostSettings()
        self._agreed = 0

    def wants_sample(self, since_start_s: float, since_look_s: float) -> bool:
        """Return whether to sample the pool, given the seconds since the last start and the last sample."""
        settings = self._settings
        return (
            self.changes < settings.most_changes
            and since_start_s >= settings.wait_s
            and since_look_s >= settings.look_every_s
        )

    def judge(self, look: PoolSample) -> bool:
        """Return whether to change hosts now."""
        gain_s = look.rest_s - look.fresh_s - look.change_s
        if gain_s <= self._settings.minimum_gain * look.rest_s:
            self._agreed = 0
            return False
        self._agreed += 1
        if self._agreed < self._settings.looks:
            return False
        self._agreed = 0
        self.changes += 1
        return True


def as_ranks_see_it(
    snapshot: Snapshot, ranks: Sequence[tuple[str, float]], costs: Costs, rank_bytes: Sequence[float]
) -> Snapshot:
    """Return the snapshot corrected on the run's own hosts: its own ranks do not count as other load.

    ranks : host of each rank and its seconds for a row and an iteration, which show the share its host gives
    rank_bytes : memory of each rank, free again after a change
    """
    seen_conditions = []
    for host, conditions in zip(snapshot.hosts, snapshot.conditions, strict=True):
        ranks_here = [
            (seconds, held)
            for (name, seconds), held in zip(ranks, rank_bytes, strict=True)
            if name == host.name
        ]
        if not ranks_here or not costs.seconds_per_row.get(host.cpu_type):
            seen_conditions.append(conditions)
            continue
        price_s = costs.row_seconds(host.cpu_type, len(ranks_here), host.name)
        share = min(1.0, price_s * sum(1 / seconds for seconds, _ in ranks_here) / len(ranks_here))
        observed = Estimate(
            value=share, error=conditions.availability.error, method="its ranks", samples=len(ranks_here)
        )
        total = max(
            share * len(ranks_here), 0.0 if conditions.capacity is None else conditions.capacity.value
        )
        memory = conditions.memory_bytes
        seen_conditions.append(
            replace(
                conditions,
                availability=observed,
                capacity=replace(observed, value=total),
                memory_bytes=replace(memory, value=memory.value + sum(held for _, held in ranks_here)),
            )
        )
    return replace(snapshot, conditions=tuple(seen_conditions))
