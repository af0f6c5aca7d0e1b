"""Runs one job of the queue: claims it, starts it, holds it to its time, writes down how it ended.

A bare script (`python -I -S supervisor.py STORE JOB GRACE`), in a session of its own, so that it outlives the
manager. It holds the job's lock while it lives. Only the one that moves the job from `starting` to `running` in the
store runs it; any number may try. TERM asks for the job's end: TERM for its process group, KILL after the grace. What a
job leaves behind is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from pathlib import Path

from apples.errors import HistoryError
from apples.launching.kernel import PR_SET_CHILD_SUBREAPER, children, prctl, reaped
from apples.livequeue.jobprocess import NotStarted, start_process
from apples.livequeue.locks import queue_locks
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    CODE_TIME_LIMIT,
    FAILED,
    FINISHED,
    NOT_STARTED,
    RUNNING,
    TIME_LIMIT,
    JobEnd,
)
from apples.livequeue.store import Store

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Looked at again so often although no signal came, seconds.
_LONGEST_SLEEP_S = 3600.0


class SupervisedJob:
    """A job's process from its start to its end.

    pid : leads a group of its own.  grace_s : from TERM to KILL
    """

    def __init__(self, pid: int, limit_s: float, grace_s: float) -> None:
        self._pid, self._grace_s = pid, grace_s
        self._limit = time.monotonic() + limit_s
        self._kill_at: float | None = None
        self._why: str | None = None
        self._status: int | None = None

    def wait(self) -> tuple[int, str | None]:
        """(wait status, why it was asked to end or None), once it has ended."""
        while self._status is None:
            until = self._limit if self._kill_at is None else self._kill_at
            left = min(max(until - time.monotonic(), 0.0), _LONGEST_SLEEP_S)
            came = signal.sigtimedwait(_SIGNALS, left)
            if came is not None and came.si_signo != signal.SIGCHLD:
                self._end(CANCELLED)
            self._reap()
            if self._status is None and time.monotonic() >= until:
                self._overdue()
        return self._status, self._why

    def _overdue(self) -> None:
        if self._kill_at is None:
            self._end(TIME_LIMIT)
        else:
            self._signal(signal.SIGKILL)
            self._kill_at = time.monotonic() + max(self._grace_s, 0.1)

    def _end(self, why: str) -> None:
        if self._why is None:
            self._why = why
            self._kill_at = time.monotonic() + self._grace_s
            self._signal(signal.SIGTERM)
            # One that somebody has stopped would not hear of it.
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            # All of it has ended meanwhile.
            return

    def _reap(self) -> None:
        for pid, status in reaped():
            if pid == self._pid:
                self._status = status


def kill_descendants() -> None:
    """Everything that the job has started and that lives on is our child by now, or becomes it."""
    while found := children(os.getpid()):
        for pid in found:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def job_end(status: int, why: str | None) -> JobEnd:
    """What a wait status means."""
    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    now = time.time()
    if why == TIME_LIMIT:
        return JobEnd(
            outcome=TIME_LIMIT,
            exit_code=CODE_TIME_LIMIT,
            ended_at=now,
            detail="it outlived what it asked for",
        )
    if why == CANCELLED:
        return JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=now)
    detail = f"killed by signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
    return JobEnd(outcome=FAILED if code else FINISHED, exit_code=code, ended_at=now, detail=detail)


def supervise(store: Store, job_id: int, grace_s: float) -> JobEnd | None:
    """Run the job; None where it is not ours to run."""
    with store.transaction():
        if not store.claim(job_id, os.getpid()):
            return None
    job, what = store.launch(job_id)
    if job.cancel is not None:
        return JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=time.time())
    try:
        pid = start_process(job, what)
    except NotStarted as error:
        return JobEnd(outcome=NOT_STARTED, exit_code=error.exit_code, ended_at=time.time(), detail=str(error))
    status, why = SupervisedJob(pid, job.request_s, grace_s).wait()
    kill_descendants()
    return job_end(status, why)


def main(arguments: list[str]) -> int:
    """Returns 0 when the job's end is written down, or there was nothing to do."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    path, job_id, grace_s = Path(arguments[0]), int(arguments[1]), float(arguments[2])
    locks = queue_locks(path)
    if not locks.take(job_id):
        return 0
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    store = Store(path)
    ending = supervise(store, job_id, grace_s)
    while ending is not None:
        try:
            with store.transaction():
                store.end(job_id, ending, only_from=(RUNNING,))
            break
        except HistoryError as error:
            # The disk is full, say: the job has ended all the same, and until that is written it keeps its place.
            print(f"job {job_id}: {error}", file=sys.stderr, flush=True)
            time.sleep(1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
