"""Files of older releases: everything in them, in the tables of the present schema.

Version 1 kept one row for each sample in `hot`, chunks of float64 without roll-ups, and series counted from 1.
The caller's transaction holds all of it, so a file is migrated or untouched.
"""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import numpy as np

from nws.memory import chunks, log
from nws.memory.database import create_tables, damaged
from nws.memory.log import Batch
from nws.memory.rollups import SPANS_S, joined, pack_buckets, summed_up, unpack_buckets

_OLD = ("series", "hot", "chunk", "progress")
_BATCH = 100_000


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Version 1 to version 2; `StoreError` where the old content makes no sense."""
    for table in _OLD:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    create_tables(connection)
    names = connection.execute("SELECT id, name FROM old_series ORDER BY id").fetchall()
    ids = {old: new for new, (old, _) in enumerate(names)}
    connection.executemany("INSERT INTO series (id, name) VALUES (?, ?)", [(ids[old], n) for old, n in names])
    try:
        _chunks(connection, ids)
        _hot(connection, ids)
    except ValueError as error:
        raise damaged(path, error) from error
    for table in _OLD:
        connection.execute(f"DROP TABLE old_{table}")


def _chunks(connection: sqlite3.Connection, ids: dict[int, int]) -> None:
    for old, new in ids.items():
        rollups: dict[tuple[int, int], bytes] = {}
        total, last_t, last = 0, -np.inf, np.nan
        for hour, data in connection.execute(
            "SELECT hour, data FROM old_chunk WHERE series = ? ORDER BY hour", (old,)
        ).fetchall():
            times, values = _unpack(data)
            connection.execute(
                "INSERT INTO chunk (series, hour, samples, data) VALUES (?, ?, ?, ?)",
                (new, hour, len(times), chunks.pack(times, values)),
            )
            total, last_t, last = total + len(times), float(times[-1]), float(values[-1])
            for bucket_s, span_s in SPANS_S.items():
                buckets = summed_up(times, values, bucket_s)
                place = (bucket_s, int(times[0] // span_s))
                if place in rollups:
                    buckets = joined([unpack_buckets(rollups[place], bucket_s), buckets])
                rollups[place] = pack_buckets(buckets, bucket_s)
        if total:
            connection.execute(
                "UPDATE series SET samples = ?, last_t = ?, last_value = ? WHERE id = ?",
                (total, last_t, last, new),
            )
        connection.executemany(
            "INSERT INTO rollup (bucket_s, series, span, data) VALUES (?, ?, ?, ?)",
            [(bucket_s, new, span, data) for (bucket_s, span), data in rollups.items()],
        )


def _hot(connection: sqlite3.Connection, ids: dict[int, int]) -> None:
    rows = connection.execute("SELECT series, t, value FROM old_hot ORDER BY id")
    while part := rows.fetchmany(_BATCH):
        series, times, values = zip(*part, strict=True)
        unknown = set(series) - set(ids)
        if unknown:
            raise ValueError(f"samples of series {min(unknown)}, which has no name")
        batch = Batch(
            ids=np.array([ids[s] for s in series], np.int32),
            times=np.array(times, np.float64),
            values=np.array(values, np.float64),
        )
        # nobody knows when they came, but not after they were measured by much
        log.write(connection, batch, float(batch.times.max()))


def _unpack(data: bytes) -> tuple[chunks.Floats, chunks.Floats]:
    """A chunk of version 1: zlib of times and values, float64, each as eight planes of bytes."""
    if data[:1] != b"\x01":
        raise ValueError(f"chunk of version {data[:1]!r} in a file of schema 1")
    try:
        plain = zlib.decompress(data[1:])
    except zlib.error as error:
        raise ValueError(f"chunk that does not decompress: {error}") from error
    if not plain or len(plain) % 16:
        raise ValueError(f"chunk of {len(plain)} bytes, expected a multiple of 16")
    planes = np.frombuffer(plain, np.uint8).reshape(2, 8, -1)
    times, values = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<f8")[:, :, 0]
    return times.astype(np.float64), values.astype(np.float64)
