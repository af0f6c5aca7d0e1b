"""All pairs of many hosts at once: the same paths as `nws.links.composition`, as arrays.

A thousand hosts have a million pairs, of which some ten thousand are measured. Layer by layer, for a block of hosts at
a time, every path gets one hop longer where that reaches a host that no shorter path does; of as many hops the lowest
latency wins. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nws.links.composition import Composed, Link, Pair

Floats = NDArray[np.float64]

#: Paths looked at together, to bound memory: hosts at which they start times links.
_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkMatrix:
    """The forecasts of ordered pairs of H hosts; [i, j] is from host `starts[i]` to host j, NaN if unknown.

    starts : int64[S], indices of hosts; all of them, in order, unless some are chosen
    latency_s, latency_error_s, bandwidth_Bps, bandwidth_error_Bps : float64[S, H]
    measured_at : float64[S, H], of the oldest part, seconds since the epoch
    before : int64[S, H], index of the host before j on the way from the start; the start itself where the pair is
    measured, -1 where no path joins them
    """

    hosts: tuple[str, ...]
    starts: NDArray[np.int64]
    latency_s: Floats
    latency_error_s: Floats
    bandwidth_Bps: Floats
    bandwidth_error_Bps: Floats
    measured_at: Floats
    before: NDArray[np.int64]

    @property
    def composed(self) -> NDArray[np.bool_]:
        """Return bool[S, H]: pairs estimated by a path of others."""
        measured: NDArray[np.bool_] = self.before == self.starts[:, None]
        return (self.before >= 0) & ~measured

    def through(self, i: int, j: int) -> tuple[str, ...]:
        """Return hosts on the way from start i to host j; none when the pair is measured or nothing joins them."""
        way: list[str] = []
        node = int(self.before[i, j])
        while node not in (self.starts[i], -1):
            way.append(self.hosts[node])
            node = int(self.before[i, node])
        return tuple(reversed(way))

    def path(self, i: int, j: int) -> Composed | None:
        """Return the pair from start i to host j, None if nothing joins them."""
        if self.before[i, j] < 0:
            return None
        values = {each.name: float(getattr(self, each.name)[i, j]) for each in fields(Link)}
        return Composed(**values, through=self.through(i, j))


class _Edges(NamedTuple):
    """Measured links, sorted by where they end. starts : first edge of each of `ends`, hosts that links end at"""

    target: NDArray[np.int64]
    source: NDArray[np.int64]
    latency_s: Floats
    variance: Floats
    bandwidth_Bps: Floats
    bandwidth_error_Bps: Floats
    measured_at: Floats
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def compose_all(
    hosts: Sequence[str], links: Mapping[Pair, Link], starts: Sequence[int] | None = None
) -> LinkMatrix:
    """Return every pair of these hosts that is measured or joined by a path of measured pairs.

    starts : indices of the hosts where paths start, None for all hosts

    Links to other hosts are not used, nor those without a latency (NaN). The diagonal is as measured.
    """
    first_hosts = np.arange(len(hosts)) if starts is None else np.array(starts, np.int64)
    shape = (len(first_hosts), len(hosts))
    result = LinkMatrix(
        hosts=tuple(hosts),
        starts=first_hosts,
        latency_s=np.full(shape, np.nan),
        latency_error_s=np.full(shape, np.nan),
        bandwidth_Bps=np.full(shape, np.nan),
        bandwidth_error_Bps=np.full(shape, np.nan),
        measured_at=np.full(shape, np.nan),
        before=np.full(shape, -1, np.int64),
    )
    _measured_diagonal(links, result)
    edges = _edges(hosts, links)
    if edges is None:
        return result
    block = max(_BLOCK // len(edges.source), 1)
    for first in range(0, len(first_hosts), block):
        _compose_from(first, first_hosts[first : first + block], edges, result)
    return result


def compose(links: Mapping[Pair, Link], pairs: Iterable[Pair]) -> dict[Pair, Composed]:
    """Return the best path of each wanted pair, in the order of the argument; a pair without a path is absent.

    A link without a latency (NaN) does not count. A part without bandwidth or error (NaN) makes that value unknown. A
    host and itself is not joined by other hosts: it is present only when measured.
    """
    distinct = list(dict.fromkeys(pairs))
    hosts = sorted({name for pair in (*links, *distinct) for name in pair})
    index = {name: i for i, name in enumerate(hosts)}
    rows = {start: row for row, start in enumerate(dict.fromkeys(start for start, _ in distinct))}
    matrix = compose_all(hosts, links, [index[start] for start in rows])
    paths = ((pair, matrix.path(rows[pair[0]], index[pair[1]])) for pair in distinct)
    return {pair: path for pair, path in paths if path is not None}


def _edges(hosts: Sequence[str], links: Mapping[Pair, Link]) -> _Edges | None:
    index = {name: i for i, name in enumerate(hosts)}
    rows = [
        (
            index[b],
            index[a],
            link.latency_s,
            link.latency_error_s**2,
            link.bandwidth_Bps,
            link.bandwidth_error_Bps,
            link.measured_at,
        )
        for (a, b), link in links.items()
        if a != b and a in index and b in index and link.latency_s == link.latency_s
    ]
    if not rows:
        return None
    table = np.array(sorted(rows, key=lambda row: row[:2]))
    target, source = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    ends, starts = np.unique(target, return_index=True)
    latency, variance, bandwidth, error, measured_at = np.ascontiguousarray(table[:, 2:].T)
    return _Edges(target, source, latency, variance, bandwidth, error, measured_at, starts, ends)


def _compose_from(first: int, sources: NDArray[np.int64], edges: _Edges, result: LinkMatrix) -> None:
    """Write the paths that start at these hosts into the result, from row `first` on."""
    rows, count = len(sources), len(result.hosts)
    reached = np.zeros((rows, count), bool)
    reached[np.arange(rows), sources] = True
    latency, variance = np.zeros((rows, count)), np.zeros((rows, count))
    bandwidth, error = np.full((rows, count), np.inf), np.zeros((rows, count))
    measured_at = np.full((rows, count), np.inf)
    layer = reached.copy()
    while layer.any():
        offered = np.where(layer, latency, np.inf)[:, edges.source] + edges.latency_s
        best = np.minimum.reduceat(offered, edges.starts, axis=1)
        new = np.isfinite(best) & ~reached[:, edges.ends]
        row, end = np.nonzero(new)
        edge = _first_equal(offered, best, edges, row, end)
        a, b = edges.source[edge], edges.target[edge]
        latency[row, b] = best[row, end]
        variance[row, b] = variance[row, a] + edges.variance[edge]
        slower = edges.bandwidth_Bps[edge] < bandwidth[row, a]
        error[row, b] = np.where(slower, edges.bandwidth_error_Bps[edge], error[row, a])
        # an unknown part makes the sum unknown
        bandwidth[row, b] = np.minimum(bandwidth[row, a], edges.bandwidth_Bps[edge])
        measured_at[row, b] = np.minimum(measured_at[row, a], edges.measured_at[edge])
        result.before[first + row, b] = a
        layer = np.zeros_like(reached)
        layer[row, b] = True
        reached |= layer
    settled = reached
    settled[np.arange(rows), sources] = False
    row, end = np.nonzero(settled)
    at = (first + row, end)
    result.latency_s[at] = latency[row, end]
    result.latency_error_s[at] = np.sqrt(variance[row, end])
    result.bandwidth_Bps[at] = bandwidth[row, end]
    result.bandwidth_error_Bps[at] = np.where(np.isnan(bandwidth[row, end]), np.nan, error[row, end])
    result.measured_at[at] = measured_at[row, end]


def _first_equal(
    offered: Floats, best: Floats, edges: _Edges, row: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each path found the first link that offers its latency."""
    sizes = np.diff(np.append(edges.starts, len(edges.source)))
    numbers = np.where(
        offered == np.repeat(best, sizes, axis=1), np.arange(len(edges.source)), len(edges.source)
    )
    first: NDArray[np.int64] = np.minimum.reduceat(numbers, edges.starts, axis=1)
    return first[row, end]


def _measured_diagonal(links: Mapping[Pair, Link], result: LinkMatrix) -> None:
    for i, j in enumerate(result.starts.tolist()):
        link = links.get((result.hosts[j], result.hosts[j]))
        if link is not None and link.latency_s == link.latency_s:
            result.before[i, j] = j
            for each in fields(Link):
                getattr(result, each.name)[i, j] = getattr(link, each.name)
