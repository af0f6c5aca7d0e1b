"""The manager of a queue: one event loop around the socket, the supervisors and `core`.

All events of one turn of the loop form one instant. Their ends, cancellations and submissions are one transaction, and
clients are answered after it. On TERM or INT the manager ends and the supervisors continue their jobs. The next manager
adopts them.
"""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from apples.daemons.ipc.eventloop import Alarm, Loop, run_until_signal
from apples.daemons.ipc.requests import read_request
from apples.daemons.ipc.unixserver import Client, SocketLimits, UnixServer
from apples.daemons.paths import private_directory
from apples.errors import HistoryError, RequestRejected, SharingError
from apples.livequeue.core import LiveQueue
from apples.livequeue.queuehosts import Machine, listed
from apples.livequeue.queuemessages import QUEUE_REQUESTS, Changed, answer, stored_job
from apples.livequeue.queuepaths import SYSTEM_SOCKET, own_socket
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    ENDED,
    RUNNING,
    STARTING,
    WAITING,
    JobEnd,
    JobRecord,
)
from apples.livequeue.status import StatusRequests
from apples.livequeue.store import Store
from apples.livequeue.submissions import Submissions
from apples.livequeue.supervisor import MANAGER, queue_locks
from apples.livequeue.supervisors import Supervisors
from apples.queueing.configuration import QueueFile
from nws.base.terminal import visible
from nws.base.wording import counted

#: Seconds until the next attempt when the store rejects an instant.
_RETRY_S = 1.0

Log = Callable[[str], None]


class Changes:
    """What the next instant does to waiting jobs, and ends of others. cancelled : ids.  held : or released, by id"""

    def __init__(self, live: LiveQueue, supervisors: Supervisors) -> None:
        self._live, self._supervisors = live, supervisors
        self.cancelled: list[int] = []
        self.held: dict[int, bool] = {}

    def make(
        self, request: str, client: Client, job_ids: Sequence[int], record_of: Callable[[int], JobRecord]
    ) -> list[Changed]:
        """Cancel, hold or release jobs for a client; return the new state of each, or why it was refused."""
        answers = []
        for job_id in job_ids:
            try:
                record = record_of(job_id)
                if not client.may_control(record.uid):
                    raise RequestRejected(
                        f"job {job_id} belongs to {record.user}; only its owner may {request} it"
                    )
                state = self._cancel(client, record) if request == "cancel" else self._hold(request, record)
                answers.append(Changed(job=job_id, state=state))
            except SharingError as error:
                answers.append(Changed(job=job_id, refused=str(error), code=error.exit_code))
        return answers

    def _hold(self, request: str, record: JobRecord) -> str:
        """Hold or release a job with the next instant; return its state then."""
        if record.state != WAITING:
            raise RequestRejected(
                f"job {record.id} is {record.state}; only a waiting job can be held or released"
            )
        self.held[record.id] = request == "hold"
        return "held" if request == "hold" else "waiting"

    def _cancel(self, client: Client, record: JobRecord) -> str:
        """Cancel a job for a client, and return "cancelled" (with the next instant), "ending" or "over".

        Raises `HistoryError` if the store cannot be written.
        """
        if record.state == ENDED:
            return "over"
        if record.state == WAITING:
            if record.id not in self.cancelled:
                self.cancelled.append(record.id)
            return "cancelled"
        store = self._live.store
        if record.state == STARTING:
            # No supervisor has claimed the job. One that is on its way will find nothing to do.
            end = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED)
            with store.transaction():
                if store.end(record.id, end, only_from=(STARTING,)):
                    return "cancelled"
        if record.cancel is None:
            # The first who cancels it stays its canceller.
            with store.transaction():
                store.change(record.id, cancel=str(client.uid))
        self._supervisors.ask_to_end(record.id)
        return "ending"


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
        self._write_log = log
        self._store = Store(path, create=True, record=stored_job)
        locks = queue_locks(path)
        if not locks.take(MANAGER):
            raise SharingError(
                f"{path}: another manager serves this queue already; end it first, or name another file"
            )
        self.live = LiveQueue(self._store, chosen, machine)
        self.loop = Loop(failed=self._failed)
        self._supervisors = Supervisors(
            self.loop, self._store, locks, grace_s=grace_s, on_end=self._job_ended, log=self._log
        )
        self._ended: list[int] = []
        self._requests: list[tuple[Client, str, Any]] = []
        self._submissions = Submissions(self._store, chosen.limits)
        self._changes = Changes(self.live, self._supervisors)
        self._status = StatusRequests(self.live)
        self._due: Alarm | None = None
        self._recover()
        address = socket or (SYSTEM_SOCKET if all_users else own_socket(path))
        private_directory(address.parent, all_users=all_users)
        self._listener = UnixServer(
            self.loop,
            address,
            all_users=all_users,
            limits=SocketLimits(
                connections=chosen.limits.connections,
                line_bytes=chosen.limits.job_bytes,
                line_setting="limits.job_bytes",
            ),
            log=self._log,
            on_line=self._receive,
            on_close=self._status.disconnected,
        )

    def run(self, *, ready: Callable[[], None] = lambda: None) -> int | None:
        """Serve until a signal arrives, and return its number. `ready` is called when clients can connect."""

        def starting() -> None:
            self._log(self._summary())
            ready()

        return run_until_signal(self.loop, self.close, starting=starting)

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
        self.loop.close()
        self._store.close()

    def set_machine(self, machine: Machine) -> None:
        """Set the hosts and their processors after the machine has grown or shrunk."""
        self._log(f"the machine has {machine.processors} processors now: {listed(machine.slots)}")
        self.live.set_machine(machine)
        self._schedule_instant()

    def _recover(self) -> None:
        """Adopt the jobs of an earlier manager."""
        present = [self.live.record(job_id) for job_id in list(self.live.jobs)]
        running = 0
        for record in present:
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
            self._log(f"{counted(len(present), 'job')} found, {running} running")
        if self.live.policy_changed:
            # Otherwise a pass follows an event only, as in a replay of the log.
            self._schedule_instant()

    # one instant

    def _job_ended(self, job_id: int) -> None:
        self._ended.append(job_id)
        self._schedule_instant()

    def _schedule_instant(self, after_s: float = 0.0) -> None:
        if self._due is None:
            self._due = self.loop.after(after_s, self._instant)

    def _instant(self) -> None:
        """Handle all events since the last instant in one transaction, then answer."""
        self._due = None
        changes = self._changes
        ended, cancelled, held = list(self._ended), list(changes.cancelled), dict(changes.held)
        try:
            submitted = self._submissions.admitted()
            instant = self.live.instant(ended=ended, cancelled=cancelled, submitted=submitted, held=held)
        except Exception as error:
            expected = isinstance(error, HistoryError)
            self._log(str(error) if expected else traceback.format_exc())
            text = str(error) if expected else "the manager failed; its log has the reason"
            self._submissions.refuse(HistoryError(text))
            self._schedule_instant(_RETRY_S)
        else:
            del self._ended[: len(ended)], changes.cancelled[: len(cancelled)]
            changes.held.clear()
            for record in instant.started:
                self._supervisors.launch(record.id)
            for record in instant.left:
                self._status.job_ended(record)
            self._submissions.answer()
        requests, self._requests = self._requests, []
        for client, request, argument in requests:
            self._listener.guarded(client, partial(self._answer, client, request, argument))

    def _log(self, text: str) -> None:
        # The disk of the log may be full, or its reader may have gone.
        with suppress(OSError):
            for line in text.splitlines():
                self._write_log(visible(line))

    def _failed(self, error: Exception) -> None:
        """Log an error of a handler that should have none. The queue goes on, and the next instant sets it right."""
        self._log("".join(traceback.format_exception(error)))
        self._schedule_instant(_RETRY_S)

    # requests

    def _receive(self, client: Client, line: bytes) -> None:
        request, argument = read_request(QUEUE_REQUESTS, line)
        if request == "submit":
            self._submissions.add(client, argument, self.live.processors)
            self._schedule_instant()
        elif self._due is not None:
            # Answered after the instant that is due, so that requests stay in order.
            self._requests.append((client, request, argument))
        else:
            self._answer(client, request, argument)

    def _answer(self, client: Client, request: str, argument: Any) -> None:
        if request in ("cancel", "hold", "release"):
            client.send(answer(request, self._change(request, client, argument)))
        else:
            self._status.answer(client, request, argument)

    def _change(self, request: str, client: Client, job_ids: list[int]) -> list[Changed]:
        """Cancel, hold or release jobs, and return their states when they are on disk."""
        changes = self._changes
        answers = changes.make(request, client, job_ids, self._status.record)
        if changes.cancelled or changes.held or self._ended:
            # The answer must be on disk before it is sent.
            if self._due is not None:
                self._due.cancel()
            self._instant()
        if changes.cancelled or changes.held:
            raise SharingError("the queue's store cannot be written now; try again")
        return answers
