"""The manager of a queue: joins door, supervisors and `core` in one loop.

What comes while the loop turns once is one instant: its ends, cancellations and submissions are one transaction, and
are answered after it. Ended by TERM or INT it leaves running jobs to their supervisors; the next manager finds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apples.errors import ApplesError, ConfigError, HistoryError, RequestRejected, SharingError, UnknownJob
from apples.ipc.loop import Alarm, EndSignals, Loop
from apples.ipc.wire import Json
from apples.livequeue import views
from apples.livequeue.core import LiveQueue
from apples.livequeue.hosts import Machine, listed
from apples.livequeue.listener import ClientConnection, QueueListener
from apples.livequeue.locks import MANAGER, queue_locks
from apples.livequeue.paths import SYSTEM_SOCKET, own_socket
from apples.livequeue.reasons import why
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    ENDED,
    RUNNING,
    STARTING,
    WAITING,
    JobEnd,
    JobRecord,
    Submission,
)
from apples.livequeue.requests import read_submission
from apples.livequeue.store import Store
from apples.livequeue.supervisors import Supervisors
from apples.queueing.configuration import QueueFile
from nws.base.errors import ReportedError

#: When the disk will not take an instant, the next attempt, seconds.
_AGAIN_S = 1.0

Say = Callable[[str], None]


def _where(machine: Machine) -> str:
    """Of which hosts, if there are several."""
    return f" ({listed(machine.slots)})" if len(machine.slots) > 1 else ""


class QueueServer:
    """One queue, served until it is told to end. Raises `HistoryError`, `SharingError`, `ConfigError`."""

    def __init__(
        self,
        path: Path,
        chosen: QueueFile,
        machine: Machine,
        *,
        say: Say,
        grace_s: float = 10.0,
        everybody: bool = False,
        socket: Path | None = None,
    ) -> None:
        """path : of the store, made if there is none.  grace_s : from TERM to KILL for jobs.  everybody : all users"""
        self._say = say
        self._store = Store(path, create=True)
        locks = queue_locks(path)
        if not locks.take(MANAGER):
            raise SharingError(
                f"{path}: another manager serves this queue already; end it first, or name another file"
            )
        self.live = LiveQueue(self._store, chosen, machine)
        self._loop = Loop()
        self._supervisors = Supervisors(
            self._loop, self._store, locks, grace_s=grace_s, over=self._over, say=say
        )
        self._ended: list[int] = []
        self._cancelled: list[int] = []
        self._submitted: list[tuple[ClientConnection, Submission]] = []
        self._asked: list[tuple[ClientConnection, str, Any]] = []
        self._waiting: dict[int, list[ClientConnection]] = {}
        self._due: Alarm | None = None
        self._recover()
        self._door = QueueListener(
            self._loop,
            socket or (SYSTEM_SOCKET if everybody else own_socket(path)),
            everybody=everybody,
            asked=self._hear,
            left=self._left,
        )

    def run(self, *, ready: Callable[[], None] = lambda: None) -> int | None:
        """Until a signal comes, which is returned. ready : called once people can come"""
        ended_by: list[int] = []

        def end(number: int) -> None:
            ended_by.append(number)
            self._loop.stop()

        signals = EndSignals(self._loop, end)
        try:
            chosen = self.live.chosen
            self._say(
                f"queue at {self._door.path}: {self.live.processors} processors"
                f"{_where(self.live.machine)}, priority {chosen.queue.priority}, "
                f"backfill {chosen.queue.backfill}, estimates {chosen.estimates.source}; jobs in {self._store.path}"
            )
            ready()
            self._loop.run()
        finally:
            signals.close()
            self.close()
        return ended_by[0] if ended_by else None

    def close(self) -> None:
        """Hang up; jobs run on."""
        self._door.close()
        self._supervisors.close()
        self._loop.close()
        self._store.close()

    @property
    def loop(self) -> Loop:
        """For those who have more to watch."""
        return self._loop

    def set_machine(self, machine: Machine) -> None:
        """It has grown or shrunk."""
        self._say(f"the machine has {machine.processors} processors now: {listed(machine.slots)}")
        self.live.set_machine(machine)
        self._soon()

    # what an earlier manager left

    def _recover(self) -> None:
        present = [self._store.job(job_id) for job_id in list(self.live.jobs)]
        runs = 0
        for record in present:
            assert record is not None
            if record.state == ENDED:
                self._over(record.id)
            elif record.state == RUNNING:
                runs += 1
                self._supervisors.adopt(record.id)
                if record.cancel is not None:
                    self._supervisors.ask_to_end(record.id)
            elif record.state == STARTING:
                self._supervisors.relaunch(record.id)
        if present:
            self._say(f"{len(present)} job{'s' * (len(present) != 1)} found, {runs} running")
        if self.live.policy_changed:
            # Otherwise a pass follows an event only, as in a replay of the log.
            self._soon()

    # what happens

    def _over(self, job_id: int) -> None:
        self._ended.append(job_id)
        self._soon()

    def _soon(self, after_s: float = 0.0) -> None:
        if self._due is None:
            self._due = self._loop.after(after_s, self._instant)

    def _instant(self) -> None:
        """Everything that came since the last one."""
        self._due = None
        came, self._submitted = self._submitted, []
        # One that comes twice at once, or whose answer was lost, is one job.
        new = {
            what.token: (visitor, what) for visitor, what in came if self._store.by_token(what.token) is None
        }
        submitted = list(new.values())
        ended, cancelled = list(self._ended), list(self._cancelled)
        try:
            found = self.live.instant(
                ended=ended, cancelled=cancelled, submitted=[what for _, what in submitted]
            )
        except HistoryError as error:
            self._say(str(error))
            for visitor, _ in came:
                visitor.answer(_refusal(error))
            self._soon(_AGAIN_S)
            return
        del self._ended[: len(ended)], self._cancelled[: len(cancelled)]
        for record in found.started:
            self._supervisors.launch(record.id)
        for visitor, submission in came:
            self._tell_number(visitor, submission)
        for record in found.left:
            for visitor in self._waiting.pop(record.id, ()):
                visitor.answer({"ended": views.row(self.live, record, visitor.uid)})
        asked, self._asked = self._asked, []
        for visitor, what, argument in asked:
            self._answer(visitor, what, argument)

    def _tell_number(self, visitor: ClientConnection, what: Submission) -> None:
        record = self._store.by_token(what.token)
        assert record is not None
        same = record.uid == what.uid
        visitor.answer({"job": record.id} if same else {"refused": "token: that of another user's job"})

    # what people want

    def _hear(self, visitor: ClientConnection, what: str, argument: object) -> None:
        if what == "submit":
            try:
                self._submitted.append(
                    (visitor, read_submission(argument, visitor.uid, self.live.processors))
                )
            except ConfigError as error:
                visitor.answer(_refusal(error))
                return
            self._soon()
        elif self._due is not None:
            # In order with what came before.
            self._asked.append((visitor, what, argument))
        else:
            self._answer(visitor, what, argument)

    def _answer(self, visitor: ClientConnection, what: str, argument: Any) -> None:
        try:
            if what == "queue":
                visitor.answer({"queue": self._page(visitor, argument)})
            elif what == "why":
                visitor.answer({"why": self._why(argument)})
            elif what == "cancel":
                visitor.answer({"cancel": self._cancel(visitor, argument)})
            elif what == "wait":
                self._wait(visitor, argument)
            else:
                visitor.answer(
                    {"refused": f"{what!r} is no request; legal are submit, queue, why, cancel, wait"}
                )
        except ApplesError as error:
            visitor.answer(_refusal(error))

    def _page(self, visitor: ClientConnection, argument: Any) -> Json:
        """argument : {"all": …, "after": id}"""
        given = argument if isinstance(argument, dict) else {}
        after = given.get("after", 0)
        if not isinstance(after, int):
            raise RequestRejected(f"queue after {after!r}: the number of a job is legal")
        return views.document(self.live, visitor.uid, everything=bool(given.get("all")), after=after)

    def _record(self, job_id: object) -> JobRecord:
        record = self._store.job(job_id) if isinstance(job_id, int) else None
        if record is None:
            raise UnknownJob(f"there is no job {job_id!r}; `apples queue --all` lists all there were")
        return record

    def _why(self, job_id: object) -> str:
        return why(self.live, self._record(job_id).id) or ""

    def _wait(self, visitor: ClientConnection, job_id: object) -> None:
        record = self._record(job_id)
        if record.freed_s is not None:
            visitor.answer({"ended": views.row(self.live, record, visitor.uid)})
        else:
            self._waiting.setdefault(record.id, []).append(visitor)

    def _cancel(self, visitor: ClientConnection, job_ids: object) -> list[Json]:
        """What became of each: cancelled, ending or over; or why not."""
        found: list[Json] = []
        for job_id in job_ids if isinstance(job_ids, list) else [job_ids]:
            try:
                found.append({"job": job_id, "is": self._cancel_one(visitor, self._record(job_id))})
            except SharingError as error:
                found.append({"job": job_id, **_refusal(error)})
        if self._cancelled or self._ended:
            # What is answered is on disk.
            if self._due is not None:
                self._due.cancel()
            self._instant()
        if self._cancelled:
            raise SharingError("the queue's store cannot be written now; try again")
        return found

    def _cancel_one(self, visitor: ClientConnection, record: JobRecord) -> str:
        if visitor.uid not in (record.uid, os.geteuid(), 0):
            raise RequestRejected(f"job {record.id} belongs to {record.user}; only its owner may cancel it")
        if record.state == ENDED:
            return "over"
        if record.state == WAITING:
            if record.id not in self._cancelled:
                self._cancelled.append(record.id)
            return "cancelled"
        if record.state == STARTING and self._cancel_start(record.id):
            return "cancelled"
        with self._store.transaction():
            self._store.ask_to_end(record.id, str(visitor.uid))
        self._supervisors.ask_to_end(record.id)
        return "ending"

    def _cancel_start(self, job_id: int) -> bool:
        """Before a supervisor has claimed it; that one will find nothing to do, and then its end is noted."""
        how = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=views.now())
        with self._store.transaction():
            return self._store.end(job_id, how, only_from=(STARTING,))

    def _left(self, visitor: ClientConnection) -> None:
        for waiting in self._waiting.values():
            if visitor in waiting:
                waiting.remove(visitor)


def _refusal(error: ReportedError) -> Json:
    """Return the answer to a rejected request; `code` is the error's exit code."""
    return {"refused": str(error), "code": error.exit_code}
