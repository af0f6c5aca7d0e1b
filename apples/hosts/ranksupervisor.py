"""The supervisor of one rank: it starts the program, forwards signals and output, and records the end.

The effect of a failure on other ranks is decided in `apples.launching.termination`. The supervisor ends its program in
three cases only: its rank wrapper was killed, the lifeline was closed (by the launcher or its death), or the program
called MPI_Abort. Imported by the rank wrapper, so it imports little.
"""

from __future__ import annotations

import os
import select
import signal
import time

from apples.hosts import registering
from apples.hosts.kernel import (
    FORWARDED,
    INTERRUPTS,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    children,
    close_all_but,
    prctl,
    reaped,
    signal_pipe,
)
from apples.hosts.relays import Labeller, PmiRelay, segment_prefix
from apples.hosts.statusfile import LEFT_EARLY, StatusFile
from nws.base.scratch import remove_shared

#: Sent by the kernel when the rank wrapper is dead; users do not send this signal.
ORPHANED = signal.SIGALRM
LOST, CANNOT_EXECUTE, NOT_FOUND = 125, 126, 127

#: Seconds that output of an ended program may still take to drain.
DRAIN_S = 1.0


class RankSupervisor:
    """The supervisor of one rank's program, from its start to its end.

    fds : inherited descriptors by purpose: lifeline, events, stdout, stderr, pmi; each may be missing
    directory : where the program starts, None for this process's
    """

    def __init__(
        self,
        status: StatusFile,
        command: list[str],
        *,
        label: bool,
        fds: dict[str, int],
        directory: str | None = None,
    ) -> None:
        self._status, self._command, self._label, self._fds = status, command, label, fds
        self._directory = directory
        self._ended_by = "itself"
        self._program = 0
        self._wait_status: int | None = None
        self._peak_bytes: int | None = None
        self._poll = select.poll()
        self._relays: dict[int, Labeller | PmiRelay] = {}
        self._pmi: PmiRelay | None = None
        self._node = registering.NodeHold()
        self._wake = signal_pipe((*FORWARDED, ORPHANED, signal.SIGCHLD))

    def run(self, wrapper: int) -> int:
        """Run the program; return the wait status that was recorded.

        Args:
            wrapper: process id of the rank wrapper, the parent
        """
        # Not KILL: the supervisor has to record how the program ended after its wrapper was killed.
        prctl(PR_SET_PDEATHSIG, ORPHANED)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != wrapper:
            return self._record(LOST << 8, ended_by="parent")
        stdout, stderr = self._fds.get("stdout", 1), self._fds.get("stderr", 2)
        handed: list[int] = []
        if self._label:
            stdout, stderr = self._labelled(stdout), self._labelled(stderr)
            handed += [stdout, stderr]
        inherited: set[int] = set()
        if "pmi" in self._fds:
            inherited.add(self._relay_pmi(self._fds["pmi"]))
        if self._directory is not None:
            try:
                os.chdir(self._directory)
            except OSError as error:
                why = f"cannot start in {self._directory}: {error.strerror}"
                return self._record(LOST << 8, error=why)
        self._program, failure = started(self._command, (stdout, stderr), inherited)
        for fd in [*handed, *inherited]:
            os.close(fd)
        if failure is not None:
            os.waitpid(self._program, 0)
            code = NOT_FOUND if isinstance(failure, FileNotFoundError) else CANNOT_EXECUTE
            return self._record(
                code << 8, error=f"cannot run {self._command[0]}: {_why(self._command[0], failure)}"
            )
        self._status.pid = self._program
        self._status.started()
        self._register()
        self._poll.register(self._wake, select.POLLIN)
        if "lifeline" in self._fds:
            self._poll.register(self._fds["lifeline"], select.POLLIN)
        # Nothing else ends this loop: a request for the end kills the program, and its end is then seen here.
        while self._wait_status is None:
            self._serve(self._attend())
        self._sweep()
        if self._wait_status != 0 and self._pmi is not None and self._pmi.job is not None:
            remove_shared(segment_prefix(self._pmi.job))
        recorded = self._record(self._wait_status)
        if os.WIFEXITED(self._wait_status):
            _finalize_pmi(self._pmi, self._wake, self._fds.get("lifeline"))
        return recorded

    def _labelled(self, target: int) -> int:
        read, write = os.pipe()
        self._add(Labeller(read, target, self._status.rank))
        return write

    def _relay_pmi(self, hydra: int) -> int:
        import _socket

        supervisor_end, program_end = _socket.socketpair()
        self._pmi = PmiRelay(supervisor_end.detach(), hydra, self._status.directory)
        self._add(self._pmi)
        fd = program_end.detach()
        os.environ["PMI_FD"] = str(fd)
        return fd

    def _add(self, relay: Labeller | PmiRelay) -> None:
        for fd in relay.sources:
            self._relays[fd] = relay
            self._poll.register(fd, select.POLLIN)

    def _register(self) -> None:
        """Register the program with the node manager of this host. Without a node manager it runs unmanaged."""
        try:
            self._node.begin(self._status.rank, self._program)
        except OSError as error:
            why = f"without its node manager: {error.strerror or error}"
            os.write(self._fds.get("stderr", 2), f"apples: rank {self._status.rank} runs {why}\n".encode())
        if self._node.fd >= 0:
            self._poll.register(self._node.fd, select.POLLIN)

    def _attend(self) -> float | None:
        """Hold a new node manager and answer PMI when it is time; return the ms until the next, None for never."""
        if self._node.left_s() == 0.0:
            if self._node.resume():
                self._poll.register(self._node.fd, select.POLLIN)
            else:
                # The node manager may have left the program stopped.
                self._to_program(signal.SIGCONT)
        if self._pmi is not None and self._pmi.left_s() == 0.0:
            self._pmi.answer()
        times = (self._node.left_s(), None if self._pmi is None else self._pmi.left_s())
        return min((1000.0 * left + 1.0 for left in times if left is not None), default=None)

    def _serve(self, timeout_ms: float | None) -> None:
        """Handle the events of one poll."""
        for fd, _ in self._poll.poll(timeout_ms):
            if fd == self._wake:
                for number in os.read(self._wake, 4096):
                    self._on_signal(number)
            elif fd in self._relays:
                self._pump(fd)
            elif fd == self._node.fd:
                # The node manager has ended, perhaps while it held the program stopped.
                self._poll.unregister(fd)
                self._to_program(signal.SIGCONT)
                self._node.lose()
            else:
                # Only end of file can be read from the lifeline: the launcher closed it, or is dead.
                self._poll.unregister(fd)
                self._end("request")

    def _pump(self, fd: int) -> None:
        if not self._relays[fd].pump(fd):
            self._poll.unregister(fd)
            del self._relays[fd]
        if self._pmi is not None and self._pmi.aborted is not None:
            # The caller waits for hydra's answer, which does not come: the relay has kept the abort.
            self._to_program(signal.SIGKILL)

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == ORPHANED:
            self._end("parent")
        else:
            if number in INTERRUPTS:
                self._ended_by = "request"
            # To the whole group: the commands of a script get the signal with it.
            self._to_program(number)
            if number in INTERRUPTS and self._node.fd >= 0:
                # A stopped program would get the signal in its next time share only.
                self._to_program(signal.SIGCONT)

    def _end(self, why: str) -> None:
        if self._ended_by == "itself":
            self._ended_by = why
        self._to_program(signal.SIGKILL)

    def _reap(self) -> None:
        for pid, wait_status in reaped():
            if pid == self._program:
                self._wait_status = wait_status
                self._peak_bytes = largest_child_bytes()

    def _to_program(self, number: int) -> None:
        try:
            os.killpg(self._program, number)
        except ProcessLookupError:
            return

    def _sweep(self) -> None:
        """End the processes that the program left, then copy the rest of its output."""
        self._to_program(signal.SIGKILL)
        # As a subreaper this process inherits the children of the killed ones, so it looks again.
        while left := children(os.getpid()):
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            # Children that had ended before are no news.
            self._status.swept += os.waitpid(-1, 0)[1] == signal.SIGKILL
        deadline = time.monotonic() + DRAIN_S
        while any(isinstance(r, Labeller) for r in self._relays.values()) and time.monotonic() < deadline:
            self._serve(50)

    def _record(self, wait_status: int, *, ended_by: str | None = None, error: str | None = None) -> int:
        wait_status, error = _seen_by_pmi(self._pmi, wait_status, error, self._ended_by)
        self._status.ended(
            wait_status, ended_by=ended_by or self._ended_by, error=error, peak_bytes=self._peak_bytes
        )
        return wait_status


def _seen_by_pmi(
    pmi: PmiRelay | None, wait_status: int, error: str | None, ended_by: str
) -> tuple[int, str | None]:
    """Return wait status and error, corrected by the program's conversation with hydra."""
    if pmi is not None and pmi.aborted is not None:
        # An abort is a failure even with code 0.
        return (pmi.aborted & 0xFF or 1) << 8, f"aborted the run (MPI_Abort) with code {pmi.aborted}"
    if wait_status == 0 and ended_by == "itself" and pmi is not None and pmi.left_early:
        return wait_status, LEFT_EARLY
    return wait_status, error


def started(command: list[str], outputs: tuple[int, int], inherited: set[int]) -> tuple[int, OSError | None]:
    """Fork and execute a program, which dies with this process.

    Args:
        outputs: its stdout and stderr
        inherited: further descriptors that it keeps
    Returns:
        Its process id, and the error if it cannot be executed.
    """
    supervisor = os.getpid()
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # A group of its own, so that a signal reaches its children as well.
            os.setpgid(0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(LOST)
            # Ranks of hydra other than 0 have no input either.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(outputs[0], 1)
            os.dup2(outputs[1], 2)
            close_all_but(inherited | {report_write})
            for fd in inherited:
                os.set_inheritable(fd, True)
            for number in (*FORWARDED, ORPHANED, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            # `exec` closes this descriptor; an empty report therefore means success.
            os.write(report_write, str(error.errno).encode())
        finally:
            os._exit(LOST)
    os.close(report_write)
    with os.fdopen(report_read, "rb") as report:
        errno = report.read()
    return pid, OSError(int(errno), os.strerror(int(errno))) if errno else None


def _why(program: str, failure: OSError) -> str | None:
    from nws.base import scripts

    return scripts.fault(program) or failure.strerror


def largest_child_bytes() -> int:
    """Return the largest resident memory that a child of this process had; the program is the only large one."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def _finalize_pmi(pmi: PmiRelay | None, wake: int, lifeline: int | None) -> None:
    """Finish the program's conversation with hydra, as its exit handlers would have done.

    Wait for the answer, because hydra reports an error if it cannot deliver it. Stop waiting when the rank wrapper
    is dead or the lifeline is closed.
    """
    if pmi is None or (hydra := pmi.finalize()) is None:
        return
    poll = select.poll()
    for fd in (hydra, wake, hydra if lifeline is None else lifeline):
        poll.register(fd, select.POLLIN)
    # The program has ended: of the signals, only the wrapper's death matters.
    while (ready := [fd for fd, _ in poll.poll()]) == [wake]:
        if ORPHANED in os.read(wake, 4096):
            return
    if hydra in ready:
        # Closing the connection with the answer unread would reach hydra as a connection reset.
        pmi.pump(hydra)
