"""The JSON document of a plan or a run: one, stable and versioned, the same for every platform.

`version` grows when a key changes its meaning or is removed; new keys may appear at any time. Times are seconds, rows
whole numbers. A dry run lacks the `observed` parts.
"""

import dataclasses
import math
from typing import Any

from apples.model.grid import Snapshot
from apples.model.plan import Assignment, Attempt, Move, Outcome, Plan, RankObservation, Record
from apples.model.snapshotdocument import snapshot_document
from apples.model.template import Checkpointing
from apples.run.intervals import Interval
from nws.base.records import document_of

VERSION = 1


def plan_document(
    plan: Plan, snapshot: Snapshot, *, planning_s: float, weather_s: float, notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the document of a plan that has not run. planning_s, weather_s : cost of the decision itself."""
    return {
        "version": VERSION,
        **document_of(plan, "size", "application", "scheduler", "model", "order"),
        **_predicted(plan),
        "lateness_s": _finite(plan.lateness_s),
        "horizon_s": plan.horizon_s,
        "hosts": [_assignment(a) for a in plan.assignments],
        "taken": [{"host": host, "reason": reason} for host, reason in plan.taken],
        "left_out": [{"host": left.host, "reason": left.reason} for left in plan.left_out],
        "relaxed": list(plan.relaxed),
        "prices": list(plan.prices),
        "links": list(plan.links),
        "cost": plan.cost,
        "cut": None if plan.cut is None else strict(dataclasses.asdict(plan.cut)),
        "notes": list(notes),
        "snapshot": snapshot_document(snapshot),
        "planning": {
            "candidates": plan.candidates,
            "allocation": plan.allocation.method,
            "bound_s": plan.allocation.bound_s,
            "gap": plan.allocation.gap,
            "search": plan.search,
            "planning_s": planning_s,
            "weather_s": weather_s,
        },
    }


def run_document(document: dict[str, Any], outcome: Outcome, *, platform: str, record: str) -> dict[str, Any]:
    """Return the plan's document with its observations. platform : launcher's name.  record : id in the history."""
    by_rank = {o.rank: o for o in outcome.observations}
    statuses = {s.rank: s for s in outcome.statuses}
    hosts = []
    for entry in document["hosts"]:
        observed, status = by_rank.get(entry["rank"]), statuses.get(entry["rank"])
        hosts.append(
            entry
            | {
                "observed": None if observed is None else _observation(observed),
                "exit_code": None if status is None else status.exit_code,
                "signal": None if status is None else status.signal,
            }
        )
    return document | {
        "hosts": hosts,
        "observed_s": outcome.observed_s,
        "error": error(document["predicted_s"], outcome),
        **document_of(outcome, "ended", "exit_code", "message"),
        "moves": [move_document(move) for move in outcome.moves],
        "world": platform,
        "record": record,
    }


def move_document(move: Move) -> dict[str, Any]:
    """Return rows that moved during the run. gain_s, cost_s : predicted.  took_s : measured, null if unknown."""
    rows = {"iteration": move.iteration, "rows_before": move.before, "rows_after": move.after}
    document: dict[str, Any] = strict(
        rows | document_of(move, "reason", "gain_s", "cost_s", "took_s", "refused")
    )
    return document


def checkpoint_document(keep: Checkpointing, interval: Interval) -> dict[str, Any]:
    """Return the checkpointing of a run. cost_s : of one checkpoint, predicted.

    The plan's overhead includes all of them.
    """
    file = {"file": str(keep.file), "every": interval.every, "restart": keep.restart}
    document: dict[str, Any] = strict(
        file | document_of(interval, "count", "size_bytes", "cost_s", "mtbf_s", "why")
    )
    return document


def even_document(even: Plan | None, observed_s: float | None) -> dict[str, Any] | None:
    """Return the times of equal pieces on all hosts; None where the plan has them."""
    return None if even is None else {**_predicted(even), "observed_s": observed_s}


def attempts_document(record: Record) -> dict[str, Any]:
    """Return every attempt of a run; the prediction of the run is that of the first one."""
    document: dict[str, Any] = {"attempts": [attempt_document(a) for a in record.attempts]}
    if len(record.attempts) > 1:
        plan = record.plan
        document |= {**_predicted(plan), "error": None}
    return document


def _predicted(plan: Plan) -> dict[str, Any]:
    return {
        name: _finite(value) for name, value in document_of(plan, "predicted_s", "low_s", "high_s").items()
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """Return one attempt: its prediction, and its end."""
    plan, outcome = attempt.plan, attempt.outcome
    return {
        **document_of(attempt, "number", "started_at", "first_iteration", "iterations", "checkpoint_every"),
        "hosts": [{"host": a.host, "rank": a.rank, "rows": a.rows} for a in plan.assignments],
        **_predicted(plan),
        "observed_s": outcome.observed_s,
        "error": error(_finite(plan.predicted_s), outcome),
        **document_of(outcome, "ended", "exit_code", "message"),
        "lost": dict(outcome.lost),
        "moves": [move_document(move) for move in outcome.moves],
    }


def error(predicted_s: float | None, outcome: Outcome) -> float | None:
    """Return (predicted - observed) / observed of a run that finished, else None."""
    if predicted_s is None or not outcome.finished or outcome.observed_s <= 0:
        return None
    return predicted_s / outcome.observed_s - 1


def strict(value: Any) -> Any:
    """Return the value as strict JSON can hold it: numbers that are not finite become null, as everywhere here."""
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return value


def _assignment(a: Assignment) -> dict[str, Any]:
    return {
        **document_of(a, "rank", "host", "slot", "rows"),
        "box": None if a.box is None else dataclasses.asdict(a.box),
        "predicted": {
            "compute_s": _finite(a.compute_s),
            "communicate_s": _finite(a.communicate_s),
            "overhead_s": _finite(a.overhead_s),
            "total_s": _finite(a.predicted_s),
        },
    }


def _observation(o: RankObservation) -> dict[str, Any]:
    times = document_of(o, "setup_s", "compute_s", "communicate_s", "wait_s", "total_s")
    return times | document_of(o, "iterations", "checkpoint_s", "checkpoints")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
