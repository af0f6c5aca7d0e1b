"""Constants of the simulated machine: nodes, operating system, network delays and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from apples.errors import ConfigError

_FROM_ZERO = (
    "switch_s",
    "heartbeat_s",
    "heartbeat_spread_s",
    "manager_s",
    "reclassify_s",
    "start_spread_s",
    "timer_spread_s",
    "noise_burst_s",
)
_ABOVE_ZERO = ("noise_mean_s", "share_interval_s")
_WHOLE = ("nodes", "processors", "ticks_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConstants:
    """The machine. The settings file names the sources.

    nodes, processors : number of nodes, and of processors in each
    ticks_per_s : HZ of the operating system; quanta follow from it as in Linux 2.4
    stay_ticks : goodness for staying on the same processor (PROC_CHANGE_PENALTY)
    favoured_nice : nice value of a favoured process
    switch_s : time of a context switch
    heartbeat_s, heartbeat_spread_s : delay of a heartbeat until the node manager acts: fixed part, mean of the
        exponential part
    manager_s : processor time of a node manager at a heartbeat
    reclassify_s : additional processor time if it classifies its processes
    start_spread_s : ranks of a job start within this time
    timer_spread_s : the nodes' own timers, if any, start within this time
    noise_mean_s, noise_burst_s : system daemons of a node: mean time between two bursts, and their length
    share_interval_s : interval of the class scheduler

    Raises `apples.errors.ConfigError` with every value that is out of range.
    """

    nodes: int
    processors: int
    ticks_per_s: int
    stay_ticks: int
    favoured_nice: int
    switch_s: float
    heartbeat_s: float
    heartbeat_spread_s: float
    manager_s: float
    reclassify_s: float
    start_spread_s: float
    timer_spread_s: float
    noise_mean_s: float
    noise_burst_s: float
    share_interval_s: float

    def __post_init__(self) -> None:
        problems = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _WHOLE and value < 1:
                problems.append(f"{field.name} is {value!r}, legal is a whole number from 1")
            if field.name in _FROM_ZERO and not (math.isfinite(value) and value >= 0):
                problems.append(f"{field.name} is {value!r}, legal is a finite number from 0")
            if field.name in _ABOVE_ZERO and not (math.isfinite(value) and value > 0):
                problems.append(f"{field.name} is {value!r}, legal is a finite number above 0")
        if self.stay_ticks < 0:
            problems.append(f"stay_ticks is {self.stay_ticks!r}, legal is a whole number from 0")
        if not -20 <= self.favoured_nice <= 0:
            problems.append(f"favoured_nice is {self.favoured_nice!r}, legal is from -20 to 0")
        if problems:
            raise ConfigError(problems)

    def quantum_ticks(self, nice: int) -> int:
        """Return the ticks of a new quantum: about 50 ms at nice 0, as Linux 2.4's TICK_SCALE defines it."""
        niceness = 20 - nice
        for limit, ticks in (
            (200, niceness >> 2),
            (400, niceness >> 1),
            (800, niceness),
            (1600, niceness << 1),
        ):
            if self.ticks_per_s < limit:
                return ticks + 1
        return (niceness << 2) + 1


def free_of_cost(*, nodes: int, processors: int, ticks_per_s: int) -> ClusterConstants:
    """Return a machine on which switches, heartbeats and starts take no time and no daemon runs."""
    return ClusterConstants(
        nodes=nodes,
        processors=processors,
        ticks_per_s=ticks_per_s,
        stay_ticks=20,
        favoured_nice=-20,
        **dict.fromkeys(_FROM_ZERO, 0.0),
        noise_mean_s=1.0,
        share_interval_s=1.0,
    )
