"""Batches of measurements: what may be written, by whom, and into the store all at once.

A batch with a series that its sender may not write is refused whole, with nothing kept. A sample that no battery takes
or that lies too far ahead or back in time is left out alone, and acknowledged, so that a numbered stream goes on. All
batches of one call are one transaction. Nothing here loops over samples in the interpreter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nws.base.durations import format_seconds
from nws.base.errors import ForeignSeries, Refused, StoreError, TooManySeries, UsageError, WeatherError
from nws.forecasting.bank import LARGEST
from nws.memory import Memory
from nws.memory.deliveries import Delivery
from nws.service.catalogue import checked_series
from nws.service.config import ServiceConfig
from nws.service.forecaster import Forecaster
from nws.service.records import Batch, Refusals

_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}")
_MOST_REASONS = 20
#: Numbers of samples stay exact in JSON of every language.
_FIRST_END = 1 << 53


@dataclass(slots=True, kw_only=True)
class IngestCounts:
    """Counts since the service was started; see `records.Counters`."""

    batches: int = 0
    failed: int = 0
    accepted: int = 0
    refused: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What became of a batch. accepted : samples kept.  next : number expected next.  owners : hosts it is about"""

    accepted: int
    next: int
    refused: Refusals
    owners: frozenset[str]


@dataclass(slots=True)
class _Pending:
    """Series that this call would make, and how many each host would then have."""

    owner_of: dict[str, str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)


class Ingestion:
    """Takes batches into memory and forecaster; safe from several threads.

    clock : seconds since the epoch
    """

    def __init__(
        self, config: ServiceConfig, memory: Memory, forecaster: Forecaster, clock: Callable[[], float]
    ) -> None:
        self.counts = IngestCounts()
        self._limits, self._keep_s = config.limits, config.keep.ten_minutes_s
        self._memory, self._forecaster, self._clock = memory, forecaster, clock

    def put_many(self, batches: Sequence[tuple[Batch, str | None]]) -> list[IngestResult | WeatherError]:
        """What became of each batch; one that is refused is no other's trouble.

        Each comes with the host whose series alone are legal in it, or None. When the store fails, every batch that
        was not refused before gets its `StoreError`, and nothing of this call is kept.
        """
        found: dict[int, IngestResult | WeatherError] = {}
        owners: dict[int, frozenset[str]] = {}
        pending = _Pending()
        with self._forecaster.lock:
            for i, (batch, host) in enumerate(batches):
                try:
                    owners[i] = self._check(batch, host, pending)
                except UsageError as error:
                    found[i] = Refused(str(error))
                except WeatherError as error:
                    found[i] = error
        # a sign of life without samples does not wait for the disk
        full = {i: batches[i][0] for i in owners if len(batches[i][0].index)}
        for i in owners.keys() - full.keys():
            found[i] = IngestResult(
                accepted=0, next=batches[i][0].first, refused=Refusals(), owners=owners[i]
            )
            self.counts.batches += 1
        if full:
            try:
                found.update(self._keep(full, owners, pending))
            except StoreError as error:
                self.counts.failed += len(full)
                found.update(dict.fromkeys(full, error))
        return [found[i] for i in range(len(batches))]

    def _check(self, batch: Batch, host: str | None, pending: _Pending) -> frozenset[str]:
        """Hosts that own its series; raises an error that refuses the whole batch."""
        n = len(batch.index)
        if not len(batch.t) == len(batch.value) == n:
            raise Refused(
                f"a batch of {n} index, {len(batch.t)} t and {len(batch.value)} value; expected equally many of each"
            )
        if n and not 0 <= int(batch.index.min()) <= int(batch.index.max()) < len(batch.series):
            raise Refused(
                f"index from {batch.index.min()} to {batch.index.max()} in a batch of {len(batch.series)} series; "
                "index counts from 0"
            )
        if batch.source is not None:
            self._check_source(batch, host)
        owners, fresh = set(), {}
        catalogue = self._forecaster.catalogue
        for name in batch.series:
            number = catalogue.find(name)
            owner = catalogue.series[number].host if number is not None else pending.owner_of.get(name)
            if owner is None:
                owner = fresh[name] = checked_series(name).host
            owners.add(owner)
        foreign = owners - {host} if host is not None else set()
        if foreign:
            wrong = next(name for name in batch.series if checked_series(name).host in foreign)
            raise ForeignSeries(
                f"{host} may not write {wrong}: a host writes what it measures itself, series of {host} and pairs "
                f"{host}>…; nothing of the batch was kept"
            )
        self._check_room(fresh, pending)
        return frozenset(owners)

    def _check_source(self, batch: Batch, host: str | None) -> None:
        source = batch.source or ""
        if not _SOURCE.fullmatch(source) or not 0 <= batch.first < _FIRST_END:
            raise Refused(
                f"source {source!r} with first {batch.first}: expected 1 to 128 of A-Z a-z 0-9 . _ / : - and a number "
                "from 0 to 2^53"
            )
        # a stream's number moves with every batch, so nobody may move another host's
        if host is not None and source != host and not source.startswith(f"{host}/"):
            raise ForeignSeries(f"{host} may not write the stream {source!r}; its own begin with {host}/")

    def _check_room(self, fresh: dict[str, str], pending: _Pending) -> None:
        """Count new series in; raises `TooManySeries` with nothing counted."""
        count = dict(pending.count)
        for name, owner in fresh.items():
            before = count.get(owner)
            count[owner] = (self._forecaster.catalogue.owned(owner) if before is None else before) + 1
            if count[owner] > self._limits.series_per_host:
                raise TooManySeries(
                    f"{name}: {owner} has {count[owner] - 1} series and may have {self._limits.series_per_host}; "
                    "nothing of the batch was kept. Measure fewer pairs, or raise limits.series_per_host"
                )
        pending.count = count
        pending.owner_of |= fresh

    def _keep(
        self, batches: dict[int, Batch], owners: dict[int, frozenset[str]], pending: _Pending
    ) -> dict[int, IngestResult]:
        if pending.owner_of:
            self._memory.series_ids(list(pending.owner_of))
            self._forecaster.learn_names()
        now = self._clock()
        wanted = {i: self._wanted(batch, now) for i, batch in batches.items()}
        receipts = self._memory.deliver([self._delivery(b, wanted[i], now) for i, b in batches.items()])
        self._follow(now)
        found = {}
        for (i, batch), receipt in zip(batches.items(), receipts, strict=True):
            refused = self._refusals(batch, wanted[i], now)
            found[i] = IngestResult(
                accepted=receipt.kept, next=receipt.next, refused=refused, owners=owners[i]
            )
            self.counts.batches += 1
            self.counts.accepted += receipt.kept
            self.counts.refused += refused.count
            # of what is left out some may have come before as well; it is counted as refused
            self.counts.repeated += max(len(batch.index) - refused.count - receipt.kept, 0)
        return found

    def _follow(self, now: float) -> None:
        try:
            self._forecaster.follow(now)
        except StoreError:
            # what was to be kept is kept; the forecasters take it at the next call, from the same log
            return

    def _delivery(self, batch: Batch, wanted: NDArray[np.bool_], now: float) -> Delivery:
        with self._forecaster.lock:
            find = self._forecaster.catalogue.number
            numbers = np.fromiter((find(name) for name in batch.series), np.int32, len(batch.series))
        return Delivery(
            ids=numbers[batch.index],
            times=batch.t,
            values=batch.value,
            received=now,
            source=batch.source,
            first=batch.first,
            wanted=None if wanted.all() else wanted,
        )

    def _wanted(self, batch: Batch, now: float) -> NDArray[np.bool_]:
        # written so that NaN counts as illegal
        chosen: NDArray[np.bool_] = (
            (np.abs(batch.value) <= LARGEST)
            & (batch.t <= now + self._limits.ahead_s)
            & (batch.t >= now - self._keep_s)
        )
        return chosen

    def _refusals(self, batch: Batch, wanted: NDArray[np.bool_], now: float) -> Refusals:
        left_out = np.flatnonzero(~wanted)
        reasons = []
        for i in left_out[:_MOST_REASONS].tolist():
            name, t, value = batch.series[batch.index[i]], float(batch.t[i]), float(batch.value[i])
            if not abs(value) <= LARGEST:
                reasons.append(f"{name}: {value} is not a measurement; legal are numbers up to ±{LARGEST:g}")
            elif not math.isfinite(t):
                reasons.append(f"{name}: measured at {t}; legal are seconds since the epoch")
            else:
                where = "ahead of" if t > now else "behind"
                limit = self._limits.ahead_s if t > now else self._keep_s
                reasons.append(
                    f"{name}: measured at {t}, {format_seconds(abs(t - now))} {where} the service's clock; "
                    f"at most {format_seconds(limit)} is taken"
                )
        return Refusals(count=len(left_out), reasons=tuple(reasons))
