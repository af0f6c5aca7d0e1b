"""The manager's side of supervisors: it starts them, notices their end, and adopts those of an earlier manager.

A supervisor is watched through a process descriptor. When it ends, the store states the result of the job. If the store
has no result and no process holds the job's lock, the job is lost. Its processes are killed, and it is not run again.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from apples.daemons.ipc.eventloop import Loop
from apples.errors import HistoryError
from apples.livequeue import supervisor
from apples.livequeue.jobprocess import TOKEN_VARIABLE
from apples.livequeue.records import CODE_LOST, ENDED, LOST, NOT_STARTED, RUNNING, STARTING, JobEnd
from apples.livequeue.store import Store
from nws.base.lock import ByteLocks

#: Seconds until a supervisor that ended without claiming its job is replaced, and the number of attempts.
_RETRY_S, _ATTEMPTS = 0.2, 5
#: Seconds until a step is repeated that lacked space, memory or descriptors.
_SCARCE_S = 1.0

Log = Callable[[str], None]


class Supervisors:
    """The supervisors of one queue."""

    def __init__(
        self,
        loop: Loop,
        store: Store,
        locks: ByteLocks,
        *,
        grace_s: float,
        on_end: Callable[[int], None],
        log: Log,
    ) -> None:
        """Watch no supervisor yet.

        Args:
            loop: watches the process descriptors.
            store: the jobs.
            locks: the lock file of the store.
            grace_s: seconds from TERM to KILL when a job is ended.
            on_end: receives the id of each job whose end is in the store.
            log: receives one line for each event.
        """
        self._loop, self._store, self._locks = loop, store, locks
        self._grace_s, self._on_end, self._log = grace_s, on_end, log
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._watched: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._stderr_path = store.path.with_name(f"{store.path.name}.said")

    def launch(self, job_id: int) -> None:
        """Start a supervisor for a job in state `starting`. It claims the job, or ends if another has claimed it."""
        self._surely(job_id, self._start)

    def adopt(self, job_id: int) -> None:
        """Watch the supervisor of a job that was claimed under an earlier manager."""
        self._surely(job_id, self._adopt)

    def relaunch(self, job_id: int) -> None:
        """Start another supervisor for a job that none has claimed. The first of them that claims the job runs it."""
        self._surely(job_id, self._restart)

    def ask_to_end(self, job_id: int) -> None:
        """Send TERM to the supervisor of a running job."""
        self._surely(job_id, self._terminate)

    def _surely(self, job_id: int, step: Callable[[int], None]) -> None:
        """Call a step, again after a second as long as store or system lack something, as space or descriptors."""
        try:
            step(job_id)
        except (HistoryError, OSError) as error:
            self._log(
                f"job {job_id}: its supervisor cannot be started or watched now ({error}); trying again"
            )
            self._loop.after(_SCARCE_S, lambda: self._surely(job_id, step))

    def _start(self, job_id: int) -> None:
        command = [sys.executable, "-I", "-S", supervisor.__file__]
        command += [str(self._store.path), str(job_id), str(self._grace_s)]
        with self._stderr_path.open("ab") as file:
            self._children[job_id] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",
                start_new_session=True,
            )
        self._surely(job_id, self._watch_child)

    def _watch_child(self, job_id: int) -> None:
        # It is not waited for yet, so its process id cannot belong to another process.
        self._watch(job_id, os.pidfd_open(self._children[job_id].pid))

    def _restart(self, job_id: int) -> None:
        record = self._store.job(job_id)
        if record is None or record.state != STARTING:
            self._supervisor_ended(job_id)
            return
        with self._store.transaction():
            self._store.change(job_id, attempts=record.attempts + 1)
        self._start(job_id)

    def _adopt(self, job_id: int) -> None:
        record = self._store.job(job_id)
        assert record is not None
        assert record.supervisor is not None
        try:
            descriptor = os.pidfd_open(record.supervisor)
        except ProcessLookupError:
            self._supervisor_ended(job_id)
            return
        # While the lock is held its holder lives, so the process id cannot belong to another process.
        if self._locks.held(job_id):
            self._watch(job_id, descriptor)
        else:
            os.close(descriptor)
            self._supervisor_ended(job_id)

    def _terminate(self, job_id: int) -> None:
        record = self._store.job(job_id)
        if record is None or record.state != RUNNING or record.supervisor is None:
            return
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(record.supervisor)
            try:
                if self._locks.held(job_id):
                    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Stop to watch the supervisors. They continue."""
        for descriptor in self._watched.values():
            self._loop.forget(descriptor)
            os.close(descriptor)
        self._watched.clear()

    def _watch(self, job_id: int, descriptor: int) -> None:
        try:
            self._loop.watch(descriptor, lambda: self._watched_ended(job_id))
        except OSError:
            os.close(descriptor)
            raise
        self._watched[job_id] = descriptor

    def _watched_ended(self, job_id: int) -> None:
        descriptor = self._watched.pop(job_id)
        self._loop.forget(descriptor)
        os.close(descriptor)
        child = self._children.pop(job_id, None)
        if child is not None:
            child.wait()
        self._surely(job_id, self._supervisor_ended)

    def _supervisor_ended(self, job_id: int) -> None:
        record = self._store.job(job_id)
        assert record is not None
        if record.state == STARTING:
            self._retry(job_id)
            return
        if record.state == RUNNING:
            if self._locks.held(job_id):
                # Another supervisor has claimed the job.
                self._adopt(job_id)
                return
            self._lose(job_id, record.token)
        self._failures.pop(job_id, None)
        self._on_end(job_id)

    def _retry(self, job_id: int) -> None:
        failures = self._failures[job_id] = self._failures.get(job_id, 0) + 1
        if failures < _ATTEMPTS:
            self._loop.after(_RETRY_S, lambda: self.relaunch(job_id))
            return
        detail = f"its supervisor does not start; {self._stderr_path} says why"
        self._end(job_id, NOT_STARTED, detail, STARTING)
        self._on_end(job_id)

    def _lose(self, job_id: int, token: str) -> None:
        killed = kill_marked(token)
        left = f"; {killed} of its processes were killed" if killed else ""
        self._end(job_id, LOST, f"its supervisor was killed, how it ended is not known{left}", RUNNING)

    def _end(self, job_id: int, outcome: str, detail: str, state: str) -> None:
        end = JobEnd(outcome=outcome, exit_code=CODE_LOST, detail=detail)
        with self._store.transaction():
            written = self._store.end(job_id, end, only_from=(state,))
        record = self._store.job(job_id)
        assert record is not None
        assert record.state == ENDED
        if written:
            self._log(f"job {job_id} is {outcome}: {detail}")


def kill_marked(value: str, variable: str = TOKEN_VARIABLE) -> int:
    """Kill all processes with this value of an environment variable, and return their number.

    The search is repeated until it finds none, because a process may start another one at the same time.
    """
    mark, killed = f"{variable}={value}".encode(), 0
    while alive := [pid for pid in _process_ids() if mark in _environment(pid).split(b"\0")]:
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        time.sleep(0.01)
    return killed


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        # The process has ended, or belongs to another user.
        return b""
