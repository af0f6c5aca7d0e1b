"""`apples history`: predicted against observed, run by run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

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
        from dataclasses import asdict

        from apples.run.documents import strict
        from apples.run.runhistory import RunSummary

        click.echo(
            json.dumps({"version": 1, "runs": strict([asdict(RunSummary.of(one)) for one in records])})
        )
        return
    _show_many(records, stored.path)


def _talp(record: Record) -> dict[str, Any]:
    """Return the run's document of TALP, which has an instant in the local time, without its zone."""
    from datetime import datetime

    from apples.errors import HistoryError

    if not (document := record.monitor.get("talp")):
        raise HistoryError(f"run {record.id}: no rank was measured; run it with --monitor")
    started = datetime.fromtimestamp(record.started_at)
    return {"timestamp": started.isoformat(timespec="seconds"), **document}


def _show_many(records: list[Record], path: Path) -> None:
    from apples.cli.report import seconds, table
    from apples.run.runhistory import RunSummary
    from nws.base.wording import counted

    if not records:
        click.echo(f"no runs yet in {path}; apples-run SIZE makes the first", err=True)
        return
    rows, errors = [], []
    for run in map(RunSummary.of, records):
        if run.error is not None:
            errors.append(abs(run.error))
        times = map(seconds, (run.predicted_s, run.observed_s))
        end = run.ended or _UNKNOWN if run.error is None else f"{run.error:+.1%}"
        rows.append([run.id, f"{run.application} {run.size}", run.scheduler, run.ranks, *times, end])
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
    from apples.run.runhistory import RunSummary

    plan, run = record.plan, RunSummary.of(record)
    click.echo(f"run {run.id}: {run.application} {run.size}, {run.scheduler}, {run.ended or _UNKNOWN}")
    # The observations are of the last attempt.
    click.echo("\n".join(rank_lines(record.attempts[-1].plan if record.attempts else plan, record)))
    if len(record.attempts) > 1:
        click.echo("\n".join(attempt_lines(record.attempts)))
    click.echo(f"predicted {seconds(plan.predicted_s)}, observed {seconds(run.observed_s)}")
    if record.outcome is not None and record.outcome.message:
        click.echo(record.outcome.message)
