"""The writer thread: one transaction stores all batches that wait at the same time.

While one transaction is written, further batches gather. A busy service thus needs no more transactions than an
idle one, and the event loop never waits for the disk. Each batch is acknowledged once stored, or refused
individually. The queue is bounded in samples; beyond that batches are refused temporarily.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from nws.base.errors import ServiceError, StoreError, WeatherError
from nws.messages.weatherdocuments import Batch, PutReceipt
from nws.service.weatherservice import WeatherService

_LOG = logging.getLogger(__name__)

#: Maximum number of queued samples; covers a disk that blocks for some seconds.
MOST_WAITING = 400_000
#: Maximum number of samples per transaction, which bounds the delay of the first of them.
MOST_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Put:
    """A batch, its sender, and the future of its receipt. `check`: whether the key must be the host's."""

    batch: Batch
    host: str | None
    key: str | None
    check: bool
    waiting: asyncio.Future[PutReceipt]

    @property
    def size(self) -> int:
        """Return the number of samples, plus one because an empty batch also takes time."""
        return len(self.batch.t) + 1


class Writer:
    """The writer thread, used on one event loop. Call `start`, and `stop` after the last request."""

    def __init__(self, service: WeatherService) -> None:
        self._service = service
        self._queue: queue.SimpleQueue[_Put | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="nws-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failing = False
        # used only on the event loop's thread
        self._waiting = 0
        self.transactions = 0
        self.most_together = 0

    @property
    def waiting(self) -> int:
        """Return the number of queued samples."""
        return self._waiting

    def start(self) -> None:
        """Start the thread for the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Store the queued batches and end the thread; blocks until then."""
        self._queue.put(None)
        self._thread.join()

    async def put(self, batch: Batch, *, host: str | None, key: str | None, check: bool) -> PutReceipt:
        """Store a batch and return its receipt; raises the service's error, or status 503 if the queue is full.

        Args:
            batch: the measurements
            host: the sender, None for series of any host
            key: the host's key
            check: verify the key
        """
        assert self._loop is not None
        size = len(batch.t) + 1
        if self._waiting and self._waiting + size > MOST_WAITING:
            raise ServiceError(
                "more measurements arrive than can be stored; deliver again later",
                status=503,
                retry_after_s=2,
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
        """Return all queued batches, at least one, and whether the end of the queue was reached."""
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
        for index, item in enumerate(group):
            try:
                if item.check and item.host is not None:
                    self._service.check_key(item.host, item.key)
                legal.append(index)
            except WeatherError as error:
                results[index] = error
        try:
            receipts: Sequence[PutReceipt | BaseException] = self._service.put_many(
                [(group[index].batch, group[index].host) for index in legal]
            )
        except Exception as error:
            # a failure of the store or in our code: each sender receives it
            receipts = [error] * len(legal)
        for index, receipt in zip(legal, receipts, strict=True):
            results[index] = receipt
        self._notice(next((r for r in receipts if isinstance(r, StoreError)), None), bool(receipts))
        return [r if r is not None else AssertionError("a put without an outcome") for r in results]

    def _notice(self, failure: StoreError | None, tried: bool) -> None:
        """Log when the store starts to fail, and when it works again."""
        if failure is not None and not self._failing:
            _LOG.error("measurements cannot be stored: %s", failure)
        elif failure is None and tried and self._failing:
            _LOG.warning("measurements are stored again")
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
