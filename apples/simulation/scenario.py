"""The truth of a mock grid, read from one YAML file: hosts, application, network, start-up, load, sensors.

A scenario stands on top of a grid file, which names the hosts, their CPU types and the nominal links. Constants
of one paper stand in one scenario (`configs/mock/`), each with its source there. Nothing of this is shown to
a scheduler: it sees readings of sensors, benchmarks and finished runs only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from apples.model.config import find_config
from nws.base.reader import load_yaml

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTruth:
    """What hosts of one CPU type really are.

    cpus : CPUs the processes of a host share.  seconds_per_row : one row of the scenario's application, one
    sweep, alone on the host.  memory_bytes, system_bytes : installed, and what the system keeps for itself
    start_cpu_s : what a rank computes before its first sweep, None for the start-up's own
    message_cpu_s : what it computes for each of its messages, None for the network's own
    """

    cpus: Annotated[int, Field(ge=1)]
    seconds_per_row: Positive
    memory_bytes: Positive
    system_bytes: NotNegative
    start_cpu_s: NotNegative | None = None
    message_cpu_s: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTruth:
    """How hosts behave.

    cpu_types : by CPU type; `default` serves types that are not named
    hardware_seed : which machines and links they are, the same whatever the seed of a world's weather
    speed_spread : standard deviation of a host's speed round its type's, as a fraction
    run_spread : the same of one rank from run to run.  sweep_spread : of one sweep
    bus_slowdown : fraction by which each other busy CPU of the host slows a sweep (shared memory bus)
    paging_slowdown : factor by which a row outside free memory is slower
    """

    cpu_types: Annotated[Mapping[str, CpuTruth], Field(min_length=1)]
    hardware_seed: int
    speed_spread: Fraction
    run_spread: Fraction
    sweep_spread: Fraction
    bus_slowdown: NotNegative
    paging_slowdown: Annotated[float, Field(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTruth:
    """The application the row costs belong to, per run and rank (`apples.model.template.Workload`).

    messages, bytes_exchanged : to one neighbour, per sweep.  max_rows : array limit, None for none
    ahead : share of a sweep that needs no rows of neighbours, for codes that do it while these are under way; None for
        those that wait for them before anything else. It holds for whatever runs in the scenario
    """

    name: str
    iterations: Annotated[int, Field(ge=1)]
    messages: Positive
    bytes_exchanged: NotNegative
    bytes_per_row: NotNegative
    bytes_fixed: NotNegative
    max_rows: Annotated[int, Field(ge=1)] | None = None
    min_rows: Annotated[int, Field(ge=1)] = 1
    ahead: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTruth:
    """Other people's bytes on one link: utilisation, redrawn at random instants.

    mean_stay_s : mean time between changes.  busy_share : fraction of stays with real traffic
    busy_most, quiet_most : utilisation is uniform from 0 to this in a busy or a quiet stay
    """

    mean_stay_s: Positive
    busy_share: Fraction
    busy_most: Annotated[float, Field(ge=0, le=0.9)]
    quiet_most: Annotated[float, Field(ge=0, le=0.9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTruth:
    """What the grid file's nominal links really deliver.

    efficiency : fraction of a nominal bandwidth that a bulk transfer gets on an idle link
    link_spread : standard deviation of a pair's latency and bandwidth round the nominal, as a fraction
    uplink_Bps : capacity of the link from a site's switch to the rest, shared by all that cross it
    message_s : software time for each message of the application, both ends together
    message_cpu_s : CPU seconds of a rank for each message of the application; longer where others compute
    transfer_spread : standard deviation of one transfer's time, as a fraction
    stall_probability, stall_s : a message that is lost waits this long for its repetition
    """

    efficiency: Annotated[float, Field(gt=0, le=1)]
    link_spread: Fraction
    uplink_Bps: Positive
    message_s: NotNegative
    transfer_spread: Fraction
    stall_probability: Fraction
    stall_s: NotNegative
    host_traffic: TrafficTruth
    uplink_traffic: TrafficTruth
    message_cpu_s: NotNegative = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupTruth:
    """From launch to the first sweep, and after the last.

    start_wait_s : until a rank's process runs, spent waiting on others.  start_cpu_s : the same, computing
    start_spread : standard deviation of both together, as a fraction
    lookup_s, lookup_spread : service time of the one location service for one look-up of one peer by one rank
    finish_s : after the last sweep, until the launcher has noticed
    """

    start_wait_s: NotNegative
    start_cpu_s: NotNegative
    start_spread: Fraction
    lookup_s: NotNegative
    lookup_spread: Annotated[float, Field(gt=0)]
    finish_s: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeTruth:
    """How a host is used for a while: processes that compute arrive (Poisson) and stay (exponential).

    mean_stay_s : mean length of the while.  interval_s : mean time between arrivals, None for no arrivals
    duration_s : mean stay of a process
    """

    mean_stay_s: Positive
    interval_s: Positive | None
    duration_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTruth:
    """Sudden changes: somebody starts work on many hosts at once.

    interval_s : mean time between them.  host_share : fraction of hosts hit
    processes : started on each.  duration_s : mean stay
    """

    interval_s: Positive
    host_share: Fraction
    processes: Annotated[int, Field(ge=1)]
    duration_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTruth:
    """Other people's processes on every host.

    regimes : a host goes round them; the share of time in one is proportional to its `mean_stay_s`
    brief_interval_s, brief_duration_s : short processes, in every regime
    process_bytes, process_bytes_spread : median memory of one process, and sigma of its logarithm
    standing : host → processes that compute there all the time, besides those that come and go
    """

    regimes: Annotated[tuple[RegimeTruth, ...], Field(min_length=1)]
    brief_interval_s: Positive
    brief_duration_s: Positive
    process_bytes: NotNegative
    process_bytes_spread: NotNegative
    campaigns: CampaignTruth | None = None
    standing: Mapping[str, Annotated[int, Field(ge=0)]] = field(default_factory=dict)


#: Nobody computes: what "dedicated" means.
NO_LOAD = LoadTruth(
    regimes=(RegimeTruth(mean_stay_s=1e9, interval_s=None, duration_s=1.0),),
    brief_interval_s=math.inf,
    brief_duration_s=1.0,
    process_bytes=0.0,
    process_bytes_spread=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorTruth:
    """How well the sensors see.

    host_period_s, network_period_s : time between readings.  cpu_window_s : time a CPU reading averages over
    cpu_error : standard deviation, of a CPU.  memory_error, latency_error, bandwidth_error : as fractions
    history_s : how long the sensors had been running when the world opens
    """

    host_period_s: Positive
    network_period_s: Positive
    cpu_window_s: Positive
    cpu_error: NotNegative
    memory_error: NotNegative
    latency_error: NotNegative
    bandwidth_error: NotNegative
    history_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureTruth:
    """A host that dies and stays dead. at_s : when, of the world's time.  noticed_s : until a launcher notices"""

    host: str
    at_s: NotNegative
    noticed_s: NotNegative = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that is true of a mock grid.

    grid : grid file, relative to the scenario's own folder.  failures : hosts that die
    storage_Bps : at which checkpoints are written, by all ranks together
    """

    name: str
    grid: str
    hosts: HostTruth
    application: ApplicationTruth
    network: NetworkTruth
    startup: StartupTruth
    loads: Annotated[Mapping[str, LoadTruth], Field(min_length=1)]
    sensors: SensorTruth
    failures: tuple[FailureTruth, ...] = ()
    storage_Bps: Positive = 100e6


def load_scenario(name_or_path: str | Path) -> tuple[Scenario, Path]:
    """Scenario and the file it came from; a bare name is looked up in `configs/mock/`. Raises `ConfigError`."""
    text = str(name_or_path)
    bare = "/" not in text and not text.endswith((".yaml", ".yml"))
    path = find_config(f"mock/{text}.yaml" if bare else text)
    return load_yaml(path, Scenario), path
