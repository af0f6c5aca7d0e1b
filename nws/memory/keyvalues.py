"""A key-value table of JSON documents in the store: the store's identity, the measuring schedule, the
batteries of a host's own weather.

Each document is replaced as a unit. Its content is defined by its writer.
"""

import json
import secrets
from typing import Any

from nws.base.errors import StoreDamaged
from nws.memory.database import Database
from nws.memory.integrity import put_rows, sound_rows

_IDENTITY = "identity"


class KeyValueTable:
    """The documents of one store; methods raise `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> Any:
        """Return the document of a name, None if there is none; a damaged one is noted, and there is none."""
        try:
            with self._database.reading() as connection:
                # the whole table, which has a few rows: only so is a missing row noticed
                rows: dict[Any, Any] = dict(sound_rows(connection, "forecaster"))
                return json.loads(rows[name]) if name in rows else None
        except StoreDamaged:
            # the damage is noted where the error is raised; the writer makes its document anew
            return None

    def put(self, name: str, document: Any) -> None:
        """Store a document under a name."""
        # before the transaction: a document that is no JSON must not begin one
        data = json.dumps(document).encode()
        with self._database.writing() as connection:
            put_rows(connection, "forecaster", [(name, data)])

    def identity(self) -> str:
        """Return the random text that identifies this store, created at the first call."""
        stored = self.get(_IDENTITY)
        if not isinstance(stored, str):
            # random, and not the path or the time: a copied store keeps it, a new one at the same path has another
            stored = secrets.token_hex(16)
            self.put(_IDENTITY, stored)
        return stored
