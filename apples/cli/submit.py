"""`apples submit`: put a command into the queue. One error reports all problems."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from apples.cli.optiongroups import Problems, option, with_options
from nws.base.command import FILE
from nws.base.records import document_of
from nws.base.terminal import visible

#: First words of a command among which its program is searched.
_FIRST = 64
_WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """Options of `apples submit`.

    procs : Processors (default 1).
    limit : Limit: 90 (minutes), 30m, 4:00:00, 1-12 (default 1h).
    name : Name (default: the program's name).
    project : Project that the job is charged to.
    output : Output; %j is the job's number, %x its name, %u the user (apples-%j.out).
    error : Error output (default: with the output).
    chdir : Working directory (default: this one).
    estimate : Predicted run time; used instead of the history's estimate.
    oversubscribe : The job may share its processors with one other job that allows it, if both keep their speed.
    duty : With --oversubscribe: the part of its time for which a rank computes, above 0 and at most 1 (default: as
        measured in the program's last run).
    after : Start after other jobs have ended: ok:3 (with exit code 0), failed:3, any:3. If that cannot happen any
        more, the job is cancelled.
    held : Do not start before `apples release`.
    wait : Wait for the job, and exit with its exit code.
    as_json : One JSON document on stdout.
    socket : Socket of the queue's manager.
    """

    procs: int = option("-n", "--procs", type=click.IntRange(min=1), default=1)
    limit: str = option("-t", "--time", metavar="TIME", default="1h")
    name: str | None = option("-J", "--name", metavar="NAME")
    project: str | None = option("-A", "--project", metavar="NAME")
    output: str | None = option("-o", "--output", metavar="FILE")
    error: str | None = option("-e", "--error", metavar="FILE")
    chdir: str | None = option("-D", "--chdir", metavar="DIR")
    estimate: str | None = option("--estimate", metavar="TIME")
    oversubscribe: bool = option("-s", "--oversubscribe", is_flag=True)
    duty: float | None = option("--duty", metavar="SHARE", type=float)
    after: str | None = option("--after", metavar="KIND:JOB,…")
    held: bool = option("-H", "--hold", is_flag=True)
    wait: bool = option("-W", "--wait", is_flag=True)
    as_json: bool = option("--json", is_flag=True)
    socket: Path | None = option("--socket", type=FILE)


@click.command(context_settings=_WORDS)
@with_options(SubmitOptions)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND …")
def submit(command: tuple[str, ...], options: SubmitOptions) -> int:
    """Put COMMAND into the queue and print the job's number.

    The job runs on this host, in this directory, with this environment, when the queue starts it. The variables
    APPLES_QUEUE_JOB, APPLES_QUEUE_PROCS and APPLES_QUEUE_HOSTS hold its number, its number of processors and its hosts.
    """
    from msgspec import to_builtins

    from apples.livequeue.queueclient import ask

    number = ask("submit", submission(command, options), options.socket, retry=True)
    if not options.wait:
        click.echo(json.dumps({"version": 1, "job": number}) if options.as_json else str(number))
        return 0
    click.echo(f"job {number}", err=True)
    ended = ask("wait", number, options.socket, retry=True)
    if options.as_json:
        click.echo(json.dumps({"version": 1, "job": number, "ended": to_builtins(ended)}))
    if ended.outcome != "finished":
        detail = f": {ended.detail}" if ended.detail else ""
        click.echo(visible(f"apples submit: job {number} {ended.outcome}{detail}"), err=True)
    return int(ended.exit_code)


def submission(command: tuple[str, ...], options: SubmitOptions) -> dict[str, Any]:
    """Return the request to the manager; raise `ConfigError` with every problem that shows here.

    Raises `ProgramNotFound` or `NotExecutable`, too: the job would run here, as this user.
    """
    from apples.launching.preflight import executable
    from apples.livequeue.jobs import job_document
    from nws.base.durations import parse_period

    problems, estimate = Problems(), options.estimate
    if not command:
        problems.append("no command; give it behind --, as in `apples submit -n 2 -t 30m -- ./solver input`")
    request_s = problems.collect(lambda: parse_period(options.limit, what="--time", number_s=60))
    model_s = None
    if estimate is not None:
        model_s = problems.collect(lambda: parse_period(estimate, what="--estimate", number_s=60))
    directory = Path(options.chdir or ".").absolute()
    if not directory.is_dir():
        problems.append(f"--chdir {directory}: no such directory")
    for flag, file in (("--output", options.output), ("--error", options.error or options.output)):
        path = directory / (file or "apples-%j.out")
        if directory.is_dir() and "%" not in str(path.parent) and not os.access(path.parent, os.W_OK):
            problems.append(f"{flag} {path}: files cannot be made in {path.parent}")
    duties = _duties(command, options, problems)
    problems.check()
    executable(str(directory / command[0]) if os.sep in command[0] else command[0])
    return job_document(
        command,
        request_s=request_s or 0.0,
        model_s=model_s,
        duties=duties,
        directory=directory,
        after=options.after.split(",") if options.after else (),
        **document_of(options, "held", "procs", "name", "project", "output", "error"),
    )


def _duties(command: tuple[str, ...], options: SubmitOptions, problems: Problems) -> list[float]:
    """Return the duty cycle of each rank or one for all, none for a job that does not share its processors."""
    if not options.oversubscribe:
        if options.duty is not None:
            problems.append("--duty is for a job that shares its processors; add --oversubscribe")
        return []
    if options.duty is not None:
        if not 0.0 < options.duty <= 1.0:
            problems.append(f"--duty {options.duty:g}: expected a number above 0, at most 1")
        return [options.duty]
    known_duties = measured_duties(command[:_FIRST], options.procs)
    if not known_duties:
        click.echo(
            visible(
                f"apples submit: no program of this command was measured on {options.procs} ranks, so the job counts "
                "as one that always computes; --duty SHARE states its duty cycle"
            ),
            err=True,
        )
    return known_duties or [1.0]


def measured_duties(words: Sequence[str], ranks: int) -> list[float]:
    """Return the duty cycles of the first program of a command that was measured with as many ranks, or none."""
    from apples.daemons.classmemory import ClassMemory

    memory = ClassMemory.of_user()
    for position, word in enumerate(words):
        if word.startswith("-") or shutil.which(word) is None:
            continue
        program = " ".join(takewhile(lambda later: not later.startswith("-"), words[position:]))
        known_duties = memory.duties(program)
        if len(known_duties) == ranks:
            return known_duties
    return []
