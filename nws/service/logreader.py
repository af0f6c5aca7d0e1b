"""New samples of the memory's log in columns, the form that ingests thousands of samples a second."""

import numpy as np

from nws.memory import Memory
from nws.memory.log import LogBatch, joined, progress, rows_after
from nws.service.parsing import Ints


def samples_since(
    memory: Memory, cursor: int, *, included: Ints | None = None
) -> tuple[LogBatch, int] | None:
    """Return the samples stored since `cursor` by any process, in order, and the new cursor.

    Returns None if the log does not reach back so far; then replay the history. Damaged rows are noted and left out.
    Raises `StoreError`.

    Args:
        memory: the store
        cursor: number of the last row of the log that is known
        included: int64[series], a later row for each series up to which its samples are known as well
    """
    known = None if included is None else np.append(included, cursor)
    batches = []
    with memory.database.reading() as connection:
        at = progress(connection)
        if at.deleted_to > cursor:
            return None
        for row, batch, losses in rows_after(connection, cursor, at.written_to):
            if known is not None:
                batch = batch.picked(known[np.minimum(batch.ids, len(known) - 1)] < row)
            batches.append(batch)
            for loss in losses:
                memory.database.damage.note(f"{memory.path}: damaged: row {row} of its log: {loss}")
    return joined(batches), at.written_to
