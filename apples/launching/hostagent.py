"""What stands on every host of a run that spans several: starts proxies, reports, and ends everything with itself.

Run as a bare script, `python -I -S hostagent.py`, over ssh (or by the launcher on its own machine). The launcher is at
the other end of its standard input and output. It is the tether of its host: when the launcher lets go, dies, or is not
heard of for too long, the lifeline is cut and every keeper kills its program; when the station itself is killed, the
same happens. What it may not do is decide: what a failure means is `apples.launching.termination`'s to say.

A run directory that the launcher's host shares is used as it is. Elsewhere one is made and removed again, and what
the ranks left in it is sent back.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import json

from apples.launching.frames import PREAMBLE, Unframer, frame
from apples.launching.kernel import PR_SET_CHILD_SUBREAPER, children, prctl, reaped
from apples.launching.ranksupervisors import RankSupervisors
from apples.launching.steering import LOOK_EVERY_S, PROGRESS, SLABS, FileTail, offer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARENT_DEATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parentdeath.py")

#: Bytes of ranks' output that wait for the launcher; while there are more, ranks wait when they write.
MOST_WAITING = 1 << 20
CHUNK = 1 << 16
#: Seconds that killed processes may take to be gone, and output of ended ones to be read.
GONE_S, DRAIN_S = 5.0, 1.0
#: Larger files of a run directory are results that stay where they are.
LARGEST_FILE = 16 << 20


class HostAgent:
    """One host's part of one run; `setup` as `apples.launching.agentconnection` writes it."""

    def __init__(self, setup: dict[str, Any], unframer: Unframer) -> None:
        self._setup, self._unframer = setup, unframer
        self._run_dir: str = setup["run_dir"]
        self._expected: int = setup["proxies"]
        self._keepers = RankSupervisors()
        self._proxies: dict[int, int] = {}
        self._partial = b""
        self._tail = FileTail(os.path.join(self._run_dir, PROGRESS)) if setup["watched"] else None
        self._look_at = 0.0
        self._waiting = bytearray()
        self._end_at: float | None = None
        self._killed = self._drained = False
        self._heard = time.monotonic()
        self._beat_at = self._heard
        lifeline_read, self._lifeline = os.pipe()
        self._events, events_write = os.pipe()
        out, out_write = os.pipe()
        err, err_write = os.pipe()
        #: Ends that proxies inherit; closed here when the last proxy has been started.
        self._handed: tuple[int, ...] = (lifeline_read, events_write, out_write, err_write)
        self._outputs = {out: b"O", err: b"E"}
        self._wake, wake_write = os.pipe()
        for fd in (0, 1, self._events, self._wake, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda number, frame: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._sources = {0: self._listen, self._events: self._on_events, self._wake: self._on_wake}
        self._sources |= dict.fromkeys(self._outputs, self._on_output)
        self._shared = self._find_run_dir()

    def run(self) -> None:
        """Serve until nothing is left on this host and the launcher has been told."""
        self._say(b"R", json.dumps(self._found()).encode())
        while self._events in self._sources or self._out_of(self._outputs):
            self._serve()
            now = time.monotonic()
            if now - self._heard > self._setup["silence_s"]:
                self._cut()
            if self._end_at is not None and now > self._end_at:
                if self._killed:
                    break
                self._kill()
        self._leave()

    def _found(self) -> dict[str, Any]:
        connection = os.environ.get("SSH_CONNECTION", "").split()
        return {
            "shared": self._shared,
            "directory": os.path.isdir(self._setup["directory"]),
            "launcher": connection[0] if len(connection) == 4 else None,
            "pid": os.getpid(),
        }

    def _find_run_dir(self) -> bool:
        """Whether the run directory is the launcher's own; else make one that is ours alone."""
        try:
            with open(os.path.join(self._run_dir, self._setup["token"]), "rb"):
                return True
        except OSError:
            os.makedirs(self._run_dir, mode=0o700)
            return False

    def _serve(self) -> None:
        poll = select.poll()
        for fd in self._sources:
            if fd not in self._outputs or len(self._waiting) < MOST_WAITING:
                poll.register(fd, select.POLLIN)
        if self._waiting:
            poll.register(1, select.POLLOUT)
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + self._setup["beat_s"]
            self._say(b"B")
        wake_at = self._beat_at if self._end_at is None else min(self._beat_at, self._end_at)
        if self._tail is not None:
            if now >= self._look_at:
                self._look_at = now + LOOK_EVERY_S
                for line in self._tail.lines():
                    self._say(b"N", line)
            wake_at = min(wake_at, self._look_at)
        for fd, _ in poll.poll(1000.0 * max(0.0, wake_at - now)):
            if fd == 1:
                self._flush()
            else:
                self._sources[fd](fd)

    def _out_of(self, outputs: dict[int, bytes]) -> bool:
        """Whether output may still come, and there is time to wait for it."""
        open_ones = any(fd in self._sources for fd in outputs)
        if open_ones and not self._drained:
            # nobody is left who could be killed
            self._drained = self._killed = True
            self._end_at = time.monotonic() + DRAIN_S
        return open_ones

    def _listen(self, fd: int) -> None:
        """Hear the launcher; its silence for good is the end of the run here."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        if not data:
            del self._sources[fd]
            self._cut()
            return
        self._heard = time.monotonic()
        for kind, payload in self._unframer.feed(data):
            self._obey(kind, payload)

    def _obey(self, kind: bytes, payload: bytes) -> None:
        if kind == b"S":
            self._start(json.loads(payload))
        elif kind == b"K":
            self._keepers.forward(int(payload))
        elif kind == b"D":
            offer(self._run_dir, payload.decode())
        elif kind == b"C":
            self._cut()
        elif kind == b"X":
            self._kill()

    def _start(self, order: dict[str, Any]) -> None:
        """Start one proxy, tied to this process, with the ends that its ranks' keepers need."""
        command = [sys.executable, "-I", "-S", PARENT_DEATH, str(os.getpid()), *order["command"]]
        environment = {
            **os.environ,
            **self._setup["environment"],
            "APPLES_RANK_FDS": ",".join(map(str, self._handed)),
        }
        ours = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                # what the proxy itself has to say belongs to this station's own stderr, which ssh carries
                for source, target in ((null, 0), (2, 1)):
                    os.dup2(source, target)
                for fd in self._handed:
                    os.set_inheritable(fd, True)
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                if os.getppid() == ours:
                    os.execve(command[0], command, environment)
            finally:
                os._exit(125)
        self._proxies[pid] = order["id"]
        self._expected -= 1
        if self._expected == 0:
            self._let_go()

    def _let_go(self) -> None:
        """Close our copies of what proxies inherit, so that the end of theirs can be seen."""
        for fd in self._handed:
            os.close(fd)
        self._handed = ()

    def _on_events(self, fd: int) -> None:
        """A rank's status changed, or (at end of file) no process of the run is left here."""
        data = os.read(fd, CHUNK)
        if not data:
            del self._sources[fd]
            os.close(fd)
            return
        *ranks, self._partial = (self._partial + data).split(b"\n")
        for rank in dict.fromkeys(map(int, ranks)):
            with open(os.path.join(self._run_dir, f"status-{rank:05d}.json"), "rb") as file:
                text = file.read()
            status = json.loads(text)
            if status["ended"] is None:
                self._keepers.add(rank, status["keeper"])
            self._say(b"T", text)

    def _on_wake(self, fd: int) -> None:
        """Signals: children have ended, or somebody wants this station to end."""
        numbers = os.read(fd, CHUNK)
        if any(number != signal.SIGCHLD for number in numbers):
            self._cut()
        self._reap()

    def _reap(self) -> None:
        """Take note of children that have ended, and tell of proxies among them."""
        for pid, status in reaped():
            if pid in self._proxies:
                code = os.waitstatus_to_exitcode(status)
                self._say(b"P", json.dumps({"id": self._proxies.pop(pid), "code": code}).encode())

    def _on_output(self, fd: int) -> None:
        data = os.read(fd, CHUNK)
        if data:
            self._say(self._outputs[fd], data)
        else:
            del self._sources[fd]
            os.close(fd)

    def _cut(self) -> None:
        """Let go of the keepers; what is still there after a while is killed."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            self._end_at = time.monotonic() + GONE_S
        if self._handed:
            self._let_go()

    def _kill(self) -> None:
        self._cut()
        self._killed, self._end_at = True, time.monotonic() + GONE_S
        for pid in self._proxies:
            for each in (*children(pid), pid):
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self._keepers.kill()

    def _leave(self) -> None:
        """Hand over what the ranks left, remove what was made here, say that nothing is left, and go."""
        self._cut()
        deadline = time.monotonic() + DRAIN_S
        while self._proxies and time.monotonic() < deadline:
            # They have closed all they had, and are about to end.
            time.sleep(0.002)
            self._reap()
        if not self._shared:
            for name in sorted(set(os.listdir(self._run_dir)) - {PROGRESS, SLABS}):
                path = os.path.join(self._run_dir, name)
                state = os.lstat(path)
                if stat.S_ISREG(state.st_mode) and state.st_size <= LARGEST_FILE:
                    with open(path, "rb") as file:
                        self._say(b"F", name.encode() + b"\n" + file.read())
            _remove(self._run_dir)
        self._say(b"G")
        deadline = time.monotonic() + GONE_S
        while self._waiting and (left_s := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(1, select.POLLOUT)
            poll.poll(1000.0 * left_s)
            self._flush()

    def _say(self, kind: bytes, payload: bytes = b"") -> None:
        self._waiting += frame(kind, payload)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(1, self._waiting[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            # The launcher does not read any more; the end of our input says so too.
            self._waiting.clear()


def _remove(directory: str) -> None:
    for root, directories, files in os.walk(directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in directories:
            path = os.path.join(root, name)
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    os.rmdir(directory)


def main() -> None:
    """Greet, take the setup, serve."""
    os.write(1, PREAMBLE)
    unframer = Unframer()
    frames: list[tuple[bytes, bytes]] = []
    while not frames:
        data = os.read(0, CHUNK)
        if not data:
            return
        frames = unframer.feed(data)
    (_, setup), *early = frames
    try:
        station = HostAgent(json.loads(setup), unframer)
    except OSError as error:
        os.write(1, frame(b"W", f"{error.filename or 'the station'}: {error.strerror}".encode()))
        return
    for kind, payload in early:
        station._obey(kind, payload)
    station.run()


if __name__ == "__main__":
    main()
