"""Progress from a run and new slabs to it: two files in the run directory of rank 0's host.

That host's agent reads the one and writes the other. Imported by the host agent, so it imports little. Their contents
are defined in `apples.adapting.progress`.
"""

from __future__ import annotations

import os

from nws.base.files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from apples.launching.launcher import LaunchRequest

PROGRESS, SLABS = "progress.jsonl", "slabs"

#: Variables with the paths of both files and the period of reports, in seconds (docs/application.md).
PROGRESS_VARIABLE = "STENCIL_APP_PROGRESS"
SLABS_VARIABLE = "STENCIL_APP_SLABS"
EVERY_VARIABLE = "STENCIL_APP_REPORT_EVERY"

#: Seconds from one look at the progress to the next.
LOOK_EVERY_S = 0.2
_CHUNK = 1 << 20


class FileTail:
    """A file to which another process appends lines. It need not exist yet."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._partial = b""

    def lines(self) -> list[bytes]:
        """Return the complete lines that are new since the last call."""
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
    """Write new slabs where the run looks for them. Readers see the file complete or not at all."""
    write_whole(os.path.join(directory, SLABS), heights + "\n")


def clear(directory: str) -> None:
    """Remove the files of an earlier run."""
    for name in (PROGRESS, SLABS):
        if os.path.exists(path := os.path.join(directory, name)):
            os.unlink(path)


def steered(request: LaunchRequest) -> LaunchRequest:
    """Return the request with variables that make the ranks report progress; unchanged without a controller."""
    if request.controller is None:
        return request
    from dataclasses import replace

    run_dir = str(request.run_dir.absolute())
    variables = {
        PROGRESS_VARIABLE: os.path.join(run_dir, PROGRESS),
        SLABS_VARIABLE: os.path.join(run_dir, SLABS),
        EVERY_VARIABLE: f"{request.controller.report_every_s:g}",
    }
    return replace(request, environment={**request.environment, **variables})
