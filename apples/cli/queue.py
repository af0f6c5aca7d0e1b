"""`apples queue`, `accounting`, `why`, `cancel`, `hold`, `release`, `wait`: show and change jobs.

Nothing is decided here.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apples.cli.optiongroups import option, options_record, with_options
from apples.cli.report import table, watch
from apples.errors import ConfigError, RequestRejected
from apples.livequeue.records import JOB_NAME, TURN
from apples.queueing.settings import RANGE_PERCENTILE
from nws.base.command import FILE
from nws.base.files import write_whole
from nws.base.hostlist import fold
from nws.base.oserrors import REASON, os_errors_as
from nws.base.terminal import visible
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.livequeue.queuemessages import JobRow, QueuePage

_SOCKET = click.option("--socket", type=FILE, help="Socket of the manager to ask.")
#: Slurm's words for states and outcomes of jobs.
_SLURM_STATES = {
    "waiting": "PENDING",
    "starting": "RUNNING",
    "running": "RUNNING",
    "finished": "COMPLETED",
    "failed": "FAILED",
    "not started": "FAILED",
    "time limit": "TIMEOUT",
    "cancelled": "CANCELLED",
    "lost": "NODE_FAIL",
}
#: Columns of `apples accounting`.
_ACCOUNTED = (
    *("job", "name", "user", "project", "procs", "submit", "start", "end"),
    *("elapsed_s", "limit_s", "state", "exit_code"),
)
_HEADER = ("", "job", "name", "user", "procs", "asked", "estimate", "state", "waited", "start")


@options_record
class QueueOptions:
    """Options of `apples queue`.

    everything : Also jobs that are over.
    user : Only this user's jobs.
    as_json : One JSON document on stdout.
    watching : Show it anew every second, until interrupted.
    log : Write jobs that are over as a job log (SWF), for `apples simulate-queue`.
    percentile : Share of starts inside their predicted ranges, 50 to 99 (default 80).
    """

    everything: bool = option("--all", is_flag=True)
    user: str | None = option("--user", metavar="NAME")
    as_json: bool = option("--json", is_flag=True)
    watching: bool = option("--watch", is_flag=True)
    log: Path | None = option("--log", type=FILE)
    percentile: float = option(
        "--percentile", type=click.FloatRange(50, 99), default=RANGE_PERCENTILE, metavar="P"
    )


@click.command()
@with_options(QueueOptions)
@_SOCKET
def queue(socket: Path | None, options: QueueOptions) -> int:
    """Show the queue: order, requests, estimates, and the predicted start of each job with its range."""
    from msgspec import structs, to_builtins

    from apples.livequeue import queueclient

    log, user = options.log, options.user
    if options.as_json and options.watching:
        raise ConfigError("--json and --watch exclude each other; give one of them")

    def survey() -> QueuePage:
        everything = options.everything or log is not None
        page = queueclient.survey(socket, everything=everything, percentile=options.percentile)
        return structs.replace(page, jobs=tuple(job for job in page.jobs if user in (None, job.user)))

    queue_page = survey()
    if log is not None:
        _write_log(queue_page, log)
    elif options.as_json:
        click.echo(json.dumps(to_builtins(queue_page)))
    elif options.watching:
        watch(queue_page, survey, lines)
    else:
        click.echo("\n".join(lines(queue_page)))
    return 0


@options_record
class AccountingOptions:
    """Options of `apples accounting`.

    states : Only jobs in this state of Slurm's, or in one of several.
    user : Only this user's jobs.
    since : Only jobs that ended, or have not ended, since a time: 2d (ago), 2026-01-31, 2026-01-31T12:00.
    as_json : One JSON document on stdout.
    csv : A table for spreadsheets, times in seconds.
    swf : A job log (SWF) of jobs that are over, for `apples simulate-queue`.
    """

    states: tuple[str, ...] = option(
        "--state", type=click.Choice(sorted(set(_SLURM_STATES.values()))), multiple=True, default=()
    )
    user: str | None = option("--user", metavar="NAME")
    since: str | None = option("--since", metavar="TIME")
    as_json: bool = option("--json", is_flag=True)
    csv: bool = option("--csv", is_flag=True)
    swf: bool = option("--swf", is_flag=True)


@click.command()
@with_options(AccountingOptions)
@_SOCKET
def accounting(socket: Path | None, options: AccountingOptions) -> None:
    """List all jobs of the queue with times, states and exit codes, as sacct does; those that are over included."""
    from msgspec import structs

    from apples.livequeue.queueclient import survey
    from apples.livequeue.queuelog import swf_lines
    from nws.base.durations import format_seconds

    if options.as_json + options.csv + options.swf > 1:
        raise ConfigError("--json, --csv and --swf exclude each other; give one of them")
    since = 0.0 if options.since is None else _since(options.since)
    page = survey(socket, everything=True)
    jobs = [job for job in page.jobs if options.user in (None, job.user) and since <= (job.ended or math.inf)]
    jobs = [job for job in jobs if not options.states or _slurm_state(job) in options.states]
    rows = list(map(_accounted, jobs))
    if options.swf:
        click.echo("\n".join(swf_lines(structs.replace(page, jobs=tuple(jobs)))))
    elif options.as_json:
        documents = [dict(zip(_ACCOUNTED, row, strict=True)) for row in rows]
        click.echo(json.dumps({"version": 1, "jobs": documents}))
    elif options.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([_ACCOUNTED, *rows])
    else:
        cells = [
            [format_seconds(v) if isinstance(v, float) else visible(str(v)) for v in row] for row in rows
        ]
        click.echo("\n".join(table([name.removesuffix("_s") for name in _ACCOUNTED], cells)))


def _accounted(job: JobRow) -> list[object]:
    """Return the values of `_ACCOUNTED`: local times, and seconds. A running job has used those since its start."""
    times = (job.submitted, job.start, job.ended)
    iso = ("" if at is None else datetime.fromtimestamp(at).isoformat(timespec="seconds") for at in times)
    used_s = job.held_s if job.held_s is not None or job.start is None else time.time() - job.start
    words = (_label(job), job.name, job.user, job.project, job.procs)
    return [*words, *iso, used_s, job.request_s, _slurm_state(job), job.exit_code]


def _slurm_state(job: JobRow) -> str:
    return _SLURM_STATES[job.outcome or job.state]


def _since(text: str) -> float:
    """Return a time, or a time ago, in s since the epoch; raise `ConfigError`."""
    from nws.base.durations import parse_period

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return time.time() - parse_period(text, what="--since")


def _job_name(text: str) -> str:
    """Return the name of a job or an array; raise `ConfigError`."""
    if not re.fullmatch(JOB_NAME, text, re.ASCII):
        raise ConfigError(f"JOB {text}: numbers of jobs and arrays, and jobs of arrays as 12_3, are legal")
    return text


_JOBS = click.argument("jobs", nargs=-1, required=True, type=_job_name, metavar="JOB…")


@click.command()
@click.argument("job", type=_job_name)
@_SOCKET
def why(job: str, socket: Path | None) -> None:
    """Print in one sentence the reason why JOB waits."""
    from apples.livequeue.queueclient import ask, jobs_of

    for number in jobs_of([job], socket):
        click.echo(visible(ask("why", number, socket)))


@click.command()
@_JOBS
@_SOCKET
def cancel(jobs: tuple[str, ...], socket: Path | None) -> int:
    """Take jobs out of the queue; running ones get TERM, and KILL after the manager's grace."""
    return _change("cancel", jobs, socket)


@click.command()
@_JOBS
@_SOCKET
def hold(jobs: tuple[str, ...], socket: Path | None) -> int:
    """Keep waiting jobs from starting until they are released."""
    return _change("hold", jobs, socket)


@click.command()
@_JOBS
@_SOCKET
def release(jobs: tuple[str, ...], socket: Path | None) -> int:
    """Let held jobs go on; their wait counts from now."""
    return _change("release", jobs, socket)


@click.command()
@_JOBS
@_SOCKET
def wait(jobs: tuple[str, ...], socket: Path | None) -> int:
    """Wait until jobs have ended, print how, and exit with the highest of their exit codes."""
    from apples.livequeue.queueclient import ends_of

    code = 0
    for ended in ends_of(jobs, socket):
        click.echo(visible(f"job {ended.id}: {ended.outcome}{f': {ended.detail}' if ended.detail else ''}"))
        code = max(code, ended.exit_code or 0)
    return code


def _change(request: str, jobs: tuple[str, ...], socket: Path | None) -> int:
    """Print the new state of each job, or why it was refused; return the exit code."""
    from apples.livequeue.queueclient import ask, jobs_of
    from apples.livequeue.queuemessages import MOST_TASKS

    code, numbers = 0, jobs_of(jobs, socket)
    parts = (numbers[start : start + MOST_TASKS] for start in range(0, len(numbers), MOST_TASKS))
    for answer in (answer for part in parts for answer in ask(request, part, socket)):
        if answer.refused is not None:
            click.echo(visible(f"apples {request}: {answer.refused}"), err=True)
            code = max(code, int(answer.code))
        elif answer.state == "over" and len(numbers) <= len(jobs):
            click.echo(f"apples {request}: job {answer.job} is over already", err=True)
            code = max(code, RequestRejected.exit_code)
        elif answer.state != "over":
            # Of an array, the jobs that are not over.
            click.echo(f"job {answer.job}: {answer.state}")
    return code


def lines(queue_page: QueuePage) -> list[str]:
    """Return the queue as text lines."""
    return [_summary(queue_page), *table(_header(queue_page), _rows(queue_page))]


def _summary(queue_page: QueuePage) -> str:
    states = [job.state for job in queue_page.jobs]
    waiting = states.count("waiting")
    share = queue_page.ranges_held
    held = "" if share is None else f"; {share:.0%} of {RANGE_PERCENTILE:.0f} % ranges of starts held"
    return (
        f"{queue_page.free} of {queue_page.processors} processors free, {counted(waiting, 'job')} waiting; "
        f"priority {queue_page.priority}, backfill {queue_page.backfill}, estimates {queue_page.estimates}{held}"
    )


def _header(queue_page: QueuePage) -> list[str]:
    return [*_HEADER, "hosts"] if len(queue_page.hosts) > 1 else list(_HEADER)


def _rows(queue_page: QueuePage) -> list[list[object]]:
    from nws.base.durations import format_seconds

    def key(job: JobRow) -> tuple[int, int]:
        order = ("ended", "running", "starting", "waiting")
        return order.index(job.state), job.position or job.id

    several = len(queue_page.hosts) > 1
    return [
        [
            job.position or "",
            _label(job),
            visible(job.name),
            visible(job.user),
            job.procs,
            format_seconds(job.request_s),
            format_seconds(job.estimate_s),
            _state(job),
            format_seconds(job.waited_s),
            _start(job),
            *([fold(job.hosts)] if several else []),
        ]
        for job in sorted(queue_page.jobs, key=key)
    ]


def _label(job: JobRow) -> str:
    return str(job.id) if job.task is None else f"{job.id} ({job.array}_{job.task})"


def _state(job: JobRow) -> str:
    if job.state != "ended":
        after = ("array limit" if one.startswith(TURN) else f"after {one}" for one in job.after)
        return "held" if job.held else ", ".join(after) or str(job.state)
    return f"failed {job.exit_code}" if job.outcome == "failed" else str(job.outcome)


def _start(job: JobRow) -> str:
    """Return the start, with --all beside the one predicted at the submission; of a waiting job the predicted one."""
    started = "" if job.start is None else _clock(job.start)
    if job.start_median is None or (started and job.state != "ended"):
        return started or "-"
    early, median, late = (_clock(at or 0.0) for at in (job.start_early, job.start_median, job.start_late))
    predicted = f"≈ {median}" if early == late else f"≈ {median} ({early} … {late})"
    return f"{started} {predicted}" if started else predicted


def _clock(at: float) -> str:
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%a %d %H:%M", then)


def _write_log(queue_page: QueuePage, path: Path) -> None:
    from apples.livequeue.queuelog import swf_lines

    with os_errors_as(ConfigError, f"--log {path}: cannot be written ({REASON}); name another file"):
        write_whole(path, "\n".join([*swf_lines(queue_page), ""]))
