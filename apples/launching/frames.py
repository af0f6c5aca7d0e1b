"""What launcher and sTATIONS say to each other: frames of one kind byte, a length and so many bytes.

Before the first frame a station sends `PREAMBLE`; whatever a login shell printed before it is passed over. Imported by
the station, so it imports little.

    to a station            from a station
    J  setup, JSON          R  ready, JSON: what it found
    S  start, JSON          T  a rank's status file as it is now
    K  signal, a number     O  E  output of ranks, to stdout and stderr
    B  beat                 B  beat
    C  cut the lifeline     P  a proxy has ended, JSON
    X  kill everything      F  a file of the run directory: name, newline, bytes
    D  new slabs, text      N  a line of progress
                            G  gone: nothing is left here
                            W  why it cannot go on, text
"""

from __future__ import annotations

import struct

PREAMBLE = b"APPLES HOST_AGENT 1\n"
HEADER = struct.Struct(">cI")

#: A longer frame is a mistake, or somebody else speaks.
LONGEST = 64 << 20
#: A login shell that prints more than this before we are heard is no shell we know.
LONGEST_GREETING = 1 << 16


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame as it goes over the wire."""
    return HEADER.pack(kind, len(payload)) + payload


class Unframer:
    """Frames out of bytes as they come.

    greeted : whether the preamble was seen, or none is expected.  noise : what came before it
    """

    def __init__(self, *, preamble: bool = False) -> None:
        self.greeted = not preamble
        self.noise = b""
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Whole frames, kind and payload; raises `ValueError` for what cannot be frames."""
        self._data += data
        if not self.greeted and not self._greet():
            return []
        found = []
        while len(self._data) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._data)
            if length > LONGEST:
                raise ValueError(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(self._data) < end:
                break
            found.append((kind, bytes(self._data[HEADER.size : end])))
            del self._data[:end]
        return found

    def _greet(self) -> bool:
        at = self._data.find(PREAMBLE)
        if at < 0:
            self.noise = bytes(self._data[-LONGEST_GREETING:])
            if len(self._data) > LONGEST_GREETING:
                raise ValueError("no greeting")
            return False
        self.noise = bytes(self._data[:at])
        del self._data[: at + len(PREAMBLE)]
        self.greeted = True
        return True
