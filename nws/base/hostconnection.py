"""A connection to a host: a program is sent over one ssh connection, and may then get orders.

Every answer has a time limit. A host that fails in any way raises `HostCheckError` with a reason for the user.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from nws.base.closing import Closing
from nws.base.sentprogram import BOOTSTRAP, PYTHON, framed, interpreter
from nws.base.sshcommand import find_ssh, meaning, ssh_command
from nws.base.terminal import visible

Given = TypeVar("Given")
Found = TypeVar("Found")

#: Begins each answer, wherever it is in a line: a login shell may print a prompt before it. Programs that are sent have
#: the same.
MARK = "APPLES-CHECK 1 "

#: Connections that are made at the same time.
AT_ONCE = 32

#: Seconds for ssh to print why it ended.
_LAST_WORDS_S = 2.0
#: Longest line of output, bytes.
_LONGEST_LINE = 16 << 20
#: Bytes of a login shell's output that are kept for messages.
_NOISE = 1 << 10


class HostCheckError(Exception):
    """A host does not answer as expected. The text is a sentence without its subject."""


def silence(noise: bytes) -> str:
    """Return why a host that printed this, and nothing else, may be silent."""
    last = noise.decode(errors="replace").strip().split("\n")[-1]
    if not last:
        return "it is off, overloaded, or cut off"
    return f"its login shell printed '{visible(last)}' and may wait for input; it must run commands without a terminal"


class HostConnection(Closing):
    """A connection to a program on one host; a context manager that leaves no process.

    address : destination for ssh, None for this machine.  through : command prefix that replaces ssh
    program : source of the program there; its answers, lines of JSON, begin with `MARK`
    python : interpreter there, None for any
    received : bytes that `taken` has not taken yet.  noise : what a login shell printed before the first answer
    Subclasses may frame texts in another way.
    """

    def __init__(
        self,
        address: str | None,
        request: object,
        through: Sequence[str] = (),
        *,
        program: bytes,
        python: str | None = None,
    ) -> None:
        """Start the program; raises `SshNotFound` without ssh, `OSError` if it cannot be started."""
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
        # a host that does not read must not block this process; `receive` sends the rest
        os.set_blocking(self._process.stdin.fileno(), False)
        self.received, self.noise, self._late = b"", b"", False
        self._unsent = memoryview(framed(program) + self.packed(request))
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A program that is done ends by itself, and so does its ssh connection.
            self._process.wait(0.5)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def ask(self, order: Mapping[str, Any], within_s: float) -> dict[str, Any]:
        """Return the answer to one order; raises `HostCheckError`, also if an earlier answer did not come in time."""
        self.send(order)
        return self.receive(within_s)

    def receive(self, within_s: float) -> dict[str, Any]:
        """Return the next answer; raises `HostCheckError` if there is none in time."""
        return _document(self.answer(within_s))

    def send(self, order: object) -> None:
        """Send one order; raises `HostCheckError` if the answer to an earlier one did not come in time."""
        if self._late:
            # its answer may still come, and would be taken for this one
            raise HostCheckError("did not answer an earlier order in time")
        self._unsent = memoryview(bytes(self._unsent) + self.packed(order))
        self._send()

    def packed(self, order: object) -> bytes:
        """Return an order as the program there reads it."""
        return json.dumps(order).encode() + b"\n"

    def taken(self) -> bytes | None:
        """Take the text of the next answer from `received`; None if it is not complete."""
        before, mark, after = self.received.partition(MARK.encode())
        if not mark:
            # Lines without a mark are dropped; the last part of one may be its beginning.
            lines, newline, self.received = before.rpartition(b"\n")
            self.noise = (self.noise + lines + newline)[-_NOISE:]
            return None
        text, newline, rest = after.partition(b"\n")
        if not newline:
            return None
        self.noise, self.received = b"", rest
        return text

    def answer(self, within_s: float) -> bytes:
        """Return the text of the next answer; raises `HostCheckError` if there is none in time."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        deadline = time.monotonic() + within_s
        while (text := self.taken()) is None:
            left_s = max(deadline - time.monotonic(), 0.0)
            ready = select.select([stdout], [stdin] if self._unsent else [], [], left_s)
            if left_s == 0 or not any(ready):
                self._late = True
                raise HostCheckError(f"did not answer within {within_s:g} s; {silence(self._noise())}")
            if ready[1]:
                self._send()
            if ready[0]:
                data = os.read(stdout.fileno(), 1 << 16)
                if not data:
                    raise HostCheckError(self._why_ended())
                self.received += data
            if len(self.received) > _LONGEST_LINE:
                raise HostCheckError(f"sent a line of more than {_LONGEST_LINE} bytes")
        return text

    def _noise(self) -> bytes:
        return (self.noise + self.received)[-_NOISE:]

    def _send(self) -> None:
        """Send as much as the connection takes at once."""
        assert self._process.stdin is not None
        try:
            self._unsent = self._unsent[os.write(self._process.stdin.fileno(), self._unsent) :]
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


def _document(text: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(text.decode(errors="replace")))
    except (ValueError, TypeError, RecursionError) as error:
        raise HostCheckError(f"gave an answer that cannot be understood ({str(error)[:200]})") from None


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
