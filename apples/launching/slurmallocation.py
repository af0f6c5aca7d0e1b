"""Allocations: the one we are in, or one that is made, waited for, held and given back. Decides nothing about runs.

`salloc` makes it, under `allocationkeepalive.py`, which gives it back whatever becomes of us. While the job waits, its
state and expected start are told as they change; a wait that cannot end is an error with Slurm's reason.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from apples.errors import LaunchError
from apples.launching import allocationkeepalive
from apples.launching.command import BARE
from apples.launching.launcher import Notify
from apples.model.hostlist import fold
from apples.slurm import runner
from apples.slurm.commands import Shape, Wishes, salloc
from apples.slurm.meanings import WAITS, hopeless, meaning
from apples.slurm.records import Job

KEEP_ALIVE = Path(allocationkeepalive.__file__)

#: Seconds between looks at a job that waits, and until an allocation that was given back must be gone.
LOOK_S, GONE_S = 2.0, 15.0
#: Seconds a job that has ended may take to be cleared from its nodes before we ask no more what became of it.
CLEARED_S = 10.0

_PENDING = re.compile(r"(?:Pending|Granted) job allocation (\d+)")


class AllocationRefused(LaunchError):
    """Slurm does not give what the plan needs.

    unavailable : hosts of the plan that are not to be had any more; the plan is to be made without them
    """

    def __init__(self, text: str, unavailable: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.unavailable = dict(unavailable or {})


class Allocation(Protocol):
    """Nodes that are ours for a while; a context manager.

    number : of the job.  left_s : until its time limit, inf for none
    """

    number: str
    left_s: float

    def __enter__(self) -> Self:
        """Ours from here on."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No longer needed."""

    def fate(self) -> Job | None:
        """What Slurm says of the job, for finding out why it ended; None where it says nothing."""


class EnclosingAllocation:
    """The allocation in which we run ourselves; it is not ours to give back."""

    def __init__(self, number: str, left_s: float) -> None:
        self.number, self.left_s = number, left_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stays."""

    def fate(self) -> Job | None:
        """See `Allocation.fate`."""
        return runner.job(self.number)


class OwnAllocation:
    """An allocation that is made on entry, which may take long, and given back on exit, whatever happens."""

    def __init__(self, shape: Shape, wishes: Wishes, notify: Notify) -> None:
        self.number = ""
        self.left_s = 60.0 * shape.minutes
        self._shape, self._wishes, self._notify = shape, wishes, notify
        self._guard: subprocess.Popen[bytes] | None = None
        self._lifeline = self._answer = self._salloc = -1
        self._said = b""
        self._told = ""

    def __enter__(self) -> Self:
        """Raises `AllocationRefused` with Slurm's reason, `ProgramNotFound` where there is no Slurm."""
        try:
            self._start()
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self.close()

    def fate(self) -> Job | None:
        """See `Allocation.fate`; what `salloc` was told counts more than what the controller shows meanwhile."""
        text = self._said.decode(errors="replace").lower()
        if "time limit" in text:
            return Job(number=self.number, state="TIMEOUT")
        if "preempted" in text:
            return Job(number=self.number, state="PREEMPTED")
        deadline = time.monotonic() + CLEARED_S
        job = runner.job(self.number)
        while job is not None and job.state == "COMPLETING" and time.monotonic() < deadline:
            # why it ended is shown when all its nodes are cleared
            time.sleep(LOOK_S / 4)
            job = runner.job(self.number)
        return job

    def close(self) -> None:
        """Give it back and wait until it is; does nothing the second time."""
        guard, self._guard = self._guard, None
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if guard is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(GONE_S)
        if guard.poll() is None:
            guard.kill()
            guard.wait()
        self._hear(guard)
        if guard.returncode < 0 and self.number:
            # It was killed, perhaps with the job still in the queue. A job that is cancelled while its `salloc` gives
            # it back can leave that waiting for ever, so one comes after the other.
            if self._salloc >= 0:
                allocationkeepalive.end(self._salloc)
            runner.tried(["scancel", "--quiet", self.number])
        assert guard.stderr is not None
        guard.stderr.close()
        for fd in (self._answer, self._salloc):
            if fd >= 0:
                os.close(fd)
        self._answer = self._salloc = -1

    def _start(self) -> None:
        lifeline, self._lifeline = os.pipe()
        self._answer, answer = os.pipe()
        command = salloc(self._shape, self._wishes, ["hold"])
        command[0] = runner.find("salloc")
        words = [sys.executable, *BARE, str(KEEP_ALIVE), "guard", str(lifeline), str(answer), *command]
        try:
            self._guard = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(lifeline, answer),
                env=runner.slurm_environment(),
                # A Ctrl-C at the terminal ends it through us, in its turn.
                start_new_session=True,
            )
        finally:
            os.close(lifeline)
            os.close(answer)
        assert self._guard.stderr is not None
        os.set_blocking(self._guard.stderr.fileno(), False)

    def _wait(self) -> None:
        """Until the nodes are ours; raises `AllocationRefused`."""
        assert self._guard is not None
        assert self._guard.stderr is not None
        poll = select.poll()
        poll.register(self._guard.stderr, select.POLLIN)
        poll.register(self._answer, select.POLLIN)
        look_at = time.monotonic() + LOOK_S / 4
        while True:
            found = [fd for fd, _ in poll.poll(1000.0 * max(0.0, look_at - time.monotonic()))]
            if self._answer in found:
                answer = os.read(self._answer, 64)
                if answer:
                    self.number, salloc_pid = answer.decode().split()
                    with contextlib.suppress(ProcessLookupError):
                        self._salloc = os.pidfd_open(int(salloc_pid))
                    return
                raise self._refusal(self._guard.wait())
            self._hear()
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + LOOK_S

    def _hear(self, guard: subprocess.Popen[bytes] | None = None) -> None:
        """Take what `salloc` has said so far."""
        guard = guard or self._guard
        if guard is None or guard.stderr is None:
            return
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(guard.stderr.fileno(), 1 << 16):
                self._said += chunk
        match = _PENDING.search(self._said.decode(errors="replace"))
        if match is not None:
            self.number = match[1]

    def _refusal(self, code: int) -> AllocationRefused:
        self._hear()
        said = self._said.decode(errors="replace")
        what = f"Slurm gives no allocation of {fold(self._shape.hosts)}: {meaning(said, code)}"
        return AllocationRefused(what)

    def _look(self) -> None:
        """Tell what the job waits for, if that is new; raises `AllocationRefused` when it will wait in vain."""
        job = runner.job(self.number) if self.number else None
        if job is None or job.state != "PENDING":
            return
        # an expected start that is put off by seconds, look after look, is no news
        news = f"{job.reason} {job.expected[: len('2026-01-01T10:00')]}"
        if news != self._told:
            self._notify(waiting_text(job))
            self._told = news
        why = hopeless(job.reason)
        if why is not None:
            raise AllocationRefused(
                f"job {job.number} would wait in vain ({job.reason.replace('_', ' ')}): {why}",
                self._unavailable(job.reason.partition(",")[0]),
            )

    def _unavailable(self, reason: str) -> dict[str, str]:
        """Hosts of the plan that are gone since it was made."""
        if reason not in ("ReqNodeNotAvail", "NodeDown"):
            return {}
        nodes = runner.nodes()
        found = {host: nodes[host].away for host in self._shape.hosts if host in nodes and nodes[host].away}
        return found or dict.fromkeys(self._shape.hosts, "is not available to Slurm")


def waiting_text(job: Job) -> str:
    """What a job waits for, and until when, as far as Slurm says."""
    why = WAITS.get(job.reason or "None", f"({job.reason})")
    until = "" if job.expected in ("", "N/A", "Unknown") else f"; expected to start at {job.expected}"
    return f"job {job.number} waits {why}{until}"
