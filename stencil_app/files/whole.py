"""`SharedFile`: one file that all ranks write at once, each at its own offsets; completely or not at all.

The ranks share a file system. The file is flushed to disk and rank 0 renames it when all ranks succeeded. Until then
the previous file of that name is unchanged, also if the run is killed. `nws.base.files` is for one process.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from nws.base.files import put_in_place
from stencil_app.errors import OutputError
from stencil_app.running.mpi import agree

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class SharedFile:
    """One file that all ranks of `comm` write together, as a collective context manager.

    Errors of any rank are raised on all of them as one `OutputError` at the end of the block; the file is
    then gone and the previous one of that name untouched.
    """

    def __init__(self, comm: Intracomm, path: Path) -> None:
        self._comm = comm
        self._path = path
        # One name for all ranks and all writes, so that killed runs leave one file behind, not many.
        self._temporary = path.with_name(f".{path.name}.part")
        self._problems: list[str] = []
        self._handle: int | None = None

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write `data` at `offset` (not collective); a failure is kept for the end of the block."""
        if self._handle is None or self._problems:
            return
        try:
            view = memoryview(data).cast("B")
            while view:
                written = os.pwrite(self._handle, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            self._fail(error)

    def __enter__(self) -> SharedFile:
        if self._comm.rank == 0:
            self._open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        created = self._comm.bcast(self._handle is not None)
        if created and self._comm.rank > 0:
            self._open(os.O_WRONLY)
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        if self._handle is not None:
            try:
                os.fsync(self._handle)
            except OSError as failure:
                self._fail(failure)
            os.close(self._handle)
        if error is not None:
            # Only this rank may know of it, so nothing collective can follow; the run is about to be aborted.
            self._temporary.unlink(missing_ok=True)
            return
        try:
            agree(self._comm, self._problems, OutputError)
        except OutputError:
            if self._comm.rank == 0:
                self._temporary.unlink(missing_ok=True)
            raise
        if self._comm.rank == 0:
            self._put_in_place()
        agree(self._comm, self._problems, OutputError)

    def _open(self, flags: int) -> None:
        try:
            self._handle = os.open(self._temporary, flags, 0o644)
        except OSError as error:
            self._fail(error)

    def _put_in_place(self) -> None:
        try:
            put_in_place(self._temporary, self._path, sync=True)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._problems.append(
            f"{self._path}: could not be written on {socket.gethostname()} ({error.strerror}); "
            "what was there before is unchanged"
        )
