"""Request rates: a token bucket per client, in a table of bounded size.

The time is an argument, and no function waits. A client is any key that the caller chooses. If the table is full,
the client seen longest ago is dropped, which can only increase its share.
"""

from __future__ import annotations

from collections import OrderedDict
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
        """Return the number of clients in the table."""
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
