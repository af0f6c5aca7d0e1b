"""`apples when`: when would a job start on this Slurm cluster? Nothing is decided here, nothing is written to Slurm."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apples.cli.optiongroups import Problems, option, with_options
from apples.errors import ConfigError
from apples.model.drained import LAST
from nws.base.command import FILE
from nws.base.files import write_whole
from nws.base.lock import user_name
from nws.base.notes import step
from nws.base.oserrors import REASON, os_errors_as
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.platforms.clusterqueue import ClusterQueue, Section, Tables
    from apples.platforms.jobstarts import JudgedStart, PartitionStarts, PredictedStart
    from apples.queueing.jobs import QueueJob
    from apples.queueing.startranges import StartRange


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenOptions:
    """Options of `apples when`.

    ntasks : Tasks of the job; several to compare.
    nodes : Whole nodes instead.
    cpus_per_task : CPUs of a task.
    time : Its time limit: 90 (minutes), 4:00:00, 4h, 1-12.
    partition : Partitions to compare, or all (default: Slurm's default).
    user : Owner of the job (default: you).
    priority : Its priority in Slurm (default: that of the owner's last job in the queue).
    percentile : Share of starts inside their predicted ranges, 50 to 99 (default 80).
    tables : Read sinfo.txt, squeue.txt, sacct.txt and reservations.txt there instead of asking Slurm.
    at : Instant of these tables (default: as running jobs show).
    record : Predict the waiting jobs, and keep that until they start; for cron.
    prometheus : Write the answer for node_exporter's textfile collector.
    as_json : One JSON document on stdout.
    """

    ntasks: str | None = option("-n", "--ntasks", metavar="N,…")
    nodes: str | None = option("-N", "--nodes", metavar="N,…")
    cpus_per_task: int = option(
        "-c", "--cpus-per-task", type=click.IntRange(1, 10**6), default=1, metavar="N"
    )
    time: str | None = option("-t", "--time", metavar="TIME")
    partition: str | None = option("-p", "--partition", metavar="NAME,…")
    user: str | None = option("--user", metavar="NAME")
    priority: float | None = option("--priority", type=float, metavar="P")
    percentile: float = option("--percentile", type=click.FloatRange(50, 99), default=80.0, metavar="P")
    tables: Path | None = option("--from", metavar="DIR", type=FILE)
    at: str | None = option("--at", metavar="TIME")
    record: bool = option("--record", is_flag=True)
    prometheus: Path | None = option("--prometheus", type=FILE, metavar="FILE")
    as_json: bool = option("--json", is_flag=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The answer for one width in one partition."""

    partition: str
    cpus: int
    predicted: PredictedStart


@click.command()
@with_options(WhenOptions)
def when(options: WhenOptions) -> None:
    """Predict the start and end of a job on this Slurm cluster, by partition and width.

    The ranges are widened until they hold for the starts that sacct lists.
    """
    from apples.platforms import startstore
    from apples.platforms.finding import find_platform

    widths, limit_s = _asked(options)
    tables = find_platform("slurm").tables(options.tables, options.at)
    chosen = _sections(tables.queue, options.partition)
    for reason, count in tables.queue.unread.items():
        step(f"left out, {reason}: {count}")
    kept = startstore.read(step)
    problems = Problems()
    starts = _starts(tables, chosen, kept.get(tables.cluster, {}), problems)
    rows = _rows(options, widths, limit_s, starts, problems)
    if not rows and (widths or not starts):
        problems.check()
    for problem in problems:
        step(problem)
    if options.record:
        outcomes = {name: [*one.outcomes, *one.predict_waiting()] for name, one in starts.items()}
        startstore.keep(tables.cluster, outcomes)
    if options.prometheus is not None:
        text = "\n".join([*_metrics(tables.cluster, tables.now_s, rows, starts), ""])
        with os_errors_as(ConfigError, f"--prometheus {options.prometheus}: cannot be written ({REASON})"):
            write_whole(options.prometheus, text, mode=0o644)
    if options.as_json:
        click.echo(json.dumps(_document(tables.cluster, tables.now_s, rows, starts)))
    elif rows or not options.record:
        click.echo("\n".join(_lines(tables.cluster, tables.now_s, rows, starts, options.percentile)))


def _asked(options: WhenOptions) -> tuple[list[int], float]:
    """Return the widths, in tasks or nodes, and the limit in s; raise `ConfigError` with all problems."""
    from nws.base.durations import parse_period

    problems = Problems()
    if options.ntasks is not None and options.nodes is not None:
        problems.append("-n and -N exclude each other; give one of them")
    words = (options.ntasks or options.nodes or "").split(",") if options.ntasks or options.nodes else []
    flag = "-n" if options.ntasks else "-N"
    wrong = [word for word in words if not re.fullmatch(r"0*[1-9][0-9]{0,6}", word)]
    if wrong:
        problems.append(
            f"{flag} {','.join(words)}: expected whole numbers from 1 on, such as {flag} 16,32,64"
        )
    limit_s = None
    if options.time is not None:
        time = options.time
        limit_s = problems.collect(lambda: parse_period(time, what="--time", number_s=60))
    if not options.record and not (words and options.time):
        problems.append("the job is missing: give its width and time limit, such as -n 64 -t 4h")
    if bool(words) != (options.time is not None) and options.record:
        problems.append("-n (or -N) and -t belong together; give both, or none with --record")
    if options.at is not None and options.tables is None:
        problems.append("--at is for the tables of --from DIR; leave it out")
    problems.check()
    return [int(word) for word in words], limit_s or 0.0


def _sections(queue: ClusterQueue, named: str | None) -> list[Section]:
    """Return the partitions that are asked for; raise `ConfigError` for unknown ones."""
    if named is None:
        default = [section for section in queue.sections.values() if section.default]
        return default or list(queue.sections.values())
    if named == "all":
        return list(queue.sections.values())
    names = list(dict.fromkeys(named.split(",")))
    unknown = [name for name in names if name not in queue.sections]
    if unknown:
        raise ConfigError(
            f"--partition {named}: no {', '.join(unknown)}; legal are {', '.join(queue.sections)}, all"
        )
    return [queue.sections[name] for name in names]


def _starts(
    tables: Tables, chosen: list[Section], kept: Mapping[str, list[JudgedStart]], problems: Problems
) -> dict[str, PartitionStarts]:
    """Return the predictions by partition; partitions without usable nodes are problems."""
    from apples.platforms.jobstarts import PartitionStarts

    starts: dict[str, PartitionStarts] = {}
    for section in chosen:
        known = kept.get(section.name, [])
        history = tables.history(section)
        learned = problems.collect(
            partial(PartitionStarts, tables.queue, section, history, tables.now_s, known)
        )
        if learned is not None:
            starts[section.name] = learned
    return starts


def _rows(
    options: WhenOptions,
    widths: list[int],
    limit_s: float,
    starts: Mapping[str, PartitionStarts],
    problems: Problems,
) -> list[_Row]:
    """Return the answers; widths and limits that a partition does not allow are problems."""
    rows = []
    for name, learned in starts.items():
        for job in _jobs(options, widths, limit_s, learned.section):
            predicted = problems.collect(partial(learned.predict, job, options.priority, options.percentile))
            if predicted is not None:
                rows.append(_Row(partition=name, cpus=job.procs, predicted=predicted))
    return rows


def _jobs(options: WhenOptions, widths: list[int], limit_s: float, section: Section) -> Iterator[QueueJob]:
    from apples.queueing.jobs import QueueJob

    for width in widths:
        cpus = width * (section.node_cpus if options.nodes else options.cpus_per_task)
        if section.exclusive and section.node_cpus:
            cpus = math.ceil(cpus / section.node_cpus) * section.node_cpus
        user = options.user or user_name()
        yield QueueJob(id=0, procs=cpus, request_s=limit_s, submit_s=0.0, user=user)


def _lines(
    cluster: str, now_s: float, rows: list[_Row], starts: Mapping[str, PartitionStarts], percentile: float
) -> list[str]:
    from apples.cli.report import table
    from nws.base.durations import format_seconds

    lines = [f"cluster {cluster} at {_clock(now_s, now_s)}"]
    for name, one in starts.items():
        unplaced = f", {one.unplaced} left out (held, limited or too wide)" if one.unplaced else ""
        lines.append(
            f"{name}: {one.free} of {one.processors} CPUs free, {counted(one.waiting, 'job')} waiting{unplaced}"
        )
    if rows:
        header = ["partition", "CPUs", "ahead", "waits", "starts", f"{percentile:g} % range", "ends", "range"]
        lines += table(
            header,
            [
                [
                    row.partition,
                    row.cpus,
                    row.predicted.ahead,
                    format_seconds(round(row.predicted.start.median_s - now_s)),
                    *(text for one in (row.predicted.start, row.predicted.end) for text in _span(one, now_s)),
                ]
                for row in rows
            ],
        )
    for name, one in starts.items():
        known = sum(outcome.start_s is not None for outcome in one.outcomes)
        held = (
            "too few to say how often ranges hold"
            if one.held is None
            else f"{one.held:.0%} of 80 % ranges held"
        )
        lines.append(f"{name}: {counted(known, 'predicted start')} known; {held}")
    return lines


def _span(span: StartRange, now_s: float) -> tuple[str, str]:
    low, high = (_clock(at_s, now_s) for at_s in (span.low_s, span.high_s))
    return _clock(span.median_s, now_s), f"{low} … {high}"


def _local(at_s: float) -> datetime:
    """Return a local time of the site; of starts that no calendar has, the last one."""
    return datetime.fromtimestamp(min(at_s, LAST), UTC)


def _clock(at_s: float, now_s: float) -> str:
    """Return a local time of the site, with the day if it is not today's."""
    then, now = _local(at_s), _local(now_s)
    return then.strftime("%H:%M" if then.date() == now.date() else "%a %d %H:%M")


def _document(
    cluster: str, now_s: float, rows: list[_Row], starts: Mapping[str, PartitionStarts]
) -> dict[str, object]:
    """Return the answer; times are local ones of the site."""

    def span(one: StartRange) -> dict[str, str]:
        times = {"low": one.low_s, "median": one.median_s, "high": one.high_s}
        return {
            name: _local(at_s).replace(tzinfo=None).isoformat(timespec="seconds")
            for name, at_s in times.items()
        }

    return {
        "version": 1,
        "cluster": cluster,
        "partitions": {
            name: {
                "cpus": one.processors,
                "free": one.free,
                "waiting": one.waiting,
                "apart": one.unplaced,
                "known": sum(outcome.start_s is not None for outcome in one.outcomes),
                "held": one.held,
            }
            for name, one in starts.items()
        },
        "jobs": [
            {
                "partition": row.partition,
                "cpus": row.cpus,
                "ahead": row.predicted.ahead,
                "wait_s": row.predicted.start.median_s - now_s,
                "start": span(row.predicted.start),
                "end": span(row.predicted.end),
            }
            for row in rows
        ],
    }


def _metrics(
    cluster: str, now_s: float, rows: list[_Row], starts: Mapping[str, PartitionStarts]
) -> Iterator[str]:
    """Yield the lines of Prometheus' text format."""

    def labels(**values: object) -> str:
        return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in values.items())

    yield "# HELP apples_job_wait_seconds Predicted wait of a job submitted now."
    yield "# TYPE apples_job_wait_seconds gauge"
    for row in rows:
        start = row.predicted.start
        for bound, at_s in (("low", start.low_s), ("median", start.median_s), ("high", start.high_s)):
            named = labels(cluster=cluster, partition=row.partition, cpus=row.cpus, bound=bound)
            yield f"apples_job_wait_seconds{{{named}}} {at_s - now_s:.0f}"
    for metric, text, field in (
        ("waiting_jobs", "Jobs that wait for CPUs of the partition.", "waiting"),
        ("free_cpus", "Idle CPUs of the partition.", "free"),
        ("start_ranges_held_ratio", "Share of the last starts inside their 80 % ranges.", "held"),
    ):
        yield f"# HELP apples_{metric} {text}"
        yield f"# TYPE apples_{metric} gauge"
        for name, one in starts.items():
            value = getattr(one, field)
            if value is not None:
                yield f"apples_{metric}{{{labels(cluster=cluster, partition=name)}}} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
