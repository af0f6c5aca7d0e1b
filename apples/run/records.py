"""The record of a run: made at its start, completed at its end, with the sentence that reports the end."""

import time
from dataclasses import asdict

from apples.errors import LaunchError
from apples.learning.history import new_id
from apples.model.limits import Limits
from apples.model.plan import Outcome, Record
from apples.model.snapshotdocument import snapshot_document
from apples.run.agent import Decision
from apples.run.request import RunRequest
from nws.base.errors import ReportedError
from nws.base.hostlist import fold


def new_record(request: RunRequest, decision: Decision, started_at: float) -> Record:
    """Return the record, without an outcome, of a run that starts at `started_at` (seconds since the epoch)."""
    return Record(
        # Simulated platforms always start at the same instant; the id keeps the order in which runs were made.
        id=new_id(time.time()),
        started_at=started_at,
        world=decision.platform,
        key=decision.key,
        plan=decision.plan,
        outcome=None,
        snapshot=snapshot_document(decision.snapshot),
        workload=asdict(decision.workload),
        options={
            "settings": dict(request.settings),
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
