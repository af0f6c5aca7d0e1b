"""The output of the ranks: where it goes, and the progress of the run that its lines show."""

import contextlib
import logging
import os

from apples.errors import LaunchError
from apples.hosts.frames import FromAgent
from apples.hosts.relays import write_all
from apples.model.launchrequest import LaunchRequest
from nws.base.bounded import BoundedPattern, LimitReached

_LOG = logging.getLogger(__name__)

#: Bytes of an unfinished line of output that are kept.
_LONGEST = 1 << 16


class OutputReader:
    """Progress of a run from the lines of its output. pattern : its group is the number of an iteration."""

    def __init__(self, pattern: str) -> None:
        self._pattern: BoundedPattern | None = BoundedPattern(pattern)
        self._partial = b""
        self._reached = -1

    def lines(self, data: bytes) -> list[bytes]:
        """Return a line of progress if this output shows a later iteration than before."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        # A program that never ends a line, as some progress bars, must not fill the memory.
        self._partial = self._partial[-_LONGEST:]
        reached = self._reached
        for group in self._groups(lines):
            with contextlib.suppress(ValueError, OverflowError):
                reached = max(reached, int(float(group)))
        # Numbers that go back belong to an inner loop, or to a restart.
        if reached == self._reached:
            return []
        self._reached = reached
        return [b'{"reached": %d}' % reached]

    def _groups(self, lines: list[bytes]) -> list[bytes]:
        if self._pattern is None or not lines:
            return []
        try:
            return self._pattern.groups(lines)
        except LimitReached:
            _LOG.warning(
                "progress is not shown: the pattern `progress` takes too long on a line of output; write it without "
                "nested repetitions"
            )
            self.close()
            return []

    def close(self) -> None:
        """Stop reading. Idempotent."""
        if self._pattern is not None:
            self._pattern.close()
            self._pattern = None


class RankOutput:
    """The destination of the ranks' output: this process's stdout and stderr, or a file.

    inherited : stdout and stderr for ranks that inherit descriptors; None if their output is to be taken here
    """

    def __init__(self, request: LaunchRequest) -> None:
        """Open the file for output, if any; raises `LaunchError`."""
        pattern = request.progress_pattern if request.on_progress is not None else None
        self._reader = None if pattern is None else OutputReader(pattern)
        self._file: int | None = None
        self._fds = {FromAgent.STDOUT: 2 if request.program_output_to_stderr else 1, FromAgent.STDERR: 2}
        if request.output is not None:
            # Appending: ranks and launcher write to it from several descriptors.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            try:
                self._file = os.open(request.output, flags, 0o600)
            except OSError as error:
                raise LaunchError(f"cannot start the ranks: {error.filename}: {error.strerror}") from error
            self._fds = dict.fromkeys(self._fds, self._file)
        # Ranks write to the terminal themselves where nothing reads along: that costs no copy, and keeps colours.
        self.inherited = (
            None if self._reader is not None else (self._fds[FromAgent.STDOUT], self._fds[FromAgent.STDERR])
        )

    def take(self, kind: bytes, data: bytes) -> list[bytes]:
        """Write output of ranks, of the frame's kind; return the lines of progress that it shows."""
        write_all(self._fds[kind], data)
        return [] if self._reader is None else self._reader.lines(data)

    def close(self) -> None:
        """Close the file, and end reading. Idempotent."""
        if self._reader is not None:
            self._reader.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None
