"""The processes of one launch on this machine: started, listened to, signalled, and certainly gone.

Two pipes hold it together. The *lifeline*'s write end is only here: when it closes, for whatever reason
(cut on purpose, or this process killed), every keeper kills its program. The *events* pipe's write end
is inherited by `mpiexec`, the proxy, the fronts and the keepers: a keeper writes its rank when its status has
changed, and end of file proves that not one of these processes is left. Nothing here decides.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from apples.errors import LaunchError
from apples.launching.command import rank_environment, with_parent_death
from apples.launching.kernel import children
from apples.launching.launcher import LaunchRequest
from apples.launching.ranksupervisors import RankSupervisors
from apples.launching.statuses import RankRecord, clear_statuses, read_status
from apples.launching.steering import LOOK_EVERY_S, PROGRESS, FileTail, clear, offer

#: Seconds that killed processes may take to be gone before we stop waiting for them.
GONE_S = 5.0


class Processes:
    """`mpiexec` and everything below it, from start to end.

    records : what every rank has recorded so far, by rank
    """

    def __init__(self, request: LaunchRequest, command: list[str]) -> None:
        """Start the run; raises `LaunchError` when the operating system refuses."""
        self.records: dict[int, RankRecord] = {}
        self._run_dir: Path = request.run_dir
        self._keepers = RankSupervisors()
        self._partial = b""
        self.said_path = request.run_dir / "mpiexec.log"
        self._tail = None if request.controller is None else FileTail(str(request.run_dir / PROGRESS))
        self._look_at = time.monotonic() + LOOK_EVERY_S
        clear_statuses(request.run_dir)
        clear(str(request.run_dir))
        sys.stdout.flush()
        lifeline_read, self._lifeline = os.pipe()
        self.events, events_write = os.pipe()
        os.set_blocking(self.events, False)
        outputs = (os.dup(2 if request.program_output_to_stderr else 1), os.dup(2))
        fds = (lifeline_read, events_write, *outputs)
        try:
            with open(self.said_path, "wb") as said:
                self._mpiexec = subprocess.Popen(
                    with_parent_death(command, os.getpid()),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env=rank_environment(request, os.environ, fds),
                    pass_fds=fds,
                    # A Ctrl-C at the terminal must reach the ranks through us, once.
                    start_new_session=True,
                )
        except OSError as error:
            os.close(self.events)
            self.cut()
            raise LaunchError(f"cannot start {command[0]}: {error.strerror}") from error
        finally:
            for fd in fds:
                os.close(fd)

    def listen(self) -> tuple[list[RankRecord], bool]:
        """Records that are new since the last call, and whether all processes are gone."""
        data = b""
        over = False
        with contextlib.suppress(BlockingIOError):
            while not over:
                chunk = os.read(self.events, 1 << 16)
                over = not chunk
                data += chunk
        *ranks, self._partial = (self._partial + data).split(b"\n")
        return [self._update(int(rank)) for rank in dict.fromkeys(ranks)], over

    @property
    def wake_at(self) -> float | None:
        """When the progress is looked at next, if somebody wants to know."""
        return None if self._tail is None else self._look_at

    def told(self) -> list[bytes]:
        """Lines of progress that are new since the last call."""
        if self._tail is None or (now := time.monotonic()) < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY_S
        return self._tail.lines()

    def offer(self, heights: str) -> None:
        """Let the run find new slabs."""
        offer(str(self._run_dir), heights)

    def troubles(self) -> Mapping[str, str]:
        """This machine is not lost while we live."""
        return {}

    def forward(self, number: signal.Signals) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._keepers.forward(number)

    def cut(self) -> None:
        """Let go of the lifeline: every keeper kills its program and ends. Does nothing the second time."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def kill(self) -> None:
        """Kill `mpiexec`, its proxy and the keepers from here; programs die with their keepers."""
        for pid in children(self._mpiexec.pid):
            # Also a proxy that was stopped, and could not notice that mpiexec is gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._mpiexec.kill()
        self._keepers.kill()

    def close(self) -> int:
        """Make sure that nothing is left, whatever went before; returns the exit code of `mpiexec`."""
        self.cut()
        deadline = time.monotonic() + GONE_S
        while not self.listen()[1]:
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(0.01)
        code = self._mpiexec.wait()
        os.close(self.events)
        self._keepers.close()
        return code

    def said(self) -> str:
        """What `mpiexec` itself printed; the file goes when it is empty."""
        text = self.said_path.read_text(encoding="utf-8", errors="replace")
        if not text:
            self.said_path.unlink()
        return text

    def _update(self, rank: int) -> RankRecord:
        record = read_status(self._run_dir, rank)
        if record is None:
            raise LaunchError(
                f"the status of rank {rank} disappeared from {self._run_dir} while it ran; "
                "use a run directory that nothing else cleans"
            )
        self.records[rank] = record
        if record.ended is None:
            self._keepers.add(rank, record.keeper)
        return record
