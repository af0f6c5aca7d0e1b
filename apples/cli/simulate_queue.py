"""`apples simulate-queue`: replay a job log under a queueing policy. Nothing is decided here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import HeadedCommand, headed, option, with_options
from apples.errors import ConfigError
from nws.base.command import FILE
from nws.base.files import Replacement
from nws.base.notes import INFO, shows, step
from nws.base.oserrors import REASON, os_errors_as
from nws.base.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apples.queueing.configuration import QueueFile
    from apples.queueing.scoring import Scoreboard
    from apples.simulation.batch.batchmachine import Progress, ReplaySchedule
    from apples.simulation.batch.trace import Trace

_policy, _estimates = headed("Policy"), headed("Estimates")

_QUEUE = ("priority", "backfill", "backfill_order", "delay_budget", "overrun", "increment")
_ESTIMATES = ("source", "adjust", "learn_from", "key", "window", "percentile", "floor", "minimum", "last")
_NAMED_OTHERWISE = {"source": "estimates", "minimum": "min-similar"}
_PLACE = re.compile(r"^options:1: (?:queue|estimates)\.(?P<name>\w+): ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of `apples simulate-queue`; those of policy and estimates are text that the settings' rules check.

    procs : Processors of the machine (default: the log's).
    config : Settings (YAML), as in configs/queue.yaml; options override it.
    priority : wfp (default), fcfs, sjf, or an expression over wait, estimate, …
    backfill : none, easy (default) or conservative.
    backfill_order : priority, shortest or area (default: shortest with estimates, else priority).
    delay_budget : Delay of the head from which requests count for jobs that overtake it (default 1d), or none.
    overrun : Past its estimate: request (default), increment, doubling, half.
    increment : Of that rule (default 5m).
    source : ensemble (default), request, history, recent or actual.
    adjust : selective, regular, or a list: priority,backfill,running (default: backfill).
    learn_from : Job ends to learn from: simulation (default) or log.
    key : Similar jobs: triple (default), double, user, project or all.
    window : Age limit of similar jobs (default 30d).
    percentile : Of their run time / request (default 85).
    floor : Least adjustment (default 0.5).
    minimum : Least number of similar jobs; with fewer the request is used (default 10).
    last : Number of jobs that `recent` averages (default 2).
    event_order : At equal times: batch (default) or pyss.
    kill : End jobs of the log at their requested time.
    month : Only jobs of the log's N-th 30 days, from 0.
    load : Stretch arrivals to this offered load.
    starts : Write `id submit start` of each job.
    predict : Write the start of each job as foreseen at its submission: `id submit start median low high`.
    as_json : One JSON document on stdout.
    """

    procs: int | None = option("--procs", type=click.IntRange(min=1))
    config: str | None = _policy("--config", metavar="FILE")
    priority: str | None = _policy("--priority", metavar="NAME")
    backfill: str | None = _policy("--backfill", metavar="NAME")
    backfill_order: str | None = _policy("--backfill-order", metavar="NAME")
    delay_budget: str | None = _policy("--delay-budget", metavar="TIME")
    overrun: str | None = _policy("--overrun", metavar="RULE")
    increment: str | None = _policy("--increment", metavar="TIME")
    source: str | None = _estimates("--estimates", metavar="SOURCE")
    adjust: str | None = _estimates("--adjust", metavar="WHERE")
    learn_from: str | None = _estimates("--learn-from", metavar="ENDS")
    key: str | None = _estimates("--key", metavar="NAME")
    window: str | None = _estimates("--window", metavar="TIME")
    percentile: str | None = _estimates("--percentile", metavar="P")
    floor: str | None = _estimates("--floor", metavar="A")
    minimum: str | None = _estimates("--min-similar", metavar="N")
    last: str | None = _estimates("--last", metavar="N")
    event_order: str = option("--event-order", default="batch", metavar="NAME")
    kill: bool = option("--kill", is_flag=True)
    month: int | None = option("--month", type=click.IntRange(min=0), metavar="N")
    load: float | None = option("--load", type=click.FloatRange(min=0, min_open=True))
    starts: Path | None = option("--starts", type=FILE)
    predict: Path | None = option("--predict", type=FILE)
    as_json: bool = option("--json", is_flag=True)


@click.command(cls=HeadedCommand)
@click.argument("trace", type=FILE, metavar="TRACE")
@with_options(ReplayOptions)
def simulate_queue(trace: Path, options: ReplayOptions) -> None:
    """Replay the job log TRACE (Standard Workload Format or sacct's output, plain or .gz) under a policy."""
    from apples.queueing import jit, replay
    from apples.simulation.batch.batchmachine import Replay, simulate
    from apples.simulation.batch.reading import read_trace
    from nws.base.jit import is_cached

    chosen = _settings(options)
    how = Replay(
        queue=chosen.settings(),
        switches=chosen.estimates.switches(),
        event_order=options.event_order,
        predict=options.predict is not None,
    )
    log = read_trace(trace)
    procs = options.procs or log.processors
    log = log.fitting(procs) if procs else log
    for line in log.intake.report():
        step(line)
    if options.kill:
        log = log.killed_at_request()
    estimator = chosen.estimates.estimator()
    jobs, estimates = _chosen_jobs(log, chosen, estimator, options)
    if not is_cached(replay.advance_pyss if options.event_order == "pyss" else replay.advance):
        step(jit.NOTE)
    with _progress(len(jobs)) as progress:
        schedule = simulate(jobs, how, estimates, progress)
    if options.starts is not None:
        _write_starts("--starts", options.starts, schedule, ())
    if options.predict is not None and schedule.predicted is not None:
        _write_starts("--predict", options.predict, schedule, schedule.predicted.T)
    document = _document(schedule, chosen, options)
    if estimator is not None:
        document["estimators"] = {name: asdict(score) for name, score in estimator.scores().items()}
    if options.as_json:
        click.echo(json.dumps(document, allow_nan=False))
    else:
        click.echo("\n".join(_lines(document)))


def _settings(options: ReplayOptions) -> QueueFile:
    """Return the settings file overridden by the command line, checked as one document."""
    from apples.queueing.configuration import QueueFile, load_queue_file
    from nws.base.reader import Document, validate
    from nws.base.yamltree import Tree

    merged = asdict(load_queue_file(options.config) if options.config is not None else QueueFile())
    for section, names in (("queue", _QUEUE), ("estimates", _ESTIMATES)):
        given = {name: getattr(options, name) for name in names}
        merged[section].update({name: _number(v) for name, v in given.items() if v is not None})
    try:
        return validate(Document(path=Path("options"), tree=Tree(value=merged)), QueueFile)
    except ConfigError as error:
        raise ConfigError(_PLACE.sub(_option, str(error))) from None


def _option(match: re.Match[str]) -> str:
    """Return the option that sets a setting."""
    name = match["name"]
    return f"--{_NAMED_OTHERWISE.get(name, name.replace('_', '-'))}: "


def _number(text: str) -> str | int | float:
    """Return the text as a number if it is one; the rules of the settings check it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _chosen_jobs(
    log: Trace, chosen: QueueFile, estimator: Scoreboard | None, options: ReplayOptions
) -> tuple[Trace, Any]:
    """Return the jobs to replay, and the knowledge of their run times at submission."""
    import numpy as np

    from apples.simulation.batch.batchmachine import log_estimates

    known: Any = estimator
    if chosen.estimates.source == "actual":
        known = np.maximum(log.run, 1.0)
    elif estimator is not None and chosen.estimates.learn_from == "log":
        known = log_estimates(log, estimator)
    if options.month is not None:
        picked = log.in_month(options.month)
        if not picked.any():
            days = float(log.submit[-1] - log.submit[0]) / 86400
            raise ConfigError(
                f"--month {options.month}: no job; the log has {days:.0f} days, from month 0 on"
            )
        known = known[picked] if isinstance(known, np.ndarray) else known
        log = log.take(picked)
    if options.load is not None:
        if log.processors < 1:
            raise ConfigError(f"--load {options.load:g}: the log has no size of the machine; add --procs")
        log = log.stretched(log.offered_load(log.processors) / options.load)
    return log, known


@contextmanager
def _progress(jobs: int) -> Iterator[Progress | None]:
    """Show a progress bar on a terminal's stderr during a long replay."""
    if not shows(INFO) or not sys.stderr.isatty() or jobs < 50_000:
        yield None
        return
    with click.progressbar(length=jobs, label="jobs submitted", file=sys.__stderr__) as bar:
        yield lambda done, _: bar.update(done - bar.pos)


def _write_starts(
    option_name: str, path: Path, schedule: ReplaySchedule, further: Iterable[NDArray[np.float64]]
) -> None:
    """Write id, submission, start and `further` columns of each job; a file of that name is always complete."""
    columns = (schedule.trace.submit, schedule.start, *further)
    with (
        os_errors_as(ConfigError, f"{option_name} {path}: cannot be written ({REASON}); name another file"),
        Replacement(path) as temporary,
        open(temporary, "w", encoding="ascii") as file,
    ):
        for number, *times in zip(schedule.trace.id, *columns, strict=True):
            file.write(" ".join([str(number), *(f"{at:.15g}" for at in times)]) + "\n")


def _document(schedule: ReplaySchedule, chosen: QueueFile, options: ReplayOptions) -> dict[str, Any]:
    import numpy as np

    from apples.run.documents import strict

    trace = schedule.trace
    waits = trace.wait[~np.isnan(trace.wait)]
    document: dict[str, Any] = strict(
        {
            "version": 1,
            "trace": {
                "name": trace.name,
                "lines": trace.intake.lines,
                "jobs": len(trace),
                "dropped": dict(trace.intake.dropped),
                "mended": dict(trace.intake.mended),
                "processors": trace.processors,
                "offered_load": trace.offered_load(trace.processors),
                "mean_wait_in_log_s": float(waits.mean()) if len(waits) else None,
            },
            **asdict(chosen),
            "event_order": options.event_order,
            "metrics": asdict(schedule.metrics(chosen.queue.priority)),
        }
    )
    return document


def _lines(document: dict[str, Any]) -> list[str]:
    from apples.cli.report import table
    from nws.base.durations import format_seconds

    trace, queue, metrics = document["trace"], document["queue"], document["metrics"]
    estimates = metrics["estimates"]
    timed = [
        [name, *(format_seconds(metrics[key][part]) for part in ("mean", "median"))]
        for name, key in (("wait", "wait"), ("response", "response"))
    ]
    bare = [
        [name, *(f"{metrics[key][part]:.4g}" for part in ("mean", "median"))]
        for name, key in (("slowdown", "slowdown"), ("bounded slowdown", "bounded_slowdown"))
    ]
    bare.append(["accuracy", *(f"{estimates['accuracy'][part]:.3f}" for part in ("mean", "median"))])
    shares = ", ".join(
        f"{name} {estimates[key]:.1%}"
        for name, key in (
            ("not adjusted", "not_adjusted"),
            ("over", "over"),
            ("under", "under"),
            ("30 min or more under", "bad"),
        )
    )
    lines = [
        f"{trace['name']}: {counted(trace['jobs'], 'job')} on {counted(trace['processors'], 'processor')}, "
        f"priority {queue['priority']}, backfill {queue['backfill']}, estimates {document['estimates']['source']}",
        *table(["", "mean", "median"], timed + bare),
        f"weighted wait {format_seconds(metrics['weighted_wait'])} (by {metrics['weighted_by']}), "
        f"utilisation {metrics['utilisation']:.4f}, backfilled {metrics['backfilled']:.1%}",
        f"estimates: {shares}",
    ]
    if "estimators" in document:
        scores = ", ".join(
            f"{name} {score['accuracy']:.3f} ({score['under']:.1%} under)"
            for name, score in document["estimators"].items()
        )
        lines.append(f"mean accuracy by source: {scores or 'no job ended before the last submission'}")
    if trace["mean_wait_in_log_s"] is not None:
        lines.append(f"in the log itself the mean wait is {format_seconds(trace['mean_wait_in_log_s'])}")
    return lines
