"""Requests and answers of the weather service: one record for each, from which reader, JSON schema and OpenAPI come.

Field names are those of the JSON interface, so that a record is its own document. Times are float seconds since the
epoch, values in the unit of their series. Unknown numbers of an answer are NaN, null in JSON. Requests with other
properties are refused; in an answer they are ignored, as a newer server may send more. A record of the kind `Partial`
leaves out the fields that have their defaults.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from nws.links.cliques import Schedule
from nws.messages.fieldtypes import (
    HOST,
    LARGEST_WHOLE,
    Count,
    Floats,
    GivenFloats,
    GivenIndex,
    GivenSeries,
    HostName,
    Ints,
    Maybe,
    SeriesName,
    Status,
    no_numbers,
    number,
    string,
    whole,
)
from nws.series import HOST_NAME, HOST_NAME_LEGAL

Port = Annotated[int, whole(65535)]
Text = Annotated[str, string()]
Peers = dict[str, tuple[str, Port]]
"""Address and port of the echo server of each host."""
SOURCE = r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}"
KIND = r"[a-z]([a-z ]{0,38}[a-z])?"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A document."""


class Partial(Message, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that leaves out fields with their defaults."""


class Registration(Message, frozen=True, kw_only=True):
    """A sensor's description of its host.

    address, port: of its echo server; port 0 if it answers no probes.  site: a name like a host's
    cpus: usable ones.  memory_bytes: installed.  version: of the sensor's program
    """

    what: ClassVar[str] = "a registration"
    address: Annotated[
        str, string(pattern="[A-Za-z0-9.:_%-]+", expected="expected the name or address of a host")
    ]
    port: Port
    site: (
        Annotated[
            str,
            string(
                pattern=f"({HOST_NAME.pattern})?",
                expected=f"expected a name: {HOST_NAME_LEGAL}",
                then=lambda site: site or None,
            ),
        ]
        | None
    ) = None
    cpus: Annotated[int, whole(1 << 20)] = 0
    cpu_model: Text = ""
    memory_bytes: Count = 0
    version: Text = ""


class RegistrationReceipt(Partial, frozen=True, kw_only=True):
    """The answer to a registration.

    now: the service's clock.  schedule, peers: those that concern the host
    key: only at the first registration; the sensor stores it and sends it as X-NWS-Key from then on
    every: periods of measuring CPU and memory and of delivering, seconds
    """

    now: float
    key: str | None = None
    every: dict[Literal["cpu", "memory", "deliver"], float]
    schedule: Schedule
    peers: Peers
    grid: str


class HostState(Message, frozen=True, kw_only=True):
    """The state of a host.

    A host that never registered, because its series come from other monitors, has no address and no
    `registered_at`. Its `last_seen` is the time of its last measurement, and it is never lost.
    lost: no contact for longer than `lost_after`.  series: their number.  status: the sensor's last counts
    fault: why another monitor, which the settings name, has no measurements of it
    """

    name: HostName
    address: str | None = None
    port: Port | None = None
    site: str | None = None
    cpus: Count = 0
    cpu_model: str = ""
    memory_bytes: Count = 0
    version: str = ""
    registered_at: float | None = None
    last_seen: float | None = None
    lost: bool = False
    cliques: tuple[str, ...] = ()
    series: Count = 0
    status: Status = {}
    fault: str | None = None


class Batch(Message, frozen=True, kw_only=True):
    """Measurements of one sender: sample k is `value[k]` of `series[index[k]]` at `t[k]`.

    source, first: name of a numbered stream and number of its first sample; samples acknowledged before are dropped
    status: the sensor's own counts.  Without samples it is a sign of life
    """

    what: ClassVar[str] = "a batch of measurements"
    series: GivenSeries = ()
    index: GivenIndex = msgspec.field(default_factory=no_numbers("int64"))
    t: GivenFloats = msgspec.field(default_factory=no_numbers("float64"))
    value: GivenFloats = msgspec.field(default_factory=no_numbers("float64"))
    source: Annotated[str, string(json={"pattern": f"^{SOURCE}$"})] | None = None
    first: Annotated[int, whole(LARGEST_WHOLE - 1)] = 0
    status: Status | None = None


class Refusals(Message, frozen=True, kw_only=True):
    """Samples of a batch that were acknowledged but not stored: their number, and the reasons of the first 20."""

    count: Count = 0
    reasons: tuple[str, ...] = ()


class PutReceipt(Message, frozen=True, kw_only=True):
    """The answer to a batch. accepted: samples stored.  next: number expected next.  schedule: its present version."""

    now: float
    accepted: Count
    next: Count
    schedule: Count
    refused: Refusals


class SeriesState(Message, frozen=True, kw_only=True):
    """One series: number of samples seen by its battery, last value, its time and its age (s)."""

    series: SeriesName
    unit: str
    samples: Count
    last: Maybe
    measured_at: Maybe
    age_s: Maybe


class SampleDocument(Partial, frozen=True, kw_only=True):
    """Samples of one series, oldest first; buckets of `resolution_s` with low, high and count unless that is 0.

    value: of buckets, the mean.  truncated: the range contains older samples than `most` allowed
    """

    series: SeriesName
    unit: str
    resolution_s: float
    t: Floats
    value: Floats
    low: Floats | None = None
    high: Floats | None = None
    count: Ints | None = None
    truncated: bool


class PlotDocument(Message, frozen=True, kw_only=True):
    """One series for a plot, oldest first; a row of NaN with a time marks a gap.

    forecast: of each point, made before it was known.  error: mean absolute error of such forecasts until then
    low, high: of each bucket; the value itself at `resolution_s` 0
    """

    series: SeriesName
    unit: str
    resolution_s: float
    t: Floats
    value: Floats
    low: Floats
    high: Floats
    forecast: Floats
    error: Floats


class Event(Message, frozen=True, kw_only=True):
    """An event, marked on plots. kind: 1 to 40 of a-z and blanks, such as ``host lost``.

    t: not in the future
    """

    what: ClassVar[str] = "an event"
    t: Annotated[float, number(json={"minimum": 0})]
    kind: Annotated[str, string(json={"pattern": f"^{KIND}$"})]
    host: Annotated[str, string(json=HOST)] | None = None
    text: Annotated[str, string(1000)] = ""


class Health(Message, frozen=True, kw_only=True):
    """The health of the service. status: ``degraded`` while the store cannot be written, or if it is damaged."""

    status: Literal["ok", "degraded", "failed"]
    store: str
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether the status is ``ok``."""
        return self.status == "ok"


class ErrorDetail(Message, frozen=True, kw_only=True):
    """A refusal. problems: all of them, if there are several"""

    status: Annotated[int, whole(599, 400)]
    message: str
    problems: Sequence[str]


class Error(Message, frozen=True, kw_only=True):
    """The answer to a request that is refused."""

    error: ErrorDetail


class Hosts(Message, frozen=True, kw_only=True):
    """All hosts, alive and lost."""

    now: float
    hosts: Sequence[HostState]


class Forgotten(Message, frozen=True, kw_only=True):
    """The answer to the deletion of a host."""

    now: float
    forgotten: HostName


class ScheduleAnswer(Message, frozen=True, kw_only=True):
    """The whole measuring schedule."""

    now: float
    schedule: Schedule
    peers: Peers


class SeriesList(Message, frozen=True, kw_only=True):
    """All series that were asked for."""

    now: float
    series: Sequence[SeriesState]


class OutlookRow(Message, frozen=True, kw_only=True):
    """Distribution of the mean of a series over `over_s` seconds from now.

    quantiles: at the shares of the document.  held: share of past 80 % intervals that held, null if none was judged
    outcomes: past forecasts judged; at 0 the quantiles are those of a broad prior
    variation: standard deviation of single measurements around the mean of such a span, as a share of that mean
    """

    over_s: float
    mean: Maybe
    held: Maybe
    outcomes: Maybe
    variation: Maybe
    quantiles: Sequence[Maybe]


class ForecastRow(Partial, frozen=True, kw_only=True):
    """One forecast. mae, rmse: errors expected, null while only one sample is known.

    method: the predictor, and its selection criterion.  age_s: of the last measurement
    outlooks: one for each span of the query, by length; absent without `over`
    """

    series: SeriesName
    unit: str
    value: Maybe
    mae: Maybe
    rmse: Maybe
    method: str
    samples: Count
    last: Maybe
    measured_at: Maybe
    age_s: Maybe
    outlooks: Sequence[OutlookRow] | None = None


class Forecasts(Partial, frozen=True, kw_only=True):
    """Forecasts of the series that were asked for. shares: of the quantiles of outlooks, rising"""

    now: float
    shares: Sequence[float] | None = None
    forecasts: Sequence[ForecastRow]


class EventList(Message, frozen=True, kw_only=True):
    """Events, oldest first."""

    events: Sequence[Event]
