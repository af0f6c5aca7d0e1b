"""`apples submit`: put a command or a script of `sbatch` into the queue. One error reports all problems."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from apples.cli.optiongroups import Problems, option, record_of, with_options
from apples.cli.sbatch import BatchScript, read_script
from apples.errors import ConfigError
from nws.base.command import FILE
from nws.base.records import document_of
from nws.base.terminal import visible

#: First words of a command among which its program is searched.
_FIRST = 64
#: An interval of an array with its step, and the number of its jobs that run at once.
_SPAN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([1-9][0-9]{0,5}))?)?", re.ASCII)
_LIMIT = re.compile(r"([1-9][0-9]{0,2})?", re.ASCII)
_WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """Options of `apples submit`, those of `sbatch` under its names.

    procs : Processors, or tasks of --cpus-per-task (default 1).
    cpus : Processors of each task (default 1).
    nodes : This queue is for one machine: 1.
    per_node : Tasks, as --ntasks.
    limit : Limit: 90 (minutes), 30m, 4:00:00, 1-12 (default 1h).
    name : Name (default: the program's name).
    project : Project that the job is charged to.
    output : Output; %j is the job's number, %x its name, %u the user, %A the array, %a the number in it (apples-%j.out
        or apples-%A_%a.out).
    error : Error output (default: with the output).
    chdir : Working directory (default: this one).
    estimate : Predicted run time; used instead of the history's estimate.
    oversubscribe : The job may share its processors with one other job that allows it, if both keep their speed.
    duty : With --oversubscribe: the part of its time for which a rank computes, above 0 and at most 1 (default: as
        measured in the program's last run).
    after : Start after other jobs have ended: ok:3 (with exit code 0), failed:3, any:3, or as sbatch's afterok:3:4,
        afternotok, afterany. If that cannot happen any more, the job is cancelled.
    array : Numbers of an array of jobs, 1-10:2%3: 1, 3 … 9, at most 3 at once. SLURM_ARRAY_TASK_ID has the number.
    held : Do not start before `apples release`.
    export : The job has this command's environment: ALL.
    wait : Wait for the job, and exit with its exit code.
    as_json : One JSON document on stdout.
    socket : Socket of the queue's manager.
    """

    procs: int | None = option("-n", "--ntasks", "--procs", type=click.IntRange(min=1))
    cpus: int = option("-c", "--cpus-per-task", type=click.IntRange(min=1), default=1)
    nodes: str | None = option("-N", "--nodes", type=click.Choice(["1"]))
    per_node: int | None = option("--ntasks-per-node", type=click.IntRange(min=1))
    limit: str = option("-t", "--time", metavar="TIME", default="1h")
    name: str | None = option("-J", "--job-name", "--name", metavar="NAME")
    project: str | None = option("-A", "--account", "--project", metavar="NAME")
    output: str | None = option("-o", "--output", metavar="FILE")
    error: str | None = option("-e", "--error", metavar="FILE")
    chdir: str | None = option("-D", "--chdir", metavar="DIR")
    estimate: str | None = option("--estimate", metavar="TIME")
    oversubscribe: bool = option("-s", "--oversubscribe", is_flag=True)
    duty: float | None = option("--duty", metavar="SHARE", type=float)
    after: str | None = option("-d", "--dependency", "--after", metavar="KIND:JOB,…")
    array: str | None = option("-a", "--array", metavar="NUMBERS")
    held: bool = option("-H", "--hold", is_flag=True)
    export: str | None = option("--export", type=click.Choice(["ALL"]))
    wait: bool = option("-W", "--wait", is_flag=True)
    as_json: bool = option("--json", is_flag=True)
    socket: Path | None = option("--socket", type=FILE)

    @property
    def processors(self) -> int:
        """Return the processors of the job."""
        return (self.procs or self.per_node or 1) * self.cpus


class BatchCommand(click.Command):
    """A command whose program may be a script of `sbatch`, which is the context's `obj` then, else None."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the script's lines, then those of the command line, which replace them."""
        given = self.make_parser(ctx).parse_args(list(args))[0]
        command = given.get("command")
        if isinstance(command, tuple) and command:
            ctx.obj = read_script(command[0], Path(given.get("chdir", ".")))
        if ctx.obj is not None:
            args = [*ctx.obj.options(self, _check), *args]
        return super().parse_args(ctx, args)


@click.command(context_settings=_WORDS, cls=BatchCommand)
@with_options(SubmitOptions)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND …")
@click.pass_obj
def submit(script: BatchScript | None, command: tuple[str, ...], options: SubmitOptions) -> int:
    """Put COMMAND into the queue and print the job's number.

    The job runs on this host, in this directory, with this environment, when the queue starts it. The variables
    APPLES_QUEUE_JOB, APPLES_QUEUE_PROCS and APPLES_QUEUE_HOSTS hold its number, its number of processors and its hosts.
    If COMMAND is a script with #SBATCH lines, these give options, too; the command line goes before.
    """
    from msgspec import to_builtins

    from apples.livequeue.queueclient import ask, ends_of

    number = ask("submit", submission(command, options, script), options.socket, retry=True)
    if not options.wait:
        click.echo(json.dumps({"version": 1, "job": number}) if options.as_json else str(number))
        return 0
    click.echo(f"job {number}", err=True)
    ended = max(ends_of([number], options.socket), key=lambda end: end.exit_code or 0)
    if options.as_json:
        click.echo(json.dumps({"version": 1, "job": number, "ended": to_builtins(ended)}))
    if ended.outcome != "finished":
        detail = f": {ended.detail}" if ended.detail else ""
        click.echo(visible(f"apples submit: job {ended.id} {ended.outcome}{detail}"), err=True)
    return ended.exit_code or 0


def _values(options: SubmitOptions, problems: Problems) -> dict[str, Any]:
    """Return arguments of `job_document` that are texts in the options; append every problem."""
    from nws.base.durations import parse_period

    def period_s(text: str | None, what: str) -> float | None:
        return None if text is None else problems.collect(lambda: parse_period(text, what=what, number_s=60))

    array = options.array
    tasks, at_once = ([], 0) if array is None else problems.collect(partial(_tasks, array)) or ([], 0)
    conditions = options.after.split(",") if options.after else ()
    return {
        "request_s": period_s(options.limit, "--time"),
        "model_s": period_s(options.estimate, "--estimate"),
        "tasks": tasks,
        "at_once": at_once,
        "after": [one for text in conditions for one in problems.collect(partial(_conditions, text)) or ()],
    }


def _check(values: Mapping[str, Any], problems: Problems) -> None:
    """Append the problems of some options that their types do not show."""
    _values(record_of(SubmitOptions, values), problems)


def _tasks(text: str) -> tuple[list[int], int]:
    """Return the numbers of an array, and how many of its jobs run at once, 0 for any number of them."""
    from apples.livequeue.queuemessages import MOST_TASKS

    numbers, _, limit = text.partition("%")
    spans = [_SPAN.fullmatch(part) for part in numbers.split(",")]
    parts = [range(int(span[1]), int(span[2] or span[1]) + 1, int(span[3] or 1)) for span in spans if span]
    # Lengths first: an interval may be long.
    if all(spans) and all(parts) and sum(map(len, parts)) <= MOST_TASKS and _LIMIT.fullmatch(limit):
        return sorted({task for part in parts for task in part}), int(limit or 0)
    legal = f"1,3,5-9 and 0-100:10%4 (at most 4 at once) are legal, with 1 to {MOST_TASKS} numbers"
    raise ConfigError(f"--array {text}: {legal} of up to 999999")


def _conditions(text: str) -> list[str]:
    """Return the conditions of one part of `--after`, as `ok:3` or as sbatch's `afterok:3:4`."""
    from apples.livequeue.records import CONDITIONS, JOB_NAME

    kind, *jobs = text.split(":")
    kind = {"afternotok": "failed"}.get(kind, kind.removeprefix("after"))
    if kind not in CONDITIONS or not jobs or not all(re.fullmatch(JOB_NAME, job, re.ASCII) for job in jobs):
        legal = ", ".join(f"{name}:JOB" for name in CONDITIONS)
        raise ConfigError(
            f"--after {text}: {legal} are legal, or sbatch's afterok, afterany, afternotok; all must hold"
        )
    return [f"{kind}:{job}" for job in jobs]


def submission(
    command: tuple[str, ...], options: SubmitOptions, script: BatchScript | None = None
) -> dict[str, Any]:
    """Return the request to the manager; raise `ConfigError` with every problem that shows here.

    Raises `ProgramNotFound` or `NotExecutable`, too: the job would run here, as this user.
    """
    from apples.launching.preflight import executable
    from apples.livequeue.jobs import job_document

    problems = Problems()
    if not command:
        problems.append("no command; give it behind --, as in `apples submit -n 2 -t 30m -- ./solver input`")
    values = _values(options, problems)
    directory = Path(options.chdir or ".").absolute()
    if not directory.is_dir():
        problems.append(f"--chdir {directory}: no such directory")
    for flag, file in (("--output", options.output), ("--error", options.error or options.output)):
        path = directory / (file or "apples-%j.out")
        if directory.is_dir() and "%" not in str(path.parent) and not os.access(path.parent, os.W_OK):
            problems.append(f"{flag} {path}: files cannot be made in {path.parent}")
    duties = _duties(command, options, problems)
    problems.check()
    name = options.name or (None if script is None else script.path.name)
    tasks = values["tasks"]
    variables = {} if script is None else _variables(options, name)
    if tasks:
        step = tasks[1] - tasks[0] if len(tasks) > 1 else 1
        numbers = {"COUNT": len(tasks), "MIN": tasks[0], "MAX": tasks[-1], "STEP": step}
        variables |= {f"SLURM_ARRAY_TASK_{name}": str(number) for name, number in numbers.items()}
    command = command if script is None else (*script.words, *command[1:])
    executable(str(directory / command[0]) if os.sep in command[0] else command[0])
    return job_document(
        command,
        procs=options.processors,
        duties=duties,
        directory=directory,
        variables=variables,
        name=name,
        **values,
        **document_of(options, "held", "project", "output", "error"),
    )


def _variables(options: SubmitOptions, name: str | None) -> dict[str, str]:
    """Return the variables of a script that Slurm would set.

    SLURM_JOB_ID is not among them: MPI libraries would take this machine for a cluster of Slurm's.
    """
    return {
        "SLURM_SUBMIT_DIR": str(Path.cwd()),
        "SLURM_JOB_NAME": name or "",
        "SLURM_NTASKS": str(options.processors // options.cpus),
        "SLURM_CPUS_PER_TASK": str(options.cpus),
    }


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
    known_duties = measured_duties(command[:_FIRST], options.processors)
    if not known_duties:
        click.echo(
            visible(
                f"apples submit: no program of this command was measured on {options.processors} ranks, so the job "
                "counts as one that always computes; --duty SHARE states its duty cycle"
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
