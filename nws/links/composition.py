"""Pairs that nobody measures, estimated along a path of pairs that somebody does.

Of all paths the one with the fewest hops is taken, and of those the one with the lowest latency: every hop adds an
error, and what a path of many fast hops promises, a transfer does not keep. Latencies add up, their errors in
quadrature; the slowest hop gives the bandwidth and its error; the oldest hop gives the time. Pure: what is a pair, who
measured it and whether it is still fresh is decided elsewhere. Source: Wolski et al. 2000, §2.4 (one forecast for every
pair a scheduler asks about).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[str, str]
"""Ordered pair of hosts: from, to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What is expected of an ordered pair of hosts.

    latency_s, latency_error_s : one way, seconds.  bandwidth_Bps, bandwidth_error_Bps : bytes per second; NaN where
    nobody knows.  measured_at : seconds since the epoch
    """

    latency_s: float
    latency_error_s: float
    bandwidth_Bps: float
    bandwidth_error_Bps: float
    measured_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(Link):
    """A link put together from others. through : hosts between the two ends, in order; none when it was measured.

    measured_at : time of the oldest part
    """

    through: tuple[str, ...] = ()


def compose(links: Mapping[Pair, Link], wanted: Iterable[Pair]) -> dict[Pair, Composed]:
    """Best path of each wanted pair, in the order asked; a pair that no path joins is absent.

    A link without a latency (NaN) is none. Bandwidth and errors that are unknown (NaN) on a part are unknown of the
    whole. A host and itself is not joined by other hosts: it is there only when measured.
    """
    asked = list(dict.fromkeys(wanted))
    onward: dict[str, list[tuple[str, float]]] = {}
    for (start, end), link in sorted(links.items()):
        if start != end and math.isfinite(link.latency_s):
            onward.setdefault(start, []).append((end, link.latency_s))
    targets: dict[str, set[str]] = {}
    for start, end in asked:
        if start != end:
            targets.setdefault(start, set()).add(end)
    before = {start: _previous(onward, start, ends) for start, ends in targets.items()}
    found: dict[Pair, Composed] = {}
    for start, end in asked:
        path = _path(before[start], start, end) if start != end else [start, end]
        if path and (start != end or (start, end) in links):
            found[start, end] = _along(links, path)
    return found


def _previous(onward: Mapping[str, list[tuple[str, float]]], start: str, ends: set[str]) -> dict[str, str]:
    """Host before each host on its best path from `start`; looks no further than the last of `ends`."""
    before: dict[str, str] = {}
    settled = {start}
    layer = {start: 0.0}
    missing = set(ends)
    while layer and missing:
        further: dict[str, float] = {}
        for host, so_far in layer.items():
            for peer, latency_s in onward.get(host, ()):
                if peer not in settled and so_far + latency_s < further.get(peer, math.inf):
                    further[peer] = so_far + latency_s
                    before[peer] = host
        settled |= further.keys()
        missing -= further.keys()
        layer = further
    return before


def _path(before: Mapping[str, str], start: str, end: str) -> list[str]:
    if end not in before:
        return []
    path = [end]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path[::-1]


def _along(links: Mapping[Pair, Link], path: list[str]) -> Composed:
    parts = [links[pair] for pair in pairwise(path)]
    known = all(math.isfinite(part.bandwidth_Bps) for part in parts)
    slowest = min(parts, key=lambda part: part.bandwidth_Bps) if known else None
    return Composed(
        latency_s=sum(part.latency_s for part in parts),
        latency_error_s=math.sqrt(sum(part.latency_error_s**2 for part in parts)),
        bandwidth_Bps=math.nan if slowest is None else slowest.bandwidth_Bps,
        bandwidth_error_Bps=math.nan if slowest is None else slowest.bandwidth_error_Bps,
        measured_at=min(part.measured_at for part in parts),
        through=tuple(path[1:-1]),
    )
