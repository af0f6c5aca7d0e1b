"""`apples estimate`: estimate the run time of a batch job from similar jobs, and fill in `--time-min` for Slurm.

The history is a job log (`--trace`), the site's `sacct`, or the store of an `apples manager --queue`. The prediction
of a calibrated performance model (`--model`) has priority. Nothing is decided here.

For a prediction nothing is benchmarked: without benchmarks or finished runs of every kind of host there is no answer,
and the history of similar jobs is used. The hosts are measured for a moment, as before a run.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import option, record_of, with_options
from apples.errors import ConfigError, NotExecutable, ProgramNotFound
from nws.base.command import FILE
from nws.base.lock import user_name
from nws.base.notes import step
from nws.base.records import document_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apples.queueing.estimates import RunTimeEstimate, Scheme
    from apples.queueing.jobs import QueueJob

_SUBMITTERS = ("sbatch", "salloc", "srun")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimePrediction:
    """A predicted run time.

    seconds : expected, with measuring and planning.  low_s, high_s : likely range of the run alone.  ranks : number
    """

    seconds: float
    low_s: float
    high_s: float
    ranks: int


def predict(words: str) -> RunTimePrediction | str:
    """Return the prediction of `apples-run WORDS`, or the reason for none; raise `ConfigError`, `NoFeasiblePlan`."""
    from apples.cli.assemble import assemble
    from apples.cli.console import Console
    from apples.cli.run import run
    from apples.cli.runoptions import RunOptions
    from apples.costs.costs import costs_of
    from apples.model.runrequest import Benchmarks

    try:
        given = run.make_context("apples-run", shlex.split(words)).params
    except (click.ClickException, ValueError) as error:
        reason = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise ConfigError(f"--model {words!r}: {reason}; expected the words after `apples-run`") from None
    size = int(given["size"])
    agent, request = assemble(size, record_of(RunOptions, given), Console(quiet=True))
    evidence = agent.evidence(request)
    missing = sorted(set(evidence.hosts) - set(costs_of(evidence, evidence.slab()).seconds_per_row))
    if missing:
        return (
            f"{request.template.name} is not calibrated on {', '.join(missing)}; `apples calibrate` or a first "
            "apples-run does that"
        )
    decision = agent.decide(replace(request, benchmarks=Benchmarks.NONE))
    plan = decision.plan
    return RunTimePrediction(
        seconds=plan.predicted_s + decision.weather_s + decision.planning_s,
        low_s=plan.low_s,
        high_s=plan.high_s,
        ranks=len(plan.assignments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """Options of `apples estimate`.

    walltime : Wall time to request: 90 (minutes), 4:00:00, 2h, 1-12.
    user : Owner of the job (default: you).
    project : Project or account that the job is charged to.
    trace : Job log: SWF or sacct's output.
    queue : Use the store of an `apples manager --queue` as history.
    model : Use the prediction of `apples-run WORDS` if it is calibrated: '640 --app APP'.
    score : Print the accuracy of each source of estimates in the queue.
    config : Settings (YAML), as in configs/queue.yaml.
    key : Similar jobs: triple (default), double, user, project or all.
    percentile : Of run time / request (default 85); --time-min, too, if given.
    as_json : One JSON document on stdout.
    dry_run : With a submit command: print it, do not run it.
    """

    walltime: str | None = option("--walltime", metavar="TIME")
    user: str | None = option("--user", metavar="NAME")
    project: str | None = option("--project", metavar="NAME")
    trace: Path | None = option("--trace", type=FILE)
    queue: Path | None = option("--queue", type=FILE)
    model: str | None = option("--model", metavar="WORDS")
    score: bool = option("--score", is_flag=True)
    config: str | None = option("--config", metavar="FILE")
    key: str | None = option("--key", metavar="NAME")
    percentile: float | None = option("--percentile", type=click.FloatRange(0, 100), metavar="P")
    as_json: bool = option("--json", is_flag=True)
    dry_run: bool = option("--dry-run", is_flag=True)


@click.command(context_settings={"ignore_unknown_options": True})
@with_options(EstimateOptions)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- sbatch …]")
def estimate(command: tuple[str, ...], options: EstimateOptions) -> None:
    """Print the adjusted estimate of a job and its history.

    With a submit command behind `--`, run it with --time and --time-min filled in.
    """

    from apples.cli.estimate_history import read_history
    from apples.queueing.estimates import ModelFirst, SimilarJobs
    from apples.queueing.jobs import QueueJob
    from nws.base.durations import parse_period

    if options.score:
        _score(options)
        return
    if options.walltime is None:
        raise ConfigError("--walltime TIME is missing: the wall time to request, or --score")
    request = parse_period(options.walltime, what="--walltime", number_s=60)
    if command:
        _check_command(command)
    scheme = _scheme(options)
    ends = read_history(options.trace, options.queue, scheme)
    book = SimilarJobs(scheme)
    user, project = ends.words(options.user or user_name(), options.project or "")
    model = _accepted(options)
    job = QueueJob(
        id=0,
        procs=1,
        request_s=request,
        submit_s=0.0,
        user=user,
        project=project,
        model_s=None if model is None else model.seconds,
    )
    for ended, run_s, end_s in ends.jobs:
        book.ended(ended, run_s, end_s)
    estimated = ModelFirst(book).estimate(job, ends.now_s)
    ratios = book.history(job, ends.now_s)
    document = _document(job, estimated, ratios, scheme)
    if command:
        longest_s = request * max(ratios, default=0.0)
        least = _least_s(estimated, model, longest_s, as_asked=options.percentile is not None)
        _submit(command, request, *least, dry_run=options.dry_run)
    elif options.as_json:
        click.echo(json.dumps(document, allow_nan=False))
    else:
        click.echo("\n".join(_lines(document)))


def _scheme(options: EstimateOptions) -> Scheme:
    """Return the scheme of the settings file, overridden by the command line."""
    from apples.queueing.configuration import QueueFile, load_queue_file

    config = options.config
    given: dict[str, Any] = {
        name: v for name, v in (("key", options.key), ("percentile", options.percentile)) if v is not None
    }
    chosen = load_queue_file(config) if config is not None else QueueFile()
    return replace(chosen.estimates.scheme, **given)


def _accepted(options: EstimateOptions) -> RunTimePrediction | None:
    """Return the model's prediction; None, after a note, without one."""
    if options.model is None:
        return None
    estimated = predict(options.model)
    if isinstance(estimated, RunTimePrediction):
        return estimated
    step(f"no estimate of the model: {estimated}")
    return None


def _score(options: EstimateOptions) -> None:
    """Print the accuracy of each source of estimates in the queue."""
    from apples.cli.report import table
    from apples.livequeue.core import scores
    from apples.livequeue.queuepaths import store_path

    path = store_path(options.queue)
    estimated = scores(path)
    if options.as_json:
        click.echo(
            json.dumps({"version": 1, "estimators": {n: asdict(score) for n, score in estimated.items()}})
        )
        return
    rows = [
        [name, score.jobs, f"{score.accuracy:.3f}", f"{score.under:.1%}"] for name, score in estimated.items()
    ]
    header = ["source", "jobs", "accuracy", "ran longer"]
    click.echo("\n".join(table(header, rows) if rows else [f"{path}: no job has run to its end yet"]))


def _document(
    job: QueueJob, estimated: RunTimeEstimate, ratios: Sequence[float], scheme: Scheme
) -> dict[str, Any]:
    from apples.queueing.estimates import percentile_of

    fifths = (0, 25, 50, 75, 100)
    return {
        "version": 1,
        "request_s": job.request_s,
        "estimate_s": estimated.seconds,
        "source": estimated.source,
        "similar": estimated.similar,
        **document_of(scheme, "key", "percentile", "floor", "minimum"),
        "window_s": scheme.window_s if scheme.window_s != float("inf") else None,
        "used_of_request": {str(p): percentile_of(ratios, p) for p in fifths} if ratios else {},
    }


def _lines(document: dict[str, Any]) -> list[str]:
    from nws.base.durations import format_seconds

    what = f"estimate {format_seconds(document['estimate_s'])} of {format_seconds(document['request_s'])} requested"
    if document["source"] == "model":
        return [f"{what}: the performance model's prediction"]
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
    if Path(command[0]).name not in _SUBMITTERS:
        raise ConfigError(f"{command[0]!r} is no submit command; legal are {', '.join(_SUBMITTERS)}")
    limits = [w for w in command[1:] if w.split("=")[0] in ("--time", "--time-min")]
    if limits:
        raise ConfigError(f"{limits[0]!r} is filled in from --walltime and the estimate; leave it out")


def _least_s(
    estimated: RunTimeEstimate, model: RunTimePrediction | None, longest_s: float, *, as_asked: bool
) -> tuple[float, str]:
    """Return seconds for --time-min, and their source.

    Slurm's backfill may give a job no more than that. So it is not below the longest run that is known.

    Args:
        longest_s: of similar jobs, 0 if there are none
        as_asked: the user has named a percentile
    """
    if as_asked and estimated.source == "history":
        return estimated.seconds, "the percentile that you named; jobs that run longer are ended there"
    longest_s = max(longest_s, 0.0 if model is None else model.high_s)
    source = "the request" if estimated.source == "request" else "no run that is known took longer"
    return max(estimated.seconds, longest_s), source


def _submit(
    command: tuple[str, ...], request_s: float, least_s: float, source: str, *, dry_run: bool
) -> None:
    """Replace this process by the submit command, with its limits in minutes, rounded up as Slurm does."""
    limit, least = (math.ceil(seconds / 60.0) or 1 for seconds in (request_s, least_s))
    least = min(least, limit)
    step(f"--time-min={least}: {source}; Slurm may give the job no more, to start it earlier")
    filled = [command[0], f"--time={limit}", f"--time-min={least}", *command[1:]]
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
