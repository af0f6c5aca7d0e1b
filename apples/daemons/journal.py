"""The registered processes of a node manager on disk, and the lock that allows one node manager per name.

A node manager adopts the processes of an earlier one, killed or ended, that are still alive. Their connections are
lost; pid and start time identify them. The file is written to a temporary name and renamed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import msgspec

from apples.daemons.paths import ManagerAccess, machine_file
from apples.daemons.processes import ProcessRegistration
from apples.errors import SharingError
from nws.base.files import write_whole
from nws.base.lock import FileLock, LockHeld, open_private
from nws.base.sealed import seal, unseal

#: No pid of Linux is larger.
_LARGEST_PID = 1 << 22


class _Registered(msgspec.Struct):
    """The file."""

    processes: list[ProcessRegistration]


class Journal:
    """The files of one node manager: ``node-NAME.lock``, held while it runs, with ``.json`` and ``.machine`` beside it.

    Raises `SharingError` if another node manager runs there, or the files cannot be written.
    """

    def __init__(self, socket_path: Path, machine: ManagerAccess | None = None) -> None:
        """Take the lock. `machine`: left for runs that have other hosts join it, until `close`"""
        self._path = socket_path.with_suffix(".json")
        lock = socket_path.with_suffix(".lock")
        try:
            # Held as long as this process lives: the kernel releases it however the process ends.
            self._lock = FileLock(lock, private=True)
        except LockHeld as held:
            raise SharingError(
                f"{socket_path}: a node manager runs there already, {held.holder}; end it, or give this one another "
                "--name or --socket"
            ) from None
        except OSError as error:
            raise SharingError(f"{lock}: cannot be made: {error.strerror}") from error
        try:
            # Of an earlier node manager that was killed.
            machine_file(socket_path).unlink(missing_ok=True)
            if machine is not None:
                machine.write(socket_path)
        except OSError as error:
            # The next attempt, perhaps of this same process, must not be refused.
            self._lock.release()
            raise SharingError(f"{machine_file(socket_path)}: cannot be written: {error.strerror}") from error

    def read(self) -> list[ProcessRegistration]:
        """Return the registrations of an earlier node manager; empty if no file can be read."""
        try:
            with open(open_private(self._path, os.O_RDONLY), "rb") as file:
                # Sealed by a checksum: a half-written file is no journal.
                registrations = msgspec.convert(unseal(file.read()), _Registered).processes
        except (OSError, ValueError, RecursionError):
            return []
        # Neither number nor path beyond those of the kernel: the file may be damaged.
        return [one for one in registrations if 0 < one.pid <= _LARGEST_PID and "\0" not in (one.page or "")]

    def write(self, registrations: Iterable[ProcessRegistration]) -> None:
        """Write the current registrations; raises `OSError`."""
        write_whole(self._path, seal({"processes": [asdict(one) for one in registrations]}), mode=0o600)

    def close(self, left: Collection[ProcessRegistration] = ()) -> None:
        """Leave processes to the next node manager, remove the address of the machine manager, release the lock."""
        machine_file(self._path).unlink(missing_ok=True)
        with suppress(OSError):
            self.write(left) if left else self._path.unlink(missing_ok=True)
        self._lock.release()
