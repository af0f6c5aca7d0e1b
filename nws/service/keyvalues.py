"""A key-value table of JSON documents in the store: the store's identity and the measuring schedule.

Each document is replaced as a unit. Its content is defined by its writer.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from nws.memory.database import Database

_IDENTITY = "identity"


class KeyValueTable:
    """The documents of one store; methods raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> Any:
        """Return the document of a name, None if there is none or it is invalid JSON."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT data FROM forecaster WHERE name = ?", (name,)).fetchone()
        try:
            return None if row is None else json.loads(row[0])
        except ValueError:
            return None

    def put(self, name: str, document: Any) -> None:
        """Store a document under a name."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO forecaster (name, data) VALUES (?, ?)",
                (name, json.dumps(document).encode()),
            )

    def identity(self) -> str:
        """Return the random text that identifies this store, created at the first call."""
        found = self.get(_IDENTITY)
        if not isinstance(found, str):
            found = secrets.token_hex(16)
            self.put(_IDENTITY, found)
        return found
