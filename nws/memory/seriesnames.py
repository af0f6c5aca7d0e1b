"""Names of the series in a store, by their ids. Read once, and later only the new ones."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nws.base.errors import UsageError
from nws.base.sealed import crc
from nws.memory.database import damaged
from nws.memory.integrity import DamagedRows
from nws.series import Series


class Names:
    """All series as of the last `follow`; ids count from 0. path : file, for messages"""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        self._series: list[Series | None] = []
        self.is_read = False
        #: Id of each name.
        self.ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def follow(self, connection: sqlite3.Connection) -> None:
        """Read the names that other processes added; names never change and are never deleted.

        `DamagedRows` for a name that is damaged, and its copy too.
        """
        known = len(self._names)
        rows = connection.execute("SELECT id, name, crc FROM series WHERE id >= ?", (known,)).fetchall()
        if not rows and self.is_read:
            return
        counts = [count for (count,) in connection.execute("SELECT series_rows FROM progress")]
        names = sound_names(rows)
        # the copy is read only where the table itself is damaged or short
        if len(names) != len(rows) or known + len(rows) not in counts:
            copies = connection.execute("SELECT id, name, crc FROM series_copy WHERE id >= ?", (known,))
            names = sound_names(copies.fetchall()) | names
        # ids count from 0 without gaps, so a missing one is seen
        for number in range(known, known + len(names)):
            if number not in names:
                raise DamagedRows(f"the name of series {number} is missing")
        if known + len(names) not in counts:
            raise DamagedRows(f"{known + len(names)} names of series, expected {counts}")
        for number in range(known, known + len(names)):
            self.ids[names[number]] = number
            self._names.append(names[number])
            # parsed when first used: a store may have 100,000 series
            self._series.append(None)
        self.is_read = True

    def all(self) -> list[str]:
        """Return in the order of their ids."""
        return list(self._names)

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return those that have no id yet, each once, in their order."""
        return list(dict.fromkeys(name for name in names if name not in self.ids))

    def known(self, series: Iterable[Series]) -> list[int]:
        """Return ids of those that have one."""
        return [self.ids[name] for name in map(str, series) if name in self.ids]

    def series(self, number: int) -> Series:
        """Return the series of an id; `StoreError` when its name is none."""
        known = self._series[number]
        if known is None:
            try:
                known = self._series[number] = Series.parse(self._names[number])
            except UsageError as error:
                raise damaged(self._path, error) from error
        return known


def sound_names(rows: Iterable[tuple[Any, ...]]) -> dict[int, str]:
    """Return the names with a right checksum by id. rows : id, name, checksum"""
    return {number: name for number, name, check in rows if crc("series", number, name) == check}
