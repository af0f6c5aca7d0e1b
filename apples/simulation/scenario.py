"""The scenario of a mock grid, from one YAML file: hosts, application, network, start-up, load, sensors.

A scenario refers to a grid file with the hosts, their CPU types and the nominal links. Each scenario in `configs/mock/`
has the constants of one paper with their sources. Schedulers never see these values. They see sensor readings,
benchmarks and finished runs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from apples.model.config import find_config
from nws.base.quantities import Within
from nws.base.reader import load_yaml

Positive = Annotated[float, Within(gt=0)]
NotNegative = Annotated[float, Within(ge=0)]
Fraction = Annotated[float, Within(ge=0, le=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTruth:
    """True values of hosts of one CPU type.

    cpus: CPUs that the processes of a host share.
    seconds_per_row: time of one row of the scenario's application and one sweep, alone on the host.
    memory_bytes, system_bytes: installed memory, and the part that the system uses.
    start_cpu_s: CPU time of a rank before its first sweep, None for the value of the start-up.
    message_cpu_s: CPU time for each of its messages, None for the value of the network.
    """

    cpus: Annotated[int, Within(ge=1)]
    seconds_per_row: Positive
    memory_bytes: Positive
    system_bytes: NotNegative
    start_cpu_s: NotNegative | None = None
    message_cpu_s: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTruth:
    """Behaviour of hosts.

    cpu_types: by CPU type; `default` is used for other types.
    hardware_seed: seed of machines and links, independent of the seed of load and traffic.
    speed_spread: standard deviation of a host's speed around its type's, as a fraction.
    run_spread, sweep_spread: the same for one rank from run to run, and for one sweep.
    bus_slowdown: fraction by which each other busy CPU of the host slows a sweep (shared memory bus).
    paging_slowdown: factor by which a row outside free memory is slower.
    """

    cpu_types: Annotated[Mapping[str, CpuTruth], Within(least_length=1)]
    hardware_seed: int
    speed_spread: Fraction
    run_spread: Fraction
    sweep_spread: Fraction
    bus_slowdown: NotNegative
    paging_slowdown: Annotated[float, Within(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTruth:
    """The application of the row costs, per run and rank (`apples.model.template.Workload`).

    messages, bytes_exchanged: to one neighbour, per sweep.
    max_rows: array limit, or None.
    ahead: share of a sweep that needs no rows of neighbours, for codes that overlap communication; None for other
    codes. The value is used for all applications of the scenario.
    """

    name: str
    iterations: Annotated[int, Within(ge=1)]
    messages: Positive
    bytes_exchanged: NotNegative
    bytes_per_row: NotNegative
    bytes_fixed: NotNegative
    max_rows: Annotated[int, Within(ge=1)] | None = None
    min_rows: Annotated[int, Within(ge=1)] = 1
    ahead: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTruth:
    """Traffic of other users on one link: utilisation, redrawn at random instants.

    mean_stay_s: mean time between changes.
    busy_share: fraction of periods with high traffic.
    busy_most, quiet_most: utilisation is uniform from 0 to this value in a busy or quiet period.
    """

    mean_stay_s: Positive
    busy_share: Fraction
    busy_most: Annotated[float, Within(ge=0, le=0.9)]
    quiet_most: Annotated[float, Within(ge=0, le=0.9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTruth:
    """True values of the grid file's links.

    efficiency: fraction of the nominal bandwidth that a bulk transfer gets on an idle link.
    link_spread: standard deviation of a pair's latency and bandwidth around the nominal value, as a fraction.
    uplink_Bps: capacity of the link from a site's switch to the other sites, shared by all transfers that cross it.
    message_s: software time for each message of the application, both ends together.
    message_cpu_s: CPU seconds of a rank for each message. They take longer under load.
    transfer_spread: standard deviation of one transfer's time, as a fraction.
    stall_probability, stall_s: probability that a message is lost, and time until it is sent again.
    """

    efficiency: Annotated[float, Within(gt=0, le=1)]
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
    """Times from launch to the first sweep, and after the last.

    start_wait_s: time until a rank's process runs, waiting.
    start_cpu_s: CPU time until then.
    start_spread: standard deviation of both together, as a fraction.
    lookup_s, lookup_spread: service time of the location service for one look-up of one peer by one rank.
    finish_s: time from the last sweep until the launcher has noticed the end.
    """

    start_wait_s: NotNegative
    start_cpu_s: NotNegative
    start_spread: Fraction
    lookup_s: NotNegative
    lookup_spread: Annotated[float, Within(gt=0)]
    finish_s: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeTruth:
    """A period of use of a host: processes arrive (Poisson) and stay (exponential).

    mean_stay_s: mean length of the period.
    interval_s: mean time between arrivals, None for no arrivals.
    duration_s: mean duration of a process.
    """

    mean_stay_s: Positive
    interval_s: Positive | None
    duration_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTruth:
    """Sudden load on many hosts at once.

    interval_s: mean time between campaigns.
    host_share: fraction of hosts used.
    processes: processes started on each.
    duration_s: mean duration.
    """

    interval_s: Positive
    host_share: Fraction
    processes: Annotated[int, Within(ge=1)]
    duration_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTruth:
    """Processes of other users on every host.

    regimes: a host moves through them; the share of time in one is proportional to its `mean_stay_s`.
    brief_interval_s, brief_duration_s: short processes, in every regime.
    process_bytes, process_bytes_spread: median memory of one process, and sigma of its logarithm.
    standing: number of permanent processes by host, in addition to the others.
    """

    regimes: Annotated[tuple[RegimeTruth, ...], Within(least_length=1)]
    brief_interval_s: Positive
    brief_duration_s: Positive
    process_bytes: NotNegative
    process_bytes_spread: NotNegative
    campaigns: CampaignTruth | None = None
    standing: Mapping[str, Annotated[int, Within(ge=0)]] = field(default_factory=dict)


#: Dedicated hosts: no processes of other users.
NO_LOAD = LoadTruth(
    regimes=(RegimeTruth(mean_stay_s=1e9, interval_s=None, duration_s=1.0),),
    brief_interval_s=math.inf,
    brief_duration_s=1.0,
    process_bytes=0.0,
    process_bytes_spread=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorTruth:
    """Accuracy of the sensors.

    host_period_s, network_period_s: time between readings.
    cpu_window_s: averaging time of a CPU reading.
    cpu_error: standard deviation, in CPUs.
    memory_error, latency_error, bandwidth_error: standard deviations, as fractions.
    history_s: time for which sensors have run at the beginning.
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
    """A host that dies and stays dead. `at_s`: simulated time. `noticed_s`: delay until a launcher notices."""

    host: str
    at_s: NotNegative
    noticed_s: NotNegative = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All true values of a mock grid.

    grid: grid file, relative to the scenario's directory.
    failures: hosts that die.
    storage_Bps: rate of checkpoints, for all ranks together.
    """

    name: str
    grid: str
    hosts: HostTruth
    application: ApplicationTruth
    network: NetworkTruth
    startup: StartupTruth
    loads: Annotated[Mapping[str, LoadTruth], Within(least_length=1)]
    sensors: SensorTruth
    failures: tuple[FailureTruth, ...] = ()
    storage_Bps: Positive = 100e6


def load_scenario(name_or_path: str | Path) -> tuple[Scenario, Path]:
    """Return a scenario and its file. A bare name is looked up in `configs/mock/`. Raise `ConfigError`."""
    text = str(name_or_path)
    bare = "/" not in text and not text.endswith((".yaml", ".yml"))
    path = find_config(f"mock/{text}.yaml" if bare else text)
    return load_yaml(path, Scenario), path
