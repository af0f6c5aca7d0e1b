"""Controllers of a run that may adapt: the policies of `apples.planning.adapting` joined to the plan and to the pool.

`SlabController` moves rows between the ranks. `HostController` also samples the pool beside the run and decides whether
other hosts are worth a restart. Launchers know only the protocol `apples.model.progress.AdaptationController`.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from apples.errors import ApplesError
from apples.model.grid import FloatArray, Snapshot
from apples.model.launchrequest import Notify
from apples.model.plan import Move
from apples.model.progress import CheckpointAndEnd, NewSlabs, Order, Progress
from apples.planning.adapting.hosts import HostPolicy, PoolSample, as_ranks_see_it
from apples.planning.adapting.leaving import inputs_after, slabs_without
from apples.planning.adapting.policy import AdaptationInputs, SlabPolicy
from apples.planning.adapting.repartitioning import balanced, slowest
from apples.planning.adapting.settings import AdaptSettings
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import IntArray, build
from apples.run.agent import Decision
from apples.run.remaining import remaining_workload
from nws.base.hostlist import fold
from nws.base.wording import counted

#: A field that moves is one of the two that a rank's memory holds.
_MOVED_PART = 0.5


def adaptation_inputs(decision: Decision, options: PlanningOptions) -> AdaptationInputs:
    """Return the plan's inputs for its slabs; ranks in their order."""
    plan, workload, snapshot = decision.plan, decision.workload, decision.snapshot
    problem = build(snapshot, workload, decision.costs, options)
    index = {host.name: h for h, host in enumerate(problem.hosts)}
    ranks = sorted(plan.assignments, key=lambda a: a.rank)
    names = [a.host for a in ranks]
    iterations = workload.iterations

    def of_ranks(table: FloatArray, otherwise: float) -> tuple[float, ...]:
        """Return a value of each rank's host; schedulers without limits also take hosts of which nothing is known."""
        return tuple(
            float(table[index[name], names.count(name)]) if name in index else otherwise for name in names
        )

    return AdaptationInputs(
        rows=tuple(a.rows for a in ranks),
        hosts=tuple(names),
        # the plan's own slabs are known to fit, by any rule
        caps=tuple(
            max(cap, float(a.rows)) for cap, a in zip(of_ranks(problem.cap, math.inf), ranks, strict=True)
        ),
        min_rows=problem.min_rows,
        bytes_per_row=_MOVED_PART * workload.bytes_per_row,
        bandwidth_Bps=_slowest_link(snapshot, names),
        row_s=tuple(seconds / iterations for seconds in of_ranks(problem.slope, math.nan)),
        share=of_ranks(problem.share, math.nan),
    )


def _slowest_link(snapshot: Snapshot, names: list[str]) -> float:
    """Return bandwidth of the slowest link between neighbours in the chain, bytes/s."""
    index = {host.name: h for h, host in enumerate(snapshot.hosts)}
    links = [
        float(snapshot.bandwidth_Bps[index[one], index[other]])
        for one, other in pairwise(names)
        if one != other
    ]
    return max(min(links, default=math.inf), 1.0)


class SlabController:
    """Moves rows between the ranks of one launch when that pays."""

    def __init__(self, inputs: AdaptationInputs, settings: AdaptSettings, notify: Notify) -> None:
        self.policy = SlabPolicy(inputs, settings.slabs)
        self._inputs, self._settings, self._notify = inputs, settings, notify
        self._moves: list[Move] = []
        #: The ranks have still to answer the last move.
        self._open = False
        #: Hosts to leave, those of the last order to do so, and inputs of the run after it: until the ranks have
        #: obeyed, nothing else is decided.
        self._leaving: Mapping[str, str] = {}
        self._left: set[str] = set()
        self._after: AdaptationInputs | None = None
        self._at: Progress | None = None

    @property
    def report_every_s(self) -> float:
        """Return seconds from report to report."""
        return self._settings.slabs.report_every_s

    def seen(self) -> Sequence[tuple[str, float]]:
        """See `apples.model.progress.AdaptationController`; it never asks for another plan."""
        return ()

    def ended(self) -> tuple[Move, ...]:
        """See `apples.model.progress.AdaptationController`."""
        return tuple(self._moves)

    def hear(self, progress: Progress) -> Order | None:
        """See `apples.model.progress.AdaptationController`."""
        self._at = progress
        self._note(progress)
        if self._after is not None:
            return self._departed(progress)
        before = self.policy.rows
        proposal = self.policy.hear(progress)
        if proposal is None:
            return None
        self._order(
            proposal.rows, proposal.why, before=before, gain_s=proposal.gain_s, cost_s=proposal.cost_s
        )
        moved = sum(max(0, a - b) for a, b in zip(proposal.rows, before, strict=True))
        self._notify(
            f"{proposal.why}: moving {counted(moved, 'row')}, "
            f"gain {proposal.gain_s:.3g} s of {proposal.rest_s:.3g}"
        )
        return NewSlabs(rows=proposal.rows)

    def leave(self, hosts: Mapping[str, str]) -> Order | None:
        """See `apples.model.progress.AdaptationController`."""
        self._leaving = hosts
        if self._after is None:
            return self._without(stay=False)
        # The ranks have still to answer the last order.
        return NewSlabs(rows=self._moves[-1].after)

    def _without(self, *, stay: bool) -> Order | None:
        """Return the order that frees the leaving hosts. stay : their ranks stay with the least rows"""
        rows = slabs_without(self._inputs, self.policy.row_s(), self._leaving, stay=stay)
        if rows is None:
            return None
        self._left = set(self._leaving)
        self._after = inputs_after(self._inputs, rows, self._leaving)
        why = "; ".join(f"{host} {how}" for host, how in self._leaving.items())
        self._notify(f"{why}: {'nearly all' if stay else 'its'} rows go to {fold(self._staying())}")
        self._order(rows, why, before=self.policy.rows)
        return NewSlabs(rows=rows, reader=self._staying()[0])

    def _order(
        self,
        after: tuple[int, ...],
        reason: str,
        *,
        before: tuple[int, ...],
        gain_s: float = 0.0,
        cost_s: float = 0.0,
    ) -> None:
        """Record a move that is ordered now."""
        at = 0 if self._at is None else self._at.iteration
        self._moves.append(
            Move(iteration=at, before=before, after=after, reason=reason, gain_s=gain_s, cost_s=cost_s)
        )
        self._open = True

    def _staying(self) -> list[str]:
        return list(dict.fromkeys(host for host in self._inputs.hosts if host not in self._leaving))

    def _departed(self, progress: Progress) -> Order | None:
        """Go on with the ranks that have rows, once they report; or let all stay if they refuse."""
        assert self._after is not None
        if progress.rows == self._after.rows:
            self._inputs, self._after = self._after, None
            self.policy = SlabPolicy(self._inputs, self._settings.slabs)
            later = sorted(self._leaving.keys() - self._left)
            order = self._without(stay=False) if later else None
            if later and order is None:
                self._notify(
                    f"{', '.join(later)} must not end before the run: no other host can hold its rows"
                )
            return order
        if progress.refused is not None and 0 in self._moves[-1].after:
            self._notify(f"{', '.join(self._leaving)} must not end before the run: its ranks cannot leave")
            return self._without(stay=True)
        if progress.refused is not None:
            self._after = None
        return None

    def _note(self, progress: Progress) -> None:
        """Record the result of the last order."""
        if not self._open:
            return
        if progress.rows == tuple(filter(None, self._moves[-1].after)):
            self._moves[-1] = replace(self._moves[-1], took_s=progress.moved_s)
        elif progress.refused is not None:
            self._moves[-1] = replace(self._moves[-1], refused=progress.refused)
            self._notify(f"the slabs stay as they are: {progress.refused}")
        else:
            return
        self._open = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControllerInputs:
    """The inputs of a `HostController`. decision : of the running attempt.  options : of plans

    snapshot : samples the pool; may take seconds.  change_s : of a checkpoint and of reading it again
    beside : whether samples are taken beside the run, in a thread; simulated time stops during a sample
    """

    decision: Decision
    options: PlanningOptions
    snapshot: Callable[[], Snapshot]
    change_s: float
    beside: bool = True


class HostController:
    """A `SlabController` that also asks, now and then, whether the rest should run on other hosts."""

    def __init__(
        self, slabs: SlabController, policy: HostPolicy, pool: ControllerInputs, notify: Notify
    ) -> None:
        self._slabs, self._policy, self._pool, self._notify = slabs, policy, pool, notify
        self._elapsed_s = self._looked_at_s = 0.0
        self._thread: threading.Thread | None = None
        self._found: PoolSample | None = None

    @property
    def report_every_s(self) -> float:
        """Return seconds from report to report."""
        return self._slabs.report_every_s

    def seen(self) -> Sequence[tuple[str, float]]:
        """See `apples.model.progress.AdaptationController`."""
        row_s = self._slabs.policy.row_s()
        return () if row_s is None else self._of_ranks(row_s)

    def _of_ranks(self, row_s: FloatArray) -> list[tuple[str, float]]:
        ranks = sorted(self._pool.decision.plan.assignments, key=lambda a: a.rank)
        return list(zip([a.host for a in ranks], row_s.tolist(), strict=True))

    def ended(self) -> tuple[Move, ...]:
        """See `apples.model.progress.AdaptationController`; a look that still goes on is waited for."""
        if self._thread is not None:
            self._thread.join()
        return self._slabs.ended()

    def leave(self, hosts: Mapping[str, str]) -> Order | None:
        """See `apples.model.progress.AdaptationController`."""
        return self._slabs.leave(hosts)

    def hear(self, progress: Progress) -> Order | None:
        """See `apples.model.progress.AdaptationController`."""
        self._elapsed_s += progress.seconds
        order = self._slabs.hear(progress)
        look, self._found = self._found, None
        if look is not None:
            if self._policy.judge(look):
                return CheckpointAndEnd(why=_why(look))
        elif self._policy.wants_sample(self._elapsed_s, self._elapsed_s - self._looked_at_s):
            self._look(progress)
        return order

    def _look(self, progress: Progress) -> None:
        """Sample the pool, unless a sample is under way."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._looked_at_s = self._elapsed_s
        row_s = self._slabs.policy.row_s()
        if row_s is None:
            return
        iteration_s, rows = self._slabs.policy.iteration_s, np.array(progress.rows)
        if not self._pool.beside:
            self._found = self._compared(progress, row_s, iteration_s, rows)
            return

        def look() -> None:
            self._found = self._compared(progress, row_s, iteration_s, rows)

        self._thread = threading.Thread(target=look, name="look at the pool", daemon=True)
        self._thread.start()

    def _compared(
        self, progress: Progress, row_s: FloatArray, iteration_s: float, rows: IntArray
    ) -> PoolSample | None:
        """Return going on against a fresh plan; None where none could be made."""
        pool, decision = self._pool, self._pool.decision
        workload = decision.workload
        left = float(progress.iteration) if progress.left is None else progress.left
        best = balanced(row_s, int(rows.sum()), max(workload.min_rows, 1), np.full(len(rows), np.inf))
        saving_s = (
            0.0 if best is None else float(slowest(rows, row_s[None])[0] - slowest(best, row_s[None])[0])
        )
        held = [workload.bytes_fixed + workload.bytes_per_row * float(r) for r in rows]
        try:
            seen = as_ranks_see_it(pool.snapshot(), self._of_ranks(row_s), decision.costs, held)
            done = max(0, workload.iterations - round(left))
            plan = make_plan(
                seen,
                remaining_workload(workload, min(done, workload.iterations - 1)),
                decision.costs,
                pool.options,
            )
        except ApplesError as error:
            self._notify(f"no look at the pool: {str(error).splitlines()[0]}")
            return None
        return PoolSample(
            rest_s=left * max(iteration_s - max(saving_s, 0.0), 0.0),
            fresh_s=plan.predicted_s,
            change_s=pool.change_s,
            hosts=plan.hosts,
        )


def _why(look: PoolSample) -> str:
    return (
        f"going on on {fold(look.hosts)} from a checkpoint: {look.fresh_s + look.change_s:.3g} s "
        f"instead of {look.rest_s:.3g}"
    )
