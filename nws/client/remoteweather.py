"""The weather of many hosts, forecast by a service elsewhere.

One request returns everything. Unmeasured pairs are composed, unless there are too many (`COMPOSED_MOST`); such a
forecast has the method ``composed via e1, w1``. The caller decides whether a forecast is too old. Source: Wolski et al.
2000, §4.1 (the pool in one step).
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from nws.base.closing import Closing
from nws.base.errors import NotFound, TooMany
from nws.client.endpoint import Endpoint
from nws.client.remote import ServiceClient
from nws.client.remotesnapshot import (
    RemoteHost,
    RemoteSnapshot,
    composed_forecasts,
    read_forecasts,
    read_hosts,
    read_snapshot,
)
from nws.links.composition import Pair
from nws.series import HORIZONS_S, Forecast, Resource, Series

#: Hosts up to which pairs are composed: a thousand hosts have a million pairs.
COMPOSED_MOST = 64

#: Most hosts named in the request; for more, the complete snapshot is requested and filtered here.
NAMED_MOST = 256

#: Samples of one series in one request; services send no more.
SAMPLES_PER_REQUEST = 100_000

#: Host names that a service accepts; others are not sent.
_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RemoteWeather(Closing):
    """The weather from a service; a context manager. Implements `nws.client.Weather` for all its hosts.

    url, token, ca, timeout_s : as for `ServiceClient`.  hosts : only these and the pairs among them, as far as the
    service knows them; None for all.  composed : whether unmeasured pairs are composed from others

    Raises `UsageError` for an invalid address; every query `ServiceUnreachable` and `ServiceError`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: Path | None = None,
        hosts: Sequence[str] | None = None,
        composed: bool = True,
        timeout_s: float = 5.0,
    ) -> None:
        self._client = ServiceClient(url, token=token, ca=ca, timeout_s=timeout_s)
        self._wanted = None if hosts is None else tuple(dict.fromkeys(hosts))
        self._composed = composed

    @classmethod
    def at(
        cls,
        endpoint: Endpoint,
        *,
        hosts: Sequence[str] | None = None,
        composed: bool = True,
        timeout_s: float = 5.0,
    ) -> RemoteWeather:
        """Return weather of a service that options or the environment name."""
        return cls(
            endpoint.url,
            token=endpoint.token,
            ca=endpoint.ca,
            hosts=hosts,
            composed=composed,
            timeout_s=timeout_s,
        )

    @property
    def client(self) -> ServiceClient:
        """Return the client of the service."""
        return self._client

    def forecasts(self, over_s: Sequence[float] = ()) -> Mapping[Series, Forecast]:
        """Return forecasts of every series, in one step, with outlooks over some spans (seconds)."""
        return self.snapshot(over_s).forecasts

    def hosts(self) -> tuple[RemoteHost, ...]:
        """Return hosts of the service, alive and lost, by name."""
        _, entries = read_hosts(self._client.hosts(), self._client.url)
        return tuple(h for h in entries if self._wanted is None or h.name in self._wanted)

    def snapshot(self, over_s: Sequence[float] = ()) -> RemoteSnapshot:
        """Return everything at one instant, with outlooks over some spans (seconds)."""
        return take_snapshot(self._client, self._wanted, composed=self._composed, over_s=over_s)

    def with_outlooks(
        self, snapshot: RemoteSnapshot, resources: Collection[Resource], over_s: Sequence[float] = HORIZONS_S
    ) -> RemoteSnapshot:
        """Return the snapshot with new forecasts of some resources, which have outlooks over some spans (seconds)."""
        names = [str(series) for series in snapshot.forecasts if series.resource in resources]
        if not names:
            return snapshot
        _, forecasts = read_forecasts(self._client.forecasts(names, over_s=over_s), self._client.url)
        return replace(snapshot, forecasts={**snapshot.forecasts, **forecasts})

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def take_snapshot(
    client: ServiceClient,
    hosts: Sequence[str] | None,
    *,
    composed: bool = True,
    over_s: Sequence[float] = (),
) -> RemoteSnapshot:
    """Return the service's snapshot of these hosts, as far as it knows them, or of all; see `RemoteWeather`."""
    if hosts is None:
        everything = read_snapshot(client.snapshot(over_s=over_s), client.url)
        return complete(everything) if composed else everything
    names = [name for name in hosts if _HOST_NAME.fullmatch(name)]
    if not names or len(names) > NAMED_MOST:
        return read_snapshot(client.snapshot(over_s=over_s), client.url).restrict(names)
    try:
        return _named(client, names, composed, over_s)
    except NotFound:
        now, entries = read_hosts(client.hosts(), client.url)
        known = {host.name for host in entries}
        names = [name for name in names if name in known]
        return (
            _named(client, names, composed, over_s)
            if names
            else RemoteSnapshot(now=now, grid="", hosts=(), forecasts={})
        )


def _named(
    client: ServiceClient, names: Sequence[str], composed: bool, over_s: Sequence[float]
) -> RemoteSnapshot:
    """Return a snapshot composed by the service, since paths may lead through hosts outside the query."""
    few = 1 < len(names) <= COMPOSED_MOST
    try:
        document = client.snapshot(hosts=names, composed=composed and few, over_s=over_s)
    except TooMany:
        if not (composed and few):
            raise
        document = client.snapshot(hosts=names, over_s=over_s)
    return read_snapshot(document, client.url).restrict(names)


def complete(snapshot: RemoteSnapshot, *, of: str | None = None) -> RemoteSnapshot:
    """Return the snapshot with every pair of its hosts that a path of measured pairs joins.

    No path crosses a lost host.

    of : only pairs of this host.  Of more than `COMPOSED_MOST` hosts all pairs are not composed.
    """
    from nws.links.linkmatrix import compose

    if of is None and len(snapshot.hosts) > COMPOSED_MOST:
        return snapshot
    known = snapshot.links()
    names = [host.name for host in snapshot.hosts]
    pairs = permutations(names, 2) if of is None else ((a, b) for n in names for a, b in ((of, n), (n, of)))
    missing: list[Pair] = [pair for pair in pairs if pair not in known and pair[0] != pair[1]]
    composed = compose(known, missing)
    return replace(
        snapshot,
        forecasts={**composed_forecasts(composed), **snapshot.forecasts},
        through={**{pair: one.through for pair, one in composed.items()}, **snapshot.through},
    )


def all_samples(
    client: ServiceClient, name: str, *, since: float = -math.inf, until: float = math.inf
) -> tuple[array[float], array[float]]:
    """Return times and values of one series as measured, oldest first, in as many requests as needed."""
    times, values = array("d"), array("d")
    end = until
    while True:
        document = client.samples(
            name,
            since=since if math.isfinite(since) else None,
            until=end if math.isfinite(end) else None,
            resolution="raw",
            most=SAMPLES_PER_REQUEST,
        )
        times = array("d", document["t"]) + times
        values = array("d", document["value"]) + values
        if not document.get("truncated") or not document["t"]:
            return times, values
        # the missing samples are older than the oldest received
        end = math.nextafter(times[0], -math.inf)
