"""Names of the series in a store, by their ids. Read once, and later only the new ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from nws.base.errors import UsageError
from nws.memory.database import damaged
from nws.series import Series


class Names:
    """All series as of the last `follow`; ids count from 0. path : file, for messages"""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: list[str] = []
        self._series: list[Series | None] = []
        #: Id of each name.
        self.ids: dict[str, int] = {}

    def __len__(self) -> int:
        """Return number of series."""
        return len(self._names)

    def follow(self, connection: sqlite3.Connection) -> None:
        """Read the names that other processes added; names never change and are never deleted."""
        rows = connection.execute(
            "SELECT id, name FROM series WHERE id >= ? ORDER BY id", (len(self._names),)
        )
        for number, name in rows.fetchall():
            if number != len(self._names):
                raise damaged(self._path, f"series {number} where {len(self._names)} was expected")
            self.ids[name] = number
            self._names.append(name)
            self._series.append(None)

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
        found = self._series[number]
        if found is None:
            try:
                found = self._series[number] = Series.parse(self._names[number])
            except UsageError as error:
                raise damaged(self._path, error) from error
        return found
