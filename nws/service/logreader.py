"""New samples of the memory's log in columns, the form that ingests thousands of samples a second."""

from __future__ import annotations

import numpy as np

from nws.memory import Memory
from nws.memory.database import damaged
from nws.memory.log import LogBatch, joined, last_row, progress, rows_after
from nws.service.parsing import Ints


def samples_since(
    memory: Memory, cursor: int, *, included: Ints | None = None
) -> tuple[LogBatch, int] | None:
    """Return the samples stored since `cursor` by any process, in order, and the new cursor.

    Returns None if the log does not reach back so far; then replay the history. Raises `StoreError`.

    Args:
        memory: the store
        cursor: number of the last row of the log that is known
        included: int64[series], a later row for each series up to which its samples are known as well
    """
    known = np.append(cursor if included is None else included, cursor)
    with memory.database.reading() as connection:
        if progress(connection).deleted_to > cursor:
            return None
        try:
            batches = [
                batch.picked(known[np.minimum(batch.ids, len(known) - 1)] < row)
                for row, batch in rows_after(connection, cursor)
            ]
        except ValueError as error:
            raise damaged(memory.path, error) from error
        return joined(batches), last_row(connection)
