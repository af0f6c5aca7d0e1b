"""The jobs on disk: SQLite with a write-ahead log. Each change of state is one transaction, on disk when it returns.

Manager and supervisors write to the store. Each changes a job only if the job is still in the expected state (compare
and set), so a job is claimed once even if a process dies in between. Environments are deleted when jobs end. The module
imports little, because every supervisor imports it.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from apples.errors import HistoryError
from apples.livequeue.records import ENDED, RUNNING, STARTING, WAITING, JobEnd, JobRecord, Submission
from nws.base.files import make_private
from nws.base.oserrors import REASON, os_errors_as
from nws.base.sqlite import SqliteFile, SqliteFormat

_SCHEMA = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,
    project TEXT NOT NULL, name TEXT NOT NULL, command TEXT NOT NULL, directory TEXT NOT NULL,
    environment TEXT, umask INTEGER NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL,
    procs INTEGER NOT NULL, request_s REAL NOT NULL, model_s REAL, duties TEXT NOT NULL,
    held INTEGER NOT NULL, after TEXT NOT NULL,
    estimate_s REAL NOT NULL, said TEXT NOT NULL, state TEXT NOT NULL, submitted_s REAL NOT NULL,
    start_s REAL, freed_s REAL, expected_s REAL, planned_s REAL, foreseen TEXT,
    backfilled INTEGER NOT NULL DEFAULT 0, beside INTEGER,
    ended_at REAL, exit_code INTEGER, outcome TEXT, detail TEXT, cancel TEXT,
    supervisor INTEGER, attempts INTEGER NOT NULL DEFAULT 0, hosts TEXT NOT NULL DEFAULT '{}',
    nice INTEGER NOT NULL, rlimits TEXT NOT NULL, affinity TEXT NOT NULL,
    cpus TEXT NOT NULL DEFAULT '[]', bytes INTEGER NOT NULL
);
CREATE INDEX jobs_in_the_system ON jobs (id) WHERE freed_s IS NULL;
CREATE INDEX jobs_by_end ON jobs (freed_s);
CREATE TABLE queue (key TEXT PRIMARY KEY, value REAL NOT NULL)
"""


class QueueStoreFull(HistoryError):
    """The disk of a store has no room. Every write fails until there is room again."""


_FORMAT = SqliteFormat(
    application_id=0x41705175,
    version=6,
    schema=_SCHEMA,
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

#: Fields of a record. The column of `estimates` is named `said`.
_FIELDS = tuple(field.name for field in fields(JobRecord))
_COLUMNS = ", ".join("said" if name == "estimates" else name for name in _FIELDS)
_SUBMITTED = tuple(field.name for field in fields(Submission))
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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all of the block or nothing; on disk at the end. Raises `HistoryError` if it cannot be written."""
        with self._file.writing():
            yield

    def numbers(self) -> dict[str, float]:
        """Return the queue's values: `origin`, s since the epoch, `last`, its last instant, and `policy`."""
        return dict(self._rows("SELECT key, value FROM queue"))

    def job(self, job_id: int) -> JobRecord | None:
        """Return one job, or None."""
        if job_id >= 1 << 63:
            return None
        return next(iter(self._jobs("id = ?", (job_id,))), None)

    def by_token(self, token: str) -> JobRecord | None:
        """Return the job of a submission that may be a repetition, or None."""
        return next(iter(self._jobs("token = ?", (token,))), None)

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
        rows = self._rows(f"SELECT {_COLUMNS} FROM jobs WHERE {where}", values)
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
        """Add a waiting job and return its id. Its estimates follow with `set_estimates`."""
        values = {name: getattr(submission, name) for name in _SUBMITTED}
        for name in values.keys() & _JSON:
            values[name] = json.dumps(values[name])
        values |= {"estimate_s": submission.request_s, "said": "{}", "state": WAITING, "submitted_s": at_s}
        values["bytes"] = submission.bytes
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        cursor = self._db.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(values.values()))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def set_estimates(self, job_id: int, estimate_s: float, estimates: Mapping[str, float]) -> None:
        """Set the run time estimate of a job, and the estimate of each source; seconds."""
        self._db.execute(
            "UPDATE jobs SET estimate_s = ?, said = ? WHERE id = ?",
            (estimate_s, json.dumps(dict(estimates)), job_id),
        )

    def start(
        self,
        job_id: int,
        at_s: float,
        hosts: Mapping[str, int],
        cpus: Sequence[int] = (),
        *,
        backfilled: bool,
        beside: int | None = None,
    ) -> None:
        """Set a waiting job to `starting`.

        Args:
            job_id: the job.
            at_s: instant of its start.
            hosts: its processors by host.
            cpus: those of this host.
            backfilled: it overtakes a job with a reservation.
            beside: the job that holds the processors, if this one is its guest.
        """
        self._db.execute(
            "UPDATE jobs SET state = ?, start_s = ?, hosts = ?, cpus = ?, backfilled = ?, beside = ?, "
            "attempts = 1 WHERE id = ? AND state = ?",
            (STARTING, at_s, json.dumps(dict(hosts)), json.dumps(cpus), backfilled, beside, job_id, WAITING),
        )

    def hold(self, job_id: int, *, held: bool) -> None:
        """Hold a job, or end that."""
        self._db.execute("UPDATE jobs SET held = ? WHERE id = ?", (held, job_id))

    def let_start(self, job_id: int, at_s: float) -> None:
        """Record that the conditions of a waiting job hold; it counts as submitted at this instant."""
        self._db.execute("UPDATE jobs SET after = '[]', submitted_s = ? WHERE id = ?", (at_s, job_id))

    def set_predictions(
        self, *, expected: Iterable[tuple[float, int]], planned: Iterable[tuple[float, int]]
    ) -> None:
        """Set expected ends and reservations that have changed, each as (seconds, id)."""
        self._db.executemany("UPDATE jobs SET expected_s = ? WHERE id = ?", expected)
        self._db.executemany("UPDATE jobs SET planned_s = ? WHERE id = ?", planned)

    def set_foreseen(self, job_id: int, foreseen: str) -> None:
        """Set the waits that are predicted for a job at its submission."""
        self._db.execute("UPDATE jobs SET foreseen = ? WHERE id = ?", (foreseen, job_id))

    def free(self, job_id: int, at_s: float) -> None:
        """Remove a job from the queue: its end is recorded and its processors are released."""
        self._db.execute("UPDATE jobs SET freed_s = ?, environment = NULL WHERE id = ?", (at_s, job_id))

    def end(self, job_id: int, end: JobEnd, *, only_from: tuple[str, ...]) -> bool:
        """Record the end of a job that is in one of these states; return False if it is in another."""
        marks = ", ".join("?" * len(only_from))
        cursor = self._db.execute(
            "UPDATE jobs SET state = ?, outcome = ?, exit_code = ?, ended_at = ?, detail = ?, environment = NULL "
            f"WHERE id = ? AND state IN ({marks})",
            (ENDED, end.outcome, end.exit_code, end.ended_at, end.detail, job_id, *only_from),
        )
        return cursor.rowcount == 1

    def claim(self, job_id: int, supervisor: int) -> bool:
        """Set a `starting` job to `running` under a supervisor; return False if it is claimed or cancelled already."""
        cursor = self._db.execute(
            "UPDATE jobs SET state = ?, supervisor = ? WHERE id = ? AND state = ?",
            (RUNNING, supervisor, job_id, STARTING),
        )
        return cursor.rowcount == 1

    def attempted(self, job_id: int) -> None:
        """Count another supervisor for a job."""
        self._db.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = ?", (job_id,))

    def ask_to_end(self, job_id: int, user: str) -> None:
        """Record that a user cancelled a running job. The supervisor is informed by a signal."""
        self._db.execute("UPDATE jobs SET cancel = ? WHERE id = ? AND cancel IS NULL", (user, job_id))
