"""Ingestion of batches: permissions, limits, and one transaction for all batches of a call.

A batch with a series that its sender may not write is refused completely. A single sample is left out if no battery
takes its value or if its time is too far ahead or back. It is acknowledged all the same, so that a numbered stream
continues. No sample is handled individually in Python.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nws.base.durations import format_seconds
from nws.base.errors import ForeignSeries, Refused, StoreError, TooManySeries, UsageError, WeatherError
from nws.forecasting.batteries import LARGEST
from nws.memory import Memory
from nws.memory.deliveries import Delivery
from nws.messages.weatherdocuments import SOURCE, Batch, Refusals
from nws.service.forecaster import Forecaster
from nws.service.seriescatalogue import checked_series
from nws.service.serviceconfig import ServiceConfig

_SOURCE = re.compile(SOURCE)
_MOST_REASONS = 20
#: JSON represents whole numbers exactly up to this one in every language.
_FIRST_END = 1 << 53


@dataclass(slots=True, kw_only=True)
class IngestCounts:
    """Counts since the service started.

    batches_failed: not stored because the store could not be written
    samples_accepted, samples_refused, samples_repeated: of all batches; repeated ones were acknowledged before
    """

    batches: int = 0
    batches_failed: int = 0
    samples_accepted: int = 0
    samples_refused: int = 0
    samples_repeated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The outcome of a batch. accepted: samples stored.  next: number expected next.  owners: hosts of its series"""

    accepted: int
    next: int
    refused: Refusals
    owners: frozenset[str]


@dataclass(slots=True)
class _Pending:
    """Series that this call would create, by owner, and the resulting number of series per host."""

    owner_of: dict[str, str] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)


class Ingestion:
    """The path of batches into memory and forecaster; thread-safe. clock: seconds since the epoch"""

    def __init__(
        self, config: ServiceConfig, memory: Memory, forecaster: Forecaster, clock: Callable[[], float]
    ) -> None:
        self.counts = IngestCounts()
        self._limits, self._keep_s = config.limits, config.keep.ten_minutes_s
        self._memory, self._forecaster, self._clock = memory, forecaster, clock

    def put_many(self, batches: Sequence[tuple[Batch, str | None]]) -> list[IngestResult | WeatherError]:
        """Return the result or error of each batch; an error of one does not affect the others.

        Each batch is paired with a host, to which its series are restricted, or None. If the store fails, every
        batch that was not refused before gets the same `StoreError`, and nothing is stored.
        """
        results: dict[int, IngestResult | WeatherError] = {}
        owners: dict[int, frozenset[str]] = {}
        pending = _Pending()
        with self._forecaster.lock:
            for i, (batch, host) in enumerate(batches):
                try:
                    owners[i] = self._check(batch, host, pending)
                except UsageError as error:
                    results[i] = Refused(str(error))
                except WeatherError as error:
                    results[i] = error
        # a batch without samples only renews a lease and must not wait for the disk
        full = {i: batches[i][0] for i in owners if len(batches[i][0].index)}
        for i in owners.keys() - full.keys():
            results[i] = IngestResult(
                accepted=0, next=batches[i][0].first, refused=Refusals(), owners=owners[i]
            )
            self.counts.batches += 1
        if full:
            try:
                results.update(self._keep(full, owners, pending))
            except StoreError as error:
                self.counts.batches_failed += len(full)
                results.update(dict.fromkeys(full, error))
        return [results[i] for i in range(len(batches))]

    def _check(self, batch: Batch, host: str | None, pending: _Pending) -> frozenset[str]:
        """Return the hosts that own a batch's series; raises the error that refuses the batch."""
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
        catalogue = self._forecaster.catalogue
        numbers = catalogue.numbers(batch.series)
        owners, fresh = {catalogue.series[i].host for i in numbers if i >= 0}, {}
        unknown = (name for name, number in zip(batch.series, numbers, strict=True) if number < 0)
        for name in unknown if -1 in numbers else ():
            owner = pending.owner_of.get(name)
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
        # a stream's number moves with every batch, so a host must not write to another host's stream
        if host is not None and source != host and not source.startswith(f"{host}/"):
            raise ForeignSeries(f"{host} may not write the stream {source!r}; its own begin with {host}/")

    def _check_room(self, fresh: dict[str, str], pending: _Pending) -> None:
        """Count new series; raises `TooManySeries` with nothing counted."""
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
        masks = {i: self._wanted(batch, now) for i, batch in batches.items()}
        receipts = self._memory.deliver([self._delivery(b, masks[i], now) for i, b in batches.items()])
        self._follow(now)
        results = {}
        for (i, batch), receipt in zip(batches.items(), receipts, strict=True):
            refused = self._refusals(batch, masks[i], now)
            results[i] = IngestResult(
                accepted=receipt.kept, next=receipt.next, refused=refused, owners=owners[i]
            )
            self.counts.batches += 1
            self.counts.samples_accepted += receipt.kept
            self.counts.samples_refused += refused.count
            # a sample left out may also be a repetition; it counts as refused
            self.counts.samples_repeated += max(len(batch.index) - refused.count - receipt.kept, 0)
        return results

    def _follow(self, now: float) -> None:
        try:
            self._forecaster.follow(now, self._memory.latest)
        except StoreError:
            # the samples are stored; the forecasters read them from the log at the next call
            return

    def _delivery(self, batch: Batch, mask: NDArray[np.bool_], now: float) -> Delivery:
        with self._forecaster.lock:
            numbers = np.array(self._forecaster.catalogue.numbers(batch.series), np.int32)
        return Delivery(
            ids=numbers[batch.index],
            times=batch.t,
            values=batch.value,
            received=now,
            source=batch.source,
            first=batch.first,
            wanted=None if mask.all() else mask,
        )

    def _wanted(self, batch: Batch, now: float) -> NDArray[np.bool_]:
        # written so that NaN counts as illegal
        return (
            (np.abs(batch.value) <= LARGEST)
            & (batch.t <= now + self._limits.ahead_s)
            & (batch.t >= now - self._keep_s)
        )

    def _refusals(self, batch: Batch, mask: NDArray[np.bool_], now: float) -> Refusals:
        if mask.all():
            return Refusals()
        left_out = np.flatnonzero(~mask)
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
