"""Partitions, jobs and reservations of a batch system's cluster at one instant, as its tables have them.

Times are local times of the site, in seconds since the epoch as if the site were in UTC, as in `sacct`'s history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from apples.errors import ConfigError
from apples.queueing.jobs import QueueJob
from apples.simulation.batch.sacct import parse_sacct
from apples.simulation.batch.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A partition. cpus: usable ones by node, with those that jobs may share counted as often

    limit_s : inf for no limit.  exclusive : a job has its nodes alone.  tier : higher ones go first
    """

    name: str
    cpus: Mapping[str, int]
    default: bool = False
    limit_s: float = math.inf
    exclusive: bool = False
    tier: int = 1

    @property
    def node_cpus(self) -> int:
        """Return the CPUs of its largest node, 0 without usable nodes."""
        return max(self.cpus.values(), default=0)

    def share(self, nodes: Sequence[str]) -> float:
        """Return the share of nodes that are in this partition, 0 for none."""
        return sum(node in self.cpus for node in nodes) / len(nodes) if nodes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job of the history or the queue. number : Slurm's.  start_s, end_s : inf if they are not known yet"""

    number: str
    job: QueueJob
    start_s: float = math.inf
    end_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJob:
    """A job that waits or runs.

    present_s : instant of the table, from its start and its elapsed time; nan for a waiting job
    apart : it waits for other things than processors
    """

    seen: SeenJob
    partitions: tuple[str, ...]
    nodes: int
    hosts: tuple[str, ...] = ()
    present_s: float = math.nan
    priority: float = 0.0
    apart: bool = False

    @property
    def running(self) -> bool:
        """Whether it has started."""
        return self.seen.start_s < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReservation:
    """Nodes that are reserved for others from `start_s` until `end_s`."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A cluster at one instant. unread : lines left out, by reason"""

    sections: Mapping[str, Section]
    jobs: tuple[ClusterJob, ...]
    reservations: tuple[NodeReservation, ...] = ()
    unread: Mapping[str, int]

    def present_s(self) -> float | None:
        """Return the instant of the tables, from starts and elapsed times of running jobs; None without such jobs."""
        instants = [job.present_s for job in self.jobs if math.isfinite(job.present_s)]
        return median(instants) if instants else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Tables of one instant. cluster : name.  now_s : local time.  sacct : lines from its header on, if any"""

    cluster: str
    queue: ClusterQueue
    now_s: float
    sacct: tuple[str, ...]

    def history(self, section: Section) -> Trace | None:
        """Return the ended jobs of the partitions that have nodes of this one, None without any."""
        nodes = set(section.cpus)
        near = [name for name, one in self.queue.sections.items() if nodes & set(one.cpus)]
        try:
            return parse_sacct(self.sacct, "sacct", partitions=near)
        except ConfigError:
            return None
