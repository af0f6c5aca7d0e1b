"""`apples estimate`: what a batch job will really take, from what similar jobs took; fills `--time-min` for Slurm.

The history is a job log (`--trace`), else what `sacct` of this site says. Nothing is decided here.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apples.queueing.estimates import Estimate, Scheme
    from apples.queueing.jobs import Job
    from apples.simulation.batch.trace import Trace

_SUBMITTERS = ("sbatch", "salloc", "srun")


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--walltime", required=True, metavar="TIME", help="What would be requested: 4:00:00, 90m, 2h.")
@click.option("--user", metavar="NAME", help="Whose job (default: yours).")
@click.option("--project", metavar="NAME", help="Project or account it is charged to.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Job log: SWF or sacct's output.",
)
@click.option("--config", metavar="FILE", help="Settings (YAML), as in configs/queue.yaml.")
@click.option("--key", metavar="NAME", help="Similar jobs: triple (default), double, user, project or all.")
@click.option(
    "--percentile", type=click.FloatRange(0, 100), metavar="P", help="Of run time / request (default 85)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--dry-run", is_flag=True, help="With a submit command: print it instead of running it.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- sbatch …]")
def estimate(walltime: str, command: tuple[str, ...], **options: Any) -> None:
    """Print the adjusted estimate of a job and the history it rests on.

    With a submit command behind `--`, run it with --time and --time-min filled in.
    """
    from apples.queueing.estimates import SimilarJobs
    from apples.queueing.jobs import Job
    from apples.simulation.batch.machine import Jobs
    from nws.settings.durations import parse_duration

    request = parse_duration(walltime, what="--walltime")
    if command:
        _check_command(command)
    scheme = _scheme(options)
    log = _history(options["trace"], scheme)
    book = SimilarJobs(scheme)
    user, project = _numbers(log, options)
    job = Job(id=0, procs=1, request_s=request, submit_s=0.0, user=user, project=project)
    ends = log.log_end
    now = float(ends[ends == ends].max()) if options["trace"] is not None else time.time()
    jobs = Jobs(log)
    for index in ends.argsort().tolist():
        if ends[index] == ends[index]:
            book.ended(jobs[index], float(log.run[index]), float(ends[index]))
    found = book.estimate(job, now)
    document = _document(job, found, book.history(job, now), scheme)
    if command:
        _submit(command, request, found.seconds, options["dry_run"])
    elif options["as_json"]:
        click.echo(json.dumps(document, allow_nan=False))
    else:
        click.echo("\n".join(_lines(document)))


def _scheme(options: dict[str, Any]) -> Scheme:
    """The file's, with the command line over it."""
    from dataclasses import replace

    from apples.queueing.configuration import QueueFile, load_queue_file

    config = options["config"]
    given = {name: options[name] for name in ("key", "percentile") if options[name] is not None}
    chosen = load_queue_file(config) if config is not None else QueueFile()
    return replace(chosen.estimates.scheme, **given)


def _history(trace: Path | None, scheme: Scheme) -> Trace:
    """The log of a file, or of this site's Slurm."""
    from apples.errors import ConfigError
    from apples.simulation.batch.reading import read_trace
    from apples.simulation.batch.sacct import COLUMNS, parse_sacct

    if trace is not None:
        return read_trace(trace)
    program = shutil.which("sacct")
    if program is None:
        raise ConfigError("no sacct here, so no history of this site; name a job log with --trace FILE")
    since = "1970-01-01" if scheme.window_s == float("inf") else f"now-{int(scheme.window_s)}seconds"
    arguments = [
        program,
        "--allusers",
        "--allocations",
        "--parsable2",
        f"--starttime={since}",
        "--endtime=now",
    ]
    # What users set for themselves (SACCT_FORMAT, SLURM_TIME_FORMAT) must not change what is parsed.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SACCT_", "SLURM_TIME_FORMAT"))}
    done = subprocess.run(
        [*arguments, f"--format={','.join(COLUMNS)}"], capture_output=True, text=True, env=own, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(
            f"sacct failed with exit code {done.returncode} ({said}); name a job log with --trace FILE"
        )
    return parse_sacct(done.stdout.splitlines(), "sacct")


def _numbers(log: Trace, options: dict[str, Any]) -> tuple[str, str]:
    """User and project as the log numbers them; one that is not in the log is similar to nobody."""
    import getpass

    user = options["user"] or getpass.getuser()
    project = options["project"] or ""
    if not log.names.users:
        return user, project
    known, projects = log.names.users, log.names.projects
    return str(known.get(user, -1)), str(projects.get(project, -1))


def _document(job: Job, found: Estimate, ratios: Sequence[float], scheme: Scheme) -> dict[str, Any]:
    from apples.queueing.estimates import percentile_of

    fifths = (0, 25, 50, 75, 100)
    return {
        "version": 1,
        "request_s": job.request_s,
        "estimate_s": found.seconds,
        "source": found.source,
        "similar": found.similar,
        "key": scheme.key,
        "percentile": scheme.percentile,
        "floor": scheme.floor,
        "minimum": scheme.minimum,
        "window_s": scheme.window_s if scheme.window_s != float("inf") else None,
        "used_of_request": {str(p): percentile_of(ratios, p) for p in fifths} if ratios else {},
    }


def _lines(document: dict[str, Any]) -> list[str]:
    """For people."""
    from nws.settings.durations import format_seconds

    what = f"estimate {format_seconds(document['estimate_s'])} of {format_seconds(document['request_s'])} requested"
    if document["source"] == "request":
        why = f"{document['similar']} similar jobs are fewer than the {document['minimum']} that an estimate needs"
        return [f"{what}: {why}"]
    spread = document["used_of_request"]
    used = ", ".join(f"{share:.0%}" for share in spread.values())
    return [
        f"{what}: percentile {document['percentile']:g} of {document['similar']} similar jobs (key {document['key']})",
        f"they used of their request (least, quarters, most): {used}; never less than {document['floor']:.0%} is taken",
    ]


def _check_command(command: tuple[str, ...]) -> None:
    from apples.errors import ConfigError

    if Path(command[0]).name not in _SUBMITTERS:
        raise ConfigError(f"{command[0]!r} is no submit command; legal are {', '.join(_SUBMITTERS)}")
    limits = [w for w in command[1:] if w.split("=")[0] in ("--time", "--time-min")]
    if limits:
        raise ConfigError(f"{limits[0]!r} is filled in from --walltime and the estimate; leave it out")


def _submit(command: tuple[str, ...], request_s: float, estimate_s: float, dry_run: bool) -> None:
    """Become the submit command, with its limits in whole minutes, rounded up, as Slurm counts."""
    from apples.errors import NotExecutable, ProgramNotFound

    limit, least = (-(-int(seconds) // 60) or 1 for seconds in (request_s, estimate_s))
    filled = [command[0], f"--time={limit}", f"--time-min={min(least, limit)}", *command[1:]]
    if dry_run:
        click.echo(shlex.join(filled))
        return
    sys.stdout.flush()
    try:
        os.execvp(filled[0], filled)
    except FileNotFoundError:
        raise ProgramNotFound(f"{filled[0]}: no such program; is Slurm installed and on PATH?") from None
    except OSError as error:
        raise NotExecutable(f"{filled[0]}: cannot be run ({error.strerror})") from None
