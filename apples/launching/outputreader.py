"""Progress of a run from what its program prints."""

from __future__ import annotations

import contextlib
import re

#: Bytes of an unfinished line of output that are kept.
_LONGEST = 1 << 16


class OutputReader:
    """Progress of a run from the lines of its output. pattern : its group is the number of an iteration."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern.encode())
        self._partial = b""
        self._reached = -1

    def lines(self, data: bytes) -> list[bytes]:
        """Return a line of progress if this output shows a later iteration than before."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-_LONGEST:]
        reached = self._reached
        for found in filter(None, map(self._pattern.search, lines)):
            with contextlib.suppress(ValueError, IndexError):
                reached = max(reached, int(float(found[1])))
        if reached == self._reached:
            return []
        self._reached = reached
        return [b'{"reached": %d}' % reached]
