"""Classes of programs from earlier runs, so that a new run of a program starts in its class.

A program is known by its file, the words up to its first option (an interpreter's script, a subcommand), the number of
ranks and the rank. The class is a start only: the policy classifies the process again after its usual number of slots.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from apples.coscheduling.classes import ProcessClass
from apples.daemons.processes import ProcessRegistration
from nws.base.files import write_whole
from nws.base.lock import open_private
from nws.base.sealed import seal, unseal

#: Programs that are remembered.
_MOST = 512


class ClassMemory:
    """A file of classes; without a readable one, nothing is remembered yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._classes: dict[str, str] = {}
        with (
            suppress(OSError, ValueError, AttributeError, LookupError, TypeError, RecursionError),
            open(open_private(path, os.O_RDONLY), "rb") as file,
        ):
            self._classes = {str(key): str(value) for key, value in unseal(file.read())["classes"].items()}

    def recall(self, registration: ProcessRegistration) -> ProcessClass | None:
        """Return the last class of the program, None if it is unknown."""
        with suppress(ValueError):
            return ProcessClass(self._classes.get(_key(registration) or ""))
        return None

    def note(self, registration: ProcessRegistration, seen: ProcessClass) -> None:
        """Remember the class of a program; if the file cannot be written, until this daemon ends."""
        key = _key(registration)
        if key is None or self._classes.get(key) == seen.value:
            return
        self._classes.pop(key, None)
        self._classes[key] = seen.value
        while len(self._classes) > _MOST:
            del self._classes[next(iter(self._classes))]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, seal({"classes": self._classes}), mode=0o600)


def _key(registration: ProcessRegistration) -> str | None:
    """Return the key of a registered program, None if its name is unknown."""
    if registration.program is None:
        return None
    return f"{registration.program} {registration.process.rank}/{registration.ranks}"
