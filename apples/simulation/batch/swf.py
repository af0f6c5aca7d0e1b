"""Job logs in Standard Workload Format (Feitelson, Parallel Workloads Archive), plain or compressed.

A line has 18 numbers, -1 for unknown; `;` starts a comment. Omitted lines are counted by reason: wrong number of
values, jobs that never ran, jobs without processors or submission time. Columns that converters append are not read.
Lines of status 2 to 4 are parts of a job that was stopped and continued; its summary is a line of status 0 or 1.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from apples.errors import ConfigError
from apples.queueing.state import Floats
from apples.simulation.batch.trace import ParseReport, Trace, in_order
from nws.base.wording import counted

_FIELDS = 18
#: id, submit, wait, run, processors allocated, processors requested, time requested, status, user, group
_KEPT = (0, 1, 2, 3, 4, 7, 8, 10, 11, 12)
_LARGEST = 2.0**53
_CANCELLED = 5
#: Status of a part of a job: to be continued, the last one completed, the last one failed.
_PARTS = (2, 4)
#: First lines of other formats.
_OTHERS = {
    r"(?i)JOBID": "a table of Slurm's without | between its columns",
    r"[{[]": "JSON, as sacct --json prints it",
    r'"\w+" "': "events of LSF, as in lsb.acct",
    r"[\d/]+ [\d:]+;": "accounting records of PBS",
    r"([^:\s]*:){9}": "an accounting file of Grid Engine",
    r"<": "HTML or XML",
}


def parse_swf(lines: Iterable[str], name: str) -> Trace:
    """Return the jobs of a log; raise `ConfigError` if it has no job that ran. `name`: used in messages."""
    numbers = array("d")
    wanted = itemgetter(*_KEPT)
    processors = read = malformed = wide = tables = 0
    first = ""
    for line in lines:
        words = line.split()
        if not words:
            continue
        if words[0].startswith((";", "#")):
            processors = _processors(line) or processors
            continue
        read += 1
        tables += "|" in line
        first = first or line.strip()
        if len(words) < _FIELDS:
            malformed += 1
            continue
        try:
            values = [float(word) for word in wanted(words)]
        except ValueError:
            malformed += 1
            continue
        wide += len(words) > _FIELDS
        numbers.extend(values)
    table = np.frombuffer(numbers, np.float64).reshape(-1, len(_KEPT))
    finite = np.isfinite(table).all(axis=1)
    malformed += int(np.count_nonzero(~finite))
    dropped = {"not 18 numbers": malformed} if malformed else {}
    mended = {f"more than {_FIELDS} columns, the first {_FIELDS} taken": wide} if wide else {}
    if not finite.any():
        lines = counted(read, "line")
        what = "no job lines" if not read else f"{lines}, none of them of {_FIELDS} numbers"
        if tables:
            what = f"{lines} with columns between |, but no header of sacct (JobIDRaw, Submit, …) before them"
        what = next((other for begin, other in _OTHERS.items() if re.match(begin, first)), what)
        raise ConfigError(
            f"{name}: {what}; legal are logs in Standard Workload Format and the output of sacct --parsable2"
        )
    return _judged(table[finite], name, processors, ParseReport(lines=read, dropped=dropped, mended=mended))


def _processors(comment: str) -> int:
    """Return MaxProcs of the header, or 0 if this line does not have it."""
    title, _, value = comment.lstrip("; \t").partition(":")
    words = value.split()
    return int(words[0]) if title.strip() == "MaxProcs" and words and words[0].isdecimal() else 0


def _judged(table: Floats, name: str, processors: int, read: ParseReport) -> Trace:
    """Remove jobs that cannot be replayed, correct others, and count both."""
    ids, submit, wait, run, allocated, requested, request, status, user, group = table.T
    # A log may have only one of the two. A job with more processors than requested needs all of them.
    procs = np.maximum(allocated, requested)
    dropped, mended = Counter(read.dropped), Counter(read.mended)
    keep = np.ones(len(table), bool)
    of_parts = (status >= _PARTS[0]) & (status <= _PARTS[1])
    summarised = np.isin(ids, ids[~of_parts])
    for reason, odd in (
        ("a part of a job that has a line of its own (status 2 to 4)", of_parts & summarised),
        ("no time of submission", (submit < 0) | (submit > _LARGEST)),
        ("cancelled before they ran", (status == _CANCELLED) & (run <= 0)),
        ("no run time", (run < 0) | (run > _LARGEST)),
        ("no number of processors", (procs < 1) | (procs > _LARGEST)),
    ):
        count = int(np.count_nonzero(odd & keep))
        if count:
            dropped[reason] += count
        keep &= ~odd
    if not keep.any():
        reasons = ", ".join(f"{reason}: {count}" for reason, count in dropped.items())
        raise ConfigError(f"{name}: none of {read.lines} jobs can be replayed ({reasons})")
    without = keep & ~((request > 0) & (request <= _LARGEST))
    if without.any():
        mended["no requested time, taken as the run time"] += int(np.count_nonzero(without))
    request = np.maximum(np.where(without, run, request), 1.0)
    trace = Trace(
        name=name,
        id=ids[keep].astype(np.int64),
        submit=submit[keep].copy(),
        run=run[keep].copy(),
        procs=procs[keep].astype(np.int64),
        request=request[keep],
        user=user[keep].astype(np.int64),
        project=group[keep].astype(np.int64),
        wait=np.where(wait[keep] >= 0, wait[keep], np.nan),
        processors=processors,
        intake=ParseReport(lines=read.lines, dropped=dict(dropped), mended=dict(mended)),
    )
    return in_order(trace)
