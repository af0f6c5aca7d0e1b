"""What hydra really starts for every rank: runs the program, records how it ended, dies with its parents.

Started by path as a bare script (`python -I -S shim.py RUN_DIR HOSTS [--label] -- PROGRAM ARGUMENTS`), so it
imports only what it cannot do without. Per rank there are three processes:

    hydra_pmi_proxy ── front ── keeper ── program
                       (waits)  (records)

hydra kills the *front* without warning when any rank fails. The *keeper* stands in a session of its own, so
it lives long enough to see how the program really ended. Every link has a parent-death signal, and the keeper
holds the read end of the launcher's lifeline pipe: whoever is killed, the program goes. `RUN_DIR/status-00003.json`
is written when the program has started and again when it has ended, each time beside and renamed.

The environment variable `APPLES_SHIM_FDS` holds four inherited descriptors: lifeline, events, stdout, stderr.
Without it (a command pasted from `--dry-run`) output goes through hydra and only the parents are watched.
It does not decide what a failure means; that is `apples.launching.verdict`.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORPHANED = signal.SIGALRM
CANNOT_EXECUTE, NOT_FOUND, LOST = 126, 127, 125

#: Seconds a program keeps after its front was killed. MPI_Abort makes hydra kill the fronts while the caller
#: is still leaving; whoever leaves by itself in this time is the one that aborted.
LAST_WORDS_S = 0.1
#: Seconds that output of an ended program may still take to drain.
DRAIN_S = 1.0
LONGEST_LINE = 1 << 20

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


def prctl(option: int, value: int) -> None:
    """Linux `prctl(option, value)`; raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def quoted(text: str) -> str:
    """`text` as a JSON string, without the import of json (2 ms)."""
    return '"' + "".join(c if c >= " " and c not in '"\\' else f"\\u{ord(c):04x}" for c in text) + '"'


def host_of(rank: int, hosts: str) -> str:
    """Host of a rank in `alpha:2,beta:1`, which lists the chain in rank order."""
    for entry in hosts.split(","):
        name, _, count = entry.rpartition(":")
        rank -= int(count)
        if rank < 0:
            return name
    return ""


class Status:
    """The status file of one rank, and the bell that tells the launcher to look at it."""

    def __init__(self, run_dir: str, rank: int, host: str, bell: int | None) -> None:
        self.path = os.path.join(run_dir, f"status-{rank:05d}.json")
        self.rank, self.host, self.bell = rank, host, bell
        self.started = time.time()
        self.pid: int | None = None

    def write(self, **ended: object) -> None:
        """Write the record with what is known of the end, complete or not at all."""
        fields: dict[str, object] = {
            "rank": self.rank,
            "host": quoted(self.host),
            "pid": self.pid,
            "keeper": os.getpid(),
            "started": self.started,
            "ended": None,
            "exit_code": None,
            "signal": None,
            "ended_by": None,
            "error": None,
            **ended,
        }
        body = ", ".join(f'"{key}": {"null" if value is None else value}' for key, value in fields.items())
        beside = f"{self.path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as file:
            file.write("{" + body + "}\n")
        os.replace(beside, self.path)
        if self.bell is not None:
            try:
                os.write(self.bell, f"{self.rank}\n".encode())
            except OSError:
                # The launcher is gone; the lifeline says so too.
                self.bell = None


class Labeller:
    """Copies one output of the program line by line, `[rank] ` before each."""

    def __init__(self, source: int, target: int, rank: int) -> None:
        self.source, self.target = source, target
        self.prefix = f"[{rank}] ".encode()
        self.partial = b""

    def pump(self) -> bool:
        """Copy what is there; False when the output has ended or nobody reads it any more."""
        data = os.read(self.source, 1 << 16)
        *lines, self.partial = (self.partial + data).split(b"\n")
        if self.partial and (not data or len(self.partial) > LONGEST_LINE):
            lines.append(self.partial)
            self.partial = b""
        block = b"".join(self.prefix + line + b"\n" for line in lines)
        try:
            while block:
                block = block[os.write(self.target, block) :]
        except OSError:
            data = b""
        if not data:
            # Closing our end gives a program that still writes the SIGPIPE it would have had without us.
            os.close(self.source)
        return bool(data)


def close_all_but(keep: set[int]) -> None:
    """Close every inherited descriptor except 0, 1, 2 and `keep`: hydra leaks its own into the ranks."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError:
                # The descriptor of the listing itself.
                continue


def die_like(wait_status: int) -> None:
    """End this process the way another one ended, without a second core file."""
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        prctl(_PR_SET_DUMPABLE, 0)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(wait_status))


def start_program(command: list[str], outputs: tuple[int, int], keep: set[int]) -> tuple[int, OSError | None]:
    """Fork and execute; returns the pid and, where the program could not be executed, why."""
    keeper = os.getpid()
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(LOST)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(outputs[0], 1)
            os.dup2(outputs[1], 2)
            close_all_but(keep | {report_write})
            for number in (*FORWARDED, ORPHANED, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(report_write, str(error.errno or 0).encode())
        finally:
            os._exit(LOST)
    os.close(report_write)
    with os.fdopen(report_read, "rb") as report:
        failure = report.read()
    number = int(failure) if failure else 0
    return pid, OSError(number, os.strerror(number)) if failure else None


class Keeper:
    """Starts the program, watches parents, signals and output, and records the end."""

    def __init__(self, status: Status, command: list[str], *, label: bool, fds: dict[str, int]) -> None:
        self.status, self.command, self.label, self.fds = status, command, label, fds
        self.ended_by = "itself"
        self.kill_at: float | None = None
        self.program = 0
        self.wait_status: int | None = None
        self.poll = select.poll()
        self.labellers: dict[int, Labeller] = {}
        self.wake, wake_write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_write, False)
        for watched in (*FORWARDED, ORPHANED, signal.SIGCHLD):
            signal.signal(watched, lambda number, frame: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def run(self, front: int) -> int:
        """Run the program to its end; returns its wait status."""
        prctl(_PR_SET_PDEATHSIG, ORPHANED)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != front:
            return self._record(LOST << 8, ended_by="parent")
        outputs, ours = self._outputs()
        # MPI needs PMI_FD; the keeper must not hold it.
        pmi = {self.fds["pmi"]} if "pmi" in self.fds else set()
        self.program, error = start_program(self.command, outputs, pmi)
        for fd in {*ours, *pmi}:
            os.close(fd)
        if error is not None:
            os.waitpid(self.program, 0)
            missing = isinstance(error, FileNotFoundError)
            why = f"cannot run {self.command[0]}: {error.strerror}"
            return self._record((NOT_FOUND if missing else CANNOT_EXECUTE) << 8, error=quoted(why))
        self.status.pid = self.program
        self.status.write()
        self.poll.register(self.wake, select.POLLIN)
        if "lifeline" in self.fds:
            self.poll.register(self.fds["lifeline"], select.POLLIN)
        self._watch()
        self._sweep()
        assert self.wait_status is not None
        return self._record(self.wait_status)

    def _outputs(self) -> tuple[tuple[int, int], list[int]]:
        """Descriptors for the program's stdout and stderr, and those of them to close once it has them."""
        targets = (self.fds.get("stdout", 1), self.fds.get("stderr", 2))
        if not self.label:
            return targets, []
        writes = []
        for target in targets:
            read, write = os.pipe()
            self.labellers[read] = Labeller(read, target, self.status.rank)
            self.poll.register(read, select.POLLIN)
            writes.append(write)
        return (writes[0], writes[1]), writes

    def _watch(self) -> None:
        while self.wait_status is None:
            timeout = None if self.kill_at is None else 1000.0 * max(0.0, self.kill_at - time.monotonic())
            self._serve(self.poll.poll(timeout))
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self._to_program(signal.SIGKILL)
                self.kill_at = time.monotonic() + LAST_WORDS_S

    def _serve(self, ready: list[tuple[int, int]]) -> None:
        for fd, _ in ready:
            if fd == self.wake:
                for number in os.read(self.wake, 4096):
                    self._on_signal(number)
            elif fd in self.labellers:
                if not self.labellers[fd].pump():
                    self.poll.unregister(fd)
                    del self.labellers[fd]
            else:
                # Only end of file can be read from the lifeline: the launcher let go of it, or is gone.
                self.poll.unregister(fd)
                self._end("request", 0.0)

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number == ORPHANED:
            self._end("parent", LAST_WORDS_S)
        else:
            if number in ENDING:
                self.ended_by = "request"
            self._to_program(number)

    def _end(self, why: str, after_s: float) -> None:
        if self.kill_at is None or after_s == 0.0:
            self.kill_at = time.monotonic() + after_s
        if self.ended_by == "itself":
            self.ended_by = why

    def _reap(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.program:
                self.wait_status = wait_status

    def _to_program(self, number: int) -> None:
        try:
            os.killpg(self.program, number)
        except ProcessLookupError:
            return

    def _sweep(self) -> None:
        """End what the program left running, then copy the rest of its output."""
        self._to_program(signal.SIGKILL)
        for _ in range(64):
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                left = file.read().split()
            if not left:
                break
            for pid in left:
                os.kill(int(pid), signal.SIGKILL)
            os.waitpid(-1, 0)
        deadline = time.monotonic() + DRAIN_S
        while self.labellers and time.monotonic() < deadline:
            self._serve([(fd, flag) for fd, flag in self.poll.poll(50) if fd in self.labellers])

    def _record(self, wait_status: int, *, ended_by: str | None = None, error: str | None = None) -> int:
        killed = os.WIFSIGNALED(wait_status)
        self.status.write(
            ended=time.time(),
            exit_code=None if killed else os.WEXITSTATUS(wait_status),
            signal=os.WTERMSIG(wait_status) if killed else None,
            ended_by=quoted(ended_by or self._own_end(wait_status)),
            error=error,
        )
        return wait_status

    def _own_end(self, wait_status: int) -> str:
        """Of the programs whose front was killed, those that left by themselves took part in an abort."""
        if self.ended_by == "parent" and not os.WIFSIGNALED(wait_status):
            return "abort"
        return self.ended_by


def main(arguments: list[str]) -> None:
    """Be the front: start the keeper, pass signals on, end as the program did."""
    parent = os.getppid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    fds = inherited_fds()
    if os.getppid() != parent or parent == 1 or parent_gone(fds):
        os._exit(LOST)
    close_all_but(set(fds.values()))
    split = arguments.index("--")
    (run_dir, hosts, *options), command = arguments[:split], arguments[split + 1 :]
    rank = int(os.environ.get("PMI_RANK", "0"))
    front = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    keeper = os.fork()
    if keeper == 0:
        try:
            os.setsid()
            status = Status(run_dir, rank, host_of(rank, hosts), fds.get("events"))
            work = Keeper(status, command, label="--label" in options, fds=fds)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            die_like(work.run(front))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(LOST)
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: os.kill(keeper, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    die_like(os.waitpid(keeper, 0)[1])


def inherited_fds() -> dict[str, int]:
    """Descriptors by purpose; takes our variable out of the program's environment."""
    fds = {}
    ours = os.environ.pop("APPLES_SHIM_FDS", "")
    if ours:
        fds = dict(zip(("lifeline", "events", "stdout", "stderr"), map(int, ours.split(",")), strict=True))
    if "PMI_FD" in os.environ:
        fds["pmi"] = int(os.environ["PMI_FD"])
    return fds


def parent_gone(fds: dict[str, int]) -> bool:
    """Whether the other end of PMI is closed already: the parent died before we asked for its death signal."""
    if "pmi" not in fds:
        return False
    poll = select.poll()
    poll.register(fds["pmi"], 0)
    return bool(poll.poll(0))


if __name__ == "__main__":
    main(sys.argv[1:])
