"""The weather service as one object: name server, memory and forecaster.

Every method may be called from any thread. Nothing here listens or speaks HTTP; whoever does calls `tick` about once
a second. The clock is passed in. While the store cannot be written everything that only reads goes on.
Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nws.cliques import Schedule
from nws.errors import WeatherError
from nws.series import Forecast, Series
from nws.service.config import ServiceConfig
from nws.service.records import (
    Batch,
    Counters,
    Event,
    Health,
    HostState,
    Peers,
    PlotDocument,
    PutReceipt,
    Registered,
    Registration,
    SampleDocument,
    SeriesState,
)
from nws.service.snapshot import SnapshotDocument


class WeatherService:
    """A weather service; a context manager. Raises `StoreError` when its store cannot be opened.

    config : what its user sets.  store : file of the memory; by default the one of `config`, else `service.db` in
    the state directory.  clock : seconds since the epoch.  monotonic : seconds that never step, for leases; by
    default the system's, or `clock` where that is not the system's.  in_memory : keep nothing on disk
    """

    def __init__(
        self,
        config: ServiceConfig,
        *,
        store: Path | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] | None = None,
        in_memory: bool = False,
    ) -> None:
        raise NotImplementedError

    # name server

    def register(self, host: str, registration: Registration, key: str | None) -> Registered:
        """Take a host in, or take its new address. Raises `NameTaken`, `TooMany`, `Refused`, `StoreError`."""
        raise NotImplementedError

    def check_key(self, host: str, key: str | None) -> None:
        """Raise `KeyRefused` when the key is not the host's, `UnknownHost` when it has none."""
        raise NotImplementedError

    def hosts(self) -> list[HostState]:
        """Every host, by name."""
        raise NotImplementedError

    def host(self, name: str) -> HostState:
        """One host; raises `UnknownHost`."""
        raise NotImplementedError

    def forget(self, name: str) -> None:
        """Free a name and hide its series until somebody measures them again; raises `UnknownHost`."""
        raise NotImplementedError

    def schedule(self) -> Schedule:
        """Who probes whom, and when."""
        raise NotImplementedError

    def peers(self) -> Peers:
        """Address and port of every host in the schedule that answers probes."""
        raise NotImplementedError

    # memory

    def put(self, batch: Batch, *, as_host: str | None) -> PutReceipt:
        """Keep a batch. as_host : the host whose series alone are legal; None: anything.

        Raises `Refused`, `ForeignSeries`, `TooManySeries`, `UnknownHost`, with nothing kept; `StoreError`
        """
        raise NotImplementedError

    def put_many(self, batches: Sequence[tuple[Batch, str | None]]) -> list[PutReceipt | WeatherError]:
        """As `put` for each, in one transaction; one batch's error is no other's."""
        raise NotImplementedError

    def series(self, *, host: str | None = None, resource: str | None = None) -> list[SeriesState]:
        """Series of a host (either end of a pair), of a resource, by name; raises `Refused` for no resource."""
        raise NotImplementedError

    def samples(
        self, name: str, *, since: float, until: float, resolution: str = "auto", most: int = 10_000
    ) -> SampleDocument:
        """Samples of one series. resolution : auto, raw, 60 or 600. Raises `UnknownSeries`, `Refused`."""
        raise NotImplementedError

    def plot(self, name: str, *, since: float, until: float, points: int = 600) -> PlotDocument:
        """One series ready to be drawn. Raises `UnknownSeries`, `Refused`."""
        raise NotImplementedError

    # forecaster

    def forecasts(self, names: Sequence[str] | None = None) -> dict[Series, Forecast]:
        """Forecasts of some series, or of all, by name; raises `UnknownSeries`."""
        raise NotImplementedError

    def snapshot(self, *, hosts: Sequence[str] | None = None, composed: bool = False) -> SnapshotDocument:
        """All hosts and series, or some hosts and what is between them. Raises `UnknownHost`, `TooMany`."""
        raise NotImplementedError

    # events, care

    def event(self, event: Event) -> None:
        """Keep an event; raises `Refused`, `StoreError`."""
        raise NotImplementedError

    def events(self, since: float, until: float, most: int = 1000) -> list[Event]:
        """The newest `most` events of a time, oldest first."""
        raise NotImplementedError

    def tick(self) -> None:
        """Everything that has to happen now and then; to be called about once a second. Raises nothing."""
        raise NotImplementedError

    def health(self) -> Health:
        """Whether the service can do its work."""
        raise NotImplementedError

    def counters(self) -> Counters:
        """Counts for supervision."""
        raise NotImplementedError

    def now(self) -> float:
        """Seconds since the epoch, as the service counts them."""
        raise NotImplementedError

    def close(self) -> None:
        """Save the forecasters' state and let go of the store."""
        raise NotImplementedError

    def __enter__(self) -> WeatherService:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
