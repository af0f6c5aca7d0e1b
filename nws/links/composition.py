"""Estimates for unmeasured pairs, along a path of measured pairs.

Of all paths the one with the fewest hops is taken, and of those the one with the lowest latency: every hop adds an
error, and a real transfer does not reach the bandwidth that a path of many fast hops promises. Latencies add up, their
errors in quadrature; the slowest hop gives the bandwidth and its error; the oldest hop gives the time. Pure: the pairs
and their freshness are decided by callers. Source: Wolski et al. 2000, §2.4 (one forecast for every pair of a query).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[str, str]
"""Ordered pair of hosts: from, to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The forecast of an ordered pair of hosts.

    latency_s, latency_error_s : one way, seconds.  bandwidth_Bps, bandwidth_error_Bps : bytes per second; NaN if
    unknown.  measured_at : seconds since the epoch
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


def compose(links: Mapping[Pair, Link], pairs: Iterable[Pair]) -> dict[Pair, Composed]:
    """Return the best path of each wanted pair, in the order of the argument; a pair without a path is absent.

    A link without a latency (NaN) does not count. A part without bandwidth or error (NaN) makes that value
    unknown. A host
    and itself is not joined by other hosts: it is present only when measured.
    """
    distinct = list(dict.fromkeys(pairs))
    onward: dict[str, list[tuple[str, float]]] = {}
    for (start, end), link in sorted(links.items()):
        if start != end and math.isfinite(link.latency_s):
            onward.setdefault(start, []).append((end, link.latency_s))
    targets: dict[str, set[str]] = {}
    for start, end in distinct:
        if start != end:
            targets.setdefault(start, set()).add(end)
    before = {start: _previous(onward, start, ends) for start, ends in targets.items()}
    composed: dict[Pair, Composed] = {}
    for start, end in distinct:
        path = _path(before[start], start, end) if start != end else [start, end]
        if path and (start != end or (start, end) in links):
            composed[start, end] = _along(links, path)
    return composed


def _previous(onward: Mapping[str, list[tuple[str, float]]], start: str, ends: set[str]) -> dict[str, str]:
    """Return host before each host on its best path from `start`; looks no further than the last of `ends`."""
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
