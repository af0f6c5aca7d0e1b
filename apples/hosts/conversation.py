"""Conversations with a program on a host: a check, a node manager's part in a run, a deployment. Frames both ways.

A program is sent over one ssh connection, and answers questions. Every answer has a time limit. A host that fails in
any way raises `HostCheckError` with a reason for the user.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import Struct

from apples.hosts.frames import CHUNK, FromAgent, ToAgent, Unframer, frame
from apples.hosts.hostmessages import HostCheckError, Kind, encoded, read
from nws.base.closing import Closing
from nws.base.sentprogram import BOOTSTRAP, PYTHON, framed, interpreter
from nws.base.sshcommand import find_ssh, meaning, ssh_command
from nws.base.terminal import visible

Given = TypeVar("Given")
Found = TypeVar("Found")

#: Connections that are made at the same time.
AT_ONCE = 32

#: Seconds for ssh to print why it ended.
_LAST_WORDS_S = 2.0
#: Bytes of a login shell's output that are quoted.
_NOISE = 1 << 10


def silence(noise: bytes) -> str:
    """Return why a host that printed this, and nothing else, may be silent."""
    last = noise.decode(errors="replace").strip().split("\n")[-1]
    if not last:
        return "it is off, overloaded, or cut off"
    return f"its login shell printed '{visible(last)}' and may wait for input; it must run commands without a terminal"


class AgentConversation(Closing):
    """A connection to a program on one host that answers questions; a context manager that leaves no process."""

    def __init__(
        self,
        address: str | None,
        opening: tuple[bytes, bytes],
        through: Sequence[str] = (),
        *,
        program: bytes,
        python: str | None = None,
        notify: Callable[[str], None] = lambda note: None,
    ) -> None:
        """Start the program; raises `SshNotFound` without ssh, `OSError` if it cannot be started.

        Args:
            address: destination for ssh, None for this machine
            opening: kind and payload of the first frame
            through: command prefix that replaces ssh
            program: source of the program there
            python: interpreter there, None for any
            notify: gets the notes of the program
        """
        self._address, self._through, self._python = address, tuple(through), python or PYTHON
        if self.is_here:
            python = python or sys.executable
        words = ("-c", BOOTSTRAP)
        command = interpreter(*words) if python is None else [python, *words]
        if self._through:
            command = [*self._through, *command]
        elif address is not None:
            command = ssh_command(find_ssh(), address, command)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed with the rest
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            self._stderr.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        # a host that does not read must not block this process; `answer` sends the rest
        os.set_blocking(self._in.fileno(), False)
        self._unframer, self._frames = Unframer(preamble=True), deque[tuple[bytes, bytes]]()
        self._notify, self._late = notify, False
        self._unsent = memoryview(framed(program) + frame(*opening))
        self._send()

    @property
    def is_here(self) -> bool:
        """Whether it leads to this machine."""
        return self._address is None and not self._through

    def stop(self) -> None:
        """Kill the local process, so that a thread that waits for an answer stops waiting. Call `close` afterwards."""
        self._process.kill()

    def close(self) -> None:
        """End the program, whatever it is doing."""
        with contextlib.suppress(OSError):
            self._in.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A program that is done ends by itself, and so does its ssh connection.
            self._process.wait(0.5)
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._stderr.close()

    def question(self, question: Struct, kind: type[Kind], within_s: float) -> Kind:
        """Return the answer to a question of a check; raises `HostCheckError`."""
        self.send(encoded(question))
        return read(kind, self.answer(within_s))

    def send(self, question: bytes) -> None:
        """Send a question; raises `HostCheckError` if the answer to an earlier one did not come in time."""
        if self._late:
            # its answer may still come, and would be taken for this one
            raise HostCheckError("did not answer an earlier order in time")
        self._unsent = memoryview(bytes(self._unsent) + frame(ToAgent.QUESTION, question))
        self._send()

    def answer(self, within_s: float) -> bytes:
        """Return the payload of the next answer; raises `HostCheckError` if there is none in time."""
        deadline = time.monotonic() + within_s
        while (payload := self._taken()) is None:
            left_s = max(deadline - time.monotonic(), 0.0)
            ready = select.select([self._out], [self._in] if self._unsent else [], [], left_s)
            if left_s == 0 or not any(ready):
                self._late = True
                raise HostCheckError(f"did not answer within {within_s:g} s; {silence(self._noise())}")
            if ready[1]:
                self._send()
            if ready[0]:
                data = os.read(self._out.fileno(), CHUNK)
                if not data:
                    raise HostCheckError(self._why_ended())
                try:
                    self._frames += self._unframer.feed(data)
                except ValueError as error:
                    raise HostCheckError(str(error)) from None
        return payload

    def _taken(self) -> bytes | None:
        """Take the payload of the next answer; raises `HostCheckError` if the program refuses."""
        while self._frames:
            kind, payload = self._frames.popleft()
            # Notes may come before it, as of a node manager that is being started.
            if kind == FromAgent.ANSWER:
                return payload
            text = payload.decode(errors="replace")
            if kind == FromAgent.REFUSED:
                raise HostCheckError(f"cannot take part: {text}")
            if kind == FromAgent.NOTE:
                self._notify(text)
        return None

    def _noise(self) -> bytes:
        """Return the output of a login shell, as long as the program has not answered."""
        return b"" if self._unframer.greeted else self._unframer.noise[-_NOISE:]

    def _send(self) -> None:
        """Send as much as the connection takes at once."""
        try:
            self._unsent = self._unsent[os.write(self._in.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            # a process that has ended reports the reason on stderr
            self._unsent = memoryview(b"")

    def _why_ended(self) -> str:
        try:
            code = self._process.wait(_LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")
        last = (text.strip().splitlines() or [""])[-1]
        if self._through:
            return f"cannot be asked through {os.path.basename(self._through[0])} (exit code {code}): {last}"
        if self._address is None:
            return f"ended its own check with code {code}: {last}"
        return meaning(self._address, code, text, self._python, self._noise().decode(errors="replace"))


def together(
    work: Callable[[Given], Found], items: Sequence[Given], *, stop: Callable[[Given], None] | None = None
) -> list[Found]:
    """Call `work` with all items at once; return the results in their order.

    Args:
        stop: makes the work on one item end soon; called for all items after an interrupt
    """
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(len(items), AT_ONCE)) as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            for item in items if stop is not None else ():
                assert stop is not None
                stop(item)
            raise
