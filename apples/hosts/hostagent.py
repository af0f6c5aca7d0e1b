"""The host agent, the one program on a host: it runs ranks, checks the host, or joins its node manager.

The launcher's first frame names which (`apples.hosts.frames`). An agent of a run starts its ranks, reports on them, and
ends them with the launcher.

Over ssh or `srun` it is sent along (`apples.hosts.travelling`), so that hosts need no installation. On its own
machine the launcher forks it (`apples.hosts.agentconnection`), because a new interpreter takes longer to start.
The launcher is at the other end of its standard input and output. If the launcher closes the connection, dies or is
silent for too long, the agent closes the lifeline and every rank supervisor kills its program. The kernel closes the
lifeline if the agent is killed.
The effect of a failure is decided in `apples.launching.termination`.

A run directory that the launcher's host shares is used directly. On other hosts the agent makes one, sends back the
files that the ranks wrote, and removes it.

The script has further commands for short helper processes; `COMMANDS` lists them with their modules.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves only the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import json
from itertools import chain

from apples.hosts import rundirectory
from apples.hosts.frames import CHUNK, PREAMBLE, FrameWriter, FromAgent, ToAgent, Unframer, frame
from apples.hosts.kernel import INTERRUPTS, PR_SET_CHILD_SUBREAPER, prctl, signal_pipe
from apples.hosts.orders import SETUP, START, IllegalOrder, read_file, read_order, read_signal, read_slabs
from apples.hosts.proxies import Proxies
from apples.hosts.relays import write_all
from apples.hosts.steering import ProgressReader, offer
from apples.hosts.supervisedranks import RankSupervisors
from nws.base.files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

#: Commands of this script other than `serve`, and the modules whose `main` runs them.
COMMANDS = {
    "rsh": "apples.hosts.remoteshell",
    "exec": "apples.hosts.parentdeath",
    "fds": "apples.hosts.fdserver",
    "guard": "apples.slurm.keepalive",
    "hold": "apples.slurm.keepalive",
}
#: First frames of conversations, and the modules whose `converse` answers; the second needs this package on the host.
CONVERSATIONS = {ToAgent.CHECK: "apples.hosts.hostcheck", ToAgent.SHARE: "apples.daemons.hostsharing"}

#: `python -I -S` leaves out site-packages and the user's settings. The helpers need neither, and start sooner.
BARE = ("-I", "-S")

#: Bytes of the ranks' output that wait for the launcher. While more wait, ranks block when they write.
MOST_WAITING = 1 << 20
STATUS_LOST = "the status of rank {} disappeared from {}; use a run directory that nothing else cleans"

#: Seconds that killed processes may take to end, and that output of ended processes may take to be read.
GONE_S, DRAIN_S = 5.0, 1.0


class HostAgent:
    """One host's part of one run.

    setup : written by `apples.hosts.agentconnection.setup`
    outputs : descriptors for the ranks' stdout and stderr; None sends the output to the launcher in frames
    """

    def __init__(self, setup: dict[str, Any], unframer: Unframer, outputs: tuple[int, int] | None) -> None:
        self._setup, self._unframer = setup, unframer
        self._run_dir: str = setup["run_dir"]
        self._supervisors = RankSupervisors()
        self._partial = b""
        page, look_s = setup["watched"], setup["look_s"]
        self._tail = None if page is None else ProgressReader(self._run_dir, page, look_s)
        self._launcher = FrameWriter(1)
        self._end_at: float | None = None
        self._killed = self._drained = False
        self._noticed = not _may_end_alone(setup)
        self._received_at = self._beat_at = time.monotonic()
        # The lifeline's message is its end of file, which the kernel also sends for an agent that was killed.
        lifeline_read, self._lifeline = os.pipe()
        # All processes below inherit the writing end: end of file on `_events` means that the last has gone.
        self._events, events_write = os.pipe()
        self._outputs: dict[int, bytes] = {}
        if outputs is None:
            (out, out_write), (err, err_write) = os.pipe(), os.pipe()
            self._outputs, outputs = {out: FromAgent.STDOUT, err: FromAgent.STDERR}, (out_write, err_write)
        self._proxies = Proxies((lifeline_read, events_write, *outputs), setup["proxies"])
        for fd in (0, 1, self._events):
            os.set_blocking(fd, False)
        self._wake = signal_pipe((signal.SIGCHLD, signal.SIGUSR1, *INTERRUPTS))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._sources = {0: self._listen, self._events: self._on_events, self._wake: self._on_wake}
        self._sources.update(dict.fromkeys(self._outputs, self._on_output))
        self._shared = rundirectory.find(self._run_dir, setup["token"])
        several = setup["beat_s"] is not None
        announced = rundirectory.Announcements(self._run_dir, self._launcher, several=several)
        self._sources.update(announced.sources)
        self._plain = {ToAgent.CUT: self._cut, ToAgent.KILL: self._kill, ToAgent.ANNOUNCED: announced.send}

    def run(self) -> None:
        """Serve until no process is left on this host and the launcher has the last frame."""
        self._launcher.send(
            FromAgent.REPORT, json.dumps(_report(self._setup["directory"], self._shared)).encode()
        )
        while self._events in self._sources or self._out_of(self._outputs):
            self._serve()
            now = time.monotonic()
            if self._setup["silence_s"] is not None and now - self._received_at > self._setup["silence_s"]:
                self._cut()
            if self._end_at is not None and now > self._end_at:
                if self._killed:
                    break
                self._kill()
        self._leave()

    def _serve(self) -> None:
        poll = select.poll()
        for fd in self._sources:
            # Output that is not read blocks the ranks, as a terminal would, instead of filling the memory here.
            if fd not in self._outputs or self._launcher.waiting < MOST_WAITING:
                poll.register(fd, select.POLLIN)
        if self._launcher.waiting:
            poll.register(1, select.POLLOUT)
        now = time.monotonic()
        moments = [] if self._end_at is None else [self._end_at]
        if self._setup["beat_s"] is not None:
            if now >= self._beat_at:
                self._beat_at = now + self._setup["beat_s"]
                self._launcher.send(FromAgent.HEARTBEAT)
            moments.append(self._beat_at)
        if self._tail is not None:
            for line in self._tail.lines(now):
                self._launcher.send(FromAgent.PROGRESS, line)
            moments.append(self._tail.look_at)
        for fd, _ in poll.poll(1000.0 * max(0.0, min(moments) - now) if moments else None):
            if fd == 1:
                self._launcher.flush()
            else:
                self._sources[fd](fd)

    def _out_of(self, outputs: dict[int, bytes]) -> bool:
        """Return whether output may still arrive, and there is time to wait for it."""
        open_ones = any(fd in self._sources for fd in outputs)
        if open_ones and not self._drained:
            # No process is left that could be killed.
            self._drained = self._killed = True
            self._end_at = time.monotonic() + DRAIN_S
        return open_ones

    def _listen(self, fd: int) -> None:
        """Read the launcher's frames. The end of the connection ends the run on this host."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            # A connection that breaks ends like one that is closed.
            data = b""
        if not data:
            del self._sources[fd]
            self._cut()
            return
        self._received_at = time.monotonic()
        self.take(data)

    def take(self, data: bytes, early: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Carry out frames of the launcher. One that cannot be carried out ends the run on this host."""
        try:
            for kind, payload in (*early, *self._unframer.feed(data)):
                self._handle(kind, payload)
        except (ValueError, OSError) as error:
            self._launcher.send(FromAgent.REFUSED, _reason(error, "an order"))
            self._sources.pop(0, None)
            self._cut()

    def _handle(self, kind: bytes, payload: bytes) -> None:
        if kind == ToAgent.START:
            order = read_order(payload, START)
            environment = order["environment"] or {**os.environ, **self._setup["environment"]}
            command = helper(*order["command"]) if order["helper"] else order["command"]
            self._proxies.start(order["id"], command, environment)
        elif kind == ToAgent.SIGNAL:
            self._supervisors.forward(read_signal(payload))
        elif kind == ToAgent.SLABS:
            offer(self._run_dir, read_slabs(payload))
            self._tail = self._tail or ProgressReader(self._run_dir, "")
        elif kind == ToAgent.FILE:
            name, content = read_file(payload)
            write_whole(os.path.join(self._run_dir, name), content)
        elif kind in self._plain:
            self._plain[kind]()

    def _on_events(self, fd: int) -> None:
        """Handle a changed status of a rank, or end of file: no process of the run is left here."""
        data = os.read(fd, CHUNK)
        if not data:
            del self._sources[fd]
            os.close(fd)
            return
        *ranks, self._partial = (self._partial + data).split(b"\n")
        for rank in dict.fromkeys(map(int, ranks)):
            text = _status_text(self._run_dir, rank)
            if text is None:
                self._launcher.send(FromAgent.REFUSED, STATUS_LOST.format(rank, self._run_dir).encode())
                self._cut()
                return
            status = json.loads(text)
            if status["ended"] is None:
                self._supervisors.add(rank, status["keeper"])
            self._launcher.send(FromAgent.STATUS, text)

    def _on_wake(self, fd: int) -> None:
        """Handle signals: children have ended, the host will end (USR1, the first TERM), or this agent is to end."""
        signals = set(os.read(fd, CHUNK)) - {signal.SIGCHLD}
        # USR1 is from `apples drain --watch`, which means this host alone and may repeat it.
        if signal.SIGUSR1 in signals or (signals == {signal.SIGTERM} and not self._noticed):
            self._noticed |= signal.SIGTERM in signals
            self._launcher.send(FromAgent.LEAVING)
        elif signals:
            self._cut()
        _report_ended(self._proxies, self._launcher)

    def _on_output(self, fd: int) -> None:
        data = os.read(fd, CHUNK)
        if data:
            self._launcher.send(self._outputs[fd], data)
        else:
            del self._sources[fd]
            os.close(fd)

    def _cut(self) -> None:
        """Close the lifeline. Processes that do not end in time are killed."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            self._end_at = time.monotonic() + GONE_S
        self._proxies.let_go()

    def _kill(self) -> None:
        self._cut()
        self._killed, self._end_at = True, time.monotonic() + GONE_S
        self._proxies.kill()
        self._supervisors.kill()

    def _leave(self) -> None:
        """Send back the files of the ranks, remove the directory made here, report the end."""
        self._cut()
        deadline = time.monotonic() + DRAIN_S
        while self._proxies.running and time.monotonic() < deadline:
            # They have closed all they had, and are about to end.
            time.sleep(0.002)
            _report_ended(self._proxies, self._launcher)
        self._proxies.sweep()
        _report_ended(self._proxies, self._launcher)
        if not self._shared:
            rundirectory.send_back(self._run_dir, self._launcher)
        self._launcher.send(FromAgent.GONE)
        self._launcher.drain(GONE_S)


def _status_text(run_dir: str, rank: int) -> bytes | None:
    """Return the status of a rank; None if its file has disappeared."""
    try:
        with open(os.path.join(run_dir, f"status-{rank:05d}.json"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _report_ended(proxies: Proxies, launcher: FrameWriter) -> None:
    """Send the exit codes of the commands that have ended since the last report."""
    # Also orphans are reaped by this call; only proxies have numbers.
    for number, code in proxies.ended():
        launcher.send(FromAgent.ENDED, json.dumps({"id": number, "code": code}).encode())


def helper(*words: str) -> list[str]:
    """Return the command line of a helper process: a command of this script and its arguments."""
    return [sys.executable, *BARE, os.path.abspath(__file__), *words]


def serve(outputs: tuple[int, int] | None = None) -> None:
    """Receive the setup on standard input and run one host agent to its end.

    Args:
        outputs: see `HostAgent`
    """
    # At once, before any input: everything before it is the output of a login shell.
    _write(PREAMBLE)
    unframer = Unframer()
    frames: list[tuple[bytes, bytes]] = []
    try:
        while not frames:
            data = os.read(0, CHUNK)
            if not data:
                return
            frames = unframer.feed(data)
        (kind, setup), *early = frames
        if kind not in (ToAgent.SETUP, *CONVERSATIONS):
            raise IllegalOrder(f"the first frame is {kind!r}")
        agent = HostAgent(read_order(setup, SETUP), unframer, outputs) if kind == ToAgent.SETUP else None
    except (OSError, ValueError) as error:
        _write(frame(FromAgent.REFUSED, _reason(error, "the launcher's setup")))
        return
    if agent is None:
        converse(CONVERSATIONS[kind], chain([setup], questions(early, unframer)))
        return
    try:
        agent.take(b"", early)
        agent.run()
    except MemoryError:
        # The kernel closes the lifeline when this process ends, so the ranks end as well.
        _write(frame(FromAgent.REFUSED, b"no memory is left on this host"))


def questions(early: list[tuple[bytes, bytes]], unframer: Unframer) -> Iterator[bytes]:
    """Yield the payloads of frames until the launcher closes the connection. `early`: already received"""
    while True:
        for _, payload in early:
            yield payload
        data = os.read(0, CHUNK)
        if not data:
            return
        early = unframer.feed(data)


def converse(module: str, payloads: Iterator[bytes]) -> None:
    """Answer the questions of one conversation by a module's `converse`, in frames."""
    from importlib import import_module

    # The descriptor of the connection, before number 1 is given to other output.
    frames = os.dup(1)
    # A sensor or a program that prints must not break the frames.
    os.dup2(2, 1)
    import_module(module).converse(payloads, lambda kind, payload: write_all(frames, frame(kind, payload)))


def _reason(error: ValueError | OSError, what: str) -> bytes:
    """Return why the agent refuses. what : the document that is not legal"""
    named = f"{error.filename or 'the host agent'}: {error.strerror}" if isinstance(error, OSError) else None
    return (named or f"{what}: {error}").encode(errors="replace")


def _may_end_alone(setup: Mapping[str, Any]) -> bool:
    """Return whether TERM is a notice of this host alone.

    The launcher's own host, whose agent sends no heartbeats, ends with the launcher. At the end of a Slurm allocation
    TERM comes to the agents of all hosts.
    """
    return setup["beat_s"] is not None and "SLURM_STEP_ID" not in os.environ


def _report(directory: str, shared: bool) -> dict[str, Any]:
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "shared": shared,
        "directory": os.path.isdir(directory),
        "launcher": connection[0] if len(connection) == 4 else None,
        "pid": os.getpid(),
    }


def _write(data: bytes) -> None:
    try:
        os.write(1, data)
    except OSError:
        # The launcher has gone, as the end of its input will show.
        return


def main(arguments: list[str]) -> int:
    """Run one command of this script; return its exit code."""
    if arguments[0] == "serve":
        serve()
        return 0
    from importlib import import_module

    module = import_module(COMMANDS[arguments[0]])
    return int(module.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
