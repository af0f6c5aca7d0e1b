"""The weather of a whole grid in one document: hosts, and every series with forecast, expected error and age.

Columns are arrays from the batteries to the encoder: no request walks over the series in the interpreter, and the
names, which change only when series come, are encoded once. Pairs that nobody measures are composed along paths when
that is asked for (`nws.links.composition`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from nws.base.errors import TooMany
from nws.forecasting.bank import METHOD_TEXTS, Columns
from nws.links.composition import Composed, Link, Pair, compose
from nws.series import Resource
from nws.service.catalogue import Catalogue
from nws.service.records import Floats, HostState, Ints

FORMAT, VERSION = "nws-snapshot", 1
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY
#: Selections whose encoded names are remembered.
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedNames:
    """Names of the series of a selection, as they are and as JSON."""

    numbers: Ints
    names: tuple[str, ...]
    encoded: bytes


class NameCache:
    """Names of the selections asked for lately. Not safe from several threads by itself."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, EncodedNames] = OrderedDict()

    def names(self, catalogue: Catalogue, numbers: Ints) -> EncodedNames:
        """Names of these series; they never change, so what was encoded once stays right."""
        key = numbers.tobytes()
        found = self._known.get(key)
        if found is None:
            names = tuple(catalogue.names[i] for i in numbers.tolist())
            found = self._known[key] = EncodedNames(numbers=numbers, names=names, encoded=orjson.dumps(names))
            if len(self._known) > _MOST_NAMES:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotDocument:
    """Everything of one instant, in columns of one length; NaN where nothing is known.

    now : seconds since the epoch.  names : of the series.  columns : forecasts, `method` a place in `methods`
    age_s : of each series' last measurement.  composed : pairs that nobody measures; None when not asked for
    """

    now: float
    grid: str
    hosts: Sequence[HostState]
    methods: tuple[str, ...]
    series: EncodedNames
    columns: Columns
    age_s: Floats
    composed: Mapping[Pair, Composed] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """For programs in this process: names as text, columns as arrays."""
        return self._document(self.series.names)

    def encode(self) -> bytes:
        """As JSON; NaN is null."""
        return orjson.dumps(self._document(orjson.Fragment(self.series.encoded)), option=_OPTIONS)

    def _document(self, names: Any) -> dict[str, Any]:
        c = self.columns
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "now": self.now,
            "grid": self.grid,
            "hosts": self.hosts,
            "methods": self.methods,
            "series": {
                "name": names,
                "forecast": c.value,
                "mae": c.mae,
                "rmse": c.rmse,
                "last": c.last,
                "measured_at": c.measured_at,
                "age_s": self.age_s,
                "samples": c.samples,
                "method": c.method,
            },
        }
        if self.composed is not None:
            document["composed"] = _composed_columns(self.composed, self.now)
        return document


def compact_methods(columns: Columns) -> tuple[tuple[str, ...], Ints]:
    """Texts of the methods that occur, and the place of each series' method among them."""
    used, places = np.unique(columns.method, return_inverse=True)
    return tuple(METHOD_TEXTS[i] for i in used.tolist()), places.astype(np.int64)


def composed_pairs(
    catalogue: Catalogue, numbers: Ints, columns: Columns, hosts: Sequence[str], *, most: int
) -> dict[Pair, Composed]:
    """Pairs among `hosts` that are not measured in both respects, as far as paths of measured pairs join them.

    numbers, columns : every series that has measurements, whether among `hosts` or not, as paths may lead elsewhere
    Raises `TooMany` when that is more than `most` pairs.
    """
    links = _links(catalogue, numbers, columns)
    wanted = [
        (start, end)
        for start in hosts
        for end in hosts
        if start != end and not _whole(links.get((start, end)))
    ]
    if len(wanted) > most:
        raise TooMany(
            f"composing {len(wanted)} pairs of {len(hosts)} hosts: at most {most} are composed at once; "
            "name the hosts you want pairs of, or raise limits.composed_pairs"
        )
    found = compose(links, wanted)
    # a pair that is only half measured may come out as itself
    return {pair: composed for pair, composed in found.items() if composed.through}


def _whole(link: Link | None) -> bool:
    return link is not None and link.latency_s == link.latency_s and link.bandwidth_Bps == link.bandwidth_Bps


def _links(catalogue: Catalogue, numbers: Ints, columns: Columns) -> dict[Pair, Link]:
    latency = _by_pair(catalogue, numbers, columns, Resource.LATENCY)
    bandwidth = _by_pair(catalogue, numbers, columns, Resource.BANDWIDTH)
    nothing = (np.nan, np.nan, np.inf)
    links = {}
    for pair, (latency_s, latency_error_s, measured_at) in latency.items():
        Bps, error_Bps, also = bandwidth.get(pair, nothing)
        links[pair] = Link(
            latency_s=latency_s,
            latency_error_s=latency_error_s,
            bandwidth_Bps=Bps,
            bandwidth_error_Bps=error_Bps,
            measured_at=min(measured_at, also),
        )
    return links


def _by_pair(
    catalogue: Catalogue, numbers: Ints, columns: Columns, resource: Resource
) -> dict[Pair, tuple[float, float, float]]:
    """Forecast, its expected error (RMSE) and time of every pair of hosts that a resource is measured of."""
    at = np.flatnonzero(catalogue.of_resource(resource.value)[numbers])
    hosts = catalogue.hosts
    owner, peer = catalogue.owner[numbers[at]], catalogue.peer[numbers[at]]
    rows = zip(
        owner.tolist(),
        peer.tolist(),
        columns.value[at].tolist(),
        columns.rmse[at].tolist(),
        columns.measured_at[at].tolist(),
        strict=True,
    )
    return {(hosts[a], hosts[b]): (value, error, t) for a, b, value, error, t in rows}


def _composed_columns(composed: Mapping[Pair, Composed], now: float) -> dict[str, Any]:
    every = list(composed.values())
    measured_at = np.array([c.measured_at for c in every])
    return {
        "from": [start for start, _ in composed],
        "to": [end for _, end in composed],
        "latency_s": [c.latency_s for c in every],
        "latency_error_s": [c.latency_error_s for c in every],
        "bandwidth_Bps": [c.bandwidth_Bps for c in every],
        "bandwidth_error_Bps": [c.bandwidth_error_Bps for c in every],
        "measured_at": measured_at,
        "age_s": np.maximum(now - measured_at, 0.0),
        "through": [c.through for c in every],
    }
