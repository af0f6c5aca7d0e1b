"""Classification of a process by how it communicates (FCS paper, sections 2.1-2.4).

A process is CS if it communicates often and needs its partners to run at the same time. It is F if it should be CS but
waits much in its own slot, and DC if it communicates so rarely that any time suits it. `reclassify` is Algorithm 2. It
uses only measurements since the last reset, and never those of other processes of the job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from apples.errors import ConfigError


class ProcessClass(Enum):
    """CS: coscheduling; F: frustrated; DC: don't care."""

    CS = "CS"
    F = "F"
    DC = "DC"


@dataclass(frozen=True, slots=True, kw_only=True)
class FcsConstants:
    """Constants of FCS; the default values are those of the paper's Table 2.

    slice_s : time slice
    spin_s : spin time of a process before it blocks, if it spin-blocks
    cslots_min : assigned slots in a class before the class may change
    dc_thresh_s : granularity above which a process is DC
    cs_thresh_s : granularity below which a process is CS
    f_thresh_share : computation per communication, as a share of `cs_thresh_s`, below which a process that
        is not CS is F
    tslots_max : assigned slots after which a process is CS again, to be classified anew

    Raises `apples.errors.ConfigError` with every value that is out of range.
    """

    slice_s: float = 0.1
    spin_s: float = 120e-6
    cslots_min: int = 20
    dc_thresh_s: float = 1.0
    cs_thresh_s: float = 2e-3
    f_thresh_share: float = 0.85
    tslots_max: int = 32768

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value!r}, legal is a finite number above 0"
            for name in ("slice_s", "spin_s", "dc_thresh_s", "cs_thresh_s", "f_thresh_share")
            if not (math.isfinite(value := getattr(self, name)) and value > 0)
        ]
        problems += [
            f"{name} is {value!r}, legal is a whole number from 1"
            for name in ("cslots_min", "tslots_max")
            if (value := getattr(self, name)) < 1
        ]
        if not problems and self.cs_thresh_s >= self.dc_thresh_s:
            problems.append(
                f"cs_thresh_s is {self.cs_thresh_s:g}, legal is less than dc_thresh_s ({self.dc_thresh_s:g})"
            )
        if problems:
            raise ConfigError(problems)

    @property
    def f_thresh_s(self) -> float:
        """Computation per communication below which a process that is not CS is F."""
        return self.f_thresh_share * self.cs_thresh_s


class MonitorCounts(NamedTuple):
    """The monitor's counts of one process, since its start or since a mark (paper, Table 1).

    t_cpu_s : CPU time outside communication, seconds
    t_comm_s : time inside blocking communication, seconds, without time held stopped
    c_comm : blocking communications; several with no computation between them are one
    """

    t_cpu_s: float = 0.0
    t_comm_s: float = 0.0
    c_comm: int = 0

    def since(self, mark: MonitorCounts) -> MonitorCounts:
        """Return the counts after `mark`."""
        t_cpu_s, t_comm_s, c_comm = mark
        return MonitorCounts(self.t_cpu_s - t_cpu_s, self.t_comm_s - t_comm_s, self.c_comm - c_comm)

    @property
    def mean_cpu_s(self) -> float:
        """Computation per communication; infinite without communication."""
        return self.t_cpu_s / self.c_comm if self.c_comm else math.inf

    @property
    def granularity_s(self) -> float:
        """Computation and waiting per communication; infinite without communication."""
        return (self.t_cpu_s + self.t_comm_s) / self.c_comm if self.c_comm else math.inf

    @property
    def is_empty(self) -> bool:
        """Whether the process did not run at all."""
        return self.c_comm == 0 and self.t_cpu_s <= 0.0


@dataclass(slots=True)
class Classification:
    """Class and slot counts of one process.

    cslots : assigned slots that ended since the last change of the class
    tslots : assigned slots that ended since the start
    mark : counts at the last reset; measurements are relative to these values
    """

    process_class: ProcessClass = ProcessClass.CS
    cslots: int = 0
    tslots: int = 0
    mark: MonitorCounts = field(default_factory=MonitorCounts)


def reclassify(standing: Classification, reading: MonitorCounts, constants: FcsConstants) -> bool:
    """Count an assigned slot that has ended, classify the process, and return whether its class has changed.

    `reading` holds the counts since its start. A process that did not run keeps its class.
    """
    standing.cslots += 1
    standing.tslots += 1
    if standing.cslots < constants.cslots_min:
        return False
    seen = reading.since(standing.mark)
    expired = standing.tslots % constants.tslots_max == 0
    if seen.is_empty and not expired:
        return False
    before, granularity_s = standing.process_class, seen.granularity_s
    if expired or granularity_s < constants.cs_thresh_s:
        standing.process_class = ProcessClass.CS
    elif granularity_s < constants.dc_thresh_s and seen.mean_cpu_s < constants.f_thresh_s:
        standing.process_class = ProcessClass.F
    else:
        standing.process_class = ProcessClass.DC
    if expired or standing.process_class is not before:
        standing.cslots = 0
        standing.mark = reading
    return standing.process_class is not before
