"""Who is registered with a node manager, on disk beside its socket, and the lock that lets one of a name run.

A node manager that is started after one that was killed takes the processes over that still live: their connections
are gone, their pids and start times tell them. The file is written beside the old one and renamed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Literal

from apples.coscheduling.events import Process
from apples.daemons.processes import ProcessRegistration
from apples.errors import SharingError
from nws.base.files import write_whole


class Journal:
    """The files of one node manager: ``node-NAME.lock`` held while it runs, ``node-NAME.json``.

    Raises `SharingError` when another runs there, or the files cannot be written.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path.with_suffix(".json")
        lock = socket_path.with_suffix(".lock")
        try:
            self._lock: IO[str] = _own(lock, "a+")
        except OSError as error:
            raise SharingError(f"{lock}: cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.seek(0)
            owner = self._lock.read().strip()
            self._lock.close()
            raise SharingError(
                f"{socket_path}: a node manager runs there already{f', process {owner}' if owner else ''}; end it, "
                "or give this one another --name or --socket"
            ) from error
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()

    def read(self) -> list[ProcessRegistration]:
        """What an earlier node manager had; nothing where there is nothing that can be read."""
        try:
            with _own(self._path, "r") as file:
                entries = json.load(file)
            return [
                ProcessRegistration(**entry | {"process": Process(*entry["process"])}) for entry in entries
            ]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def write(self, registrations: Iterable[ProcessRegistration]) -> None:
        """Keep who is registered now; raises `OSError`."""
        write_whole(self._path, json.dumps([asdict(one) for one in registrations]), mode=0o600)

    def close(self) -> None:
        """Nothing is registered any more; let the next one in."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        self._lock.close()


def _own(path: Path, mode: Literal["r", "a+"]) -> IO[str]:
    """Open a regular file of this user's, through no link; raises `OSError`.

    Who is named in a journal is held and stopped, so nobody else may have written it.
    """

    def opener(name: str, flags: int) -> int:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            os.close(fd)
            raise PermissionError(errno.EPERM, f"it is no regular file of user {os.geteuid()}; remove it")
        return fd

    return open(path, mode, encoding="utf-8", opener=opener)
