"""`apples-run SIZE --queue`: plan now, ask the queue for the processors, run when the queue starts the job.

The request is the prediction's upper bound with a margin, the estimate is the prediction itself; both come from the
performance model, so the queue need not guess. The job is another `apples-run`, which plans anew with the hosts as they
are then, on at most as many ranks.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.cli.console import Console
    from apples.cli.runoptions import RunOptions
    from apples.livequeue.queuemessages import JobRow

#: The request is the bound times the margin, plus seconds for measuring, planning and starting ranks.
_MARGIN, _AROUND_S = 1.25, 30.0
_EVERY_S = 0.05
#: Options that the job itself does not get.
_QUEUE_ONLY = ("queue", "detach", "project", "oversubscribe", "max_ranks")


def run_queued(size: int, options: RunOptions, console: Console) -> int:
    """Submit; unless detached, copy the job's output until it ends. Return the job's exit code."""
    from apples.cli.assemble import assemble
    from apples.cli.optiongroups import given_words
    from apples.livequeue.jobs import job_document
    from apples.livequeue.queueclient import ask
    from nws.base.durations import format_seconds
    from nws.base.notes import level_words
    from nws.base.program import OWN_PYTHON
    from nws.base.scratch import ScratchDirectory
    from nws.base.terminal import visible

    processors = int(ask("queue").processors)
    most = min(options.plan.max_ranks or processors, processors)
    agent, request = assemble(size, replace(options, plan=replace(options.plan, max_ranks=most)), console)
    decision = agent.decide(request)
    plan, limit_s = decision.plan, request.time_limit_s
    bound_s = plan.high_s * _MARGIN if limit_s is None else limit_s
    ranks = len(plan.assignments)
    demand: dict[str, Any] = {
        "procs": ranks,
        "request_s": bound_s + _AROUND_S,
        "model_s": plan.predicted_s + decision.weather_s + decision.planning_s,
    }
    if options.sharing.oversubscribe:
        demand["duties"] = [
            min(rank.compute_s / rank.predicted_s, 1.0) if rank.predicted_s > 0.0 else 1.0
            for rank in plan.assignments
        ]
    console.note(
        f"asking for {counted(ranks, 'processor')} for {format_seconds(demand['request_s'])}; predicted "
        f"{format_seconds(plan.predicted_s)}"
    )
    if options.output.dry_run:
        click.echo(json.dumps({**decision.document(), "queue": demand}))
        return 0
    command = [*OWN_PYTHON, "-c", "from apples.cli.run import main; main()"]
    command += [str(size), f"--max-ranks={ranks}"]
    command += level_words()
    command += [word for words in given_words(options, skip=_QUEUE_ONLY).values() for word in words]
    name = f"{request.template.name}-{size}"
    document = job_document(command, **demand, name=name, project=options.sharing.project)
    if options.sharing.detach:
        click.echo(ask("submit", document, retry=True))
        return 0
    with ScratchDirectory("apples-queued-", notify=console.note) as directory:
        output, error = directory / "output", directory / "error"
        document |= {"output": str(output), "error": str(error)}
        try:
            number = ask("submit", document, retry=True)
            console.note(visible(ask("why", number)))
        except BaseException as problem:
            if not isinstance(problem, Exception):
                # Interrupted, perhaps before the answer arrived: a repeated submission returns the same number.
                ask("cancel", [ask("submit", document, retry=True)], retry=True)
            raise
        return _follow(number, output, error)


def _follow(number: int, output: Path, error: Path) -> int:
    """Copy the job's output until it ends, and return its exit code. On an interrupt, cancel the job."""
    from apples.errors import SharingError
    from apples.livequeue.queueclient import ask
    from nws.base.terminal import visible

    ends: list[JobRow | SharingError] = []

    def wait() -> None:
        try:
            ends.append(ask("wait", number, retry=True))
        except SharingError as problem:
            ends.append(problem)

    waiter = threading.Thread(target=wait, daemon=True)
    offsets = {output: 0, error: 0}
    targets: dict[Path, BinaryIO] = {output: sys.stdout.buffer, error: sys.stderr.buffer}
    try:
        waiter.start()
        while waiter.is_alive():
            waiter.join(_EVERY_S)
            _pass_on(offsets, targets)
    except BaseException:
        ask("cancel", [number], retry=True)
        if waiter.ident is not None:
            waiter.join()
        _pass_on(offsets, targets)
        raise
    _pass_on(offsets, targets)
    (end,) = ends
    if isinstance(end, SharingError):
        raise SharingError(f"job {number}: {end}; `apples queue --all` shows how it ended")
    if end.detail:
        click.echo(visible(f"apples-run: job {number} {end.outcome}: {end.detail}"), err=True)
    return end.exit_code or 0


def _pass_on(offsets: dict[Path, int], targets: dict[Path, BinaryIO]) -> None:
    """Copy the bytes that were written since the last call."""
    for path, target in targets.items():
        if not path.exists():
            continue
        with path.open("rb") as file:
            file.seek(offsets[path])
            data = file.read()
        offsets[path] += len(data)
        target.write(data)
        target.flush()
