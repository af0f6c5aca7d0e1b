"""Settings of the coscheduling experiments, from `configs/coscheduling.yaml`, which states their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.settings import read_settings
from nws.base.quantities import Within

Positive = Annotated[float, Within(gt=0)]
NotNegative = Annotated[float, Within(ge=0)]
Share = Annotated[float, Within(ge=0, le=1)]
Whole = Annotated[int, Within(ge=1)]
Seeds = Annotated[tuple[int, ...], Within(least_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The building block: computation of an iteration, and duration of the job alone."""

    computation_s: Positive
    length_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Applications:
    """SWEEP3D and SAGE as jobs of the stated granularity. `BspJob` explains refilling and cold caches."""

    slice_s: Positive
    sweep3d_computation_s: Positive
    sweep3d_length_s: Positive
    sweep3d_combined_length_s: Positive
    sweep3d_refill_s: NotNegative
    sweep3d_cold_slowdown: Positive
    sage_computation_s: Positive
    sage_frustrated_share: Share
    sage_frustrated_computation_s: Positive
    sage_length_s: Positive
    sage_refill_s: NotNegative
    sage_cold_slowdown: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Flexible:
    """Experiments F4 to F8. `latency_s`: duration of an exchange with both neighbours."""

    machine: ClusterConstants
    latency_s: Positive
    block: Block
    seeds: Seeds
    applications: Applications

    def as_json(self) -> dict[str, Any]:
        """Return the constants, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NasBenchmark:
    """A NAS benchmark.

    operations: by class, 10^9 operations of a run
    exchanges: by class, exchanges of a run; `pattern` defines the partners
    side_exchanges: as many times more for every row that the square of processors has beyond the first
    points: by class, points along a side of the grid
    point_bytes: bytes of the longest message for each point of a processor's part of a plane; 0 for short messages
    """

    operations: Mapping[str, Positive]
    exchanges: Mapping[str, Whole]
    pattern: str
    side_exchanges: int = 0
    points: Mapping[str, Whole] = field(default_factory=dict)
    point_bytes: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GmetSweep:
    """Settings of Figure 5."""

    slice_s: Positive
    gmets_s: tuple[NotNegative, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSweep:
    """Settings of Figure 6."""

    gmet_s: NotNegative
    slices_s: tuple[Positive, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Settings of Figure 4: many short jobs, drawn from `of`, with some long jobs among them."""

    short: Whole
    long: tuple[str, ...]
    of: tuple[str, ...]
    gmet_s: NotNegative
    slices_s: tuple[Positive, ...]
    degrees: tuple[Whole, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDrivenRuns:
    """Experiments C2 to C6.

    variation: of one rank's computations
    operations_per_s: of one processor
    piece_bytes: bytes of a message that are sent at a time, while its receiver runs
    """

    machine: ClusterConstants
    seeds: Seeds
    latency_s: Positive
    variation: Share
    operations_per_s: Positive
    piece_bytes: Whole
    benchmarks: Mapping[str, NasBenchmark]
    workloads: Mapping[str, tuple[str, ...]]
    degrees: Mapping[int, tuple[str, ...]]
    slice_s: Positive
    gmet_s: NotNegative
    gmet_sweep: GmetSweep
    slice_sweep: SliceSweep
    queue: Queue

    def as_json(self) -> dict[str, Any]:
        """Return the constants, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoscheduledSettings:
    """Contents of `configs/coscheduling.yaml`."""

    flexible: Flexible
    message_driven: MessageDrivenRuns


def load_settings(name: str = "coscheduling") -> CoscheduledSettings:
    """Return the settings; raise `ConfigError` with every problem of the file."""
    return read_settings(name, CoscheduledSettings)
