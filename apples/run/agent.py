"""The agent: from a problem size to a plan with everything it was made from.

    weather → snapshot → costs → plan → (`apples.run.loop`: launch → observations → record) → the next prediction

`Agent.decide` returns a `Decision`, which is all that a dry run prints. `apples.run.loop` carries it out.
Source: Wolski et al. 2000, Figures 1 and 2.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apples.costs.benchmark import Measuring
from apples.costs.costs import counted_each, demands, setup_cpu_s, slab_of
from apples.costs.evidence import Evidence, Slab, load
from apples.costs.ranges import MOST, Coverage, calibrate_range, coverage, is_loaded
from apples.costs.store import History
from apples.errors import ConfigError, LaunchError, NoFeasiblePlan
from apples.model.grid import LEAST_SHARE, Snapshot
from apples.model.launchrequest import Notify
from apples.model.plan import LeftOut, Plan, Record
from apples.model.runrequest import RunRequest
from apples.model.snapshots import unmeasured
from apples.model.template import Checkpointing, Costs, Workload
from apples.planning.adapting.hosts import as_ranks_see_it
from apples.planning.axes import check as check_cut
from apples.planning.baselines import default_plan, even_pieces, even_plan, smart_user_plan
from apples.planning.planner import check_room, make_plan
from apples.planning.planningoptions import PlanningOptions, planning_options
from apples.platforms.platform import Platform
from apples.run.documents import (
    attempts_document,
    checkpoint_document,
    even_document,
    plan_document,
    run_document,
)
from apples.run.intervals import Interval
from apples.run.remaining import remaining_workload
from nws.base.hostlist import fold
from nws.base.terminal import visible
from nws.base.wording import counted

Planner = Callable[[Snapshot, Workload, Costs, PlanningOptions], Plan]


def _paper_plan(snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions) -> Plan:
    return replace(make_plan(snapshot, workload, costs, options), scheduler="paper")


def _planner(request: RunRequest) -> Planner:
    """Return the planner of a request: the user's choice, for a program that divides its rows evenly an even one."""
    if request.scheduler == "apples" and request.template.even:
        return even_plan
    return SCHEDULERS[request.scheduler]


#: Scheduler name → function that returns its plan.
SCHEDULERS: dict[str, Planner] = {
    "apples": make_plan,
    "paper": _paper_plan,
    "default": default_plan,
    "smart-user": smart_user_plan,
}

_SLABS_ONLY = "slabs, because the mock grid simulates no cut on two axes"

#: Schedulers that respect memory and array limits; the others are the baselines.
RESPECT_LIMITS = ("apples", "paper")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """A plan with everything it was made from, and the seconds that planning and the forecasts took.

    workload : of the remaining iterations.  first_iteration : iterations done before.  platform : its name
    key : of its record.  slab_rows : rows of the benchmarks' slabs
    keep, interval : the checkpoints and how often they are written; None for none
    setup_cpu_s : CPU seconds of a rank of a user's program beside its iterations, and those of each of its rows
    counted_each : iterations that the monitor counts for each of the program's, None if unknown
    coverage : how often the ranges of earlier runs like it held
    even : the plan with equal pieces on all hosts, None if it is the plan itself or if there is none
    even_observed_s : wall seconds of the newest such run with as much work, None if there was none
    seen : once its ranks have run, the host and the seconds of a row of each; the next plan builds on them
    """

    plan: Plan
    snapshot: Snapshot
    workload: Workload
    costs: Costs
    key: str
    slab_rows: int
    platform: str
    planning_s: float
    weather_s: float
    notes: tuple[str, ...] = ()
    first_iteration: int = 0
    keep: Checkpointing | None = None
    interval: Interval | None = None
    setup_cpu_s: tuple[float, float] = (0.0, 0.0)
    counted_each: float | None = None
    coverage: Coverage = field(default_factory=Coverage)
    even: Plan | None = None
    even_observed_s: float | None = None
    seen: Sequence[tuple[str, float]] = ()

    def document(self, record: Record | None = None) -> dict[str, Any]:
        """Return the plan's JSON document, with the observations if `record` has an outcome."""
        document = plan_document(
            self.plan,
            self.snapshot,
            planning_s=self.planning_s,
            weather_s=self.weather_s,
            notes=self.notes,
        )
        document["first_iteration"] = self.first_iteration
        document["even"] = even_document(self.even, self.even_observed_s)
        document["coverage"] = {"judged": self.coverage.judged, "held": self.coverage.held}
        if self.keep is not None and self.interval is not None:
            document["checkpoints"] = checkpoint_document(self.keep, self.interval)
        if record is None or record.outcome is None:
            return document
        document = run_document(document, record.outcome, platform=self.platform, record=record.id)
        document |= attempts_document(record)
        more = {"sharing": record.sharing, "monitor": record.monitor}
        return document | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A plan, and its inputs: slabs, their costs, the evidence on them, the snapshot.

    slab : size that its run is recorded under.  seconds : that planning took
    """

    plan: Plan
    slab: Slab
    costs: Costs
    evidence: Evidence
    snapshot: Snapshot
    seconds: float


class Agent:
    """Planner of runs on one platform, with costs learned from benchmarks and earlier runs.

    stated : costs that a grid file states, by application; they are used where nothing was measured
    report : receives each plan made and each run ended, as a kind and one sentence; it must not fail or block
    """

    def __init__(
        self,
        platform: Platform,
        history: History,
        notify: Notify,
        *,
        stated: Mapping[str, Costs] | None = None,
        report: Callable[[str, str], None] | None = None,
    ) -> None:
        self.platform, self.history, self.notify = platform, history, notify
        self.report = report or (lambda kind, text: None)
        self._stated = stated or {}

    def evidence(self, request: RunRequest) -> Evidence:
        """Return all that is known about the costs of a request on the present pool."""
        return load(self.platform, request, self.history, self._stated.get(request.template.name))

    def decide(self, request: RunRequest, *, done: int = 0, after: Decision | None = None) -> Decision:
        """Measure, price and plan.

        Args:
            request: The run.
            done: Iterations that need not be repeated.
            after: The earlier decision of the same run; its costs stay valid for the remaining iterations.

        Raises:
            ConfigError: The settings are wrong.
            NoFeasiblePlan: No hosts can hold the work.
            LaunchError: A benchmark failed.
        """
        template = request.template
        template.check(request.settings)
        total = template.workload(request.size, request.settings)
        workload = remaining_workload(total, done)
        # If only the end of the program remains, choose hosts as for one more iteration.
        planned_work = remaining_workload(total, done - 1) if done and not workload.iterations else workload
        options = planning_options(request)
        check_cut(total, options)
        started = time.perf_counter()
        self._drop_drained()
        snapshot = request.as_waiting(self.platform.snapshot(self.notify))
        measured = time.perf_counter()
        if request.scheduler in RESPECT_LIMITS:
            check_room(snapshot, planned_work, options)
        slabs_only = planned_work.axes is not None and not self.platform.can_cut_two_axes
        if slabs_only:
            workload, planned_work = (replace(one, axes=None) for one in (workload, planned_work))
        drafting = _Drafting(
            measuring=Measuring(
                platform=self.platform, request=request, history=self.history, notify=self.notify
            ),
            options=options,
            workload=planned_work,
        )
        evidence = self.evidence(request)
        if after is None:
            draft = drafting.of_own_slabs(evidence, snapshot)
        else:
            draft = drafting.after(evidence, snapshot, after)
        snapshot, slab, evidence = draft.snapshot, draft.slab, draft.evidence
        drafted = time.perf_counter()
        absent = [LeftOut(host=host, reason=reason) for host, reason in snapshot.absent.items()]
        plan = replace(draft.plan, left_out=(*draft.plan.left_out, *absent))
        planned_on = snapshot.over(plan.horizon_s)
        plan, judged = self.calibrated(plan, planned_on)
        planning_s = draft.seconds + time.perf_counter() - drafted
        even = even_pieces(plan, planned_on, demands(evidence, slab, planned_work), draft.costs, options)
        self._report_plan(plan)
        return Decision(
            plan=plan,
            snapshot=planned_on,
            workload=demands(evidence, slab, workload),
            costs=draft.costs,
            key=evidence.record_key if after is None else after.key,
            slab_rows=slab.rows,
            platform=self.platform.name,
            planning_s=planning_s,
            weather_s=measured - started,
            notes=(*self._notes(snapshot, draft.costs), *[_SLABS_ONLY] * slabs_only),
            first_iteration=done,
            setup_cpu_s=setup_cpu_s(evidence, slab),
            counted_each=counted_each(evidence, slab),
            coverage=judged,
            even=even,
            even_observed_s=None if even is None else evidence.observed_s(even, workload.iterations),
        )

    def _report_plan(self, plan: Plan) -> None:
        ranks = counted(len(plan.assignments), "rank")
        self.report(
            "plan made",
            f"{plan.application} {plan.size} on {ranks} of {fold(plan.hosts)}, predicted {plan.predicted_s:.3g} s",
        )

    def _drop_drained(self) -> None:
        """Leave drained hosts out of the plan."""
        reasons = self.platform.drained(self.notify)
        drained = {h.name: f"it {reasons[h.name]}" for h in self.platform.pool.hosts if h.name in reasons}
        for host, why in drained.items():
            self.notify(f"without {host}: {why}")
        if drained:
            self.platform.drop(drained)

    def calibrated(self, plan: Plan, snapshot: Snapshot) -> tuple[Plan, Coverage]:
        """Return the plan with a range by earlier runs on hosts as loaded as its own, and how often those held."""
        ranks = Counter(one.host for one in plan.assignments)
        least = min(
            now.share(ranks[host.name], host.slots)
            for host, now in zip(snapshot.hosts, snapshot.conditions, strict=True)
            if host.name in ranks
        )
        loaded = is_loaded(1 / max(least, LEAST_SHARE))
        runs = self.history.judged_runs(self.platform.name, loaded=loaded, newest=MOST)
        return calibrate_range(plan, runs), coverage(runs)

    def _notes(self, snapshot: Snapshot, costs: Costs) -> tuple[str, ...]:
        notes = [f"overhead: {costs.overhead.source}", *snapshot.notes]
        hosts = unmeasured(snapshot)
        if hosts:
            notes.append(
                f"{fold(hosts)} not measured, taken as idle and as {self.platform.pool.source} states it"
            )
            self.notify(notes[-1])
        shares = [
            one.share(1, host.slots) for host, one in zip(snapshot.hosts, snapshot.conditions, strict=True)
        ]
        if max(shares, default=1.0) < LEAST_SHARE:
            competitors = [visible(one) for one in self.platform.competitors()]
            having = f"; the CPU time goes to {', '.join(competitors)}" if competitors else ""
            notes.append(
                f"{fold(host.name for host in snapshot.hosts)} busy: a new process would get {max(shares):.3f} of a "
                f"CPU, planned with {LEAST_SHARE}{having}"
            )
            self.notify(notes[-1])
        return tuple(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drafting:
    """Plans of one request. workload : demands of the iterations to plan for, before they were measured"""

    measuring: Measuring
    options: PlanningOptions
    workload: Workload

    def of_own_slabs(self, evidence: Evidence, snapshot: Snapshot) -> _Draft:
        """Return a plan with the costs of slabs like its own, which differ from equal ones on all slots.

        It remains the first plan if rows cost the same in such slabs, if these cannot be measured, or if no plan with
        their costs keeps the limits.
        """
        slab = evidence.slab()
        costs, evidence = self.measuring.price(evidence, slab)
        first = self._draft(evidence, snapshot, slab, costs)
        planned = slab_of(evidence, slab, first.plan)
        if planned is slab:
            return first
        try:
            costs, evidence = self.measuring.price(evidence, planned, between=True)
            if costs.rows_cost_as_in(first.costs):
                return replace(first, slab=planned, evidence=evidence)
            second = self._draft(evidence, snapshot, planned, costs)
        except (ConfigError, LaunchError, NoFeasiblePlan) as error:
            self.measuring.notify(f"planned with the costs of slabs of {slab.rows} rows: {error}")
            return first
        # The second plan may have small slabs after all. Its run then counts as one of small slabs.
        height = second.plan.typical_rows
        nearest = min((planned, slab), key=lambda one: abs(math.log(height / one.rows)))
        return replace(second, slab=nearest, seconds=first.seconds + second.seconds)

    def after(self, evidence: Evidence, snapshot: Snapshot, after: Decision) -> _Draft:
        """Return a plan for the rest of a run, on hosts as its ranks have seen them, without benchmarks if possible."""
        slab, costs = Slab(after.slab_rows, after.slab_rows), after.costs
        if not all(h.cpu_type in costs.seconds_per_row for h in snapshot.hosts):
            costs, evidence = self.measuring.price(evidence, slab)
        if after.seen:
            snapshot = as_ranks_see_it(snapshot, after.seen, costs, [0.0] * len(after.seen))
        return self._draft(evidence, snapshot, slab, costs)

    def _draft(self, evidence: Evidence, snapshot: Snapshot, slab: Slab, costs: Costs) -> _Draft:
        """Return a plan with these costs of these slabs."""
        priced = time.perf_counter()
        workload = demands(evidence, slab, self.workload)
        plan = _planner(self.measuring.request)(snapshot, workload, costs, self.options)
        seconds = time.perf_counter() - priced
        return _Draft(
            plan=plan, slab=slab, costs=costs, evidence=evidence, snapshot=snapshot, seconds=seconds
        )
