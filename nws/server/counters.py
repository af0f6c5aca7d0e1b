"""Requests counted and timed by route, for `/metrics`. Used from the event loop's thread only."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

#: Upper bounds of the histogram's buckets, seconds.
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class Durations:
    """Histogram of one route: requests in each bucket, the last beyond all bounds; their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0


class RequestCounters:
    """Counts since the server started.

    requests : (route, method, status) → requests; a route is its template, and ``other`` where there is none
    durations : route → histogram.  refused : reason → requests turned away before any route
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.durations: dict[str, Durations] = {}
        self.refused: Counter[str] = Counter()

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """One request is answered."""
        self.requests[route, method, status] += 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = Durations()
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.total_s += seconds
