"""Finished jobs for `apples estimate`: from a job log, the site's `sacct`, or the store of a queue."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apples.queueing.estimates import Scheme
    from apples.queueing.jobs import QueueJob
    from apples.simulation.batch.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Finished jobs in order: (job, run time in s, end in s). now_s : on the same clock

    users, projects : numbers by name, where the history has numbers
    """

    jobs: list[tuple[QueueJob, float, float]]
    now_s: float
    users: Mapping[str, int] = field(default_factory=dict)
    projects: Mapping[str, int] = field(default_factory=dict)

    def words(self, user: str, project: str) -> tuple[str, str]:
        """Return user and project as this history names them; -1 for a name that it does not have."""
        if not self.users:
            return user, project
        return str(self.users.get(user, -1)), str(self.projects.get(project, -1))


def read_history(trace: Path | None, queue: Path | None, scheme: Scheme) -> Ends:
    """Return the jobs of the named log or queue, else of Slurm, else of the user's queue; raise `ConfigError`.

    If `sacct` is installed without a cluster, its error is printed and the jobs of the user's queue are returned.
    """
    import click

    from apples.errors import ConfigError
    from apples.livequeue.queuepaths import store_path
    from apples.simulation.batch.reading import read_trace

    if trace is not None:
        log = read_trace(trace)
        ends = log.log_end
        return _of_trace(log, float(ends[ends == ends].max()) if (ends == ends).any() else 0.0)
    default = store_path(queue)
    if queue is None and shutil.which("sacct") is not None:
        try:
            return _of_trace(_site_trace(scheme), time.time())
        except ConfigError as error:
            if not default.exists():
                raise
            click.echo(f"{str(error).partition(';')[0]}; going by our own queue", err=True)
            return _of_queue(default)
    if queue is None and not default.exists():
        raise ConfigError(
            f"no sacct here and no queue of ours ({default}), so no history; name a job log with --trace FILE"
        )
    return _of_queue(default)


def _of_trace(log: Trace, now_s: float) -> Ends:
    return Ends(jobs=list(_ended(log)), now_s=now_s, users=log.names.users, projects=log.names.projects)


def _ended(log: Trace) -> Iterator[tuple[QueueJob, float, float]]:
    from apples.simulation.batch.batchmachine import Jobs

    ends, jobs = log.log_end, Jobs(log)
    for index in ends.argsort().tolist():
        if ends[index] == ends[index]:
            yield jobs[index], float(log.run[index]), float(ends[index])


def _of_queue(path: Path) -> Ends:
    from apples.livequeue.occupancy import job_of
    from apples.livequeue.records import LOST
    from apples.livequeue.store import Store

    store = Store(path)
    origin = store.numbers().get("origin", 0.0)
    jobs = [
        (job_of(record), record.held_s, record.freed_s)
        for record in store.past()
        if record.held_s is not None and record.freed_s is not None and record.outcome != LOST
    ]
    store.close()
    return Ends(jobs=jobs, now_s=time.time() - origin)


def _site_trace(scheme: Scheme) -> Trace:
    """Return the jobs that sacct lists; raise `ConfigError`."""
    from apples.errors import ConfigError
    from apples.simulation.batch.reading import sacct_lines
    from apples.simulation.batch.sacct import parse_sacct

    since = "1970-01-01" if scheme.window_s == float("inf") else f"now-{int(scheme.window_s)}seconds"
    try:
        lines = sacct_lines(since)
    except ConfigError as error:
        raise ConfigError(f"{error}; name a job log with --trace FILE") from None
    return parse_sacct(lines, "sacct")
