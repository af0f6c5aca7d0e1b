"""`apples submit`: a command becomes a job of the queue. All that is wrong with it is told at once."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import click

_WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command(context_settings=_WORDS)
@click.option("-n", "--procs", type=click.IntRange(min=1), default=1, help="Processors (default 1).")
@click.option(
    "-t",
    "--time",
    "limit",
    metavar="TIME",
    help="Wall time asked for, then it is ended: 90, 30m, 4:00:00 (default 1h).",
)
@click.option("-J", "--name", metavar="NAME", help="What it is called (default: the program's name).")
@click.option("-A", "--project", default="", metavar="NAME", help="Project it is counted to.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Output; %j is the job's number, %x its name, %u you (apples-%j.out).",
)
@click.option("-e", "--error", metavar="FILE", help="Error output (default: with the output).")
@click.option("-D", "--chdir", metavar="DIR", help="Working directory (default: this one).")
@click.option("--estimate", metavar="TIME", help="Run time by your own model; believed before the history's.")
@click.option("-W", "--wait", is_flag=True, help="Wait for its end, and end with its exit code.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--socket", type=click.Path(path_type=Path), help="Socket of the manager to ask.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND …")
def submit(command: tuple[str, ...], **options: Any) -> int:
    """Put COMMAND into the queue; its number is printed.

    It runs on this host with this environment when the queue says so. Its directory, environment and processors are
    those of a batch job: APPLES_QUEUE_JOB, APPLES_QUEUE_PROCS and APPLES_QUEUE_HOSTS say its number, its processors and
    where they are.
    """
    import json

    from apples.livequeue.client import ask

    document = submission(command, options)
    number = ask("submit", document, options["socket"], again=True)
    if not options["wait"]:
        click.echo(json.dumps({"version": 1, "job": number}) if options["as_json"] else str(number))
        return 0
    click.echo(f"job {number}", err=True)
    ended = ask("wait", number, options["socket"], again=True)
    if options["as_json"]:
        click.echo(json.dumps({"version": 1, "job": number, "ended": ended}))
    if ended["outcome"] != "finished":
        detail = f": {ended['detail']}" if ended["detail"] else ""
        click.echo(f"apples submit: job {number} {ended['outcome']}{detail}", err=True)
    return int(ended["exit_code"])


def submission(command: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """What the manager is sent. Raises `ConfigError` with every problem that shows here."""
    from apples.errors import ConfigError

    problems: list[str] = []
    if not command:
        problems.append("no command; say it behind --, as in `apples submit -n 2 -t 30m -- ./solver input`")
    request_s = span(options["limit"] or "1h", "--time", problems)
    model_s = None if options["estimate"] is None else span(options["estimate"], "--estimate", problems)
    directory = Path(options["chdir"] or ".").absolute()
    if not directory.is_dir():
        problems.append(f"--chdir {directory}: no such directory")
    output = directory / (options["output"] or "apples-%j.out")
    error = directory / (options["error"] or output)
    for flag, path in {"--output": output, "--error": error}.items():
        if directory.is_dir() and "%" not in str(path.parent) and not os.access(path.parent, os.W_OK):
            problems.append(f"{flag} {path}: files cannot be made in {path.parent}")
    if problems:
        raise ConfigError(problems)
    umask = os.umask(0)
    os.umask(umask)
    return {
        "token": secrets.token_hex(16),
        "name": options["name"] or Path(command[0]).name,
        "project": options["project"],
        "command": list(command),
        "directory": str(directory),
        "environment": dict(os.environ),
        "umask": umask,
        "output": str(output),
        "error": str(error),
        "procs": options["procs"],
        "request_s": request_s,
        "model_s": model_s,
    }


def span(text: str, flag: str, problems: list[str]) -> float:
    """Seconds above 0; what is wrong is added to the problems."""
    from apples.errors import ConfigError
    from nws.base.durations import parse_duration

    try:
        seconds = parse_duration(text, what=flag)
    except ConfigError as error:
        problems += error.problems
        return 0.0
    if seconds <= 0:
        problems.append(f"{flag} {text}: expected more than 0 seconds")
    return seconds
