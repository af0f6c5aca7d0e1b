"""The agent: one run from a problem size to a record, the only place that joins the rooms.

    weather → snapshot → plan → launch → observed per rank → record → the next run's prediction

`decide` makes a `Decision` (everything a dry run prints). `apples.run.enactor` carries it out. Time, processes and
files are behind `Platform`, `History` and `Costing`.
Source: Wolski et al. 2000, Figures 1 and 2.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from apples.adapting.progress import AdaptationController
from apples.errors import ApplesError, LaunchError
from apples.launching.launcher import LaunchRequest, Notify
from apples.learning.history import History, new_id
from apples.model.grid import Snapshot
from apples.model.hostlist import fold
from apples.model.plan import LeftOut, Outcome, Plan, Record
from apples.model.snapshots import unmeasured
from apples.model.template import Checkpointing, Costs, Restartable, Template, Workload
from apples.planning.baselines import default_plan, smart_user_plan
from apples.planning.options import PAPER, PlanningOptions
from apples.planning.planner import check_room, make_plan
from apples.platforms.platform import Platform
from apples.run.costing import Application, Costing
from apples.run.documents import attempts_document, checkpoint_document, plan_document, run_document
from apples.run.intervals import Interval
from apples.run.remaining import rest_of
from apples.run.resilience import Resilience

Planner = Callable[[Snapshot, Workload, Costs, PlanningOptions], Plan]


def _paper_plan(snapshot: Snapshot, workload: Workload, costs: Costs, options: PlanningOptions) -> Plan:
    return replace(make_plan(snapshot, workload, costs, options), scheduler="paper")


#: Scheduler name → what makes its plan.
SCHEDULERS: dict[str, Planner] = {
    "apples": make_plan,
    "paper": _paper_plan,
    "default": default_plan,
    "smart-user": smart_user_plan,
}


#: Schedulers that keep to memory and array limits; the others are what people do without.
RESPECT_LIMITS = ("apples", "paper")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What the user asked for.

    template : the application.  settings : its own options.  overrides : fields of `PlanningOptions` the user set
    environment : variables for the ranks.  shared : says, after the run, what a node manager saw of it
    monitored : says, after the run, what the monitor saw of it
    resilience : what is to follow when it does not end well; the enactor's
    make_controller : says who watches a launch of this decision and may adapt it; None for nobody
    """

    size: int
    template: Template
    settings: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = "apples"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    label: bool = False
    time_limit_s: float | None = None
    program_output_to_stderr: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    shared: Callable[[], dict[str, Any]] | None = None
    monitored: Callable[[], dict[str, Any]] | None = None
    resilience: Resilience = field(default_factory=Resilience)
    make_controller: Callable[[RunRequest, Decision], AdaptationController] | None = None

    @property
    def planning(self) -> PlanningOptions:
        """Planner options: the scheduler's preset, then the user's choices."""
        return replace(PAPER if self.scheduler == "paper" else PlanningOptions(), **self.overrides)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """A plan with all it was made from, and what making it cost in seconds.

    workload : of what is left to do.  first_iteration : iterations that were done before
    keep : how what it does is kept, None for not at all.  interval : how often, and why
    """

    plan: Plan
    snapshot: Snapshot
    workload: Workload
    costs: Costs
    key: str
    platform: str
    planning_s: float
    weather_s: float
    notes: tuple[str, ...] = ()
    first_iteration: int = 0
    keep: Checkpointing | None = None
    interval: Interval | None = None

    def document(self, record: Record | None = None) -> dict[str, Any]:
        """JSON document of the plan, with what was observed once there is a record."""
        document = plan_document(
            self.plan,
            self.snapshot,
            planning_s=self.planning_s,
            weather_s=self.weather_s,
            notes=self.notes,
        )
        document["first_iteration"] = self.first_iteration
        if self.keep is not None and self.interval is not None:
            document["checkpoints"] = checkpoint_document(self.keep, self.interval)
        if record is None or record.outcome is None:
            return document
        document = run_document(document, record.outcome, platform=self.platform, record=record.id)
        document |= attempts_document(record)
        more = {"sharing": record.sharing, "monitor": record.monitor}
        return document | {name: seen for name, seen in more.items() if seen}


class Agent:
    """Plans and runs in one platform, and learns from every run."""

    def __init__(
        self,
        platform: Platform,
        history: History,
        costing: Costing,
        notify: Notify,
        *,
        tell: Callable[[str, str], None] | None = None,
    ) -> None:
        """tell : hears of plans made and runs ended, kind and one sentence; it must neither fail nor take long."""
        self.platform = platform
        self._tell = tell or (lambda kind, text: None)
        self._history = history
        self._costing = costing
        self._notify = notify

    def decide(self, request: RunRequest, *, done: int = 0, after: Decision | None = None) -> Decision:
        """Measure, price and plan; raises `ConfigError`, `NoFeasiblePlan`, `LaunchError` (a benchmark failed).

        done : iterations that need not be done again
        after : what was decided for this run before; its prices hold for the rest of it
        """
        template = request.template
        template.check(request.settings)
        whole = template.workload(request.size, request.settings)
        workload = rest_of(whole, done)
        # Where all is done but the end of the program, hosts are chosen as for one iteration more.
        demands = rest_of(whole, done - 1) if done and not workload.iterations else workload
        options = request.planning
        started = time.perf_counter()
        snapshot = self.platform.snapshot(self._notify)
        measured = time.perf_counter()
        if request.scheduler in RESPECT_LIMITS:
            check_room(snapshot, demands, options)
        key, costs = self._prices(request, snapshot, after)
        priced = time.perf_counter()
        plan = SCHEDULERS[request.scheduler](snapshot, demands, costs, options)
        absent = [LeftOut(host=host, reason=reason) for host, reason in snapshot.absent.items()]
        plan = replace(plan, left_out=(*plan.left_out, *absent))
        planned = time.perf_counter()
        self._tell("plan made", _planned_text(plan))
        return Decision(
            plan=plan,
            snapshot=snapshot,
            workload=workload,
            costs=costs,
            key=key,
            platform=self.platform.name,
            planning_s=planned - priced,
            weather_s=measured - started,
            notes=self._notes(snapshot, costs),
            first_iteration=done,
        )

    def _prices(self, request: RunRequest, snapshot: Snapshot, after: Decision | None) -> tuple[str, Costs]:
        """Key of the record, and costs; nobody waits for benchmarks in the middle of a run if it can be helped."""
        if after is not None and all(h.cpu_type in after.costs.seconds_per_row for h in snapshot.hosts):
            return after.key, after.costs
        application = Application(template=request.template, settings=request.settings, size=request.size)
        key = self._costing.record_key(self.platform, application)
        costs = self._costing.costs(self.platform, application, self._notify)
        return (key if after is None else after.key), costs

    def _notes(self, snapshot: Snapshot, costs: Costs) -> tuple[str, ...]:
        notes = [f"overhead: {costs.overhead.source}", *snapshot.notes]
        hosts = unmeasured(snapshot)
        if hosts:
            notes.append(
                f"{fold(hosts)} not measured, taken as idle and as {self.platform.grid.source} states it"
            )
            self._notify(notes[-1])
        return tuple(notes)

    def command_line(self, request: RunRequest, decision: Decision) -> list[str]:
        """What `run` would execute."""
        return self.platform.launcher.command_line(self._launch_request(request, decision, Path("RUN_DIR")))

    def run(self, request: RunRequest, decision: Decision) -> Record:
        """Carry the plan out; the record is in the history when this returns, however the run ended.

        It is there from the start, without an outcome: a history that cannot be written shows before the run and not
        after it, and a run whose agent was killed is not forgotten. Raises `LaunchError` (no record where
        the run could not even start), `HistoryError`.
        """
        begun: list[Record] = []
        started = time.monotonic()
        try:
            outcome = self.carry_out(request, decision, lambda: begun.append(self.begin(request, decision)))
        except BaseException as error:
            if begun:
                self.break_off(begun[0], error, time.monotonic() - started)
            raise
        return self.end(request, replace(begun[0], outcome=outcome))

    def begin(self, request: RunRequest, decision: Decision) -> Record:
        """The record of a run that starts now, without an outcome; it is in the history. Raises `HistoryError`."""
        record = self._record(request, decision)
        self._history.append(record)
        return record

    def carry_out(self, request: RunRequest, decision: Decision, ready: Callable[[], object]) -> Outcome:
        """Launch the plan, follow it to its end, and read what its ranks recorded; raises `LaunchError`.

        ready : called when nothing more stands in the way
        """
        with tempfile.TemporaryDirectory(prefix="apples-run-") as directory:
            launch = self._launch_request(request, decision, Path(directory))
            self.platform.launcher.check(launch)
            ready()
            ranks, hosts = len(decision.plan.assignments), len(decision.plan.hosts)
            self._notify(
                f"running {request.template.name} {request.size} on {ranks} rank{'s' * (ranks != 1)}, "
                f"{hosts} host{'s' * (hosts != 1)}; predicted {decision.plan.predicted_s:.3g} s"
            )
            outcome = self.platform.launcher.run(launch, self._notify)
            if not outcome.observations:
                outcome = replace(outcome, observations=request.template.observations(Path(directory)))
        return outcome

    def note(self, record: Record) -> None:
        """Keep what is known of a run that goes on. Raises `HistoryError`."""
        self._history.append(record)

    def end(self, request: RunRequest, record: Record) -> Record:
        """Keep the record of a run that has ended, with what others saw of it. Raises `HistoryError`."""
        sharing = {} if request.shared is None else request.shared()
        monitor = {} if request.monitored is None else request.monitored()
        record = replace(record, sharing=sharing, monitor=monitor)
        self._history.append(record)
        self._tell("run ended", _ended_text(record))
        return record

    def break_off(self, record: Record, error: BaseException, observed_s: float) -> None:
        """Keep the record of a run that nobody lived to judge. Raises `HistoryError`."""
        ended = replace(record, outcome=_broken_off(error, observed_s))
        self._history.append(ended)
        self._tell("run ended", _ended_text(ended))

    def _launch_request(self, request: RunRequest, decision: Decision, run_dir: Path) -> LaunchRequest:
        template, keep, settings = request.template, decision.keep, request.settings
        if keep is not None and isinstance(template, Restartable):
            settings = template.checkpointed(settings, keep)
        return LaunchRequest(
            plan=decision.plan,
            workload=decision.workload,
            command=tuple(template.command(decision.plan.rows, run_dir, settings)),
            run_dir=run_dir,
            environment=request.environment,
            label=request.label,
            time_limit_s=request.time_limit_s,
            program_output_to_stderr=request.program_output_to_stderr,
            checkpoint_every=None if keep is None else keep.every,
            controller=None
            if request.make_controller is None
            else request.make_controller(request, decision),
        )

    def _record(self, request: RunRequest, decision: Decision) -> Record:
        """Record of a run that starts now."""
        return Record(
            # Simulated platforms begin at the same instant again and again; the id tells in which order runs were made.
            id=new_id(time.time()),
            started_at=self.platform.now(),
            world=self.platform.name,
            key=decision.key,
            plan=decision.plan,
            outcome=None,
            snapshot=decision.snapshot.as_json(),
            workload=asdict(decision.workload),
            options={
                "settings": dict(request.settings),
                "scheduler": request.scheduler,
                **request.overrides,
                **({} if decision.keep is None else {"checkpoint": str(decision.keep.file)}),
                **({} if decision.interval is None else {"checkpoint_bytes": decision.interval.size_bytes}),
            },
        )


def _planned_text(plan: Plan) -> str:
    ranks = len(plan.assignments)
    return (
        f"{plan.application} {plan.size} on {ranks} rank{'s' * (ranks != 1)} of {fold(plan.hosts)}, "
        f"predicted {plan.predicted_s:.3g} s"
    )


def _ended_text(record: Record) -> str:
    assert record.outcome is not None
    outcome, plan = record.outcome, record.plan
    return (
        f"{plan.application} {plan.size} on {fold(plan.hosts)}: {outcome.ended} after {outcome.observed_s:.3g} s, "
        f"predicted {plan.predicted_s:.3g} s"
    )


def _broken_off(error: BaseException, observed_s: float) -> Outcome:
    """Outcome of a run that the launcher did not live to judge."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        asked = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 130
        message = "the run was interrupted"
        return Outcome(ended="interrupted", exit_code=asked, observed_s=observed_s, message=message)
    code = error.exit_code if isinstance(error, ApplesError) else LaunchError.exit_code
    return Outcome(ended="failed", exit_code=code, observed_s=observed_s, message=str(error))
