"""The monitor's page of one process: its measurements, and the settings of its node manager.

A page is a file of 4096 bytes in shared memory. The process writes the first half at every MPI call, under a sequence
number (odd while it writes). The node manager writes the second half. `pagelayout` has the fields, in the byte order
of the machine. Pages are read and written through the file and never mapped: a page that its owner truncates
must not end a daemon with SIGBUS.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Wait
from apples.errors import MonitorError
from apples.monitoring.counters import MonitorState, PageCounters, PageTimes, Sent, could_run_s
from apples.monitoring.names import WAYS
from apples.monitoring.pagelayout import (
    ALL,
    MAGIC,
    MANAGER_AT,
    MANAGER_CODES,
    NEIGHBOUR,
    NEIGHBOURS,
    PAGE_BYTES,
    SEQUENCE_AT,
    TIMES,
    VERSION,
    WAY_COSTS,
    PageLayout,
)
from nws.base.closing import Closing
from nws.base.records import copied

#: Times a page is read again because its process was just writing; one that was stopped while it wrote stays odd.
_ATTEMPTS = 20

#: How a wait is written into the page; 0 leaves it to the MPI library.
_WAITS = {None: 0, Wait.POLL: 1, Wait.SPIN_BLOCK: 2, Wait.ADAPTIVE: 3}


_STATES = frozenset(MonitorState)


class _Times(NamedTuple):
    """Times of a page up to now, nanoseconds."""

    cpu: int
    comm: int
    off: int
    queued: int
    stopped: int
    updated: int


class Phase(IntEnum):
    """Current activity of the process; UNKNOWN if several threads call MPI."""

    UNKNOWN = 0
    COMPUTING = 1
    WAITING = 2


class _ThreadSchedule:
    """Times of the thread that a page names, from a file in /proc that stays open."""

    def __init__(self) -> None:
        self._fd, self._thread = -1, (0, 0)

    def read(self, pid: int, tid: int) -> tuple[int, int] | None:
        """Return the CPU time of a thread and its time in the run queue, nanoseconds; None if it has ended."""
        try:
            if self._thread != (pid, tid):
                self.close()
                self._fd = os.open(f"/proc/{pid}/task/{tid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                self._thread = pid, tid
            used, queued, _ = os.pread(self._fd, 80, 0).split()
        except (OSError, ValueError):
            self.close()
            return None
        return int(used), int(queued)

    def close(self) -> None:
        """Close the file; the next read opens another one."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._thread = -1, (0, 0)


class MonitorPage(Closing):
    """An open page. All methods raise `MonitorError` if the file is no page any more."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._schedule = _ThreadSchedule()
        fixed = self._fields()
        self.pid = int(fixed.pid)
        self.rank = int(fixed.rank)
        self.ranks = int(fixed.ranks)
        self.started_s = int(fixed.started_ns) * 1e-9

    @staticmethod
    def attach(path: Path | str, *, owner: int | None = None) -> MonitorPage:
        """Open the page of a process, running or ended; raises `MonitorError`.

        `owner` is the required owner of the file; None for any user.
        """
        path = Path(path)
        try:
            fd = _open(path, owner)
        except (OSError, ValueError) as error:
            # Names with a null byte or half a character are a ValueError of Python's.
            why = error.strerror if isinstance(error, OSError) else error
            raise MonitorError(
                f"{str(path)!r}: the monitor's page cannot be opened: {why}; name the file that the process made"
            ) from error
        try:
            return MonitorPage(path, fd)
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        """Close the file, which stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._schedule.close()

    @property
    def state(self) -> MonitorState:
        """Return the progress of the process."""
        return MonitorState(self._fields().state)

    def reading(self, held_since_s: float | None = None) -> MonitorCounts:
        """Return T_cpu, T_comm and C_comm since the start, up to now; `held_since_s` as for `figures`."""
        return self.figures(held_since_s).reading

    def requests(self) -> int:
        """Return the number of messages from scheduled senders while this process was not scheduled."""
        return int(self._fields().requests)

    def figures(self, held_since_s: float | None = None) -> PageCounters:
        """Return all values up to now; computation or waiting since the last MPI call is added.

        The argument `held_since_s` is the begin of a stop on CLOCK_MONOTONIC that `add_stopped` does not include
        yet, None while the process runs. A wait counts until that instant.
        """
        fields = self._fields()
        running = fields.state == MonitorState.RUNNING and _lives(fields.pid, fields.tid)
        times = self._up_to_now(fields, held_since_s, running=running)
        return copied(
            PageCounters,
            fields,
            state=MonitorState(fields.state),
            started_s=fields.started_ns * 1e-9,
            ended_s=fields.ended_ns * 1e-9 if fields.ended_ns else None,
            updated_s=times.updated * 1e-9,
            t_cpu_s=times.cpu * 1e-9,
            t_comm_s=times.comm * 1e-9,
            last_request_s=fields.last_request_ns * 1e-9 if fields.last_request_ns else None,
            mpi=_text(fields.mpi),
            host=_text(fields.host),
            stopped_s=times.stopped * 1e-9,
            off_s=times.off * 1e-9,
            queued_s=times.queued * 1e-9,
            **_usage(fields),
        )

    def times(self, held_since_s: float | None = None) -> PageTimes:
        """Return the values that a node manager reads at heartbeats, at a third of the cost of `figures`.

        Arguments and values are those of `figures`. The process must not have ended, as far as the caller knows.
        """
        fields = self._fields(TIMES)
        running = fields.state == MonitorState.RUNNING
        times = self._up_to_now(fields, held_since_s, running=running)
        cpu_s, threads = times.cpu * 1e-9, fields.threads
        elapsed_s = ((fields.ended_ns or times.updated) - fields.started_ns) * 1e-9
        return PageTimes(
            reading=MonitorCounts(cpu_s, times.comm * 1e-9, fields.c_comm),
            ran_s=could_run_s(elapsed_s, times.stopped * 1e-9, cpu_s / max(threads, 1)),
            threads=threads,
            off_s=times.off * 1e-9,
            queued_s=times.queued * 1e-9,
        )

    def _up_to_now(self, fields: SimpleNamespace, held_since_s: float | None, *, running: bool) -> _Times:
        """Return times with those since the last MPI call. `held_since_s`: as for `figures`"""
        now_ns, stopped_ns, schedule = time.monotonic_ns(), self._stopped_ns(), None
        if running and not fields.sequence & 1:
            schedule = self._schedule.read(fields.pid, fields.tid)
        return _up_to(now_ns, fields, stopped_ns, schedule, held_since_s)

    def set_wait(self, wait: Wait | None, spin_s: float = 120e-6) -> None:
        """Set how the process waits from now on, also in a current wait; None: as its MPI does.

        The argument `spin_s` is the spin time before it blocks, if it spin-blocks.
        """
        self._put("spin_ns", spin_s * 1e9)
        self._put("wait", _WAITS[wait])

    def add_stopped(self, seconds: float) -> None:
        """Add time held stopped; to be called before the process is resumed.

        A stop in the middle of a communication then does not count as waiting.
        """
        self._put("stopped_ns", self._stopped_ns() + max(seconds * 1e9, 0.0))

    def set_scheduled(self, scheduled: bool) -> None:
        """Set whether the process's job is the scheduled one here; the status is sent with its messages."""
        self._put("scheduled", int(scheduled))

    def _stopped_ns(self) -> int:
        return int(struct.unpack("=Q", self._get(8, MANAGER_AT["stopped_ns"]))[0])

    def _fields(self, layout: PageLayout = ALL) -> SimpleNamespace:
        """Return a consistent copy of fields of the process's half: read again while it is being written."""
        raw = b""
        for _ in range(_ATTEMPTS):
            before = self._get(4, SEQUENCE_AT)
            raw = self._get(layout.form.size, 0)
            if (
                before == raw[SEQUENCE_AT : SEQUENCE_AT + 4] == self._get(4, SEQUENCE_AT)
                and not before[0] & 1
            ):
                break
        fields = SimpleNamespace(**dict(zip(layout.names, layout.form.unpack(raw), strict=True)))
        if fields.magic != MAGIC or fields.version != VERSION:
            raise MonitorError(
                f"{self.path}: not a page of the monitor (magic {fields.magic:#x}, version {fields.version}); "
                f"legal is version {VERSION}: run the program with the monitor of this installation"
            )
        if fields.state not in _STATES:
            raise MonitorError(
                f"{self.path}: not a page of the monitor (state {fields.state}); legal are {min(_STATES)} to "
                f"{max(_STATES)}: only the monitor may write into it"
            )
        return fields

    def _get(self, count: int, at: int) -> bytes:
        try:
            raw = os.pread(self._fd, count, at)
        except OSError as error:
            raise MonitorError(f"{self.path}: the monitor's page cannot be read: {error.strerror}") from error
        if len(raw) < count:
            raise MonitorError(
                f"{self.path}: not a page of the monitor: expected {PAGE_BYTES} bytes, it ends before {at + count}"
            )
        return raw

    def _put(self, name: str, number: float) -> None:
        try:
            os.pwrite(self._fd, struct.pack("=" + MANAGER_CODES[name], round(number)), MANAGER_AT[name])
        except (struct.error, ValueError, OverflowError):
            # Added to the value there, which the page's owner may have written.
            raise MonitorError(
                f"{self.path}: {name} of the monitor's page would be {number}, more than fits; "
                "only the node manager may write there"
            ) from None
        except OSError as error:
            raise MonitorError(
                f"{self.path}: the monitor's page cannot be written: {error.strerror}"
            ) from error


def _open(path: Path, owner: int | None) -> int:
    """Open a regular file of its owner and nothing else: opening a device may have effects."""
    seen = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(seen)
        if not stat.S_ISREG(about.st_mode) or (owner is not None and about.st_uid != owner):
            whose = f" of user {owner}" if owner is not None else ""
            raise MonitorError(
                f"{path}: not a page of the monitor: expected a regular file{whose}; name the file the process made"
            )
        # The file that was checked, even if another one has its name now.
        return os.open(f"/proc/self/fd/{seen}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(seen)


def _usage(fields: SimpleNamespace) -> dict[str, Any]:
    """Return the fields of `PageCounters` on the process as a whole, its loop and its messages."""
    begun_ns, costs = fields.begun_ns, WAY_COSTS.unpack(fields.way_permille)
    table = fields.neighbour
    sent = [
        Sent(rank=rank, messages=messages, bytes=size)
        for rank, messages, size in (
            NEIGHBOUR.unpack_from(table, index * NEIGHBOUR.size)
            for index in range(min(fields.neighbours, NEIGHBOURS))
        )
    ]
    if fields.other_messages:
        sent.append(Sent(rank=None, messages=fields.other_messages, bytes=fields.other_bytes))
    return {
        "init_s": (fields.started_ns - begun_ns) * 1e-9 if begun_ns else None,
        "init_cpu_s": fields.init_cpu_ns * 1e-9,
        "cpu_s": fields.cpu_ns * 1e-9,
        "peak_bytes": fields.peak_bytes,
        "iterations": fields.iterations,
        "period": fields.period,
        "neighbours": tuple(sent),
        "best_wait": WAYS[fields.best_way - 1] if 0 < fields.best_way <= len(WAYS) else None,
        "wait_costs": {way: cost / 1000 for way, cost in zip(WAYS, costs, strict=True) if cost},
    }


def _up_to(
    now_ns: int,
    fields: SimpleNamespace,
    stopped_ns: int,
    schedule: tuple[int, int] | None,
    held_since_s: float | None,
) -> _Times:
    """Return times up to an instant. `schedule`: CPU time and run queue time of the thread, None unless it runs"""
    waited_until_ns = now_ns if held_since_s is None else min(now_ns, round(held_since_s * 1e9))
    cpu_ns, comm_ns, updated_ns = fields.t_cpu_ns, fields.t_comm_ns, fields.updated_ns
    off_ns, queued_ns = fields.off_ns, fields.queued_ns
    if schedule is not None:
        used_ns, waited_ns = schedule
        updated_ns = max(updated_ns, now_ns)
        if fields.phase == Phase.COMPUTING:
            computed_ns = max(used_ns - fields.phase_cpu_ns, 0)
            missed_ns = max(waited_until_ns - fields.phase_wall_ns - computed_ns, 0)
            cpu_ns += computed_ns
            off_ns += missed_ns
            queued_ns += min(max(waited_ns - fields.phase_queued_ns, 0), missed_ns)
        elif fields.phase == Phase.WAITING:
            held_ns = stopped_ns - fields.phase_stopped_ns
            comm_ns += max(waited_until_ns - fields.phase_wall_ns - held_ns, 0)
    if fields.state == MonitorState.FINALIZED:
        stopped_ns = fields.phase_stopped_ns
    else:
        stopped_ns += now_ns - waited_until_ns
    return _Times(cpu_ns, comm_ns, off_ns, queued_ns, stopped_ns, updated_ns)


def _lives(pid: int, tid: int) -> bool:
    """Return whether a thread has not ended."""
    try:
        with open(f"/proc/{pid}/task/{tid}/stat", "rb") as file:
            # The name is in brackets and may contain any characters, brackets too.
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
