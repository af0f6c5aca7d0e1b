"""How many requests a client may make: a token bucket for each, in a table of bounded size.

Pure: the time is passed in, nothing waits. A client is whatever key the caller chooses. When the table is full the
client that was seen longest ago is forgotten, which can only give it more than its share, never less.
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
    """Token buckets that hold a minute's worth of requests and fill evenly.

    per_minute : requests, at least 1.  clients : most clients that are told apart
    """

    def __init__(self, per_minute: float, *, clients: int = 10_000) -> None:
        self._most = max(float(per_minute), 1.0)
        self._rate = self._most / 60.0
        self._clients = max(clients, 1)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        """Clients in the table."""
        return len(self._buckets)

    def ask(self, client: str, now: float) -> float:
        """0.0 when `client` may make a request at `now` (seconds, monotonic), else the seconds to wait."""
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) >= self._clients:
                self._buckets.popitem(last=False)
            bucket = self._buckets[client] = _Bucket(self._most, now)
        self._buckets.move_to_end(client)
        # a clock that stands or goes back fills nothing and takes nothing
        bucket.left = min(self._most, bucket.left + max(now - bucket.at, 0.0) * self._rate)
        bucket.at = max(now, bucket.at)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._rate
        bucket.left -= 1.0
        return 0.0
