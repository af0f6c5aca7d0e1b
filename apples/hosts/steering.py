"""Progress from a run and new slabs to it: files on the host of rank 0.

That host's agent reads the progress: lines that the application writes, or the iterations on the page of the monitor.
It writes the slabs. Imported by the host agent, so it imports little. The contents of lines and slabs are defined in
`apples.model.progress`.
"""

from __future__ import annotations

import os
import struct

from nws.base.files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from apples.model.launchrequest import LaunchRequest

PROGRESS, SLABS = "progress.jsonl", "slabs"

#: Variables with the paths of both files and the period of reports, in seconds (docs/application.md).
PROGRESS_VARIABLE = "STENCIL_APP_PROGRESS"
SLABS_VARIABLE = "STENCIL_APP_SLABS"
EVERY_VARIABLE = "STENCIL_APP_REPORT_EVERY"

#: Seconds from one look at the progress to the next, of a run that is adapted, and of one whose progress is only shown:
#: a little more than the second between two reports, so that none comes too soon because the one before was late.
STEERED_LOOK_S, SHOWN_LOOK_S = 0.2, 1.1
_CHUNK = 1 << 20

#: Offset of the iterations in a page of the monitor (`apples.monitoring.pagelayout`), its magic and version.
PAGE_ITERATIONS, PAGE_BEGIN = 352, struct.pack("=8sI", b"APPLESMP", 3)


class FileTail:
    """A file to which another process appends lines. It need not exist yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._partial = b""

    def lines(self) -> list[bytes]:
        """Return the complete lines that are new since the last call."""
        try:
            data = _read(self._path, _CHUNK, self._read)
        except OSError:
            return []
        # By position: the file stays closed between looks, and may not exist yet.
        self._read += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        return lines


def _read(path: str, size: int, offset: int = 0) -> bytes:
    """Return at most `size` bytes of a file. A look happens often: this takes three system calls."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.pread(file, size, offset)
    finally:
        os.close(file)


class ProgressReader:
    """Progress of a run, on the host of rank 0. page : path of the rank's page, empty for a run without the monitor.

    every_s : seconds between looks.  look_at : time of the next look, by the clock of `lines`
    """

    def __init__(self, directory: str, page: str, every_s: float = STEERED_LOOK_S) -> None:
        self._tail, self._page = FileTail(os.path.join(directory, PROGRESS)), page
        self._every_s = every_s
        self._counted = 0
        self.look_at = 0.0

    def lines(self, now: float) -> list[bytes]:
        """Return the lines of progress that are new since the last call; none before `look_at`."""
        if now < self.look_at:
            return []
        self.look_at = now + self._every_s
        lines = self._tail.lines()
        if not self._page:
            return lines
        try:
            page = _read(self._page, PAGE_ITERATIONS + 8)
        except OSError:
            return lines
        # Another version of the monitor may have its counts elsewhere.
        if page.startswith(PAGE_BEGIN) and len(page) == PAGE_ITERATIONS + 8:
            (counted,) = struct.unpack_from("=Q", page, PAGE_ITERATIONS)
            if counted > self._counted:
                self._counted = counted
                lines.append(b'{"counted": %d}' % counted)
        return lines


def page_of(environment: Mapping[str, str]) -> str:
    """Return the path of the page of rank 0 under the variables of a run; empty without the monitor."""
    directory, job = environment.get("APPLES_MONITOR"), environment.get("APPLES_JOB")
    return os.path.join(directory, f"{job}.0") if directory and job else ""


def offer(directory: str, heights: str) -> None:
    """Write new slabs where the run looks for them. Readers see the file complete or not at all."""
    write_whole(os.path.join(directory, SLABS), heights + "\n")


def clear(directory: str) -> None:
    """Remove the files of an earlier run."""
    for name in (PROGRESS, SLABS):
        # Old slabs would be taken for new ones by the next run in this directory.
        if os.path.exists(path := os.path.join(directory, name)):
            os.unlink(path)


def steered(request: LaunchRequest) -> LaunchRequest:
    """Return the request with variables that make the ranks report progress; unchanged if nothing listens."""
    controller = request.controller
    if controller is None and request.on_progress is None:
        return request
    from dataclasses import replace

    run_dir = str(request.run_dir.absolute())
    # Absolute, because programs may change their directory.
    variables = {PROGRESS_VARIABLE: os.path.join(run_dir, PROGRESS)}
    if controller is not None:
        variables[SLABS_VARIABLE] = os.path.join(run_dir, SLABS)
        variables[EVERY_VARIABLE] = f"{controller.report_every_s:g}"
    return replace(request, environment={**request.environment, **variables})
