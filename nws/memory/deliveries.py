"""Deliveries to the store: columns of samples, and the numbered streams that make repeating them harmless.

A sender numbers its samples from 0, and repeats unacknowledged ones. For each source the store keeps the next expected
number, and ignores samples with a lower one. That number moves in the same transaction as the samples.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nws.base.errors import UsageError
from nws.base.sealed import crc
from nws.memory.integrity import DamagedRows, put_rows, sound_rows
from nws.memory.log import LogBatch, joined
from nws.memory.seriesnames import Names

#: Times beyond ± this many seconds since the epoch, three thousand years, are invalid.
FURTHEST_S = 1e11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delivery:
    """n samples: ids int32[n] of series, times float64[n] (seconds since the epoch), values float64[n] in their units.

    source : the numbering sender, None without numbers.  first : number of the first sample, the others follow
    received : arrival, seconds since the epoch by the clock of the store
    wanted : bool[n]; False where a sample counts as delivered and is not kept, None to keep all
    """

    ids: NDArray[np.int32]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    received: float
    source: str | None = None
    first: int = 0
    wanted: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """kept : samples of the delivery that are new and kept.  next : number expected of the source next"""

    kept: int
    next: int


def check(delivery: Delivery, names: Names) -> None:
    """Raise `UsageError` for samples that cannot be stored."""
    d = delivery
    # columns of different lengths might be broadcast by numpy, not refused
    marks = d.ids.shape if d.wanted is None else d.wanted.shape
    if not d.ids.shape == d.times.shape == d.values.shape == marks or d.ids.ndim != 1:
        raise UsageError(
            f"a delivery of {d.ids.shape} series, {d.times.shape} times, {d.values.shape} values, "
            f"{marks} marks: expected four columns of one length"
        )
    if not 0 <= d.first < 1 << 62:
        raise UsageError(f"a delivery that begins with sample {d.first}: expected a number from 0 to 2^62")
    if not np.isfinite(d.received):
        raise UsageError(f"a delivery received at {d.received}: expected seconds since the epoch")
    unknown = (d.ids < 0) | (d.ids >= len(names))
    if unknown.any():
        raise UsageError(
            f"no series {int(d.ids[unknown][0])} in a memory of {len(names)}; `series_ids` makes one"
        )
    # NaN fails both comparisons
    legal = np.isfinite(d.values) & (np.abs(d.times) <= FURTHEST_S)
    if d.wanted is not None:
        legal |= ~d.wanted
    if not legal.all():
        at = int(np.argmin(legal))
        raise UsageError(
            f"{names.all()[int(d.ids[at])]}: {d.values[at]} at {d.times[at]} is not a measurement; both must be "
            f"finite numbers, and the time within ±{FURTHEST_S:g} s of the epoch"
        )


def accept(connection: sqlite3.Connection, deliveries: Sequence[Delivery]) -> tuple[list[Receipt], LogBatch]:
    """Return receipts, and all samples that are new; the sources' numbers move in this transaction."""
    # several deliveries of one source may come in one step; the last one names its time
    sources = {d.source: float(d.received) for d in deliveries if d.source is not None}
    # read in the transaction that writes them: another process may have stored the same samples
    expected = _expected(connection, sources)
    receipts, batches = [], []
    for d in deliveries:
        end = d.first + len(d.ids)
        due = expected[d.source] if d.source is not None else d.first
        batch = LogBatch(ids=d.ids, times=d.times, values=d.values)
        if d.wanted is not None or due > d.first:
            # a repeated delivery, or the repeated beginning of one
            new = np.arange(len(batch)) >= due - d.first
            batch = batch.picked(new if d.wanted is None else new & d.wanted)
        if d.source is not None:
            # samples that were left out count as delivered, or they would be asked for for ever
            expected[d.source] = end = max(due, end)
        batches.append(batch)
        receipts.append(Receipt(kept=len(batch), next=end))
    # in the transaction of the samples: a stream's number never moves without them, nor they without it
    put_rows(connection, "source", [(name, expected[name], heard) for name, heard in sources.items()])
    return receipts, joined(batches)


def _expected(connection: sqlite3.Connection, sources: Iterable[str]) -> dict[str, int]:
    """Return the number expected of each source; `DamagedRows` for a damaged row, or if one may be missing."""
    expected = {}
    for source in sources:
        row = connection.execute("SELECT next, heard, crc FROM source WHERE name = ?", (source,)).fetchone()
        if row is not None:
            if crc("source", source, *row[:2]) != row[2]:
                raise DamagedRows(f"the numbered stream {source}")
            expected[source] = int(row[0])
    fresh = set(sources) - expected.keys()
    # new, or its row is missing and its samples would be stored twice
    if fresh and any(name in fresh for name, *_ in sound_rows(connection, "source")):
        raise DamagedRows("the index of the numbered streams")
    return expected | dict.fromkeys(fresh, 0)
