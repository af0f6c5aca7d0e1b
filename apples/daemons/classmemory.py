"""Classes and duty cycles of programs from earlier runs: a new run of a program starts in its class.

A program is known by its file, the words up to its first option (an interpreter's script, a subcommand), the number of
ranks and the rank. The class is a start only: the policy classifies the process again after its usual number of slots.
Duty cycles answer whether two programs fit beside each other (`apples.coscheduling.fitting`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from apples.coscheduling.classes import ProcessClass
from apples.daemons.processes import ProcessRegistration
from nws.base.files import make_private, write_whole
from nws.base.lock import open_private
from nws.base.paths import state_dir
from nws.base.sealed import seal, unseal

Value = TypeVar("Value")

#: Programs that are remembered.
_MOST = 512

#: Name of a program, as `_key` makes it.
_Name = Annotated[str, Meta(max_length=65_536)]


class _Remembered(msgspec.Struct):
    """The file. classes, duties : by program, the newest last"""

    classes: Annotated[dict[_Name, str], Meta(max_length=_MOST)] = {}
    duties: Annotated[dict[_Name, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=_MOST)] = {}


class ClassMemory:
    """A file of classes; without a readable one, nothing is remembered yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        remembered = _Remembered()
        with (
            suppress(OSError, ValueError, RecursionError),
            open(open_private(path, os.O_RDONLY), "rb") as file,
        ):
            # Bounded and checked: the file outlives releases, and a power failure may damage it.
            remembered = msgspec.convert(unseal(file.read()), _Remembered)
        self._classes, self._duties = remembered.classes, remembered.duties

    @classmethod
    def of_user(cls) -> ClassMemory:
        """Return the memory in the user's state directory."""
        return cls(state_dir() / "classes.json")

    def recall(self, registration: ProcessRegistration) -> ProcessClass | None:
        """Return the last class of the program, None if it is unknown."""
        with suppress(ValueError):
            return ProcessClass(self._classes.get(_key(registration) or ""))
        return None

    def note(
        self, registration: ProcessRegistration, seen: ProcessClass | None, duty: float | None = None
    ) -> None:
        """Remember the class and duty cycle of a program, each unless None.

        If the file cannot be written, they are remembered until this daemon ends.
        """
        key = _key(registration)
        if key is None:
            return
        changed = seen is not None and _remember(self._classes, key, seen.value)
        if duty is not None:
            # Rounded, so that the file is not written again for each run.
            changed |= _remember(self._duties, key, round(duty, 2))
        if changed:
            with suppress(OSError):
                make_private(self._path.parent)
                text = seal({"classes": self._classes, "duties": self._duties})
                write_whole(self._path, text, mode=0o600)

    def duties(self, program: str) -> list[float]:
        """Return the duty cycles of the ranks of a program's last run that was measured, empty for none.

        Args:
            program: Last words of its name; of each word, directories may be left out.
        """
        words = program.split()
        duty_of_rank: dict[int, float] = {}
        for key, duty in self._duties.items():
            name, _, rank_of_ranks = key.rpartition(" ")
            known = name.split()[-len(words) :]
            if 0 < len(words) == len(known) and all(
                full == word or Path(full).name == word for full, word in zip(known, words, strict=True)
            ):
                with suppress(ValueError):
                    rank, ranks = map(int, rank_of_ranks.split("/"))
                    # Entries of an earlier number of ranks come first.
                    duty_of_rank = {r: d for r, d in duty_of_rank.items() if r < ranks} | {rank: duty}
        return [duty_of_rank[rank] for rank in sorted(duty_of_rank)]


def _remember(known: dict[str, Value], key: str, value: Value) -> bool:
    """Make a value the last of a bounded mapping; return whether that has changed the mapping."""
    if known.get(key) == value and next(reversed(known)) == key:
        return False
    # Mappings keep the order of insertion: the newest is last, and the oldest goes first.
    known.pop(key, None)
    known[key] = value
    while len(known) > _MOST:
        del known[next(iter(known))]
    return True


def _key(registration: ProcessRegistration) -> str | None:
    """Return the key of a registered program, None if its name is unknown."""
    if registration.program is None:
        return None
    return f"{registration.program} {registration.process.rank}/{registration.ranks}"
