"""`apples history`: predicted against observed, run by run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from nws.base.records import document_of

if TYPE_CHECKING:
    from pathlib import Path

    from apples.costs.ranges import JudgedRun
    from apples.model.plan import Record

#: End of a run without an outcome: it has not ended yet, or its agent was killed.
_UNKNOWN = "not ended, or lost"


@click.command()
@click.option(
    "-n", "--newest", type=click.IntRange(min=1), default=20, show_default=True, help="Show so many runs."
)
@click.option("-a", "--app", help="Only runs of this application.")
@click.option("--all", "everything", is_flag=True, help="Show every run.")
@click.option(
    "--coverage", "ranges", is_flag=True, help="How often predicted ranges held, by platform and load."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--talp", is_flag=True, help="TALP's JSON of a run with --monitor, as talp-pages reads it.")
@click.argument("run_id", required=False)
def history(
    newest: int,
    app: str | None,
    everything: bool,
    ranges: bool,
    as_json: bool,
    talp: bool,
    run_id: str | None,
) -> None:
    """Show past runs, oldest first, or one RUN_ID in full.

    The last line is the mean absolute error of the predictions of the runs shown that finished. With --coverage, all
    runs count; 8 of 10 should be within their range.
    """
    from apples.cli.console import Console
    from apples.costs.store import open_history
    from apples.errors import ConfigError

    stored = open_history(Console(quiet=False).note, strict=True)
    if talp and run_id is None:
        raise ConfigError("--talp: names no run; give one that `apples history` lists")
    if run_id is not None:
        record = stored.get(run_id)
        if talp:
            click.echo(json.dumps(_talp(record)))
        else:
            _show_one(record, as_json)
        return
    if ranges:
        _show_coverage(stored.judged_kinds(app), as_json)
        return
    records = stored.records(application=app, newest=None if everything else newest)
    if as_json:
        click.echo(json.dumps({"version": 1, "runs": [_entry(r) for r in records]}))
        return
    _show_many(records, stored.path)


def _entry(record: Record) -> dict[str, Any]:
    from apples.run.documents import strict

    entry: dict[str, Any] = strict(
        {
            **document_of(record, "id", "started_at", "world"),
            **document_of(record.plan, "application", "size", "scheduler"),
            "ranks": len(record.plan.assignments),
            "hosts": list(record.plan.hosts),
            **document_of(record.plan, "predicted_s", "low_s", "high_s"),
            "observed_s": _observed_s(record),
            "error": _error(record),
            "attempts": len(record.attempts) or None,
            "ended": None if record.outcome is None else record.outcome.ended,
        }
    )
    return entry


def _talp(record: Record) -> dict[str, Any]:
    """Return the run's document of TALP, which has an instant in the local time, without its zone."""
    from datetime import datetime

    from apples.errors import HistoryError

    if not (document := record.monitor.get("talp")):
        raise HistoryError(f"run {record.id}: no rank was measured; run it with --monitor")
    started = datetime.fromtimestamp(record.started_at)
    return {"timestamp": started.isoformat(timespec="seconds"), **document}


def _error(record: Record) -> float | None:
    """Return the error of a run's prediction. It is of the first plan, which did not finish if there were more."""
    from apples.run.documents import error

    if record.outcome is None or len(record.attempts) > 1:
        return None
    return error(record.plan.predicted_s, record.outcome)


def _ended(record: Record) -> str:
    return _UNKNOWN if record.outcome is None else record.outcome.ended


def _observed_s(record: Record) -> float | None:
    return None if record.outcome is None else record.outcome.observed_s


def _show_many(records: list[Record], path: Path) -> None:
    from apples.cli.report import seconds, table
    from nws.base.wording import counted

    if not records:
        click.echo(f"no runs yet in {path}; apples-run SIZE makes the first", err=True)
        return
    rows, errors = [], []
    for record in records:
        plan, error = record.plan, _error(record)
        if error is not None:
            errors.append(abs(error))
        times = map(seconds, (plan.predicted_s, _observed_s(record)))
        end = _ended(record) if error is None else f"{error:+.1%}"
        what = f"{plan.application} {plan.size}"
        rows.append([record.id, what, plan.scheduler, len(plan.assignments), *times, end])
    header = ["run", "what", "scheduler", "ranks", "predicted", "observed", "error"]
    click.echo("\n".join(table(header, rows)))
    if errors:
        mean = sum(errors) / len(errors)
        click.echo(f"mean absolute error of {counted(len(errors), 'finished run')}: {mean:.1%}")


def _show_coverage(kinds: dict[tuple[str, bool], list[JudgedRun]], as_json: bool) -> None:
    """Print how often ranges held, one line for each platform and load; simulated runs are a platform of their own."""
    from dataclasses import asdict

    from apples.cli.report import table
    from apples.costs.ranges import coverage

    judged = [(world, loaded, coverage(runs)) for (world, loaded), runs in kinds.items()]
    if as_json:
        rows = [{"world": world, "loaded": loaded, **asdict(each)} for world, loaded, each in judged]
        click.echo(json.dumps({"version": 1, "coverage": rows}))
        return
    lines = [
        [
            world,
            "loaded" if loaded else "idle",
            c.judged,
            f"{c.held / c.judged:.0%}",
            c.shorter,
            c.longer,
            f"{c.error:.1%}",
        ]
        for world, loaded, c in judged
    ]
    if not lines:
        click.echo("no finished run with a range yet", err=True)
        return
    header = ["platform", "hosts", "runs", "in range", "shorter", "longer", "median error"]
    click.echo("\n".join(table(header, lines)))


def _show_one(record: Record, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        from apples.run.documents import strict

        click.echo(json.dumps({"version": 1, **strict(asdict(record))}))
        return
    from apples.cli.report import attempt_lines, rank_lines, seconds

    plan = record.plan
    click.echo(f"run {record.id}: {plan.application} {plan.size}, {plan.scheduler}, {_ended(record)}")
    # The observations are of the last attempt.
    click.echo("\n".join(rank_lines(record.attempts[-1].plan if record.attempts else plan, record)))
    if len(record.attempts) > 1:
        click.echo("\n".join(attempt_lines(record.attempts)))
    click.echo(f"predicted {seconds(plan.predicted_s)}, observed {seconds(_observed_s(record))}")
    if record.outcome is not None and record.outcome.message:
        click.echo(record.outcome.message)
