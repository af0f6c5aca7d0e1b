"""Forecasts of a weather service under the names of a grid, and the fall-back to a platform's own measurements.

Stale forecasts are left out and named. A service that does not answer or refuses is reported in one line and is no
error: `forecast_snapshot` then uses the platform's own values. Events sent to the service (a plan made, a run ended)
are best effort. `nws.client` implements the protocol. Source: Wolski et al. 2000, §3.2 and §4.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apples.launching.preflight import names_of_this_machine
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import Notify
from apples.model.snapshots import from_forecasts, with_composed
from nws.base.errors import WeatherError
from nws.base.hostlist import fold
from nws.client import (
    Endpoint,
    RemoteHost,
    RemoteSnapshot,
    RemoteWeather,
    ServiceClient,
    local_host,
)
from nws.series import CPU, Forecast, Resource, Series

if TYPE_CHECKING:
    from nws.client import LinkMatrix

#: Default age beyond which a forecast is ignored, seconds.
STALE_AFTER_S = 300.0

#: Timeouts of a request for forecasts, of one for many hosts, and of an event, seconds.
_ASK_S, _ASK_MANY_S, _REPORT_S = 5.0, 20.0, 1.0

#: Up to this many hosts the service composes pairs; for more, all measured pairs are fetched and composed here.
_FEW = 32

#: Largest number of stale series that a note names.
_NAMED = 6

#: Maximum length of an event's text; services accept a little more.
_LONGEST_TEXT = 500


Measure = Callable[[Mapping[Series, Forecast] | None], tuple[Mapping[Series, Forecast], str]]
"""Returns a platform's own forecasts and their source, given the service's forecasts or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceForecasts:
    """Forecasts for the hosts of a grid, under the grid's names.

    now : the service's clock, seconds since the epoch; ages are counted from it
    through : intermediate hosts of each composed pair.  stale : names of the series that were too old
    matrix, names : for many hosts, the matrix of all pairs and each host's name in it; `forecasts` then has no composed
        pairs
    notes : one sentence for each problem
    """

    now: float
    source: str
    forecasts: Mapping[Series, Forecast]
    through: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    stale: tuple[Series, ...] = ()
    notes: tuple[str, ...] = ()
    matrix: LinkMatrix | None = None
    names: Mapping[str, str] = field(default_factory=dict)


class ServiceWeather:
    """One weather service. stale_after_s : older forecasts count as unmeasured"""

    def __init__(self, endpoint: Endpoint, *, stale_after_s: float = STALE_AFTER_S) -> None:
        self._endpoint, self.url = endpoint, endpoint.url
        self.stale_after_s = stale_after_s
        #: Seconds that the service's clock is ahead of this one; None before it has answered.
        self._ahead_s: float | None = None
        self._gone: WeatherError | None = None

    def pool(self, notify: Notify) -> Grid | None:
        """Return all registered hosts that are not lost; None if there are none.

        The value is also None if the service does not answer; `forecasts` then raises that error without a new request.
        """
        try:
            with RemoteWeather.at(self._endpoint, timeout_s=_ASK_S) as weather:
                found = weather.hosts()
        except WeatherError as error:
            self._gone = error
            return None
        lost = [host.name for host in found if host.lost]
        nameless = [host.name for host in found if not host.lost and not host.cpus]
        for names, why in (
            (lost, "lost"),
            (nameless, "known by their series only, no sensor registered them"),
        ):
            if names:
                notify(f"{fold(names)} left out of the pool: {why}")
        own = _own_addresses()
        hosts = _distinct([_pool_host(h, own) for h in found if h.cpus and not h.lost], notify)
        if not hosts:
            notify(f"{self.url} knows no host that is alive; the pool is this machine")
            return None
        return Grid(name="nws", hosts=hosts, source=f"the weather service at {self.url}")

    def forecasts(self, grid: Grid) -> ServiceForecasts:
        """Return the forecasts of the grid's hosts and pairs; raise `WeatherError` if the service does not answer."""
        if self._gone is not None:
            raise self._gone
        spellings = {host.name: _spellings(host) for host in grid.hosts}
        many = len(grid.hosts) > _FEW
        asked = None if many else [name for names in spellings.values() for name in names]
        with RemoteWeather.at(
            self._endpoint, hosts=asked, composed=not many, timeout_s=_ASK_MANY_S if many else _ASK_S
        ) as weather:
            snapshot = weather.with_outlooks(weather.snapshot(), CPU)
        self._ahead_s = snapshot.now - time.time()
        known = {host.name for host in snapshot.hosts}
        ours: dict[str, str] = {}
        for host, names in spellings.items():
            theirs = next((name for name in names if name in known), None)
            if theirs is not None:
                ours.setdefault(theirs, host)
        found = self._renamed(snapshot, ours, grid)
        if not many:
            return found
        matrix = snapshot.matrix(oldest_s=self.stale_after_s)
        return replace(found, matrix=matrix, names={host: theirs for theirs, host in ours.items()})

    def report(self, kind: str, text: str) -> None:
        """Mark an event on the service's plots; errors are ignored, and a silent service is not contacted."""
        if self._ahead_s is None:
            return
        try:
            with ServiceClient.at(self._endpoint, timeout_s=_REPORT_S) as client:
                client.event(kind, text[:_LONGEST_TEXT], t=time.time() + self._ahead_s)
        except WeatherError:
            # one silence is enough to stop asking: the run must not wait for it again
            self._ahead_s = None

    def _renamed(self, snapshot: RemoteSnapshot, ours: Mapping[str, str], grid: Grid) -> ServiceForecasts:
        fresh: dict[Series, Forecast] = {}
        stale: list[Series] = []
        for series, forecast in snapshot.forecasts.items():
            host, peer = ours.get(series.host), ours.get(series.peer or series.host)
            if host is None or peer is None or not isinstance(series.resource, Resource):
                continue
            same = host == series.host and peer == (series.peer or series.host)
            named = series if same else Series(series.resource, host, None if series.peer is None else peer)
            if snapshot.now - forecast.measured_at > self.stale_after_s:
                stale.append(named)
            else:
                fresh[named] = forecast
        through = {
            (ours[a], ours[b]): path
            for (a, b), path in snapshot.through.items()
            if a in ours and b in ours and Series(Resource.LATENCY, ours[a], ours[b]) in fresh
        }
        called = f"grid {snapshot.grid}, " if snapshot.grid else ""
        return ServiceForecasts(
            now=snapshot.now,
            source=f"the weather service at {self.url} ({called}nothing older than {self.stale_after_s:g} s)",
            forecasts=fresh,
            through=through,
            stale=tuple(sorted(stale)),
            notes=tuple(self._notes(snapshot, ours, grid, stale)),
        )

    def _notes(
        self, snapshot: RemoteSnapshot, ours: Mapping[str, str], grid: Grid, stale: list[Series]
    ) -> Iterator[str]:
        known = set(ours.values())
        unknown = [host.name for host in grid.hosts if host.name not in known]
        if unknown:
            yield f"{fold(unknown)} unknown to the weather service at {self.url}"
        lost = [ours[host.name] for host in snapshot.hosts if host.lost and host.name in ours]
        if lost:
            yield f"{fold(lost)} lost: the weather service has not heard of {'them' if lost[1:] else 'it'} for a while"
        if stale:
            named = ", ".join(map(str, sorted(stale)[:_NAMED]))
            more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
            plural = "s" if stale[1:] else ""
            yield (
                f"{len(stale)} forecast{plural} of the weather service not used, older than "
                f"{self.stale_after_s:g} s: {named}{more}"
            )


def forecast_snapshot(
    pool: Grid,
    service: ServiceWeather | None,
    measure: Measure,
    *,
    silent: str,
    now: Callable[[], float],
    notify: Notify,
    links_only: bool = False,
) -> Snapshot:
    """Return a snapshot from the service's forecasts and a platform's own; the service's have priority.

    A service that does not answer is reported in one line, and the platform's own forecasts are used alone.

    Args:
        pool: The hosts.
        service: The weather service, None for none.
        measure: Returns the own forecasts and their source; its argument is the service's, None without them.
        silent: The line for a service that does not answer, with `{}` for the reason.
        now: The platform's clock, seconds since the epoch.
        links_only: Of the service, use only the forecasts of links.
    """
    found: ServiceForecasts | None = None
    notes: tuple[str, ...] = ()
    if service is not None:
        try:
            found = service.forecasts(pool)
        except WeatherError as error:
            notes = (silent.format(str(error).splitlines()[0]),)
        else:
            if links_only:
                pairs = {s: f for s, f in found.forecasts.items() if s.peer is not None}
                found = replace(found, forecasts=pairs, stale=(), notes=())
            notes = found.notes
    for note in notes:
        notify(note)
    own, source = measure(None if found is None else found.forecasts)
    clock_s = now()
    if found is None:
        snapshot = from_forecasts(pool, own, now=clock_s, source=source)
        return replace(snapshot, notes=(*notes, *snapshot.notes))
    # The ages of all forecasts are counted on the service's clock.
    ahead_s = found.now - clock_s
    moved = {s: replace(f, measured_at=f.measured_at + ahead_s) for s, f in own.items()}
    sources = (source, f"links from {found.source}") if links_only else (found.source, source if own else "")
    snapshot = from_forecasts(
        pool,
        {**moved, **found.forecasts},
        now=found.now,
        source=", and ".join(text for text in sources if text),
        through=found.through,
    )
    if found.matrix is not None:
        snapshot = with_composed(snapshot, found.matrix, found.names, now=found.now)
    return replace(snapshot, stale=tuple(map(str, found.stale)), notes=(*notes, *snapshot.notes))


def _spellings(host: Host) -> list[str]:
    """Return names under which a service may know a host, the most likely first."""
    if host.cpus:
        # A service knows the machine, not the CPUs of this entry.
        return [host.name]
    names = [host.name, host.address or host.name]
    if names_of_this_machine().intersection(names):
        names.append(local_host())
    names += [name.partition(".")[0] for name in names if not name.replace(".", "").isdecimal()]
    return list(dict.fromkeys(names))


def _pool_host(host: RemoteHost, own: frozenset[str]) -> Host:
    here = host.name == local_host() or host.address in own
    return Host(
        name=host.name,
        slots=host.cpus,
        cpu_type=host.cpu_model,
        site=host.site,
        address="localhost" if here else host.address,
        memory_bytes=host.memory_bytes,
    )


def _own_addresses() -> frozenset[str]:
    import psutil

    addresses = (entry.address for entries in psutil.net_if_addrs().values() for entry in entries)
    return frozenset(address.partition("%")[0] for address in addresses) | names_of_this_machine()


def _distinct(hosts: list[Host], notify: Notify) -> tuple[Host, ...]:
    """Return the hosts with only one of several sensors on this machine, because its slots exist once."""
    here = [host for host in hosts if host.address == "localhost"]
    if len(here) > 1:
        kept = next((host for host in here if host.name == local_host()), here[0])
        others = [host.name for host in here if host is not kept]
        notify(f"{fold(others)} left out of the pool: the same machine as {kept.name}")
        hosts = [host for host in hosts if host.name not in others]
    return tuple(hosts)
