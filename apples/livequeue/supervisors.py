"""The manager's side of supervisors: starts them, sees them end, finds those that outlived an earlier manager.

A supervisor is watched through a process descriptor. When it is gone the store says what became of the job; where it
says nothing and nobody holds the job's lock, the job is lost: what is left of it is killed, and it is not run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from apples.ipc.loop import Loop
from apples.livequeue import supervisor
from apples.livequeue.jobprocess import TOKEN_VARIABLE
from apples.livequeue.records import (
    CODE_LOST,
    ENDED,
    LOST,
    NOT_STARTED,
    RUNNING,
    STARTING,
    JobEnd,
)
from apples.livequeue.store import Store
from nws.base.lock import ByteLocks

#: A supervisor that ends without a word is followed by another after so long, seconds; and so often.
_AGAIN_S, _TRIES = 0.2, 5

Say = Callable[[str], None]


class Supervisors:
    """Those of one queue. over : hears of each job whose end is in the store"""

    def __init__(
        self,
        loop: Loop,
        store: Store,
        locks: ByteLocks,
        *,
        grace_s: float,
        over: Callable[[int], None],
        say: Say,
    ) -> None:
        """grace_s : from TERM to KILL"""
        self._loop, self._store, self._locks = loop, store, locks
        self._grace_s, self._over, self._say = grace_s, over, say
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._watched: dict[int, int] = {}
        self._tries: dict[int, int] = {}
        self._said = store.path.with_name(f"{store.path.name}.said")

    def launch(self, job_id: int) -> None:
        """Start a supervisor for a job whose start is decided. It claims the job, or ends if another has."""
        command = [sys.executable, "-I", "-S", supervisor.__file__]
        command += [str(self._store.path), str(job_id), str(self._grace_s)]
        try:
            with self._said.open("ab") as said:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            self._say(f"job {job_id}: no supervisor can be started now ({error})")
            self._again(job_id)
            return
        self._children[job_id] = child
        self._watch(job_id, os.pidfd_open(child.pid))

    def adopt(self, job_id: int) -> None:
        """A job that was claimed under an earlier manager."""
        record = self._store.job(job_id)
        assert record is not None
        assert record.supervisor is not None
        try:
            descriptor = os.pidfd_open(record.supervisor)
        except ProcessLookupError:
            self._gone(job_id)
            return
        # While the lock is held its holder lives, so the number cannot have been given to another process.
        if self._locks.held(job_id):
            self._watch(job_id, descriptor)
        else:
            os.close(descriptor)
            self._gone(job_id)

    def ask_to_end(self, job_id: int) -> None:
        """Let the supervisor of a running job end it."""
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
        """Watch them no longer; they go on."""
        for descriptor in self._watched.values():
            self._loop.forget(descriptor)
            os.close(descriptor)
        self._watched.clear()

    def _watch(self, job_id: int, descriptor: int) -> None:
        self._watched[job_id] = descriptor
        self._loop.watch(descriptor, lambda: self._ended(job_id))

    def _ended(self, job_id: int) -> None:
        descriptor = self._watched.pop(job_id)
        self._loop.forget(descriptor)
        os.close(descriptor)
        child = self._children.pop(job_id, None)
        if child is not None:
            child.wait()
        self._gone(job_id)

    def _gone(self, job_id: int) -> None:
        record = self._store.job(job_id)
        assert record is not None
        if record.state == STARTING:
            self._again(job_id)
            return
        if record.state == RUNNING:
            if self._locks.held(job_id):
                # Another was quicker.
                self.adopt(job_id)
                return
            self._lost(job_id, record.token)
        self._tries.pop(job_id, None)
        self._over(job_id)

    def _again(self, job_id: int) -> None:
        tries = self._tries[job_id] = self._tries.get(job_id, 0) + 1
        if tries < _TRIES:
            self._loop.after(_AGAIN_S, lambda: self.relaunch(job_id))
            return
        detail = f"its supervisor does not start; {self._said} says why"
        self._end(job_id, NOT_STARTED, detail, STARTING)
        self._over(job_id)

    def relaunch(self, job_id: int) -> None:
        """Another supervisor for a job that none has claimed yet; one that is on its way may be quicker."""
        with self._store.transaction():
            self._store.attempted(job_id)
        self.launch(job_id)

    def _lost(self, job_id: int, token: str) -> None:
        killed = kill_marked(token)
        left = f"; {killed} of its processes were killed" if killed else ""
        self._end(job_id, LOST, f"its supervisor was killed, how it ended is not known{left}", RUNNING)

    def _end(self, job_id: int, outcome: str, detail: str, state: str) -> None:
        how = JobEnd(outcome=outcome, exit_code=CODE_LOST, ended_at=time.time(), detail=detail)
        with self._store.transaction():
            written = self._store.end(job_id, how, only_from=(state,))
        record = self._store.job(job_id)
        assert record is not None
        assert record.state == ENDED
        if written:
            self._say(f"job {job_id} is {outcome}: {detail}")


def kill_marked(token: str) -> int:
    """Kill every process that has a job's token in its environment; how many there were.

    Repeated until none is found, because one may be starting another meanwhile.
    """
    mark, killed = f"{TOKEN_VARIABLE}={token}".encode(), 0
    while found := [pid for pid in _pids() if mark in _environment(pid).split(b"\0")]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        time.sleep(0.01)
    return killed


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        # It has ended, or is another user's.
        return b""
