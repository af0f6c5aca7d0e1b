"""The run loop: carries out one run in as many attempts as it needs, and leaves one record.

    plan → launch → failed? → drop hosts → safe iterations → new snapshot and plan for the rest → launch → …

`apples.run.attempts` decides which failures justify another attempt, `apples.run.checkpoints` how often to write
checkpoints, and the agent makes each plan. Source: Wolski et al. 2000, §2.1: a failed host is dropped, a new schedule
is requested, and the run continues.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from apples.costs.store import new_id
from apples.errors import LaunchError, ProgramNotFound
from apples.launching.filelock import locked
from apples.model.launchrequest import LaunchRequest, MpiChoice
from apples.model.limits import Limits
from apples.model.plan import Attempt, Outcome, Record
from apples.model.runrequest import RunRequest
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Application, Deployment
from apples.monitoring.environment import joined
from apples.platforms.platform import Platform
from apples.run.agent import Agent, Decision
from apples.run.attempts import Next, what_next
from apples.run.checkpoints import Checkpoints
from apples.run.departures import Departures
from apples.run.documents import attempt_document
from apples.run.programruns import run_program
from apples.run.progress import OnEvent, ignore, progress_listener
from apples.run.waits import RankWaits
from nws.base.errors import ReportedError
from nws.base.hostlist import fold
from nws.base.scratch import ScratchDirectory
from nws.base.sealed import fingerprints
from nws.base.wording import counted

_TIME_LIMIT = 124


def new_record(request: RunRequest, decision: Decision, started_at: float) -> Record:
    """Return the record, without an outcome, of a run that starts at `started_at` (seconds since the epoch)."""
    return Record(
        # Simulated platforms always start at the same instant; the id keeps the order in which runs were made.
        id=new_id(time.time()),
        started_at=started_at,
        world=decision.platform,
        key=decision.key,
        slab_rows=decision.slab_rows,
        plan=decision.plan,
        outcome=None,
        snapshot=snapshot_document(decision.snapshot),
        workload=asdict(decision.workload),
        options={
            "settings": fingerprints(request.settings),
            "scheduler": request.scheduler,
            **{n: asdict(x) if isinstance(x, Limits) else x for n, x in request.overrides.items()},
            **({"first_iteration": decision.first_iteration} if decision.first_iteration else {}),
            **({} if decision.keep is None else {"checkpoint": str(decision.keep.file)}),
            **({} if decision.interval is None else {"checkpoint_bytes": decision.interval.size_bytes}),
        },
    )


def ended_text(record: Record) -> str:
    """Return one sentence on the end of a recorded run."""
    assert record.outcome is not None
    outcome, plan = record.outcome, record.plan
    return (
        f"{plan.application} {plan.size} on {fold(plan.hosts)}: {outcome.ended} after {outcome.observed_s:.3g} s, "
        f"predicted {plan.predicted_s:.3g} s"
    )


def outcome_of_error(error: BaseException, observed_s: float) -> Outcome:
    """Return the outcome of a run whose launcher raised `error` instead of returning an outcome."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 130
        message = "the run was interrupted"
        return Outcome(ended="interrupted", exit_code=code, observed_s=observed_s, message=message)
    code = error.exit_code if isinstance(error, ReportedError) else LaunchError.exit_code
    return Outcome(ended="failed", exit_code=code, observed_s=observed_s, message=str(error))


class AttemptLoop:
    """Run loop of one request.

    request : of the run.  decision : of the current or last attempt, None before `decide` or `run`
    The record is in the history before the first launch, without an outcome. So an unwritable history fails before the
    run, and a run whose agent is killed is not lost.
    """

    def __init__(self, agent: Agent, request: RunRequest, on_event: OnEvent = ignore) -> None:
        self.decision: Decision | None = None
        self._agent, self.request, self._on_event = agent, request, on_event
        self._platform, self._notify = agent.platform, agent.notify
        self._checkpoints = Checkpoints(request.resilience, agent.platform, agent.history)
        self._waits = RankWaits(request, agent.history, agent.notify)
        self._attempts: list[Attempt] = []
        self._failures, self._started_at = 0, 0.0
        self._begun: Record | None = None

    def decide(self) -> Decision:
        """Return the first plan, of the iterations that a resumed checkpoint leaves.

        Raises `ConfigError` (also for an unusable checkpoint), `NoFeasiblePlan`, `LaunchError`.
        """
        request = self.request
        request.template.check(request.settings)
        done = self._checkpoints.resumed(request, self._notify)
        decision = self._agent.decide(request, done=done)
        return self._checkpoints.added(request, decision, self._notify)

    def command_line(self, decision: Decision) -> list[str]:
        """Return the command that `run` would execute."""
        return self._platform.command_line(launch_request(self.request, decision, Path("RUN_DIR")))

    def run(self, decision: Decision) -> Record:
        """Carry out the plan and return the record, which is then in the history with its outcome.

        Raises `LaunchError` (the first launch could not start: no record; or the checkpoint is in use), `HistoryError`.
        """
        self.decision, self._started_at = decision, self._platform.now()
        with self._locked(decision):
            self._checkpoints.begin(self.request, decision, self._notify)
            try:
                outcome = self._all_attempts(decision)
            except BaseException as error:
                self._record_error(error)
                raise
            finally:
                self._checkpoints.sweep()
            outcome = self._finished(outcome)
        request = self.request
        sharing = ({} if request.sharing is None else request.sharing.observed()) or self._waits.document()
        monitor = {} if self._waits.monitor is None else self._waits.monitor.document()
        return self._end(replace(self._record, outcome=outcome, sharing=sharing, monitor=monitor))

    @property
    def _record(self) -> Record:
        """Return the record with the attempts so far."""
        assert self._begun is not None
        return replace(self._begun, attempts=tuple(self._attempts))

    def _end(self, record: Record) -> Record:
        self._agent.history.append(record)
        self._agent.report("run ended", ended_text(record))
        return record

    def _record_error(self, error: BaseException) -> None:
        if self._begun is None or self.decision is None:
            return
        outcome = outcome_of_error(error, self._platform.now() - self._started_at)
        self._end(replace(self._record, outcome=outcome))
        advice = self._checkpoints.advice(self.request, self.decision)
        if advice:
            self._notify(advice)

    def _finished(self, outcome: Outcome) -> Outcome:
        """Remove the checkpoint of a finished run; otherwise add to the message how to resume."""
        assert self.decision is not None
        if outcome.finished:
            self._checkpoints.finish(self.decision)
            return outcome
        texts = (outcome.message, self._checkpoints.advice(self.request, self.decision))
        return replace(outcome, message="; ".join(text for text in texts if text))

    def _locked(self, decision: Decision) -> AbstractContextManager[None]:
        if decision.keep is None or not self._platform.starts_programs:
            return nullcontext()
        file = decision.keep.file
        return locked(file.with_name(f".{file.name}.lock"), f"checkpoint {file}")

    def _all_attempts(self, decision: Decision) -> Outcome:
        """Make attempts until one ends the run, and return the outcome of the run."""
        limit = self.request.resilience.attempts
        while True:
            outcome, decision = self._attempt(decision)
            pool = [host.name for host in decision.snapshot.hosts]
            self._failures += outcome.ended == "failed"
            following = what_next(outcome, pool, failures=self._failures, limit=limit)
            if not following.again:
                return self._total(outcome, following.why if len(self._attempts) > 1 else "")
            self._agent.history.append(self._record)
            if self._remaining_s() == 0.0:
                over = replace(outcome, ended="time limit", exit_code=_TIME_LIMIT)
                return self._total(over, "the time limit left nothing for another attempt")
            try:
                decision = self._replan(decision, outcome, following)
            except ReportedError as error:
                failed = replace(outcome, exit_code=error.exit_code)
                return self._total(failed, f"another attempt could not be made: {error}")

    def _attempt(self, decision: Decision) -> tuple[Outcome, Decision]:
        """Launch the plan once and record the attempt; return the decision with the shares that its ranks saw, too."""
        request = replace(self.request, time_limit_s=self._remaining_s())
        started_at = self._platform.now()
        with ScratchDirectory("apples-run-", notify=self._notify) as directory:
            launch = launch_request(request, decision, directory)
            leaving = Departures(request, decision, launch.controller, self._notify)
            monitored, monitor = self._waits.variables(decision, directory), self._waits.monitor
            listener = progress_listener(self._platform, request, decision, self._on_event)
            variables = joined(launch.environment, monitored)
            launch = replace(launch, environment=variables, on_progress=listener, departures=leaving)
            check_program(request.template, self._platform)
            self._platform.check(launch)
            if self._begun is None:
                self._begun = new_record(request, decision, self._platform.now())
                self._agent.history.append(self._begun)
            ranks, hosts = len(decision.plan.assignments), len(decision.plan.hosts)
            self._notify(
                f"running {request.template.name} {request.size} on {counted(ranks, 'rank')}, "
                f"{counted(hosts, 'host')}; predicted {decision.plan.predicted_s:.3g} s"
            )
            outcome = self._launched(launch, decision)
            if monitor is not None:
                monitor.collect(directory)
        attempt = Attempt(
            number=len(self._attempts) + 1,
            started_at=started_at,
            first_iteration=decision.first_iteration,
            iterations=decision.workload.iterations,
            plan=decision.plan,
            outcome=outcome,
            checkpoint_every=None if decision.keep is None else decision.keep.every,
        )
        self._attempts.append(attempt)
        self._on_event("attempt", attempt_document(attempt))
        return outcome, replace(decision, seen=_seen(launch, outcome))

    def _launched(self, launch: LaunchRequest, decision: Decision) -> Outcome:
        """Run the launch and return its outcome with the ranks' observations; raise `LaunchError`.

        The program is deployed before, observed by the monitor if it writes no records, and finished after a
        complete run.
        """
        start = deployed(self.request, decision, launch.run_dir)
        if start is None or not self._platform.starts_programs:
            return self._platform.run(launch, self._notify)
        records = self.request.template.records
        outcome = run_program(
            self._platform, launch, start, decision, self._notify, monitored=records is None
        )
        if records is None or outcome.observations:
            return outcome
        return replace(outcome, observations=records(launch.run_dir))

    def _replan(self, decision: Decision, outcome: Outcome, following: Next) -> Decision:
        """Drop hosts, find the safe iterations and plan the remaining ones; raises as `Agent.decide` does."""
        # A rank that was stopped while it wrote a checkpoint must not continue beside the next attempt's ranks.
        self._checkpoints.sweep()
        done = self._checkpoints.safe(self.request, decision, outcome, self._notify)
        total = decision.first_iteration + decision.workload.iterations
        dropped, number = "", len(self._attempts)
        if following.without:
            self._platform.drop(
                {host: f"{how} (attempt {number})" for host, how in following.without.items()}
            )
            dropped = f" without {', '.join(following.without)}"
        of_limit = "" if outcome.ended == "adapted" else f" of {self.request.resilience.attempts}"
        self._notify(
            f"{following.why}; {done} of {total} iterations are safe; planning again{dropped} "
            f"(attempt {number + 1}{of_limit})"
        )
        slots = sum(h.slots for h in decision.snapshot.hosts if h.name not in following.without)
        self.request = self.request.with_fewer_ranks(slots)
        replanned = self._agent.decide(self.request, done=done, after=decision)
        self.decision = self._checkpoints.added(self.request, replanned, self._notify)
        self._on_event("plan", self.decision.document())
        return self.decision

    def _remaining_s(self) -> float | None:
        """Return the seconds that the user's time limit leaves for an attempt; None without a limit."""
        limit_s = self.request.time_limit_s
        if limit_s is None or not self._attempts:
            return limit_s
        return max(0.0, limit_s - (self._platform.now() - self._started_at))

    def _total(self, outcome: Outcome, more: str) -> Outcome:
        """Return the outcome of all attempts together, with `more` added to the last attempt's message."""
        if len(self._attempts) > 1:
            outcome = replace(outcome, observed_s=self._platform.now() - self._started_at)
        return outcome if not more else with_message(outcome, more)


def with_message(outcome: Outcome, more: str) -> Outcome:
    """Return the outcome with a text added to its message, unless the text contains the message."""
    texts = [more] if outcome.message and outcome.message in more else [outcome.message, more]
    return replace(outcome, message="; ".join(text for text in texts if text))


def _seen(launch: LaunchRequest, outcome: Outcome) -> Sequence[tuple[str, float]]:
    """Return `AdaptationController.seen` of an attempt that was ended for another plan, empty for others."""
    return launch.controller.seen() if launch.controller is not None and outcome.ended == "adapted" else ()


def launch_request(request: RunRequest, decision: Decision, run_dir: Path) -> LaunchRequest:
    """Return the launch of a decision's plan, with its records and statuses in `run_dir`."""
    keep, rows = decision.keep, decision.plan.rows
    start = deployed(request, decision, run_dir)
    if start is None:
        # A simulated launcher starts nothing.
        start = Deployment(command=(request.template.name, ",".join(map(str, rows))))
    return LaunchRequest(
        plan=decision.plan,
        workload=decision.workload,
        command=start.command,
        run_dir=run_dir,
        directory=start.directory,
        mpi=MpiChoice(which=start.mpi),
        progress_pattern=start.progress,
        environment=joined(start.environment, request.environment),
        label=request.label,
        time_limit_s=request.time_limit_s,
        program_output_to_stderr=request.program_output_to_stderr,
        checkpoint_every=None if keep is None else keep.every,
        controller=None if request.make_controller is None else request.make_controller(request, decision),
    )


def deployed(request: RunRequest, decision: Decision, run_dir: Path) -> Deployment | None:
    """Return the start of the program on the pieces of a decision, None without a program; raise `ConfigError`."""
    if request.template.start is None:
        return None
    return request.template.start(
        decision.plan.rows,
        run_dir,
        request.settings,
        boxes=decision.plan.boxes,
        done=decision.first_iteration,
        keep=decision.keep,
    )


def check_program(template: Application, platform: Platform) -> None:
    """Raise `ProgramNotFound` for an application without a program: PATH may have one of the same name."""
    if template.start is None and platform.starts_programs:
        raise ProgramNotFound(
            f"{template.name} is {template.summary}; it has no program to start. Describe your program in an "
            "application file (apples app new), and give it with --app FILE"
        )
