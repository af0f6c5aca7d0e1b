"""The launcher's connection to each host agent: started, read from, written to, and ended. Decides nothing.

An agent is started over ssh or `srun`, or forked to serve this machine. Where an agent is remote, both sides send
heartbeats: an agent that receives none ends its host's part of the run, and a silent host counts as lost.
"""

import contextlib
import fcntl
import gc
import os
import select
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from apples.hosts import hostagent
from apples.hosts.conversation import silence
from apples.hosts.frames import FromAgent, ToAgent, Unframer, frame
from apples.hosts.hostmessages import AgentReport
from apples.hosts.kernel import FORWARDED, PR_SET_PDEATHSIG, close_all_but, prctl
from apples.hosts.travelling import agent_program
from nws.base.sentprogram import PYTHON, framed
from nws.base.sshcommand import meaning

#: Seconds between heartbeats, both ways.
HEARTBEAT_S = 2.0
#: Seconds until an agent ends its part of a run without a heartbeat. A launcher that is stopped for so long is lost.
AGENT_TIMEOUT_S = 30.0
#: Seconds a full pipe may stay full before its host counts as lost.
STUCK_S = 5.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessTimeouts:
    """Seconds of silence until a host counts as lost: before its agent is ready, and afterwards."""

    connect_s: float = 20.0
    lost_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """A host as the launcher reaches it.

    address : destination for ssh, None for this machine
    interface : network interface that its ranks use, None for the MPI library's choice
    """

    host: str
    address: str | None = None
    interface: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class ForkedAgent:
    """A host agent that serves this machine in a forked process. It dies with the launcher.

    The interface is the part of `subprocess.Popen` that `AgentConnection` uses.
    """

    def __init__(self, stdin: int, stdout: int, stderr: int, outputs: tuple[int, int] | None) -> None:
        """Fork; raises `OSError`.

        Args:
            stdin, stdout, stderr: descriptors for the agent
            outputs: descriptors that the ranks get as stdout and stderr; None to receive their output in frames
        """
        launcher = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._serve(launcher, (stdin, stdout, stderr), outputs)
            except BaseException:
                os.write(2, traceback.format_exc().encode(errors="replace"))
                os._exit(1)
            finally:
                # No frame of the launcher may continue here, and no exit handler may run twice.
                os._exit(0)
        # The child is not waited for before `wait`, so its number is its own.
        self._pidfd = os.pidfd_open(self._pid)
        self._code: int | None = None

    def _serve(self, launcher: int, standard: tuple[int, int, int], outputs: tuple[int, int] | None) -> None:
        # Collected objects of the launcher would close descriptors, whose numbers the agent uses again.
        gc.disable()
        # A Ctrl-C at the terminal must not reach the agent: the launcher decides on its effect.
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # It died between fork and prctl, so that no signal of the kernel will come.
        if os.getppid() != launcher:
            return
        # The launcher's handlers would fill a queue that is not read here.
        for number in FORWARDED:
            signal.signal(number, signal.SIG_DFL)
        # Numbers of 3 and more, so that none is overwritten below.
        fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 3) for fd in (*standard, *(outputs or ()))]
        for fd, target in zip(fds[:3], range(3), strict=True):
            os.dup2(fd, target)
        # A copy of the writing end of another pipe of the launcher would keep its reader waiting for ever.
        close_all_but(set(fds[3:]))
        hostagent.serve(None if outputs is None else (fds[3], fds[4]))

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self._code is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if timeout is not None and not poll.poll(1000.0 * timeout):
                raise subprocess.TimeoutExpired("host agent", timeout)
            try:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            except ChildProcessError:
                # SIGCHLD is ignored, so the kernel has reaped it: the code is unknown.
                self._code = 0
            os.close(self._pidfd)
        return self._code

    def kill(self) -> None:
        """Kill it, unless its end was already waited for."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


class AgentConnection:
    """The connection to the host agent of one host.

    report : the agent's report when it was ready, None before.  gone : it reported that no process is left on its host
    leaving : its host has announced its end
    lost : why no more frames are expected from it, None while some are
    """

    def __init__(
        self, address: HostAddress, command: Sequence[str] | None, log: Path, outputs: tuple[int, int] | None
    ) -> None:
        """Start the agent; raises `OSError`.

        Args:
            command: starts it; None forks it
            log: file for its stderr, and for that of the commands it starts
            outputs: stdout and stderr of the ranks of a forked agent; None to receive their output in frames
        """
        self.address, self.host = address, address.host
        self.report: AgentReport | None = None
        self.gone = self.leaving = False
        self.lost: str | None = None
        self.received_at = time.monotonic()
        self.log = log
        # Two threads write: heartbeats between the parts of another frame would break it.
        self._lock = threading.Lock()
        self._unframer = Unframer(preamble=True)
        # Own pipes instead of `subprocess.PIPE`, because a forked agent gets the same.
        stdin, self._in = os.pipe()
        self.fd, stdout = os.pipe()
        self._process: subprocess.Popen[bytes] | ForkedAgent
        try:
            with log.open("wb") as stderr:
                if command is None:
                    self._process = ForkedAgent(stdin, stdout, stderr.fileno(), outputs)
                else:
                    self._process = subprocess.Popen(
                        command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
                    )
        except OSError:
            os.close(self._in)
            os.close(self.fd)
            raise
        finally:
            # Also after an error. The agent has its copies; ours would hide the end of its output.
            os.close(stdin)
            os.close(stdout)
        os.set_blocking(self._in, False)
        os.set_blocking(self.fd, False)
        if command is not None:
            # Together with the setup it fits into an empty pipe, so this does not wait for the host.
            self._write(framed(agent_program()))

    @property
    def over(self) -> bool:
        """Whether no more frames are expected."""
        return self.gone or self.lost is not None

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a frame. An agent that does not read it in time is lost."""
        self._write(frame(kind, payload))

    def _write(self, content: bytes) -> None:
        with self._lock:
            data = memoryview(content)
            try:
                while data:
                    try:
                        data = data[os.write(self._in, data) :]
                    except BlockingIOError:
                        poll = select.poll()
                        # A full pipe is normal for a moment: an agent that starts reads nothing yet.
                        poll.register(self._in, select.POLLOUT)
                        if not poll.poll(1000.0 * STUCK_S):
                            self.lost = self.lost or "takes no more orders; it is frozen, or its link is cut"
                            return
            except OSError:
                # The reason will be read from its output.
                return

    def send_heartbeat(self) -> None:
        """Send a heartbeat if the pipe has room for it."""
        # The thread that holds the lock writes a frame, which is a sign of life as well.
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(OSError):
                    # Five bytes: less than PIPE_BUF, so the kernel writes all of them or none.
                    os.write(self._in, frame(ToAgent.HEARTBEAT))
            finally:
                self._lock.release()

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Return the frames received, after noting those about the agent itself.

        At the end of its output the host is lost, unless the agent reported its end.
        """
        frames: list[tuple[bytes, bytes]] = []
        try:
            while data := os.read(self.fd, _CHUNK):
                self.received_at = time.monotonic()
                frames += self._unframer.feed(data)
        except BlockingIOError:
            return frames
        except ValueError as error:
            self.lose(str(error))
            return frames
        finally:
            # Also of a connection that has just ended: its last frames often say why.
            self._note(frames)
        if not self.gone:
            # End of file without GONE.
            self.lose(self._why_ended())
        return frames

    def _note(self, frames: Sequence[tuple[bytes, bytes]]) -> None:
        for kind, payload in frames:
            if kind == FromAgent.REPORT:
                self._take_report(payload)
            elif kind == FromAgent.REFUSED:
                self.lose(f"cannot take part: {payload.decode(errors='replace')}")
            elif kind == FromAgent.GONE:
                self.gone = True
            elif kind == FromAgent.LEAVING:
                self.leaving = True

    def _take_report(self, payload: bytes) -> None:
        try:
            self.report = msgspec.json.decode(payload, type=AgentReport)
        except (ValueError, RecursionError) as error:
            self.lose(f"sent an illegal report ({error!r}); install the same version there")

    def silent_at(self, timeouts: LivenessTimeouts) -> float:
        """Return when the host counts as lost without another frame (`time.monotonic`)."""
        return self.received_at + (timeouts.connect_s if self.report is None else timeouts.lost_s)

    def check_silence(self, now: float, timeouts: LivenessTimeouts) -> None:
        """Count the host as lost if it was silent for too long."""
        if not self.over and now >= self.silent_at(timeouts):
            after, why = "was not heard of", "it is off, frozen, or its link is cut"
            if self.report is None:
                after, why = "did not answer", silence(self._unframer.noise)
            self.lose(f"{after} for {now - self.received_at:.0f} s; {why}")

    def lose(self, why: str) -> None:
        """Count the host as lost; the first reason is kept."""
        self.lost = self.lost or why
        # ssh or the forked agent; on another host the agent sees the end of its input.
        self._process.kill()

    def stderr_text(self) -> str:
        """Return the output of ssh, the agent and its proxies to stderr."""
        return self.log.read_text(encoding="utf-8", errors="replace").strip() if self.log.exists() else ""

    def close(self, within_s: float) -> None:
        """Close both ends; kill the local process if it does not end in time."""
        with self._lock:
            os.close(self._in)
        with contextlib.suppress(subprocess.TimeoutExpired):
            # An agent that has reported its end leaves by itself in a moment.
            self._process.wait(within_s)
        self._process.kill()
        self._process.wait()
        os.close(self.fd)

    def _why_ended(self) -> str:
        try:
            # ssh has closed its output, and needs a moment to end.
            code = self._process.wait(STUCK_S)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        address = self.address.address or self.host
        if self.report is not None:
            lines = self.stderr_text().splitlines()
            return "was lost: its connection ended" + (f" ({lines[-1]})" if lines else "")
        if self.address.address is None:
            return f"could not start its host agent: {self.stderr_text() or f'it ended with code {code}'}"
        noise = self._unframer.noise.decode(errors="replace")
        return meaning(address, code, self.stderr_text(), PYTHON, noise)


class Heartbeats(threading.Thread):
    """Sends heartbeats to all agents, also while the launcher is blocked because its output is not read."""

    def __init__(self, connections: Mapping[str, AgentConnection]) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self._connections = connections
        self._ended = threading.Event()

    def run(self) -> None:
        """Send until `stop` is called."""
        while not self._ended.wait(HEARTBEAT_S):
            for connection in self._connections.values():
                connection.send_heartbeat()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        if self.is_alive():
            self.join()
