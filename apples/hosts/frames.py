"""The frames between launcher and host agents: one kind byte, a length, and as many bytes.

Before its first frame an agent sends `PREAMBLE`, so that output of a login shell before it can be skipped. Imported by
the host agent, so it imports little.

`ToAgent` and `FromAgent` name the kinds. The first frame to an agent opens ranks, a check, or the node manager's part;
in the latter two each `QUESTION` gets one `ANSWER`.
"""

from __future__ import annotations

import os
import select
import struct
import time


class ToAgent:
    """Kinds of frames to an agent, with their payloads. The letters are the bytes on the wire."""

    #: JSON. The first frame of a run, of a check, and of a node manager's part in a run.
    SETUP, CHECK, SHARE = b"J", b"H", b"M"
    #: JSON: a command to start; a question of a check or about the node manager.
    START, QUESTION = b"S", b"Q"
    #: The number of a signal for all ranks; new slabs as text.
    SIGNAL, SLABS = b"K", b"D"
    #: A file for the run directory: name, newline, bytes.
    FILE = b"F"
    #: Empty: sign of life; close the lifeline; kill everything; send the ranks that have the monitor.
    HEARTBEAT, CUT, KILL, ANNOUNCED = b"B", b"C", b"X", b"I"


class FromAgent:
    """Kinds of frames from an agent, with their payloads."""

    #: JSON: the agent is ready; a rank's status file has changed; a command has ended; the answer to a question.
    REPORT, STATUS, ENDED, ANSWER = b"R", b"T", b"P", b"A"
    #: Output of the ranks.
    STDOUT, STDERR = b"O", b"E"
    #: A file of the run directory; a line of progress.
    FILE, PROGRESS = b"F", b"N"
    #: Ranks that have the monitor, as in the file of the job.
    ANNOUNCED = b"I"
    #: Text: why the agent cannot take part; a note for the user.
    REFUSED, NOTE = b"W", b"Y"
    #: Empty: sign of life; no process is left on the host; the host is about to end, because TERM came.
    HEARTBEAT, GONE, LEAVING = b"B", b"G", b"L"


PREAMBLE = b"APPLES HOST AGENT 1\n"
HEADER = struct.Struct(">cI")

#: A longer frame is an error, or the peer is another program.
LONGEST = 64 << 20
#: Bytes that are read or written at once.
CHUNK = 1 << 16
#: The most output of a login shell before the preamble, in bytes.
LONGEST_GREETING = 1 << 20


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Return the bytes of one frame."""
    return HEADER.pack(kind, len(payload)) + payload


def _no_agent(data: bytearray) -> str:
    return f"does not answer as a host agent does, it printed {bytes(data[:40])!r}; its login shell must be quiet"


class Unframer:
    """A parser of frames from a stream of bytes.

    greeted : whether the preamble was received, or none is expected.  noise : the bytes before it
    """

    def __init__(self, *, preamble: bool = False) -> None:
        self.greeted = not preamble
        self.noise = b""
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the complete frames, each as kind and payload; raises `ValueError` for bytes that are not frames."""
        self._data += data
        if not self.greeted and not self._greet():
            return []
        complete = []
        while len(self._data) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._data)
            # Four bytes of a text that is no frame would announce a gigabyte, and be waited for.
            if length > LONGEST:
                raise ValueError(_no_agent(self._data))
            end = HEADER.size + length
            if len(self._data) < end:
                break
            complete.append((kind, bytes(self._data[HEADER.size : end])))
            del self._data[:end]
        return complete

    def _greet(self) -> bool:
        # A login shell may print anything before, also without a line break.
        at = self._data.find(PREAMBLE)
        if at < 0:
            self.noise = bytes(self._data[-LONGEST_GREETING:])
            if len(self._data) > LONGEST_GREETING:
                raise ValueError(_no_agent(self._data))
            return False
        self.noise = bytes(self._data[:at])
        del self._data[: at + len(PREAMBLE)]
        self.greeted = True
        return True


class FrameWriter:
    """Frames on their way to a descriptor that does not block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()

    @property
    def waiting(self) -> int:
        """Number of bytes that the reader has not taken yet."""
        return len(self._data)

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Append a frame and write as much as the reader takes."""
        self._data += frame(kind, payload)
        self.flush()

    def flush(self) -> None:
        """Write as much as the reader takes."""
        try:
            while self._data:
                # In chunks: a copy of all that waits would be made for each write.
                del self._data[: os.write(self._fd, self._data[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            # The reader has closed its end; the end of our input will follow.
            self._data.clear()

    def drain(self, within_s: float) -> None:
        """Write everything; stop when the time is over."""
        deadline = time.monotonic() + within_s
        while self._data and (left_s := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll(1000.0 * left_s)
            self.flush()
