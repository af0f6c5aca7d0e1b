"""The document of a snapshot: everything of one instant, in columns."""

from collections.abc import Sequence
from typing import Literal

from nws.messages.fieldtypes import FloatBlocks, FloatRows, Floats, HostName, Ints, Maybe, SeriesName
from nws.messages.weatherdocuments import HostState, Message, Partial


class SnapshotSeries(Message, frozen=True, kw_only=True):
    """One row for each series. method: index into `methods`"""

    name: Sequence[SeriesName]
    forecast: Floats
    mae: Floats
    rmse: Floats
    last: Floats
    measured_at: Floats
    age_s: Floats
    samples: Ints
    method: Ints


class SnapshotOutlooks(Message, frozen=True, kw_only=True):
    """Outlooks of all series: one row for each series, one item for each span.

    over_s: spans.  shares: of the quantiles.  mean, held, outcomes, variation, quantiles: as in a row of a forecast
    """

    over_s: Sequence[float]
    shares: Sequence[float]
    mean: FloatRows
    held: FloatRows
    outcomes: FloatRows
    variation: FloatRows
    quantiles: FloatBlocks


class SnapshotComposed(Message, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Pairs that are not measured, composed from measured pairs. through: hosts on the path"""

    start: Sequence[HostName]
    end: Sequence[HostName]
    through: Sequence[Sequence[HostName]]
    latency_s: Sequence[Maybe]
    latency_error_s: Sequence[Maybe]
    bandwidth_Bps: Sequence[Maybe]
    bandwidth_error_Bps: Sequence[Maybe]
    measured_at: Floats
    age_s: Floats


class WeatherSnapshot(Partial, frozen=True, kw_only=True):
    """All values of one instant, in columns."""

    format: Literal["nws-snapshot"]
    version: Literal[1]
    now: float
    grid: str
    hosts: Sequence[HostState]
    methods: Sequence[str]
    series: SnapshotSeries
    outlooks: SnapshotOutlooks | None = None
    composed: SnapshotComposed | None = None
