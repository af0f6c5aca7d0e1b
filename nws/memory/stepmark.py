"""The mark beside a store: the number of its last step, which shows whether the end of the store is missing.

SQLite drops the end of a damaged or shortened write-ahead log without an error, and takes an emptied file for a new
one. The mark is written after each step, and never synchronised to disk: after a power failure, when the last seconds
may be missing, the machine has another boot id, and the mark is not believed.
"""

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """step : number of the last step.  this_boot : it was written since this machine started"""

    step: int
    this_boot: bool


class StepMark:
    """The file of the mark. `removed`: the store does not exist, so the mark of an older one is removed."""

    def __init__(self, store: Path, *, removed: bool) -> None:
        self.path = store.with_name(f"{store.name}-mark")
        try:
            self._boot = _BOOT.read_text().strip()
        except OSError:
            self._boot = "-"
        if removed:
            with suppress(OSError):
                self.path.unlink()
        self._descriptor = -1
        # a directory that cannot be written to is reported with the store itself
        with suppress(OSError):
            self._descriptor = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )

    def read(self) -> Mark | None:
        """Return the mark, None if there is none; `ValueError` if it is damaged."""
        if self._descriptor < 0:
            return None
        text = os.pread(self._descriptor, _LENGTH + 1, 0)
        if not text:
            return None
        try:
            step, boot, check = text.decode("ascii").split()
            if len(text) == _LENGTH and int(check) == zlib.crc32(f"{step} {boot}".encode()):
                return Mark(step=int(step), this_boot=boot == self._boot)
        except ValueError:
            pass
        raise ValueError(f"{self.path}: damaged: whether the end of the store is missing cannot be known")

    def write(self, step: int) -> None:
        """Replace the mark; a failure leaves the old one."""
        text = f"{step} {self._boot}"
        with suppress(OSError):
            os.pwrite(
                self._descriptor, f"{text} {zlib.crc32(text.encode())}".ljust(_LENGTH - 1).encode() + b"\n", 0
            )

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
