"""Arguments and return values of the weather service as records.

Field names are those of the JSON interface, so that a record is its own document. Times are float seconds since the
epoch, values in the unit of their series. Columns are numpy arrays with NaN for unknown values (null in JSON).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nws.service.config import Every

if TYPE_CHECKING:
    from nws.links.cliques import Schedule

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Peers = dict[str, tuple[str, int]]
"""Address and port of the echo server of each host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A sensor's description of its host.

    address, port: of its echo server; port 0 if it answers no probes
    cpus: usable ones.  memory_bytes: installed.  version: of the sensor's program
    """

    address: str
    port: int
    site: str | None = None
    cpus: int = 0
    cpu_model: str = ""
    memory_bytes: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The answer to a registration. key: only at the first one; the sensor stores and sends it from then on."""

    now: float
    key: str | None
    every: Every
    schedule: Schedule
    peers: Peers
    grid: str

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready document."""
        key = {} if self.key is None else {"key": self.key}
        return {
            "now": self.now,
            **key,
            "every": self.every.as_json(),
            "schedule": self.schedule.to_json(),
            "peers": self.peers,
            "grid": self.grid,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The state of a host.

    A host that never registered, because its series come from other monitors, has no address and no
    `registered_at`. Its `last_seen` is the time of its last measurement, and it is never lost.
    series: their number.  status: the sensor's last counts
    """

    name: str
    address: str | None = None
    port: int | None = None
    site: str | None = None
    cpus: int = 0
    cpu_model: str = ""
    memory_bytes: int = 0
    version: str = ""
    registered_at: float | None = None
    last_seen: float | None = None
    lost: bool = False
    cliques: tuple[str, ...] = ()
    series: int = 0
    status: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Measurements of one sender: sample k is `value[k]` of `series[index[k]]` at `t[k]`.

    source, first: name of a numbered stream and number of its first sample; samples acknowledged before are dropped
    status: the sensor's own counts
    """

    series: tuple[str, ...] = ()
    index: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    t: Floats = field(default_factory=lambda: np.empty(0))
    value: Floats = field(default_factory=lambda: np.empty(0))
    source: str | None = None
    first: int = 0
    status: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Samples of a batch that were acknowledged but not stored: their number, and the reasons of the first 20."""

    count: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutReceipt:
    """The answer to a batch. accepted: samples stored.  next: number expected next.  schedule: its present version."""

    now: float
    accepted: int
    next: int
    schedule: int
    refused: Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesState:
    """One series: number of samples seen by its battery, last value, its time and its age (s)."""

    series: str
    unit: str
    samples: int
    last: float
    measured_at: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDocument:
    """Samples of one series, oldest first; buckets of `resolution_s` with low, high and count unless that is 0.

    truncated: the range contains older samples than `most` allowed
    """

    series: str
    unit: str
    resolution_s: float
    t: Floats
    value: Floats
    low: Floats | None
    high: Floats | None
    count: Ints | None
    truncated: bool

    def as_json(self) -> dict[str, Any]:
        """Return a document for orjson, which writes numpy arrays; low, high and count only for buckets."""
        document: dict[str, Any] = {
            "series": self.series,
            "unit": self.unit,
            "resolution_s": self.resolution_s,
            "t": self.t,
            "value": self.value,
            "truncated": self.truncated,
        }
        if self.low is not None:
            document |= {"low": self.low, "high": self.high, "count": self.count}
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotDocument:
    """One series for a plot, oldest first; a row of NaN with a time marks a gap.

    forecast: of each point, made before it was known.  error: mean absolute error of such forecasts until then
    low, high: of each bucket; the value itself at `resolution_s` 0
    """

    series: str
    unit: str
    resolution_s: float
    t: Floats
    value: Floats
    low: Floats
    high: Floats
    forecast: Floats
    error: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event, marked on plots. kind: 1 to 40 of a-z and blanks, such as ``host lost``."""

    t: float
    kind: str
    host: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of the service. status: ``ok``, or ``degraded`` while the store cannot be written."""

    status: str
    store: str
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether the status is ``ok``."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts since the service started, and its present content; for supervision.

    samples_accepted, samples_refused, samples_repeated: of all batches; repeated ones were acknowledged before
    batches_failed: not stored because the store could not be written
    hosts, hosts_lost, series: now.  store_bytes: size of the store's files
    battery_saves, battery_save_s: number of saves of the forecasters' state, and duration of the last one
    restored: origin of the forecasters' state: ``saved``, ``replayed`` or ``empty``; restore_s: its duration
    """

    batches: int
    batches_failed: int
    samples_accepted: int
    samples_refused: int
    samples_repeated: int
    hosts: int
    hosts_lost: int
    series: int
    schedule_version: int
    events: int
    store_bytes: int
    battery_saves: int
    battery_save_failures: int
    battery_save_s: float
    restored: str
    restore_s: float
