"""New samples of the memory's log in columns, the form that ingests thousands of samples a second."""

from __future__ import annotations

from nws.memory import Memory
from nws.memory.database import damaged
from nws.memory.log import LogBatch, joined, last_row, progress, rows_after


def samples_since(memory: Memory, cursor: int) -> tuple[LogBatch, int] | None:
    """Return the samples stored since `cursor` by any process, in order, and the new cursor.

    Returns None if the log does not reach back so far; then replay the history. Raises `StoreError`.
    """
    with memory.database.reading() as connection:
        if progress(connection).deleted_to > cursor:
            return None
        try:
            rows = list(rows_after(connection, cursor))
        except ValueError as error:
            raise damaged(memory.path, error) from error
        return joined([batch for _, batch in rows]), last_row(connection)
