"""The weather of a whole grid in one document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDocument:
    """Hosts, series and, when asked for, composed pairs, in columns; `encode` writes it."""

    document: dict[str, Any]

    def encode(self) -> bytes:
        """As JSON; NaN is null."""
        import orjson

        return orjson.dumps(self.document, option=orjson.OPT_SERIALIZE_NUMPY)
