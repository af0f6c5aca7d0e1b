"""`nws show`: the stored series, or the hosts of a service, with their ages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from nws.base.errors import UnknownName, UsageError
from nws.base.terminal import visible
from nws.cli.common import echo_json, finite, finite_document, json_option, series_document
from nws.cli.forecastsource import ForecastSource, ServiceSource, is_stale, stale_option, with_source
from nws.client.remotesnapshot import KeptSeries, RemoteHost

#: Counts of a sensor's runs without a measurement.
_LOST_RUNS = ("failed", "missed", "skipped")


@click.command()
@click.option("--hosts", is_flag=True, help="List the hosts of the service instead.")
@click.option("--host", metavar="NAME", help="Only the series of this host, at either end.")
@stale_option
@with_source
@json_option
def show(*, source: ForecastSource, hosts: bool, host: str | None, stale_after: float, as_json: bool) -> None:
    """List all series: samples, last value and its age; stale ones are marked.

    With --hosts, list the hosts of a service: alive or lost, time since the last contact, cliques, and the runs of
    its sensors without a measurement. Below, why another monitor has nothing of a host that is faulty.
    """
    if not hosts:
        states = [k for k in source.series_states() if host is None or host in (k.series.host, k.series.peer)]
        if host is not None and not states:
            raise UnknownName(f"no series of host {host}; `nws show` lists all")
        _show_series(source, states, stale_after, as_json)
    elif isinstance(source, ServiceSource):
        now, known = source.hosts()
        chosen = [h for h in known if host is None or h.name == host]
        if host is not None and not chosen:
            names = ", ".join(h.name for h in known) or "none"
            raise UnknownName(f"no host {host} at {source.client.url}; known are {names}")
        _show_hosts(source, now, chosen, as_json)
    else:
        raise UsageError("--hosts lists the hosts of a service; name one with --server URL or NWS_SERVER")


def _show_series(
    source: ForecastSource, states: Sequence[KeptSeries], stale_after: float, as_json: bool
) -> None:
    from nws.cli.tables import duration, echo_table, quantity

    if as_json:
        rows = [
            series_document(
                k.series,
                **finite_document(k, "samples", "last", "measured_at", "age_s"),
                stale=is_stale(k.age_s, stale_after),
            )
            for k in states
        ]
        echo_json({**source.where, "series": rows})
        return
    echo_table(
        ["series", "samples", "last", "age", ""],
        [
            [
                str(k.series),
                str(k.samples),
                quantity(k.last, k.series.resource.unit),
                duration(k.age_s),
                "stale" if is_stale(k.age_s, stale_after) else "",
            ]
            for k in states
        ],
        numbers=[1, 2, 3],
    )


def _show_hosts(source: ForecastSource, now: float, hosts: Sequence[RemoteHost], as_json: bool) -> None:
    from nws.cli.tables import duration, echo_table

    if as_json:
        echo_json({**source.where, "now": now, "hosts": [_document(host, now) for host in hosts]})
        return
    rows = []
    for host in hosts:
        lost_runs = _lost_runs(host)
        rows.append(
            [
                host.name,
                host.site or "",
                "lost" if host.lost else "faulty" if host.fault else "alive",
                duration(max(now - host.last_seen, 0.0)),
                host.address or "-",
                str(host.cpus or "-"),
                " ".join(host.cliques) or "-",
                str(host.series),
                "-" if lost_runs is None else f"{lost_runs:.0f}",
                f"{host.status.get('buffered', 0):.0f}",
            ]
        )
    headings = [
        "host",
        "site",
        "state",
        "seen",
        "address",
        "CPUs",
        "cliques",
        "series",
        "lost runs",
        "buffered",
    ]
    echo_table(headings, rows, numbers=[3, 5, 7, 8, 9], warn=[row[2] != "alive" for row in rows])
    for host in hosts:
        if host.fault is not None:
            click.echo(f"{host.name}: {visible(host.fault)}")


def _document(host: RemoteHost, now: float) -> dict[str, Any]:
    return {
        "host": host.name,
        **finite_document(host, "site", "lost", "last_seen"),
        "age_s": finite(max(now - host.last_seen, 0.0)),
        **finite_document(host, "address", "cpus", "cpu_model", "memory_bytes"),
        "cliques": list(host.cliques),
        "series": host.series,
        "lost_runs": _lost_runs(host),
        "status": dict(host.status),
        "fault": host.fault,
    }


def _lost_runs(host: RemoteHost) -> float | None:
    """Return the number of runs without a measurement; None if the sensor sent no counts."""
    counts = [host.status[name] for name in _LOST_RUNS if name in host.status]
    return sum(counts) if counts else None
