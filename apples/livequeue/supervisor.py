"""Supervisor of one job of the queue: it claims and starts the job, enforces its time limit, and records its end.

A script (`python -I -S supervisor.py STORE JOB GRACE`) in its own session, so that it survives the manager. It holds
the job's lock while it lives. Several supervisors may try; the one that moves the job from `starting` to `running` in
the store runs it. On TERM it ends the job: TERM to the process group, KILL after the grace time. Processes that the job
leaves behind are killed.

Locks that show which processes live: a supervisor holds its job's byte of one file, the manager holds byte 0.
"""

import os
import signal
import sys
import time

if __name__ == "__main__":
    # With `-I -S` only the standard library is on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from apples.errors import HistoryError
from apples.hosts.kernel import PR_SET_CHILD_SUBREAPER, children, prctl, reaped
from apples.livequeue.jobprocess import NotStarted, start_process
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    CODE_TIME_LIMIT,
    FAILED,
    FINISHED,
    NOT_STARTED,
    RUNNING,
    STARTING,
    TIME_LIMIT,
    JobEnd,
)
from apples.livequeue.store import QueueStoreFull, Store
from nws.base.lock import ByteLocks

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Longest wait for a signal, and time between attempts to write the store, seconds.
_LONGEST_SLEEP_S, _RETRY_S = 3600.0, 1.0
T = TypeVar("T")


MANAGER = 0
"""The manager's byte. A job's byte is its id."""


def queue_locks(store: Path) -> ByteLocks:
    """Return the locks beside a queue's database; raise `HistoryError` if the file cannot be used."""
    path = store.with_name(f"{store.name}.locks")
    try:
        return ByteLocks(path)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be used ({error.strerror})") from error


class SupervisedJob:
    """A job's process group from its start to its end."""

    def __init__(self, pid: int, limit_s: float, grace_s: float) -> None:
        """Start the time limit. `pid`: leader of the process group. `grace_s`: seconds from TERM to KILL."""
        self._pid, self._grace_s = pid, grace_s
        self._limit = time.monotonic() + limit_s
        self._kill_at: float | None = None
        self._reason: str | None = None
        self._status: int | None = None

    def wait(self) -> tuple[int, str | None]:
        """Wait for the end, and return (wait status, TIME_LIMIT, CANCELLED or None)."""
        while self._status is None:
            until = self._limit if self._kill_at is None else self._kill_at
            wait_s = min(max(until - time.monotonic(), 0.0), _LONGEST_SLEEP_S)
            arrived = signal.sigtimedwait(_SIGNALS, wait_s)
            if arrived is not None and arrived.si_signo != signal.SIGCHLD:
                # The supervisor itself may have been stopped past the limit.
                self._end(TIME_LIMIT if time.monotonic() >= self._limit else CANCELLED)
            self._reap()
            if self._status is None and time.monotonic() >= until:
                self._overdue()
        return self._status, self._reason

    def _overdue(self) -> None:
        if self._kill_at is None:
            self._end(TIME_LIMIT)
        else:
            self._signal(signal.SIGKILL)
            self._kill_at = time.monotonic() + max(self._grace_s, 0.1)

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._kill_at = time.monotonic() + self._grace_s
            self._signal(signal.SIGTERM)
            # A stopped process does not handle TERM.
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            # All processes of the group have ended.
            return

    def _reap(self) -> None:
        for pid, status in reaped():
            if pid == self._pid:
                self._status = status


def kill_descendants() -> None:
    """Kill the remaining processes of the job. As a subreaper, this process is or becomes their parent."""
    while alive := children(os.getpid()):
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def job_end(status: int, reason: str | None) -> JobEnd:
    """Return the end of a job with this wait status. `reason`: TIME_LIMIT, CANCELLED or None."""
    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    if reason == TIME_LIMIT:
        return JobEnd(outcome=TIME_LIMIT, exit_code=CODE_TIME_LIMIT, detail="it exceeded its time limit")
    if reason == CANCELLED:
        return JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED)
    detail = f"killed by signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
    return JobEnd(outcome=FAILED if code else FINISHED, exit_code=code, detail=detail)


def supervise(store: Store, job_id: int, grace_s: float) -> JobEnd | None:
    """Run the job and return its end, or None if another supervisor has claimed it."""

    def claim() -> bool:
        with store.transaction():
            return store.change(job_id, only_from=(STARTING,), state=RUNNING, supervisor=os.getpid())

    if not persistently(job_id, claim, QueueStoreFull):
        return None
    job, submission = store.launch(job_id)
    if job.cancel is not None:
        return JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED)
    try:
        pid = start_process(job, submission)
    except NotStarted as error:
        return JobEnd(outcome=NOT_STARTED, exit_code=error.exit_code, detail=str(error))
    status, reason = SupervisedJob(pid, job.request_s, grace_s).wait()
    kill_descendants()
    return job_end(status, reason)


def persistently(job_id: int, act: Callable[[], T], error: type[HistoryError]) -> T:
    """Return the result of `act`. While it raises `error`, for example because the disk is full, try every second."""
    while True:
        try:
            return act()
        except error as problem:
            # The file of messages may be on the same full disk.
            with suppress(OSError):
                print(f"job {job_id}: {problem}", file=sys.stderr, flush=True)
            time.sleep(_RETRY_S)


def main(arguments: list[str]) -> int:
    """Run the supervisor; return 0 when the end of the job is recorded, or another supervisor runs it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    path, job_id, grace_s = Path(arguments[0]), int(arguments[1]), float(arguments[2])
    locks = queue_locks(path)
    if not locks.take(job_id):
        return 0
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    store = persistently(job_id, lambda: Store(path), QueueStoreFull)
    end = supervise(store, job_id, grace_s)
    if end is not None:
        recorded = end

        def record() -> None:
            with store.transaction():
                store.end(job_id, recorded, only_from=(RUNNING,))

        # The job keeps its processors until its end is recorded.
        persistently(job_id, record, HistoryError)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
