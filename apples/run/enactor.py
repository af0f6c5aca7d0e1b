"""The enactor: one run for its user, in as many attempts as it takes.

    plan → launch → lost? → without whom → what is safe → new snapshot, new plan for the rest → launch → …

It joins the agent, its platform and the decisions of `apples.enacting`: which outcomes are worth another attempt, how
often to write checkpoints, what is left to do. Every attempt is in the record. Source: Wolski et al. 2000, §2.1: a host
that fails is dropped, a new schedule is asked for, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from apples.errors import ApplesError, ConfigError
from apples.launching.holding import held
from apples.launching.launcher import Notify
from apples.model.plan import Attempt, Outcome, Record
from apples.run.agent import Agent, Decision, RunRequest
from apples.run.attempts import Next, what_next
from apples.run.checkpoints import Checkpoints
from apples.run.documents import attempt_document
from apples.run.resilience import Resilience

Hear = Callable[[str, dict[str, Any]], None]
"""Receives what happened, a kind and a document."""

_TIME_LIMIT = 124


def _unheard(kind: str, document: dict[str, Any]) -> None:
    """Nobody hears of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Enacted:
    """A run that has ended. decision : of the last attempt."""

    record: Record
    decision: Decision

    def document(self) -> dict[str, Any]:
        """JSON document of the last plan with what was observed, and of all attempts."""
        return self.decision.document(self.record)


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run under way. record : None until its first launch could begin."""

    request: RunRequest
    decision: Decision
    started_at: float
    record: Record | None = None
    attempts: list[Attempt] = field(default_factory=list)
    failures: int = 0


class Enactor:
    """Carries runs out, and tries again what is worth it."""

    def __init__(self, agent: Agent, checkpoints: Checkpoints, notify: Notify, hear: Hear = _unheard) -> None:
        self._agent, self._checkpoints, self._notify, self._hear = agent, checkpoints, notify, hear

    @property
    def _resilience(self) -> Resilience:
        return self._checkpoints.resilience

    def decide(self, request: RunRequest) -> Decision:
        """The first plan, of what a checkpoint leaves to do if it is gone on from.

        Raises `ConfigError` (also for a checkpoint that cannot be used), `NoFeasiblePlan`, `LaunchError`.
        """
        request.template.check(request.settings)
        done = self._checkpoints.resumed(request, self._notify)
        decision = self._agent.decide(request, done=done)
        return self._checkpoints.added(request, decision, self._notify)

    def run(self, request: RunRequest, decision: Decision) -> Enacted:
        """Carry the plan out, and others for the rest where it is worth it; the record is in the history then.

        Raises `LaunchError` (the first launch could not begin, or somebody else uses the checkpoint), `HistoryError`.
        """
        run = _Run(request=request, decision=decision, started_at=self._agent.platform.now())
        with self._locked(decision):
            self._checkpoints.begin(decision, self._notify)
            try:
                outcome = self._attempts(run)
            except BaseException as error:
                self._broken_off(run, error)
                raise
            finally:
                self._checkpoints.sweep()
            outcome = self._finished(run, outcome)
        record = self._agent.end(request, replace(self._with_attempts(run), outcome=outcome))
        return Enacted(record=record, decision=run.decision)

    def _broken_off(self, run: _Run, error: BaseException) -> None:
        if run.record is None:
            return
        self._agent.break_off(self._with_attempts(run), error, self._agent.platform.now() - run.started_at)
        advice = self._checkpoints.advice(run.request, run.decision)
        if advice:
            self._notify(advice)

    def _finished(self, run: _Run, outcome: Outcome) -> Outcome:
        """Tidy up behind a run that is over, or say how it can be gone on with."""
        if outcome.finished:
            self._checkpoints.finish(run.decision)
            return outcome
        texts = (outcome.message, self._checkpoints.advice(run.request, run.decision))
        return replace(outcome, message="; ".join(text for text in texts if text))

    def _locked(self, decision: Decision) -> AbstractContextManager[None]:
        if decision.keep is None or self._resilience.simulated:
            return nullcontext()
        file = decision.keep.file
        return held(file.with_name(f".{file.name}.lock"), f"checkpoint {file}")

    def _attempts(self, run: _Run) -> Outcome:
        """Attempt after attempt; the outcome of the whole."""
        while True:
            outcome = self._attempt(run)
            pool = [host.name for host in run.decision.snapshot.hosts]
            run.failures += outcome.ended == "failed"
            following = what_next(outcome, pool, failures=run.failures, limit=self._resilience.attempts)
            if not following.again:
                return self._whole(run, outcome, following.why if len(run.attempts) > 1 else "")
            assert run.record is not None
            self._agent.note(self._with_attempts(run))
            if self._left_s(run) == 0.0:
                over = replace(outcome, ended="time limit", exit_code=_TIME_LIMIT)
                return self._whole(run, over, "the time limit left nothing for another attempt")
            try:
                self._plan_again(run, outcome, following)
            except (ApplesError, ConfigError) as error:
                failed = replace(outcome, exit_code=error.exit_code)
                return self._whole(run, failed, f"another attempt could not be made: {error}")

    def _attempt(self, run: _Run) -> Outcome:
        """One launch. An attempt that was broken off leaves its trace too."""
        request = replace(run.request, time_limit_s=self._left_s(run))
        decision = run.decision
        started_at = self._agent.platform.now()

        def ready() -> None:
            if run.record is None:
                run.record = self._agent.begin(request, decision)

        outcome = self._agent.carry_out(request, decision, ready)
        attempt = Attempt(
            number=len(run.attempts) + 1,
            started_at=started_at,
            first_iteration=decision.first_iteration,
            iterations=decision.workload.iterations,
            plan=decision.plan,
            outcome=outcome,
            checkpoint_every=None if decision.keep is None else decision.keep.every,
        )
        run.attempts.append(attempt)
        self._hear("attempt", attempt_document(attempt))
        return outcome

    def _plan_again(self, run: _Run, outcome: Outcome, following: Next) -> None:
        """Drop hosts, find out what is safe, and decide on the rest; raises what `Agent.decide` does."""
        platform = self._agent.platform
        # A rank that was frozen half-way through a checkpoint must not go on with the next attempt's.
        self._checkpoints.sweep()
        done = self._checkpoints.safe(run.request, run.decision, outcome, self._notify)
        total = run.decision.first_iteration + run.decision.workload.iterations
        gone = ""
        if following.without:
            platform.drop(
                {host: f"{how} (attempt {len(run.attempts)})" for host, how in following.without.items()}
            )
            gone = f" without {', '.join(following.without)}"
        self._notify(
            f"{following.why}; {done} of {total} iterations are safe; planning again{gone} "
            f"(attempt {len(run.attempts) + 1}{self._of_limit(outcome)})"
        )
        slots = sum(h.slots for h in run.decision.snapshot.hosts if h.name not in following.without)
        run.request = _with_fewer_ranks(run.request, slots)
        decision = self._agent.decide(run.request, done=done, after=run.decision)
        run.decision = self._checkpoints.added(run.request, decision, self._notify)
        self._hear("plan", run.decision.document())

    def _of_limit(self, outcome: Outcome) -> str:
        return "" if outcome.ended == "adapted" else f" of {self._resilience.attempts}"

    def _left_s(self, run: _Run) -> float | None:
        """Seconds of the user's limit that are left for an attempt; None without a limit."""
        limit_s = run.request.time_limit_s
        if limit_s is None or not run.attempts:
            return limit_s
        return max(0.0, limit_s - (self._agent.platform.now() - run.started_at))

    def _whole(self, run: _Run, outcome: Outcome, more: str) -> Outcome:
        """The outcome of all attempts together. more : what is to be said besides the last one's message"""
        if len(run.attempts) > 1:
            outcome = replace(outcome, observed_s=self._agent.platform.now() - run.started_at)
        if not more:
            return outcome
        told = [more] if outcome.message and outcome.message in more else [outcome.message, more]
        return replace(outcome, message="; ".join(text for text in told if text))

    def _with_attempts(self, run: _Run) -> Record:
        assert run.record is not None
        return replace(run.record, attempts=tuple(run.attempts))


def _with_fewer_ranks(request: RunRequest, slots: int) -> RunRequest:
    """The request as it was, but for a number of ranks that the hosts which are left have no slots for."""
    wanted = request.overrides.get("ranks")
    if wanted is None or wanted <= slots:
        return request
    others = {name: value for name, value in request.overrides.items() if name != "ranks"}
    return replace(request, overrides={**others, "max_ranks": wanted})
