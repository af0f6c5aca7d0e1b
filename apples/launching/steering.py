"""Progress of a run as it reaches the launcher, and new slabs as they reach the run: two files in its run directory.

Where the run directory of rank 0's host is not the launcher's, that host's station reads the one and writes the other.
Imported by the station, so it imports little. What is told and ordered is `apples.adapting.progress`.
"""

from __future__ import annotations

import os

from nws.base.files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from apples.launching.launcher import LaunchRequest

PROGRESS, SLABS = "progress.jsonl", "slabs"

#: How a run is told where to write and look, and how often (docs/application.md).
PROGRESS_VARIABLE = "STENCIL_APP_PROGRESS"
SLABS_VARIABLE = "STENCIL_APP_SLABS"
EVERY_VARIABLE = "STENCIL_APP_REPORT_EVERY"

#: Seconds from one look at the progress to the next.
LOOK_EVERY_S = 0.2
_CHUNK = 1 << 20


class FileTail:
    """A file that somebody appends lines to, and that need not be there yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._partial = b""

    def lines(self) -> list[bytes]:
        """Whole lines that are new since the last call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                data = file.read(_CHUNK)
        except OSError:
            return []
        self._read += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        return lines


def offer(directory: str, heights: str) -> None:
    """Put new slabs where the run looks for them, whole."""
    write_whole(os.path.join(directory, SLABS), heights + "\n")


def clear(directory: str) -> None:
    """Remove what an earlier run left."""
    for name in (PROGRESS, SLABS):
        if os.path.exists(path := os.path.join(directory, name)):
            os.unlink(path)


def steered(request: LaunchRequest) -> LaunchRequest:
    """The request with an environment that makes the ranks tell how they go; as it was where nobody listens."""
    if request.controller is None:
        return request
    from dataclasses import replace

    run_dir = str(request.run_dir.absolute())
    ours = {
        PROGRESS_VARIABLE: os.path.join(run_dir, PROGRESS),
        SLABS_VARIABLE: os.path.join(run_dir, SLABS),
        EVERY_VARIABLE: f"{request.controller.report_every_s:g}",
    }
    return replace(request, environment={**request.environment, **ours})
