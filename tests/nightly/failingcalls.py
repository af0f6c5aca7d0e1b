"""The plan of `fault_shim.c`: which calls of the processes that load it fail now, and with which error."""

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

NO_SPACE, NO_DESCRIPTORS, NO_MEMORY, BROKEN = errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EIO
_SOURCE = Path(__file__).with_name("fault_shim.c")


class Plan:
    """The shim, compiled into a directory, and its plan. Raises `RuntimeError` without a C compiler."""

    def __init__(self, directory):
        compiler = shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("no gcc: the shim that makes calls fail cannot be compiled")
        self._library = directory / "fault_shim.so"
        self._file, self._count = directory / "fault-plan", directory / "fault-plan.count"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", self._library, _SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        self._file.touch()
        self._count.touch()

    @contextmanager
    def loaded(self):
        """Let the processes that are started in this block load the shim."""
        with patch.dict(os.environ, self.environment):
            yield

    @property
    def environment(self):
        """Variables of a process that loads the shim."""
        return {"LD_PRELOAD": str(self._library), "FAULT_PLAN": str(self._file)}

    @contextmanager
    def failing(self, calls, number, *, every=1, path=""):
        """Make calls fail in this block.

        calls: names as in the shim.  number: errno.  every: the first of so many.  path: text in the path of their file
        """
        self._write(f"{calls} {number} {every} 1 {path}")
        try:
            yield
        finally:
            self._write("")

    @property
    def failed(self):
        """Number of calls that failed so far."""
        return self._count.stat().st_size

    def _write(self, text):
        # Renamed, so that no process reads half of it.
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.rename(self._file)
