"""Rates of requests and of log lines: a token bucket per client, in a table of bounded size.

No function waits. A client is any key that the caller chooses. If the table is full,
the client seen longest ago is dropped, which can only increase its share.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Bucket:
    """`left` requests at time `at`."""

    left: float
    at: float


class RateLimit:
    """Token buckets that hold one minute's requests and fill evenly.

    per_minute: requests, at least 1.  clients: maximum number of buckets
    """

    def __init__(self, per_minute: float, *, clients: int = 10_000) -> None:
        self._most = max(float(per_minute), 1.0)
        self._rate = self._most / 60.0
        self._clients = max(clients, 1)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def ask(self, client: str, now: float) -> float:
        """Return 0.0 if `client` may make a request at `now` (seconds, monotonic), else the seconds to wait."""
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) >= self._clients:
                self._buckets.popitem(last=False)
            bucket = self._buckets[client] = _Bucket(self._most, now)
        self._buckets.move_to_end(client)
        # a clock that does not advance neither fills nor empties a bucket
        bucket.left = min(self._most, bucket.left + max(now - bucket.at, 0.0) * self._rate)
        bucket.at = max(now, bucket.at)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._rate
        bucket.left -= 1.0
        return 0.0


class RefusalLog:
    """A log of refused clients with at most three lines a minute of each, so that none of them can fill the disk.

    write : receives a line.  monotonic : seconds
    """

    def __init__(
        self, write: Callable[[str], object], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._monotonic = write, monotonic
        self._limit = RateLimit(3, clients=1000)

    def __call__(self, client: str, text: str) -> None:
        """Write one line, or nothing beyond the rate. client : address or user, the start of the line"""
        if self._limit.ask(client, self._monotonic()) == 0:
            self._write(f"{client}: {text}")
