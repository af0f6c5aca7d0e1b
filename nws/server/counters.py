"""Counts and durations of requests by route, for `/metrics`. Used only from the event loop's thread."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

#: Upper bounds of the histogram's buckets, seconds.
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Durations:
    """Histogram of one route: requests per bucket, the last above all bounds, and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0


class RequestCounters:
    """Counts since the server started.

    requests: (route, method, status) → requests; a route is its template, or ``other``
    durations: route → histogram.  refused: reason → requests refused before any route
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.durations: dict[str, Durations] = {}
        self.refused: Counter[str] = Counter()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request with its response."""
        self.requests[route, method, status] += 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.total_s += seconds
