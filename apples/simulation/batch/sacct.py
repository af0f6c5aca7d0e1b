"""A site's job history, printed by Slurm: `sacct --allusers --parsable2 --format=…` with its header line.

The header names the columns, in any order; `COLUMNS` are required. Steps and jobs that never ran are counted and left
out. Elements of an array are jobs. A resized job has a line for each size, RESIZING before the last; it becomes one
job of its largest size. Components of a heterogeneous job are jobs too, although they started together. Times are local
times of the site, used without correction: the hour after a change to winter time occurs twice.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count

import numpy as np

from apples.errors import ConfigError
from apples.simulation.batch.trace import ParseReport, Trace, TraceNames, in_order
from nws.base.durations import slurm_seconds
from nws.base.wording import counted

COLUMNS = ("JobIDRaw", "User", "Account", "Submit", "Start", "End", "Timelimit", "AllocCPUS", "State")
"""Required columns, named as by sacct."""

#: Other names of required columns.
_ALIASES = {"JobID": "JobIDRaw", "TimelimitRaw": "Timelimit", "NCPUS": "AllocCPUS"}
#: Columns with texts of users, which may contain the separator.
_FREE_TEXT = {
    "JobName",
    "Comment",
    "AdminComment",
    "SystemComment",
    "WorkDir",
    "SubmitLine",
    "WCKey",
    "Extra",
    "Reason",
}
#: Seconds since the epoch, as sacct prints them with SLURM_TIME_FORMAT=%s.
_EPOCH = re.compile(r"\d{9,10}")


def sacct_command(since: str, columns: Sequence[str] = COLUMNS) -> tuple[str, ...]:
    """Return the command that prints the jobs of all users. `since`: as in sacct's --starttime"""
    return (
        *("sacct", "--allusers", "--allocations", "--parsable2", f"--starttime={since}", "--endtime=now"),
        f"--format={','.join(columns)}",
    )


def is_header(line: str) -> bool:
    """Return whether a line is a header of sacct's: it names a job's number and two more required columns."""
    titles = {_ALIASES.get(title, title) for title in map(str.strip, line.split("|"))}
    return "JobIDRaw" in titles and len(titles & set(COLUMNS)) >= 3


def parse_sacct(
    lines: Iterable[str], name: str, *, before: int = 0, partitions: Collection[str] | None = None
) -> Trace:
    """Return the jobs of a history; raise `ConfigError` if columns are missing or no job ran.

    Args:
        lines: from the header on
        name: of the file, for messages
        before: number of lines before the header, for the report
        partitions: whose jobs are returned, if the history has the column Partition; None for all
    """
    rows, read = iter(lines), 0
    table = _Table(next(rows, ""), name, partitions)
    # Numbers of names, in order of first use.
    users, projects = (defaultdict[str, int](count().__next__) for _ in range(2))
    dropped: Counter[str] = Counter({"before the header": before} if before else {})
    mended: Counter[str] = Counter()
    jobs: list[tuple[float, ...]] = []
    resized: dict[str, list[_Job]] = {}
    for line in rows:
        if not line.strip():
            continue
        job = table.job(line, mended)
        if isinstance(job, str) and is_header(line):
            # Of another log joined to this one, perhaps with its columns in another order.
            table, job = _Table(line, name, partitions), "the header again"
        else:
            read += 1
        if isinstance(job, str):
            dropped[job] += 1
            continue
        if job.resized:
            mended["a part of a resized job, joined with its last part"] += 1
            resized.setdefault(job.name, []).append(job)
            continue
        job = job.joined(resized.pop(job.name, ()))
        if not math.isfinite(job.limit_s):
            mended["no time limit, taken as the run time"] += 1
        if "+" in job.name:
            mended["a component of a heterogeneous job, taken as a job of its own"] += 1
        run_s = job.end - job.start
        request = max(job.limit_s if math.isfinite(job.limit_s) else run_s, 1.0)
        ids = (users[job.user], projects[job.project])
        jobs.append((job.number, job.submit, job.start - job.submit, run_s, job.procs, request, *ids))
    if resized:
        dropped["a part of a resized job without its last part"] = sum(map(len, resized.values()))
    if not jobs:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in dropped.items())
        raise ConfigError(
            f"{name}: no job that ran among {counted(read, 'line')}{f' ({reasons})' if reasons else ''}"
        )
    ids, submits, waits, runs, procs_, requests, user_, project_ = np.array(jobs).T
    return in_order(
        Trace(
            name=name,
            id=ids.astype(np.int64),
            submit=submits.copy(),
            run=runs.copy(),
            procs=procs_.astype(np.int64),
            request=requests.copy(),
            user=user_.astype(np.int64),
            project=project_.astype(np.int64),
            wait=waits.copy(),
            intake=ParseReport(lines=read, dropped=dict(dropped), mended=dict(mended)),
            names=TraceNames(users=dict(users), projects=dict(projects)),
        )
    )


class _Table:
    """The columns of a file: where the required ones are, and where texts of users may contain the separator."""

    def __init__(self, header: str, name: str, partitions: Collection[str] | None = None) -> None:
        titles = [title.strip() for title in header.strip().split("|")]
        self._width = len(titles)
        index = {_ALIASES.get(title, title): column for column, title in enumerate(titles)}
        index |= {title: column for column, title in enumerate(titles)}
        missing = [title for title in COLUMNS if title not in index]
        if missing:
            raise ConfigError(
                f"{name}: no column {', '.join(missing)}; "
                f"make it with sacct --allusers --parsable2 --format={','.join(COLUMNS)}"
            )
        self._partitions = partitions if "Partition" in index else None
        self._columns = [index[title] for title in (*COLUMNS, "Partition") if title in index]
        texts = [column for column, title in enumerate(titles) if title in _FREE_TEXT]
        self._texts = (texts[0], texts[-1]) if texts else None

    def job(self, line: str, mended: Counter[str]) -> _Job | str:
        """Return the job of a line, or the reason why the line is none; count what was mended."""
        words = self._words(line, mended)
        if not isinstance(words, str) and self._partitions is not None and words[-1] not in self._partitions:
            return "a job of other partitions"
        job = words if isinstance(words, str) else _job(words[: len(COLUMNS)])
        if not isinstance(job, str) and _EPOCH.fullmatch(words[COLUMNS.index("Submit")]):
            mended["times in seconds since the epoch (SLURM_TIME_FORMAT=%s)"] += 1
        return job

    def _words(self, line: str, mended: Counter[str]) -> list[str] | str:
        """Return the values of `COLUMNS`, then perhaps the partition, or the reason why they are uncertain."""
        words = [word.strip() for word in line.rstrip("\r\n").split("|")]
        more = len(words) - self._width
        if more < 0:
            return "fewer columns than the header"
        if more == 0:
            return [words[column] for column in self._columns]
        # --parsable ends a line with a separator, and perhaps not the header.
        if more == 1 and not words[-1] and self._texts is None:
            return [words[column] for column in self._columns]
        if self._texts is None or any(self._texts[0] <= column <= self._texts[1] for column in self._columns):
            return "more columns than the header, a text has a |"
        mended["a | in a text, its columns counted from both ends"] += 1
        return [words[column if column < self._texts[0] else column + more] for column in self._columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A job that ran, or a part of one; times in s since the epoch.

    name : its number as written, with the element of an array or the component of a heterogeneous job
    limit_s : not finite without a limit.  resized : this part ended because the job got another size
    """

    name: str
    number: int
    user: str
    project: str
    submit: float
    start: float
    end: float
    procs: int
    limit_s: float
    resized: bool

    def joined(self, parts: Sequence[_Job]) -> _Job:
        """Return the job from the start of its first part on, with the processors of its largest."""
        everything = (*parts, self)
        return replace(self, start=min(p.start for p in everything), procs=max(p.procs for p in everything))


def _job(words: Sequence[str]) -> str | _Job:
    """Return the job of a line, or the reason why the line is none."""
    number, user, project, submitted, started, ended, limit, cpus, state = words
    if "." in number:
        return "a step of a job"
    digits = re.split("[_+]", number)[0]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 16):
        return "no number of a job"
    submit, start, end = (time_s(text) for text in (submitted, started, ended))
    if submit is None:
        odd = "times in another form than 2026-01-31T12:00:00 (SLURM_TIME_FORMAT)"
        return "no time of submission" if submitted in ("", "None", "Unknown") else odd
    if start is None or end is None or end < start:
        return "did not run to an end"
    if start < submit:
        return "started before it was submitted"
    if not (cpus.isascii() and cpus.isdecimal() and len(cpus) < 10 and int(cpus) >= 1):
        return "no number of processors"
    return _Job(
        name=number,
        number=int(digits),
        user=user,
        project=project,
        submit=submit,
        start=start,
        end=end,
        procs=int(cpus),
        limit_s=slurm_seconds(limit),
        resized=state.startswith("RESIZING"),
    )


def time_s(text: str) -> float | None:
    """Return a local time as seconds since the epoch, as if the site were in UTC; None for other text."""
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
