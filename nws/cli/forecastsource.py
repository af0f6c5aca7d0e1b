"""The source of the weather for a command: a store on this host's disk, or a service, with the same methods.

`--server URL` (or `NWS_SERVER`) selects the service, `--store FILE` the disk. The command line takes precedence
over the environment.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import click

from nws.base.command import FILE
from nws.base.errors import UnknownName, UsageError
from nws.base.records import copied
from nws.cli.common import chosen, existing, store_option
from nws.client import LocalWeather
from nws.client.endpoint import Endpoint
from nws.client.remotesnapshot import (
    KeptSeries,
    RemoteHost,
    RemoteSnapshot,
    read_forecasts,
    read_hosts,
    read_kept,
)
from nws.memory import Memory, Samples
from nws.series import Forecast, Series

_F = TypeVar("_F", bound=Callable[..., Any])

#: A service may take some seconds to compute a thousand hosts' forecasts or to write a large batch.
TIMEOUT_S = 30.0


class LocalSource:
    """A store on this host's disk."""

    def __init__(self, store: Path | None) -> None:
        self._path = existing(store)

    @property
    def where(self) -> dict[str, str]:
        """Return the entry of the file."""
        return {"store": str(self._path)}

    def series_states(self) -> list[KeptSeries]:
        """Return every series in the file, by name."""
        with Memory(self._path) as memory:
            states = memory.summaries()
        now = time.time()
        return [copied(KeptSeries, s, measured_at=s.last_t, age_s=now - s.last_t) for s in states]

    def forecasts(
        self, names: Sequence[str], over_s: Sequence[float] = ()
    ) -> tuple[float, dict[Series, Forecast]]:
        """Return the time, and forecasts of these series (all without names), by name, from the last day.

        Args:
            over_s: spans of their outlooks, seconds, rising
        """
        with LocalWeather(self._path) as weather:
            forecasts = weather.forecasts(over_s)
        return time.time(), {series: forecasts[series] for series in chosen(names, forecasts)}

    def snapshot(self, hosts: Sequence[str] | None) -> RemoteSnapshot:
        """Return the state of these hosts, or of all, as a service would; unmeasured pairs are composed."""
        from nws.client.remoteweather import complete

        now, forecasts = self.forecasts(())
        known = sorted({name for s in forecasts for name in (s.host, s.peer) if name is not None})
        unknown = sorted(set(hosts or ()) - set(known))
        if unknown:
            raise UnknownName(f"no host {', '.join(unknown)} in {self._path}; known are {', '.join(known)}")
        everything = complete(
            RemoteSnapshot(
                now=now, grid="", hosts=tuple(RemoteHost(name=name) for name in known), forecasts=forecasts
            )
        )
        return everything if hosts is None else everything.restrict(hosts)

    def columns(self, names: Sequence[str], since: float, until: float) -> Iterator[tuple[Series, Samples]]:
        """Return samples of these series (all without names) from `since` up to `until`, series by series."""
        with Memory(self._path) as memory:
            for series in chosen(names, [summary.series for summary in memory.summaries()]):
                yield series, memory.samples(series, since=since, until=until)

    def close(self) -> None:
        """Do nothing; no file stays open."""


class ServiceSource:
    """A weather service."""

    def __init__(self, endpoint: Endpoint) -> None:
        from nws.client.remote import ServiceClient

        self.client = ServiceClient.at(endpoint, timeout_s=TIMEOUT_S)

    @property
    def where(self) -> dict[str, str]:
        """Return the entry of its address."""
        return {"server": self.client.url}

    def series_states(self) -> list[KeptSeries]:
        """Return the series from one request."""
        return read_kept(self.client.series(), self.client.url)

    def hosts(self) -> tuple[float, tuple[RemoteHost, ...]]:
        """Return the service's time, and its hosts by name."""
        return read_hosts(self.client.hosts(), self.client.url)

    def forecasts(
        self, names: Sequence[str], over_s: Sequence[float] = ()
    ) -> tuple[float, dict[Series, Forecast]]:
        """Return forecasts computed by the service."""
        legal = [str(Series.parse(name)) for name in names]
        now, forecasts = read_forecasts(self.client.forecasts(legal, over_s=over_s), self.client.url)
        return now, {series: forecasts[series] for series in sorted(forecasts)}

    def snapshot(self, hosts: Sequence[str] | None) -> RemoteSnapshot:
        """Return the state from one request."""
        from nws.client.remoteweather import take_snapshot

        return take_snapshot(self.client, hosts)

    def columns(self, names: Sequence[str], since: float, until: float) -> Iterator[tuple[Series, Samples]]:
        """Return samples from requests per series, newest first, until a series is complete."""
        from nws.client.remoteweather import all_samples

        chosen = [Series.parse(name) for name in names] or [entry.series for entry in self.series_states()]
        for series in chosen:
            times, values = all_samples(self.client, str(series), since=since, until=until)
            yield series, Samples(times=times, values=values)

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


ForecastSource = LocalSource | ServiceSource
"""A source of measurements and forecasts."""


def server_options(command: _F) -> _F:
    """Add ``--server``, ``--token-file`` and ``--ca``, also from the environment."""
    for option in (
        click.option("--ca", type=FILE, envvar="NWS_CA", help="Certificates to trust."),
        click.option(
            "--token-file",
            type=FILE,
            envvar="NWS_TOKEN_FILE",
            help="File with the service's token, mode 0600.",
        ),
        click.option("--server", metavar="URL", envvar="NWS_SERVER", help="Use this weather service."),
    ):
        command = option(command)
    return command


def with_endpoint(command: _F) -> Callable[..., Any]:
    """Add `--store` and the options of a service; the command receives `store`, and the `endpoint` or None."""

    @store_option
    @server_options
    @functools.wraps(command)
    def run(
        *, store: Path | None, server: str | None, token_file: Path | None, ca: Path | None, **options: Any
    ) -> Any:
        return command(store=store, endpoint=_endpoint_of(server, token_file, ca), **options)

    return run


def with_source(command: _F) -> Callable[..., Any]:
    """Add `--store` and the options of a service; the command receives an open `source` instead."""

    @with_endpoint
    @functools.wraps(command)
    def run(*, store: Path | None, endpoint: Endpoint | None, **options: Any) -> Any:
        with closing(LocalSource(store) if endpoint is None else ServiceSource(endpoint)) as source:
            return command(source=source, **options)

    return run


def _endpoint_of(server: str | None, token_file: Path | None, ca: Path | None) -> Endpoint | None:
    """Return the selected service, None for the store; raises `UsageError` for contradictory options."""
    given = click.get_current_context().get_parameter_source
    on_line = {
        name
        for name in ("store", "server", "token_file", "ca")
        if given(name) is click.core.ParameterSource.COMMANDLINE
    }
    if {"store", "server"} <= on_line:
        raise UsageError("--store and --server exclude each other; name the file or the service")
    meant = server if "store" not in on_line else None
    if not meant:
        for name in sorted(on_line & {"token_file", "ca"}):
            raise UsageError(f"--{name.replace('_', '-')} is for a service; name one with --server URL")
        return None
    return Endpoint.of(meant, token_file=token_file, ca=ca)


def is_stale(age_s: float, limit_s: float) -> bool:
    """Return whether a value of this age is too old to be reliable, or of the future; an unknown age is."""
    return not -1.0 <= age_s <= limit_s


def stale_option(command: _F) -> _F:
    """Add ``--stale-after S``."""
    return click.option(
        "--stale-after",
        type=click.FloatRange(min=0),
        default=300.0,
        show_default=True,
        help="Mark measurements older than this many seconds.",
    )(command)
