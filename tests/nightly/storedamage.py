"""Random damage to copies of a weather store: what is served afterwards, and what `nws repair` keeps.

A store of 20 series over two days is written with late samples, compaction and a numbered stream. Each copy gets 1 to
20 random byte flips, or is cut. Then every query
is compared with the truth: samples, roll-ups and summaries of each series, histories, events, documents, numbered
streams; once as the store is, and once after the open hours were closed. Every query must answer the truth or raise
`StoreError`. Then a copy with the same damage is repaired, and the samples are counted that were not hit: those of rows
of which no byte was altered, overflow pages included. What a cut file had beyond the cut is hit.

`failed` if a wrong value was served, or if `nws repair` kept a wrong value or left damage.
"""

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nws.base.errors import StoreDamaged, StoreError
from nws.memory import Delivery, Memory
from nws.memory.database import FORMAT
from nws.memory.keyvalues import KeyValueTable
from nws.memory.salvage import check, repair
from nws.messages.weatherdocuments import Event
from nws.series import Series
from nws.service.eventlog import Events

START = 1_800_000_000.0
SERIES = [f"cpu.new@h{i}" for i in range(14)] + [f"network.latency@h{i}>h{i + 1}" for i in range(6)]
PERIOD_S = 30.0
HOURS = 48
MOST_FLIPS = 20
#: Series, time and value.
Sample = tuple[int, float, float]


class Clock:
    """A clock that the store's writer sets."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        """Return seconds since the epoch."""
        return self.now


def fill(path, hours=HOURS):
    """Write the store, and copy it beside as ``live`` with samples in its log."""
    clock, rng = Clock(START), np.random.default_rng(1)
    with Memory(path, clock=clock) as memory:
        ids = memory.series_ids(SERIES)
        events, values = Events(memory.database, ahead_s=7200.0), KeyValueTable(memory.database)
        values.put("schedule", {"version": 3})
        values.identity()
        first = 0
        for step in range(int(hours * 3600 / PERIOD_S)):
            clock.now = START + PERIOD_S * step
            times = np.full(len(ids), clock.now)
            # some are hours late
            times[rng.random(len(ids)) < 0.01] -= 3 * 3600.0
            memory.deliver(
                [
                    Delivery(
                        source="feed/1",
                        first=first,
                        ids=ids,
                        times=times,
                        values=np.round(rng.random(len(ids)), 4),
                        received=clock.now,
                    )
                ]
            )
            first += len(ids)
            memory.tend(budget_s=0.01)
            if step % 200 == 0:
                events.add(Event(t=clock.now, kind="note", host="h1", text=f"step {step}"), clock.now)
        with memory.database.lock:
            # SQLite drops the end of a damaged write-ahead log without an error: damage is done to the file alone
            memory.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copy(path, f"{path}.live")
    return clock


def queries(memory):
    """Return every query by name; each returns plain values."""
    events, values = Events(memory.database, ahead_s=7200.0), KeyValueTable(memory.database)
    spans = [(-np.inf, np.inf)] + [
        (START + 5 * 3600.0 * i, START + 5 * 3600.0 * i + 7000.0) for i in range(10)
    ]

    def plain(found):
        return [list(getattr(found, name)) for name in ("times", "values")]

    def rolled(series, bucket_s, since):
        found = memory.rollup(series, bucket_s=bucket_s, since=since, until=since + 86400.0)
        return [getattr(found, name).tolist() for name in ("times", "mean", "low", "high", "count")]

    found: dict[str, Callable[[], Any]] = {
        "summaries": lambda: [(str(s.series), s.samples, s.last_t, s.last) for s in memory.summaries()],
        "names": memory.names,
        "history": lambda: {
            str(s): plain(v) for s, v in memory.history(since=START + 40 * 3600.0, most=500).samples.items()
        },
        "events": lambda: [(e.t, e.kind, e.host, e.text) for e in events.between(0.0, 4e9, 10_000)],
        "schedule": lambda: document(memory, values, "schedule"),
        "identity": lambda: document(memory, values, "identity"),
    }
    for name in SERIES:
        series = Series.parse(name)
        for span in spans:
            found[f"samples {name} {span}"] = lambda series=series, span=span: plain(
                memory.samples(series, since=span[0], until=span[1])
            )
        for bucket_s in (60, 600):
            for since in (0.0, START, START + 86400.0):
                found[f"rollup {name} {bucket_s} {since}"] = (
                    lambda series=series, bucket_s=bucket_s, since=since: rolled(series, bucket_s, since)
                )
    return found


def document(memory, values, name):
    """Return a document; a damaged one is none, and an error of the log."""
    found = values.get(name)
    if found is None and memory.database.damage.summary() is not None:
        raise StoreDamaged("a document")
    return found


def stream_number(memory):
    """Return the number that the store expects next: a damaged one would store samples twice."""
    nothing = Delivery(
        source="feed/1",
        first=0,
        ids=np.empty(0, np.int32),
        times=np.empty(0),
        values=np.empty(0),
        received=START,
    )
    return memory.deliver([nothing])[0].next


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts over all copies. worst: smallest share kept of one copy's samples that were not hit"""

    counts: Counter[str] = field(default_factory=Counter)
    worst: float = 1.0
    problems: list[str] = field(default_factory=list)


def answers(path, clock, *, settle):
    """Return the answer of every query, the `StoreError` in its place if there is one."""
    found: dict[str, Any] = {}
    try:
        with Memory(path, clock=clock) as memory:
            if settle:
                settled(memory)
            for name, query in queries(memory).items():
                found[name] = _answer(query)
            found["stream"] = _answer(lambda: stream_number(memory))
    except StoreError as error:
        found["open"] = error
    return found


def settled(memory):
    """Close all hours that are over, if the store lets it."""
    try:
        while memory.tend(budget_s=1.0):
            pass
    except StoreError:
        return


def _answer(query):
    try:
        return query()
    except StoreError as error:
        return error


def damage(path, rng):
    """Damage a copy; return its kind, the bytes altered and the length of a cut file."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        if rng.random() < 0.1:
            length = rng.randrange(1, size)
            file.truncate(length)
            return "cut", [], length
        flipped = [rng.randrange(size) for _ in range(rng.randint(1, MOST_FLIPS))]
        for at in flipped:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ rng.randint(1, 255)]))
    return "flips", flipped, None


def extents(content, data):
    """Return first and last byte of each part of a row with this blob in the content of a store."""
    parts, left = [], data
    while left:
        start = content.index(left[:64])
        room = min(len(left), FORMAT.page_bytes - start % FORMAT.page_bytes)
        fits = next((n for n in range(room) if content[start + n] != left[n]), room)
        # the row's header and numbers, or the number of the next overflow page, are around it
        parts.append((start - (26 if left is data else 4), start + fits + 16))
        left = left[fits:]
    return parts


def rows_of(path):
    """Yield the blob of each row that holds samples as measured, and these."""
    from nws.memory import chunks, log

    connection = sqlite3.connect(shutil.copy(path, f"{path}.read"))
    for series, data in connection.execute("SELECT series, data FROM block WHERE bucket_s = 0"):
        times, values = chunks.unpack(data)
        yield data, frozenset((series, t, v) for t, v in zip(times.tolist(), values.tolist(), strict=True))
    (closed_to,) = connection.execute("SELECT min(closed_to) FROM progress").fetchone()
    rows = connection.execute(
        "SELECT id, received, data, times_crc, values_crc, ids_crc FROM log WHERE id > ?", (closed_to,)
    )
    for number, received, data, *checks in rows:
        batch, _ = log.unpack(number, received, data, checks)
        columns = (batch.ids.tolist(), batch.times.tolist(), batch.values.tolist())
        yield data, frozenset(zip(*columns, strict=True))
    connection.close()


def stored(path, clock):
    """Return all samples in a store."""
    with Memory(path, clock=clock) as memory:
        ids = {name: i for i, name in enumerate(memory.names())}
        return {
            (ids[str(series)], t, v)
            for series, found in memory.history().samples.items()
            for t, v in zip(found.times, found.values, strict=True)
        }


class Trial:
    """One undamaged store, and what becomes of copies of it."""

    def __init__(self, folder, hours):
        self.folder = folder
        self.clock = fill(folder / "store.db", hours)
        self.live = folder / "store.db.live"
        content = self.live.read_bytes()
        self.rows = [(extents(content, data), samples) for data, samples in rows_of(self.live)]
        self.samples = frozenset().union(*(samples for _, samples in self.rows))
        #: After two hours without samples all are in chunks.
        self.later = Clock(self.clock.now + 2 * 3600.0)
        self.truth = answers(self.copy(), self.clock, settle=False)
        self.truth_later = answers(self.copy(), self.later, settle=True)
        assert not any(isinstance(a, StoreError) for a in (*self.truth.values(), *self.truth_later.values()))
        assert stored(self.copy(), self.clock) == self.samples
        self.tally = Tally()

    def copy(self):
        """Return a fresh copy of the store."""
        path = self.folder / "copy.db"
        for old in self.folder.glob("copy.db*"):
            old.unlink()
        return Path(shutil.copy(self.live, path))

    def run(self, seed):
        """Damage copies in the same way, ask them and repair one."""
        counts = self.tally.counts
        for clock, truth, settle in ((self.clock, self.truth, False), (self.later, self.truth_later, True)):
            path = self.copy()
            kind, flipped, cut = damage(path, random.Random(seed))
            found = answers(path, clock, settle=settle)
            wrong = [n for n, a in found.items() if not isinstance(a, StoreError) and a != truth[n]]
            refused = [n for n, a in found.items() if isinstance(a, StoreError)]
            counts["answers"] += len(found) - len(refused)
            counts["refused"] += len(refused)
            counts["wrong"] += len(wrong)
            if wrong:
                self.tally.problems.append(f"seed {seed} ({kind}, settled {settle}): wrong: {wrong[:3]}")
        counts[kind] += 1
        counts["copies with a refusal"] += bool(refused)
        self.repair(seed, flipped, cut)

    def repair(self, seed, flipped, cut):
        """Repair a damaged copy, and count the samples kept of those that were not hit."""
        counts, path = self.tally.counts, self.copy()
        damage(path, random.Random(seed))
        spared: set[Sample] = set()
        for parts, samples in self.rows:
            hit = any(
                (cut is not None and end > cut) or any(start <= at < end for at in flipped)
                for start, end in parts
            )
            if not hit:
                spared |= samples
        try:
            repair(path)
        except StoreError:
            # the page of the schema was hit: a backup has to replace the store
            counts["not repaired"] += 1
            return
        kept = stored(path, self.clock)
        with Memory(path, clock=self.clock) as memory:
            left = check(memory).damage
        counts["samples not hit"] += len(spared)
        counts["of these kept"] += len(spared & kept)
        counts["hit and kept"] += len(kept - spared)
        counts["kept and never stored"] += len(kept - self.samples)
        counts["damage after repair"] += len(left)
        share = len(spared & kept) / len(spared) if spared else 1.0
        self.tally.worst = min(self.tally.worst, share)
        if left or kept - self.samples:
            self.tally.problems.append(f"seed {seed}: kept {share:.4f} of {len(spared)}; left: {left[:3]}")


def failed(tally):
    """Return whether a bar is missed."""
    c = tally.counts
    return bool(c["wrong"] or c["kept and never stored"] or c["damage after repair"])


def run(copies, seed, hours):
    """Return the counts over all copies."""
    # in memory, if there is such a directory: each copy is synchronised to disk several times
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        trial = Trial(Path(folder), hours)
        for number in range(copies):
            trial.run(seed * 1_000_000 + number)
    return trial.tally
