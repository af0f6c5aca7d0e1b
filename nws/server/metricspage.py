"""The page `/metrics`: the weather, the hosts and their sensors, the service, its requests, its process.

Every series appears in the same four families with the labels `resource`, `host`, `peer` (pairs only) and `unit`,
so that no family name depends on the measured resource. The names are in docs/weather-api.md.

The text is in Prometheus' format, version 0.0.4: families with their help and type, labels escaped, no NaN.
Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from nws.base.residentmemory import resident_bytes
from nws.messages.snapshotcolumns import SnapshotOutlooks, SnapshotSeries
from nws.messages.weatherdocuments import HostState
from nws.series import Series
from nws.server.backend import Backend
from nws.server.middleware import BUCKETS_S
from nws.service.parts import Counters

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_BLOCK_LINES = 1024
_SERIES_FAMILIES = (
    ("nws_series_last", "last", "Last measurement, in the unit of the series."),
    ("nws_series_forecast", "forecast", "Forecast of the next measurement, in the unit of the series."),
    ("nws_series_error", "mae", "Mean absolute error expected of the forecast, in the unit of the series."),
    ("nws_series_age_seconds", "age_s", "Time since the last measurement."),
)
_OUTLOOK_FAMILIES = (
    ("nws_series_outlook", "Quantiles of the mean of a series over the next `over` seconds."),
    ("nws_series_outlook_held", "Share of past 80 % intervals of such means that held."),
)
_RUNS = ("done", "failed", "missed", "skipped", "merged")
_SENSOR = (
    ("buffered", "nws_sensor_buffered_samples", "Measurements a sensor has not delivered yet."),
    ("dropped", "nws_sensor_dropped_samples_total", "Measurements a sensor dropped."),
    ("cpu_s", "nws_sensor_cpu_seconds_total", "CPU time a sensor has used."),
    ("rss_bytes", "nws_sensor_resident_memory_bytes", "Memory a sensor uses."),
)
#: Cache of series' labels; about 300 bytes each.
_LABELS: dict[str, str] = {}
_MOST_LABELS = 200_000


def labels(pairs: Mapping[str, str]) -> str:
    """Return ``{name="value",…}`` with escaped values; empty without labels."""
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items()) + "}"


class Exposition:
    """A page of metrics, built family by family; columns become text when the page is read."""

    def __init__(self) -> None:
        self._lines: list[Iterable[str]] = []

    def family(
        self, name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]] = (), kind: str = ""
    ) -> None:
        """Start a family, with some samples. kind: by its name a counter (`…_total`) or a gauge"""
        kind = kind or ("counter" if name.endswith("_total") else "gauge")
        self._lines.append((f"# HELP {name} {text.translate(_HELP_ESCAPES)}", f"# TYPE {name} {kind}"))
        for pairs, value in samples:
            self.sample(name, value, pairs)

    def sample(self, name: str, value: float, pairs: Mapping[str, str] | None = None) -> None:
        """Add one sample; NaN is left out."""
        if not math.isnan(value):
            self._lines.append((f"{name}{labels(pairs or {})} {number(value)}",))

    def column(self, name: str, made: Iterable[str], values: Iterable[float]) -> None:
        """Add samples with labels that are text already; NaN is left out."""
        self._lines.append(
            f"{name}{text} {value!r}" for text, value in zip(made, values, strict=True) if value == value
        )

    def one(self, name: str, text: str, value: float) -> None:
        """Add a family of one sample without labels."""
        self.family(name, text, [({}, value)])

    def blocks(self) -> Iterator[bytes]:
        """Yield the page, once; a page of many series would take a hundred bytes for each of its samples."""
        lines = chain.from_iterable(self._lines)
        while block := "".join(f"{line}\n" for line in islice(lines, _BLOCK_LINES)):
            yield block.encode()


def number(value: float) -> str:
    """Return a number in the format's notation."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def render(backend: Backend, over_s: Sequence[float] = ()) -> Iterator[bytes]:
    """Return the page for the present instant, in blocks, with outlooks of all series over some spans."""
    page = Exposition()
    document = backend.service.snapshot(over_s=over_s)
    _weather(page, document.series)
    if document.outlooks is not None:
        _outlooks(page, document.series.name, document.outlooks)
    _hosts(page, backend.service.hosts())
    _service(page, backend, backend.service.counters())
    _sources(page, backend)
    _requests(page, backend)
    _process(page, backend.started)
    return page.blocks()


def _weather(page: Exposition, columns: SnapshotSeries) -> None:
    made = _made(columns.name)
    for name, column, text in _SERIES_FAMILIES:
        page.family(name, text)
        page.column(name, made, np.asarray(getattr(columns, column), np.float64).tolist())


def _outlooks(page: Exposition, names: Sequence[str], outlooks: SnapshotOutlooks) -> None:
    """Add the ends of the 80 % interval, the median and the record of each span."""
    made = [text[:-1] for text in _made(names)]

    def labelled(more: str) -> Iterator[str]:
        return (f"{one},{more}}}" for one in made)

    (quantiles, text), (held, held_text) = _OUTLOOK_FAMILIES
    page.family(quantiles, text)
    for j, span in enumerate(outlooks.over_s):
        for share in (0.1, 0.5, 0.9):
            column = outlooks.quantiles[:, j, outlooks.shares.index(share)]
            page.column(quantiles, labelled(f'over="{span:g}",quantile="{share:g}"'), column.tolist())
    page.family(held, held_text)
    for j, span in enumerate(outlooks.over_s):
        page.column(held, labelled(f'over="{span:g}"'), outlooks.held[:, j].tolist())


def _made(names: Sequence[str]) -> list[str]:
    if len(_LABELS) > _MOST_LABELS:
        _LABELS.clear()
    made = []
    for name in names:
        text = _LABELS.get(name)
        if text is None:
            one = Series.parse(name)
            pairs = {"resource": str(one.resource), "host": one.host}
            if one.peer is not None:
                pairs["peer"] = one.peer
            text = _LABELS[name] = labels(pairs | {"unit": one.resource.unit})
        made.append(text)
    return made


def _hosts(page: Exposition, hosts: Sequence[HostState]) -> None:
    named = [({"host": host.name}, host) for host in hosts]
    page.one("nws_hosts", "Hosts the service knows.", len(hosts))
    page.one("nws_hosts_lost", "Hosts whose lease has run out.", sum(h.lost for h in hosts))
    lost = ((name, host.lost) for name, host in named)
    page.family("nws_host_lost", "1 for a host whose lease has run out.", lost)
    seen = ((name, host.last_seen) for name, host in named if host.last_seen is not None)
    page.family("nws_host_last_seen_timestamp_seconds", "Time of a host's last contact.", seen)
    runs = (
        (name | {"outcome": outcome}, host.status[outcome])
        for name, host in named
        for outcome in _RUNS
        if outcome in host.status
    )
    page.family("nws_sensor_runs_total", "Runs of a host's sensors since its daemon started.", runs)
    for key, family, text in _SENSOR:
        counts = ((name, host.status[key]) for name, host in named if key in host.status)
        page.family(family, text, counts)


def _service(page: Exposition, backend: Backend, counts: Counters) -> None:
    samples = (
        ({"outcome": outcome}, getattr(counts, f"samples_{outcome}"))
        for outcome in ("accepted", "refused", "repeated")
    )
    page.family(
        "nws_samples_total", "Measurements delivered; repeated ones were acknowledged before.", samples
    )
    writer = backend.writer
    page.one("nws_batches_total", "Batches of measurements.", counts.batches)
    page.one("nws_batches_failed_total", "Batches the store could not write.", counts.batches_failed)
    page.one("nws_transactions_total", "Transactions, each of one or more batches.", writer.transactions)
    page.one("nws_waiting_samples", "Measurements that wait for the store.", writer.waiting)
    page.one("nws_series", "Series the service knows.", counts.series)
    page.one("nws_events_total", "Events stored.", counts.events)
    page.one("nws_schedule_version", "Version of the measuring schedule.", counts.schedule_version)
    page.one("nws_store_bytes", "Size of the store's files.", counts.store_bytes)
    page.one("nws_healthy", "0 while the store cannot be written.", backend.service.health().ok)
    page.one("nws_forecaster_saves_total", "Times the forecasters' state was saved.", counts.battery_saves)
    page.one("nws_forecaster_save_failures_total", "Times it could not be.", counts.battery_save_failures)
    page.one("nws_forecaster_save_seconds", "Duration of the last save.", counts.battery_save_s)
    page.one("nws_restore_seconds", "Duration of the service's start.", counts.restore_s)
    page.one("nws_tick_failures_total", "Failures of the housekeeping.", backend.tick_failures)


def _sources(page: Exposition, backend: Backend) -> None:
    reads = (
        ({"source": source.name, "outcome": outcome}, count)
        for source in backend.sources
        for outcome, count in source.counts().items()
    )
    page.family("nws_source_reads_total", "Reads of other monitors by outcome.", reads)
    samples = (({"source": source.name}, source.samples) for source in backend.sources)
    page.family("nws_source_samples_total", "Measurements stored from other monitors.", samples)


def _requests(page: Exposition, backend: Backend) -> None:
    counters = backend.counters
    requests = (
        ({"route": route, "method": method, "status": str(status)}, count)
        for (route, method, status), count in sorted(counters.requests.copy().items())
    )
    page.family("nws_http_requests_total", "Requests by route, method and status.", requests)
    refused = (({"reason": reason}, count) for reason, count in sorted(counters.refused.copy().items()))
    page.family("nws_http_turned_away_total", "Requests refused before any route, by reason.", refused)
    name = "nws_http_request_duration_seconds"
    page.family(name, "Time from a request's head to the end of its answer.", kind="histogram")
    for route, durations in sorted(counters.durations.copy().items()):
        total = 0
        counts = list(durations.counts)
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), counts, strict=True):
            total += count
            page.sample(f"{name}_bucket", total, {"route": route, "le": bound})
        page.sample(f"{name}_sum", durations.total_s, {"route": route})
        page.sample(f"{name}_count", total, {"route": route})


def _process(page: Exposition, started: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    page.one("process_cpu_seconds_total", "CPU time used.", used.ru_utime + used.ru_stime)
    page.one("process_start_time_seconds", "Start time of the application.", started)
    page.one("process_resident_memory_bytes", "Memory used.", resident_bytes())
    page.one("process_open_fds", "Files and connections open.", len(os.listdir("/proc/self/fd")))
