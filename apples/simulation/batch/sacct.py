"""A site's job history, printed by Slurm: `sacct --allusers --parsable2 --format=…` with its header line.

The header names the columns; `COLUMNS` are required. Steps and jobs that never ran are counted and left out. Elements
of an array are jobs. Components of a heterogeneous job are jobs too, although they started together. Times are local
times of the site, used without correction: the hour after a change to winter time occurs twice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from apples.errors import ConfigError
from apples.simulation.batch.trace import ParseReport, Trace, TraceNames, in_order

COLUMNS = ("JobIDRaw", "User", "Account", "Submit", "Start", "End", "Timelimit", "AllocCPUS", "State")
"""Required columns, named as by sacct."""

_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")


def is_sacct(first_line: str) -> bool:
    """Return whether a file with this first line is output of sacct."""
    return first_line.split("|", 1)[0].strip() in ("JobIDRaw", "JobID") and "|" in first_line


def limit_s(text: str) -> float | None:
    """Return the seconds of a Slurm time limit, `1-02:03:04`, `30:00` or minutes.

    None for UNLIMITED and similar values.
    """
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        # The unit of TimelimitRaw is minutes.
        return 60.0 * int(text) if text.strip().isdecimal() else None
    days, hours, minutes, seconds = (
        int(match[part] or 0) for part in ("days", "hours", "minutes", "seconds")
    )
    return 86400.0 * days + 3600.0 * hours + 60.0 * minutes + seconds


@dataclass(slots=True)
class _Numbers:
    """Numbers of names, in order of first use."""

    known: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def parse_sacct(lines: Iterable[str], name: str) -> Trace:
    """Return the jobs of a history; raise `ConfigError` if columns are missing or no job ran."""
    rows = iter(lines)
    header = next(rows, "").strip().split("|")
    places = _places(header, name)
    users, projects = _Numbers(), _Numbers()
    dropped: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    found: list[tuple[float, ...]] = []
    read = 0
    for line in rows:
        if not line.strip():
            continue
        read += 1
        words = line.rstrip("\r\n").split("|")
        if len(words) < len(header):
            dropped["fewer columns than the header"] += 1
            continue
        job = _job([words[place].strip() for place in places])
        if isinstance(job, str):
            dropped[job] += 1
            continue
        if job[-1] is None:
            mended["no time limit, taken as the run time"] += 1
        if "+" in words[places[0]]:
            mended["a component of a heterogeneous job, taken as a job of its own"] += 1
        number, submit, wait, run, procs, limit = job
        request = max(run if limit is None else limit, 1.0)
        user, project = users.of(words[places[1]].strip()), projects.of(words[places[2]].strip())
        found.append((number, submit, wait, run, procs, request, user, project))
    if not found:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in dropped.items())
        raise ConfigError(f"{name}: no job that ran among {read} lines{f' ({reasons})' if reasons else ''}")
    ids, submits, waits, runs, procs_, requests, user_, project_ = np.array(found).T
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
            names=TraceNames(users=users.known, projects=projects.known),
        )
    )


def _places(header: Sequence[str], name: str) -> list[int]:
    """Return the index of each column of `COLUMNS`."""
    known = {title.strip(): place for place, title in enumerate(header)}
    known.setdefault("JobIDRaw", known.get("JobID", -1))
    known.setdefault("Timelimit", known.get("TimelimitRaw", -1))
    missing = [title for title in COLUMNS if known.get(title, -1) < 0]
    if missing:
        raise ConfigError(
            f"{name}: no column {', '.join(missing)}; "
            f"make it with sacct --allusers --parsable2 --format={','.join(COLUMNS)}"
        )
    return [known[title] for title in COLUMNS]


def _job(words: Sequence[str]) -> str | tuple[int, float, float, float, int, float | None]:
    """Return (id, submit, wait, run, processors, limit), or the reason why the line is no job."""
    number, _, _, submitted, started, ended, limit, cpus, _ = words
    if "." in number:
        return "a step of a job"
    digits = re.split("[_+]", number)[0]
    if not digits.isdecimal():
        return "no number of a job"
    submit, start, end = (_time(text) for text in (submitted, started, ended))
    if submit is None:
        return "no time of submission"
    if start is None or end is None or end < start:
        return "did not run to an end"
    if start < submit:
        return "started before it was submitted"
    if not cpus.isdecimal() or int(cpus) < 1:
        return "no number of processors"
    return int(digits), submit, start - submit, end - start, int(cpus), limit_s(limit)


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
