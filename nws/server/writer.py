"""Puts on their way to the store: one thread, and one transaction for all that wait at the same time.

While one transaction is on its way to the disk the next puts gather; a busy service thus needs no more transactions
than an idle one, and the event loop never waits for the disk. A put is answered when it is kept, or refused on its
own. What waits is bounded in samples; beyond that puts are refused for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nws.base.errors import ServiceError, StoreError, WeatherError

if TYPE_CHECKING:
    from nws.service.core import WeatherService
    from nws.service.records import Batch, PutReceipt

_LOG = logging.getLogger(__name__)

#: Samples that may wait for the store; a disk that stands still for seconds is covered.
MOST_WAITING = 400_000
#: Samples taken into one transaction, so that the first of them does not wait for ever more to join.
MOST_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Put:
    """A batch, who sent it, and who waits for the receipt. `check`: whether the key must be the host's."""

    batch: Batch
    host: str | None
    key: str | None
    check: bool
    waiting: asyncio.Future[PutReceipt]

    @property
    def size(self) -> int:
        """Samples; a batch without any is work as well."""
        return len(self.batch.t) + 1


class Writer:
    """The thread that puts; made and used on one event loop. `start` it, and `stop` it when all is answered."""

    def __init__(self, service: WeatherService) -> None:
        self._service = service
        self._queue: queue.SimpleQueue[_Put | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nws-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failing = False
        # on the event loop's thread only
        self._waiting = 0
        self.transactions = 0
        self.most_together = 0

    @property
    def waiting(self) -> int:
        """Samples that wait for the store now."""
        return self._waiting

    def start(self) -> None:
        """Begin to work for the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted; blocks until it is kept."""
        self._queue.put(None)
        self._thread.join()

    async def put(self, batch: Batch, *, host: str | None, key: str | None, check: bool) -> PutReceipt:
        """Keep a batch; raises what the service says of it, and 503 when too much waits already.

        host : who sent it, None for anybody's series.  key, check : the host's key, and whether it is needed
        """
        assert self._loop is not None
        size = len(batch.t) + 1
        if self._waiting and self._waiting + size > MOST_WAITING:
            raise ServiceError(
                "more measurements arrive than can be kept; deliver again later", status=503, retry_after_s=2
            )
        item = _Put(batch=batch, host=host, key=key, check=check, waiting=self._loop.create_future())
        self._waiting += size
        self._queue.put(item)
        try:
            return await item.waiting
        finally:
            self._waiting -= size

    def _run(self) -> None:
        while True:
            group, ends = self._gather()
            if group:
                self._settle(group, self._keep(group))
            if ends:
                return

    def _gather(self) -> tuple[list[_Put], bool]:
        """All that waits, at least one; and whether the end was among it."""
        item = self._queue.get()
        group: list[_Put] = []
        size = 0
        while item is not None:
            group.append(item)
            size += item.size
            if size >= MOST_AT_ONCE:
                return group, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _keep(self, group: Sequence[_Put]) -> list[PutReceipt | BaseException]:
        results: list[PutReceipt | BaseException | None] = [None] * len(group)
        legal: list[int] = []
        for place, item in enumerate(group):
            try:
                if item.check and item.host is not None:
                    self._service.check_key(item.host, item.key)
                legal.append(place)
            except WeatherError as error:
                results[place] = error
        try:
            receipts: Sequence[PutReceipt | BaseException] = self._service.put_many(
                [(group[place].batch, group[place].host) for place in legal]
            )
        except Exception as error:
            # the store failed for all of them, or we did; the one who waits tells which
            receipts = [error] * len(legal)
        for place, receipt in zip(legal, receipts, strict=True):
            results[place] = receipt
        self._notice(next((r for r in receipts if isinstance(r, StoreError)), None), bool(receipts))
        return [r if r is not None else AssertionError("a put without an outcome") for r in results]

    def _notice(self, failure: StoreError | None, tried: bool) -> None:
        """Tell once when the store begins to fail, and once when it works again."""
        if failure is not None and not self._failing:
            _LOG.error("measurements cannot be kept: %s", failure)
        elif failure is None and tried and self._failing:
            _LOG.warning("measurements are kept again")
        if tried:
            self._failing = failure is not None

    def _settle(self, group: Sequence[_Put], results: Sequence[PutReceipt | BaseException]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._resolve, group, results)

    def _resolve(self, group: Sequence[_Put], results: Sequence[PutReceipt | BaseException]) -> None:
        self.transactions += 1
        self.most_together = max(self.most_together, len(group))
        for item, result in zip(group, results, strict=True):
            if item.waiting.done():
                continue
            if isinstance(result, BaseException):
                item.waiting.set_exception(result)
            else:
                item.waiting.set_result(result)
