"""The jobs on disk: SQLite with a write-ahead log. Each change of state is one transaction, on disk when it returns.

Manager and supervisors write to the store. Each changes a job only if the job is still in the expected state (compare
and set), so a job is claimed once even if a process dies in between. Environments are deleted when jobs end. The module
imports little, because every supervisor imports it.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from apples.errors import HistoryError
from apples.livequeue.records import ENDED, WAITING, JobEnd, JobRecord, Submission
from nws.base.files import make_private
from nws.base.oserrors import REASON, os_errors_as
from nws.base.records import document_of
from nws.base.sqlite import SqliteFile, SqliteFormat


class QueueStoreFull(HistoryError):
    """The disk of a store has no room. Every write fails until there is room again."""


_FORMAT = SqliteFormat(
    application_id=0x41705175,
    version=8,
    schema=Path(__file__).with_name("jobs.sql").read_text(encoding="utf-8"),
    # A state that is reported is on disk, also after a power failure.
    pragmas={"synchronous": "FULL"},
    error=HistoryError,
    error_if_full=QueueStoreFull,
    error_if_damaged=HistoryError,
    elsewhere="name another file",
    loss="begin a new queue; the jobs in it are lost",
)
#: Time that a writer waits for others, seconds.
_BUSY_S = 60.0

_FIELDS = tuple(field.name for field in fields(JobRecord))
_SUBMITTED = tuple(field.name for field in fields(Submission) if field.name != "tasks")
#: Fields that are JSON text in the store; those in `_TUPLES` are tuples.
_TUPLES = ("command", "affinity", "cpus", "duties", "after")
_FLAGS = ("backfilled", "held")
_JSON = (*_TUPLES, "environment", "rlimits", "estimates", "hosts")


def _stored_job(values: dict[str, Any]) -> JobRecord:
    return JobRecord(**values)


class Store:
    """One connection to the jobs of one queue."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        record: Callable[[dict[str, Any]], JobRecord] = _stored_job,
    ) -> None:
        """Open the database; raise `HistoryError` if that is not possible.

        Args:
            path: the file.
            create: make it if there is none.
            record: makes a record of the values of a row, and raises `HistoryError` if they are damaged.
        """
        self.path, self._record = path, record
        with os_errors_as(HistoryError, f"{path}: cannot be used ({REASON}); name another file"):
            if create:
                make_private(path.parent)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            elif not path.exists():
                raise HistoryError(f"{path}: there is no queue; start one with `apples manager --queue`")
        self._file = SqliteFile(path, _FORMAT, busy_s=_BUSY_S)
        self._db = self._file.connection

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def transaction(self) -> AbstractContextManager[object]:
        """Write all of the block or nothing; on disk at the end. Raises `HistoryError` if it cannot be written."""
        return self._file.writing()

    def numbers(self) -> dict[str, float]:
        """Return the queue's values: `origin`, s since the epoch, `last`, its last instant, `boot`, `zero`, `policy`.

        `zero`: the steady clock of this boot at instant 0.
        """
        return dict(self._rows("SELECT key, value FROM queue"))

    def job(self, job_id: int) -> JobRecord | None:
        """Return one job, or None."""
        if job_id >= 1 << 63:
            return None
        return next(iter(self._jobs("id = ?", (job_id,))), None)

    def by_token(self, token: str) -> JobRecord | None:
        """Return the job of a submission that may be a repetition, or None."""
        return next(iter(self._jobs("token = ?", (token,))), None)

    def named(self, name: str) -> list[int]:
        """Return the ids of job `12`, of all jobs of array `12`, or of its job `12_3`; none if there is no such job."""
        number, _, task = name.partition("_")
        where = "array = ? AND task = ?" if task else "id = ? OR array = ? ORDER BY id"
        return [
            job_id for (job_id,) in self._rows(f"SELECT id FROM jobs WHERE {where}", (number, task or number))
        ]

    def present(self, after: int = 0, most: int = -1) -> list[JobRecord]:
        """Return waiting jobs and jobs that hold processors, by id; at most `most` with ids above `after`."""
        return self._jobs("freed_s IS NULL AND id > ? ORDER BY id LIMIT ?", (after, most))

    def past(self, since_s: float = float("-inf")) -> list[JobRecord]:
        """Return the jobs that left the queue at or after an instant, in this order."""
        return self._jobs("freed_s >= ? ORDER BY freed_s, id", (since_s,))

    def all_jobs(self, after: int = 0, most: int = -1) -> list[JobRecord]:
        """Return all jobs, also those that have ended, by id; at most `most` with ids above `after`."""
        return self._jobs("id > ? ORDER BY id LIMIT ?", (after, most))

    def launch(self, job_id: int) -> tuple[JobRecord, Submission]:
        """Return a job and its submission; raise `HistoryError` if the job has ended."""
        job = self.job(job_id)
        rows = self._rows(f"SELECT {', '.join(_SUBMITTED)} FROM jobs WHERE id = ?", (job_id,))
        if job is None or not rows or rows[0][_SUBMITTED.index("environment")] is None:
            raise HistoryError(f"{self.path}: job {job_id} has ended, its environment is deleted")
        return job, Submission(**self._values(_SUBMITTED, rows[0]))

    def usage(self, uid: int) -> tuple[int, int, int]:
        """Return (waiting jobs, processors, bytes) of a user's jobs that are waiting or hold processors."""
        ((waiting, procs, size),) = self._rows(
            "SELECT count(*) FILTER (WHERE state = ?), total(procs), total(bytes) FROM jobs "
            "WHERE freed_s IS NULL AND uid = ?",
            (WAITING, uid),
        )
        return int(waiting), int(procs), int(size)

    def _jobs(self, where: str, values: tuple[Any, ...]) -> list[JobRecord]:
        rows = self._rows(f"SELECT {', '.join(_FIELDS)} FROM jobs WHERE {where}", values)
        return [self._record(self._values(_FIELDS, row)) for row in rows]

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._file.explained():
            return self._db.execute(statement, values).fetchall()

    def _values(self, names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
        """Return the values of a row by field; raise `HistoryError` if the row is damaged."""
        values = dict(zip(names, row, strict=True))
        try:
            for name in values.keys() & _JSON:
                value = json.loads(values[name])
                values[name] = tuple(value) if name in _TUPLES else value
        except (TypeError, ValueError) as error:
            raise HistoryError(f"{self.path}: a job is damaged ({error}); move the file away") from None
        for name in values.keys() & _FLAGS:
            values[name] = bool(values[name])
        return values

    # changes, within `transaction`

    def set_numbers(self, **numbers: float) -> None:
        """Set values of the queue."""
        self._db.executemany("INSERT OR REPLACE INTO queue VALUES (?, ?)", list(numbers.items()))

    def add(self, submission: Submission, at_s: float) -> int:
        """Add a waiting job and return its id. Its estimates follow with `change`."""
        values = document_of(submission, *_SUBMITTED, "bytes")
        values |= {"estimate_s": submission.request_s, "estimates": {}, "state": WAITING, "submitted_s": at_s}
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        cursor = self._db.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", _stored(values))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def change(self, job_id: int, *, only_from: Sequence[str] = (), **values: Any) -> bool:
        """Set fields of a job; with `only_from`, of one in these states. Return whether there was such a job.

        Compare and set: manager and supervisors change a job only if it is in the state that they expect.
        """
        fields_set = ", ".join(f"{name} = ?" for name in values)
        states = f" AND state IN ({', '.join('?' * len(only_from))})" if only_from else ""
        cursor = self._db.execute(
            f"UPDATE jobs SET {fields_set} WHERE id = ?{states}", (*_stored(values), job_id, *only_from)
        )
        return cursor.rowcount == 1

    def end(self, job_id: int, end: JobEnd, *, only_from: tuple[str, ...]) -> bool:
        """Record the end of a job that is in one of these states; return False if it is in another."""
        return self.change(job_id, only_from=only_from, state=ENDED, environment=None, **asdict(end))


def _stored(values: Mapping[str, Any]) -> list[Any]:
    """Return values of fields as the columns have them."""
    return [
        json.dumps(value) if name in _JSON and value is not None else value for name, value in values.items()
    ]
