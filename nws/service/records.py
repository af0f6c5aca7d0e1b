"""What goes into the weather service and what comes out, as records.

Field names are those of the JSON interface, so that a record is its own document. Times are float seconds since the
epoch, values in the unit of their series. Columns are numpy arrays, NaN where nothing is known (null in JSON). Decides
nothing.
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
    """What a sensor says of its host.

    address, port : where its echo server answers; port 0 when it answers no probes
    cpus : usable ones.  memory_bytes : installed.  version : of the sensor's program
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
    """What a sensor is told. key : at the first registration only, to be kept and shown from then on."""

    now: float
    key: str | None
    every: Every
    schedule: Schedule
    peers: Peers
    grid: str

    def as_json(self) -> dict[str, Any]:
        """JSON-ready document."""
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
    """What is known of a host.

    A host that never registered, because its series come from elsewhere, has no address and no `registered_at`;
    its `last_seen` is the time of its last measurement and it is never lost.
    series : how many it has.  status : what its sensor last counted
    """

    name: str
    address: str | None
    port: int | None
    site: str | None
    cpus: int
    cpu_model: str
    memory_bytes: int
    version: str
    registered_at: float | None
    last_seen: float | None
    lost: bool
    cliques: tuple[str, ...]
    series: int
    status: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Measurements of one sender: sample k is `value[k]` of `series[index[k]]` at `t[k]`.

    source, first : name of a numbered stream and number of its first sample; samples that were acknowledged
    already are dropped.  status : the sensor's own counts
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
    """Samples of a batch that were acknowledged and not kept: how many, and why for the first 20."""

    count: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutReceipt:
    """Answer to a batch. accepted : samples kept.  next : number expected next.  schedule : its version now."""

    now: float
    accepted: int
    next: int
    schedule: int
    refused: Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesState:
    """One series: samples its battery has seen, the last value, when it was measured, how old that is (s)."""

    series: str
    unit: str
    samples: int
    last: float
    measured_at: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDocument:
    """Samples of one series, oldest first; buckets of `resolution_s` with low, high and count unless that is 0.

    truncated : there are older ones in the range than `most` allowed
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
        """Document for orjson, which writes numpy arrays; low, high and count only for buckets."""
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
    """One series ready to be drawn, oldest first; a row of NaN but for its time stands where there is a gap.

    forecast : what was expected of each point before it was seen.  error : mean absolute error of such forecasts
    until then.  low, high : of each bucket; the value itself at `resolution_s` 0
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
    """Something that happened, to be marked on plots. kind : 1 to 40 of a-z and blanks, such as ``host lost``."""

    t: float
    kind: str
    host: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the service can do its work. status : ``ok``, or ``degraded`` while the store cannot be written."""

    status: str
    store: str
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts since the service was started, and what it holds now; for supervision.

    samples_accepted, samples_refused, samples_repeated : of all batches; repeated ones were acknowledged before
    batches_failed : not kept because the store could not be written
    hosts, hosts_lost, series : now.  store_bytes : size of the store's files
    battery_saves, battery_save_s : how often the forecasters' state was saved, and how long the last time took
    restored : ``saved``, ``replayed`` or ``empty``: where the forecasters' state came from; restore_s : how long
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
