"""The document of a snapshot: everything of one instant, in columns. Its model is that of `nws.service.records`."""

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from nws.service.parsing import FloatBlocks, FloatRows, Floats, HostName, Ints, Maybe, SeriesName
from nws.service.records import HostState


class SnapshotSeries(TypedDict):
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


class SnapshotOutlooks(TypedDict):
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


#: Pairs that are not measured, composed from measured pairs. through: hosts on the path
SnapshotComposed = TypedDict(
    "SnapshotComposed",
    {
        "from": Sequence[HostName],
        "to": Sequence[HostName],
        "latency_s": Sequence[Maybe],
        "latency_error_s": Sequence[Maybe],
        "bandwidth_Bps": Sequence[Maybe],
        "bandwidth_error_Bps": Sequence[Maybe],
        "measured_at": Floats,
        "age_s": Floats,
        "through": Sequence[Sequence[HostName]],
    },
)


class Snapshot(TypedDict):
    """All values of one instant, in columns."""

    format: Literal["nws-snapshot"]
    version: Literal[1]
    now: float
    grid: str
    hosts: Sequence[HostState]
    methods: Sequence[str]
    series: SnapshotSeries
    outlooks: NotRequired[SnapshotOutlooks]
    composed: NotRequired[SnapshotComposed]
