"""The state of a whole grid in one document: hosts, and every series with forecast, expected error and age.

Columns are arrays from the batteries to the encoder: no request iterates over the series in Python. Names change
only when series are added, so they are listed once. Pairs that are not measured are composed along paths on
request (`nws.links.linkmatrix`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from nws.base.errors import TooMany
from nws.forecasting.batteries import METHOD_TEXTS, Columns
from nws.forecasting.horizons import KNOWN
from nws.links.composition import Composed, Link, Pair
from nws.links.linkmatrix import compose
from nws.messages.fieldtypes import Floats, Ints
from nws.messages.snapshotcolumns import SnapshotComposed, SnapshotOutlooks
from nws.series import SHARES, Resource
from nws.service.seriescatalogue import Catalogue


def outlook_columns(outlooks: Floats, over_s: Sequence[float]) -> SnapshotOutlooks:
    """Return the columns of outlooks as `BatteryBank.outlooks` returns them."""
    mean, held, outcomes, variation = (outlooks[:, :, part] for part in range(KNOWN))
    return SnapshotOutlooks(
        over_s=over_s,
        shares=SHARES,
        mean=mean,
        held=held,
        outcomes=outcomes,
        variation=variation,
        quantiles=outlooks[:, :, KNOWN:],
    )


def compact_methods(columns: Columns) -> tuple[tuple[str, ...], Ints]:
    """Return the texts of the methods in use, and each series' index into them."""
    used = np.flatnonzero(np.bincount(columns.method))
    places = np.zeros(len(METHOD_TEXTS), np.int64)
    places[used] = np.arange(len(used))
    return tuple(METHOD_TEXTS[i] for i in used.tolist()), places[columns.method]


def composed_pairs(
    catalogue: Catalogue, numbers: Ints, columns: Columns, hosts: Sequence[str], *, most: int
) -> dict[Pair, Composed]:
    """Return the pairs among `hosts` not fully measured that paths of measured pairs connect.

    Raises `TooMany` if more than `most` pairs are missing.

    Args:
        numbers: every series with measurements, also outside `hosts`, because paths may lead there
        columns: forecasts of `numbers`
    """
    links = _links(catalogue, numbers, columns)
    pairs = [
        (start, end)
        for start in hosts
        for end in hosts
        if start != end and not _complete(links.get((start, end)))
    ]
    if len(pairs) > most:
        raise TooMany(
            f"composing {len(pairs)} pairs of {len(hosts)} hosts: at most {most} are composed at once; "
            "name the hosts you want pairs of, or raise limits.composed_pairs"
        )
    paths = compose(links, pairs)
    # a pair measured in one respect only may be returned unchanged
    return {pair: composed for pair, composed in paths.items() if composed.through}


def _complete(link: Link | None) -> bool:
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
    """Return forecast, expected error (RMSE) and time of every pair for which a resource is measured."""
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


def composed_columns(composed: Mapping[Pair, Composed], now: float) -> SnapshotComposed:
    """Return the columns of composed pairs."""
    every = list(composed.values())
    measured_at = np.array([c.measured_at for c in every])
    return SnapshotComposed(
        start=[start for start, _ in composed],
        end=[end for _, end in composed],
        latency_s=[c.latency_s for c in every],
        latency_error_s=[c.latency_error_s for c in every],
        bandwidth_Bps=[c.bandwidth_Bps for c in every],
        bandwidth_error_Bps=[c.bandwidth_error_Bps for c in every],
        measured_at=measured_at,
        age_s=np.maximum(now - measured_at, 0.0),
        through=[c.through for c in every],
    )
