"""What is new in the memory's log, in columns: the form in which thousands of samples a second can be taken on."""

from __future__ import annotations

from nws.memory import Memory
from nws.memory.database import damaged
from nws.memory.log import Batch, joined, last_row, progress, rows_after


def samples_since(memory: Memory, cursor: int) -> tuple[Batch, int] | None:
    """Samples kept since `cursor`, by any process, in the order they were kept, and the new cursor.

    None when the log does not reach back so far: read the history again. Raises `StoreError`.
    """
    with memory.database.reading() as connection:
        if progress(connection).deleted_to > cursor:
            return None
        try:
            rows = list(rows_after(connection, cursor))
        except ValueError as error:
            raise damaged(memory.path, error) from error
        return joined([batch for _, batch in rows]), last_row(connection)
