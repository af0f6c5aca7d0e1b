"""The manager of a queue: one event loop around the socket, the supervisors and `core`.

All events of one turn of the loop form one instant. Their ends, cancellations and submissions are one transaction, and
clients are answered after it. On TERM or INT the manager ends and the supervisors continue their jobs. The next manager
adopts them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from apples.errors import ApplesError, ConfigError, HistoryError, RequestRejected, SharingError
from apples.ipc.loop import Alarm, EndSignals, Loop
from apples.ipc.wire import Json
from apples.livequeue import views
from apples.livequeue.core import LiveQueue
from apples.livequeue.hosts import Machine, listed
from apples.livequeue.listener import ClientConnection, QueueListener, refusal_document
from apples.livequeue.locks import MANAGER, queue_locks
from apples.livequeue.paths import SYSTEM_SOCKET, own_socket
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
from apples.livequeue.status import StatusRequests
from apples.livequeue.store import Store
from apples.livequeue.supervisors import Supervisors
from apples.queueing.configuration import QueueFile

#: Seconds until the next attempt when the store rejects an instant.
_RETRY_S = 1.0

Log = Callable[[str], None]


class QueueServer:
    """One queue, served until a signal ends the manager."""

    def __init__(
        self,
        path: Path,
        chosen: QueueFile,
        machine: Machine,
        *,
        log: Log,
        grace_s: float = 10.0,
        all_users: bool = False,
        socket: Path | None = None,
    ) -> None:
        """Open or create the store, adopt running jobs, and listen.

        Args:
            path: the store.
            chosen: the policy.
            machine: hosts and their processors.
            log: receives one line for each event.
            grace_s: seconds from TERM to KILL when a job is ended.
            all_users: accept requests of all users of this host.
            socket: path of the socket, or None for the default path.

        Raises:
            ConfigError: the policy cannot be used by a live queue.
            HistoryError: the store cannot be used.
            SharingError: another manager serves the store, or the socket cannot be opened.
        """
        self._log = log
        self._store = Store(path, create=True)
        locks = queue_locks(path)
        if not locks.take(MANAGER):
            raise SharingError(
                f"{path}: another manager serves this queue already; end it first, or name another file"
            )
        self.live = LiveQueue(self._store, chosen, machine)
        self._loop = Loop()
        self._supervisors = Supervisors(
            self._loop, self._store, locks, grace_s=grace_s, on_end=self._job_ended, log=log
        )
        self._ended: list[int] = []
        self._cancelled: list[int] = []
        self._submitted: list[tuple[ClientConnection, Submission]] = []
        self._requests: list[tuple[ClientConnection, str, Any]] = []
        self._status = StatusRequests(self.live)
        self._due: Alarm | None = None
        self._recover()
        self._listener = QueueListener(
            self._loop,
            socket or (SYSTEM_SOCKET if all_users else own_socket(path)),
            all_users=all_users,
            on_request=self._receive,
            on_close=self._status.disconnected,
        )

    def run(self, *, ready: Callable[[], None] = lambda: None) -> int | None:
        """Serve until a signal arrives, and return its number. `ready` is called when clients can connect."""
        ended_by: list[int] = []

        def end(number: int) -> None:
            ended_by.append(number)
            self._loop.stop()

        signals = EndSignals(self._loop, end)
        try:
            self._log(self._summary())
            ready()
            self._loop.run()
        finally:
            signals.close()
            self.close()
        return ended_by[0] if ended_by else None

    def _summary(self) -> str:
        machine, chosen = self.live.machine, self.live.chosen
        hosts = f" ({listed(machine.slots)})" if len(machine.slots) > 1 else ""
        return (
            f"queue at {self._listener.path}: {machine.processors} processors{hosts}, "
            f"priority {chosen.queue.priority}, backfill {chosen.queue.backfill}, "
            f"estimates {chosen.estimates.source}; jobs in {self._store.path}"
        )

    def close(self) -> None:
        """Close all connections. Jobs continue."""
        self._listener.close()
        self._supervisors.close()
        self._loop.close()
        self._store.close()

    @property
    def loop(self) -> Loop:
        """Return the event loop, for callers with more descriptors to watch."""
        return self._loop

    def set_machine(self, machine: Machine) -> None:
        """Set the hosts and their processors after the machine has grown or shrunk."""
        self._log(f"the machine has {machine.processors} processors now: {listed(machine.slots)}")
        self.live.set_machine(machine)
        self._schedule_instant()

    def _recover(self) -> None:
        """Adopt the jobs of an earlier manager."""
        present = [self._store.job(job_id) for job_id in list(self.live.jobs)]
        running = 0
        for record in present:
            assert record is not None
            if record.state == ENDED:
                self._job_ended(record.id)
            elif record.state == RUNNING:
                running += 1
                self._supervisors.adopt(record.id)
                if record.cancel is not None:
                    self._supervisors.ask_to_end(record.id)
            elif record.state == STARTING:
                self._supervisors.relaunch(record.id)
        if present:
            self._log(f"{len(present)} job{'s' * (len(present) != 1)} found, {running} running")
        if self.live.policy_changed:
            # Otherwise a pass follows an event only, as in a replay of the log.
            self._schedule_instant()

    # one instant

    def _job_ended(self, job_id: int) -> None:
        self._ended.append(job_id)
        self._schedule_instant()

    def _schedule_instant(self, after_s: float = 0.0) -> None:
        if self._due is None:
            self._due = self._loop.after(after_s, self._instant)

    def _instant(self) -> None:
        """Handle all events since the last instant in one transaction, then answer."""
        self._due = None
        arrived, self._submitted = self._submitted, []
        # A client that lost the answer submits again with the same token: still one job.
        new = {s.token: s for _, s in arrived if self._store.by_token(s.token) is None}
        ended, cancelled = list(self._ended), list(self._cancelled)
        try:
            instant = self.live.instant(ended=ended, cancelled=cancelled, submitted=list(new.values()))
        except HistoryError as error:
            self._log(str(error))
            for client, _ in arrived:
                client.refuse(error)
            self._schedule_instant(_RETRY_S)
            return
        del self._ended[: len(ended)], self._cancelled[: len(cancelled)]
        for record in instant.started:
            self._supervisors.launch(record.id)
        for client, submission in arrived:
            self._answer_submission(client, submission)
        for record in instant.left:
            self._status.job_ended(record)
        requests, self._requests = self._requests, []
        for client, request, argument in requests:
            self._answer(client, request, argument)

    def _answer_submission(self, client: ClientConnection, submission: Submission) -> None:
        record = self._store.by_token(submission.token)
        assert record is not None
        if record.uid == submission.uid:
            client.answer({"job": record.id})
        else:
            client.refuse(RequestRejected("token: that of another user's job"))

    # requests

    def _receive(self, client: ClientConnection, request: str, argument: object) -> None:
        if request == "submit":
            try:
                submission = read_submission(argument, client.uid, self.live.processors)
            except ConfigError as error:
                client.refuse(error)
                return
            self._submitted.append((client, submission))
            self._schedule_instant()
        elif self._due is not None:
            # Answered after the instant that is due, so that requests stay in order.
            self._requests.append((client, request, argument))
        else:
            self._answer(client, request, argument)

    def _answer(self, client: ClientConnection, request: str, argument: Any) -> None:
        try:
            if request == "cancel":
                client.answer({"cancel": self._cancel(client, argument)})
            else:
                self._status.answer(client, request, argument)
        except ApplesError as error:
            client.refuse(error)

    def _cancel(self, client: ClientConnection, job_ids: object) -> list[Json]:
        """Return the state of each job: cancelled, ending or over, or why it was refused."""
        answers: list[Json] = []
        for job_id in job_ids if isinstance(job_ids, list) else [job_ids]:
            try:
                state = self._cancel_one(client, self._status.record(job_id))
                answers.append({"job": job_id, "is": state})
            except SharingError as error:
                answers.append({"job": job_id, **refusal_document(error)})
        if self._cancelled or self._ended:
            # The answer must be on disk before it is sent.
            if self._due is not None:
                self._due.cancel()
            self._instant()
        if self._cancelled:
            raise SharingError("the queue's store cannot be written now; try again")
        return answers

    def _cancel_one(self, client: ClientConnection, record: JobRecord) -> str:
        if not client.may_control(record.uid):
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
            self._store.ask_to_end(record.id, str(client.uid))
        self._supervisors.ask_to_end(record.id)
        return "ending"

    def _cancel_start(self, job_id: int) -> bool:
        """End a job that no supervisor has claimed. Its supervisor will find nothing to do."""
        end = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=views.now())
        with self._store.transaction():
            return self._store.end(job_id, end, only_from=(STARTING,))
