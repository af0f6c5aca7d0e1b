"""The jobs on disk: SQLite, write-ahead log, every change of state one transaction that is safe when it returns.

Manager and supervisors write here, each only where the job is still in the state it believes (compare and set), so a
job is claimed once whoever dies in between. Environments are forgotten when jobs end. Decides nothing; imports little,
because every supervisor does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from apples.errors import HistoryError
from apples.livequeue.records import ENDED, RUNNING, STARTING, WAITING, JobEnd, JobRecord, Submission
from nws.base.sqlite import SqliteFile, SqliteFormat

_SCHEMA = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL UNIQUE, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,
    project TEXT NOT NULL, name TEXT NOT NULL, command TEXT NOT NULL, directory TEXT NOT NULL,
    environment TEXT, umask INTEGER NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL,
    procs INTEGER NOT NULL, request_s REAL NOT NULL, model_s REAL,
    estimate_s REAL NOT NULL, said TEXT NOT NULL, state TEXT NOT NULL, submitted_s REAL NOT NULL,
    start_s REAL, freed_s REAL, expected_s REAL, planned_s REAL, backfilled INTEGER NOT NULL DEFAULT 0,
    ended_at REAL, exit_code INTEGER, outcome TEXT, detail TEXT, cancel TEXT,
    supervisor INTEGER, attempts INTEGER NOT NULL DEFAULT 0, hosts TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX jobs_in_the_system ON jobs (id) WHERE freed_s IS NULL;
CREATE INDEX jobs_by_end ON jobs (freed_s);
CREATE TABLE queue (key TEXT PRIMARY KEY, value REAL NOT NULL)
"""
_FORMAT = SqliteFormat(
    application_id=0x41705175,
    version=2,
    schema=_SCHEMA,
    # A state that is reported is on disk, also after a power failure.
    pragmas={"synchronous": "FULL"},
    error=HistoryError,
    error_if_full=HistoryError,
    elsewhere="name another file",
    loss="begin a new queue; the jobs in it are lost",
)
#: Time that a writer waits for others, seconds.
_BUSY_S = 60.0

_COLUMNS = tuple(field.name for field in fields(JobRecord))
_GIVEN = tuple(field.name for field in fields(Submission))


class Store:
    """One connection to the jobs of one queue. Raises `HistoryError` where the file will not do."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """create : make the file if there is none"""
        self.path = path
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            elif not path.exists():
                raise HistoryError(f"{path}: there is no queue; start one with `apples manager --queue`")
        except OSError as error:
            raise HistoryError(f"{path}: cannot be used ({error.strerror}); name another file") from error
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

    # what is known

    def numbers(self) -> dict[str, float]:
        """What the queue remembers of itself: `origin`, s since the epoch, and `last`, its last instant."""
        return dict(self._db.execute("SELECT key, value FROM queue").fetchall())

    def job(self, job_id: int) -> JobRecord | None:
        """One job."""
        return next(iter(self._jobs("id = ?", (job_id,))), None)

    def by_token(self, token: str) -> JobRecord | None:
        """The job of a submission that may have come before."""
        return next(iter(self._jobs("token = ?", (token,))), None)

    def present(self, after: int = 0, most: int = -1) -> list[JobRecord]:
        """All jobs whose processors are not given back yet, or that wait, by id. after, most : one page of them"""
        return self._jobs("freed_s IS NULL AND id > ? ORDER BY id LIMIT ?", (after, most))

    def past(self, since_s: float = float("-inf")) -> list[JobRecord]:
        """Jobs that left the queue at or after an instant, in that order."""
        return self._jobs("freed_s >= ? ORDER BY freed_s, id", (since_s,))

    def everybody(self, after: int = 0, most: int = -1) -> list[JobRecord]:
        """All jobs there ever were, by id. after, most : one page of them"""
        return self._jobs("id > ? ORDER BY id LIMIT ?", (after, most))

    def launch(self, job_id: int) -> tuple[JobRecord, Submission]:
        """A job with all that its process needs. Raises `HistoryError` when it is over."""
        job = self.job(job_id)
        row = self._db.execute(f"SELECT {', '.join(_GIVEN)} FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if job is None or row is None or row[_GIVEN.index("environment")] is None:
            raise HistoryError(f"{self.path}: job {job_id} is over, its environment is forgotten")
        given = dict(zip(_GIVEN, row, strict=True))
        given["command"] = tuple(json.loads(given["command"]))
        given["environment"] = json.loads(given["environment"])
        return job, Submission(**given)

    def _jobs(self, where: str, values: tuple[Any, ...]) -> list[JobRecord]:
        rows = self._db.execute(f"SELECT {', '.join(_COLUMNS)} FROM jobs WHERE {where}", values).fetchall()
        return [_record(row) for row in rows]

    # what changes; within `transaction`

    def remember(self, **numbers: float) -> None:
        """Set what the queue remembers of itself."""
        self._db.executemany("INSERT OR REPLACE INTO queue VALUES (?, ?)", list(numbers.items()))

    def add(self, what: Submission, at_s: float) -> int:
        """A job, waiting; its id. What is believed of it follows with `believe`."""
        values = {name: getattr(what, name) for name in _GIVEN}
        values["command"] = json.dumps(what.command)
        values["environment"] = json.dumps(dict(what.environment))
        values |= {"estimate_s": what.request_s, "said": "{}", "state": WAITING, "submitted_s": at_s}
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        cursor = self._db.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(values.values()))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def believe(self, job_id: int, estimate_s: float, said: Mapping[str, float]) -> None:
        """What sources of estimates said at submission."""
        self._db.execute(
            "UPDATE jobs SET estimate_s = ?, said = ? WHERE id = ?",
            (estimate_s, json.dumps(dict(said)), job_id),
        )

    def start(self, job_id: int, at_s: float, hosts: Mapping[str, int], *, backfilled: bool) -> None:
        """It is decided that a waiting job starts. hosts : processors by host"""
        self._db.execute(
            "UPDATE jobs SET state = ?, start_s = ?, hosts = ?, backfilled = ?, attempts = 1 "
            "WHERE id = ? AND state = ?",
            (STARTING, at_s, json.dumps(dict(hosts)), backfilled, job_id, WAITING),
        )

    def foresee(self, *, expected: Iterable[tuple[float, int]], planned: Iterable[tuple[float, int]]) -> None:
        """Expected ends and own reservations that have changed, as (seconds, id)."""
        self._db.executemany("UPDATE jobs SET expected_s = ? WHERE id = ?", expected)
        self._db.executemany("UPDATE jobs SET planned_s = ? WHERE id = ?", planned)

    def free(self, job_id: int, at_s: float) -> None:
        """An end was noted: the job is out of the queue."""
        self._db.execute("UPDATE jobs SET freed_s = ?, environment = NULL WHERE id = ?", (at_s, job_id))

    def end(self, job_id: int, how: JobEnd, *, only_from: tuple[str, ...]) -> bool:
        """A job ended, if it is in one of these states still."""
        marks = ", ".join("?" * len(only_from))
        cursor = self._db.execute(
            "UPDATE jobs SET state = ?, outcome = ?, exit_code = ?, ended_at = ?, detail = ?, environment = NULL "
            f"WHERE id = ? AND state IN ({marks})",
            (ENDED, how.outcome, how.exit_code, how.ended_at, how.detail, job_id, *only_from),
        )
        return cursor.rowcount == 1

    def claim(self, job_id: int, supervisor: int) -> bool:
        """A supervisor takes a job that is to start; false if another has, or it was cancelled."""
        cursor = self._db.execute(
            "UPDATE jobs SET state = ?, supervisor = ? WHERE id = ? AND state = ?",
            (RUNNING, supervisor, job_id, STARTING),
        )
        return cursor.rowcount == 1

    def attempted(self, job_id: int) -> None:
        """Another supervisor is started for it."""
        self._db.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = ?", (job_id,))

    def ask_to_end(self, job_id: int, who: str) -> None:
        """Its end was asked for; the supervisor hears of it by a signal."""
        self._db.execute("UPDATE jobs SET cancel = ? WHERE id = ? AND cancel IS NULL", (who, job_id))


def _record(row: tuple[Any, ...]) -> JobRecord:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["command"] = tuple(json.loads(values["command"]))
    values["said"], values["hosts"] = json.loads(values["said"]), json.loads(values["hosts"])
    values["backfilled"] = bool(values["backfilled"])
    return JobRecord(**values)
