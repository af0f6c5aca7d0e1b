"""Jobs of the simulated cluster: computations and message patterns.

A job is bulk-synchronous: every rank repeats a computation and an exchange of messages. Work follows from the job
alone, never from the schedule, so that all policies run the same work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apples.errors import ConfigError
from apples_experiments.cluster.layout import ALONE, EVERYBODY, RING

#: By name: no messages; with both neighbours; all wait for all, with nothing sent or with data.
PATTERNS = {"none": ALONE, "ring": RING, "barrier": EVERYBODY, "all-to-all": EVERYBODY}


@dataclass(frozen=True, slots=True, kw_only=True)
class BspJob:
    """One job.

    nodes : node of each rank, by number
    compute_s : computation of each rank in one iteration
    iterations : number of exchanges
    pieces : exchanges in a row of which only the first follows a computation (1 ns replaces the others)
    pattern : a key of `PATTERNS`
    latency_s : duration of an exchange once all its partners have entered it
    variation : a computation is `compute_s` times 1 ± this value, evenly spread
    refill_s : cost of bringing a rank's working set into empty caches
    cold_slowdown : relative length of a computation until then, to thousandths
    arrival_s : time of submission
    user : number of its user

    Raises `apples.errors.ConfigError` with every value that is out of range.
    """

    name: str
    nodes: tuple[int, ...]
    compute_s: tuple[float, ...]
    iterations: int
    pieces: int = 1
    pattern: str = "ring"
    latency_s: float = 60e-6
    variation: float = 0.0
    refill_s: float = 0.0
    cold_slowdown: float = 1.0
    arrival_s: float = 0.0
    user: int = 0

    def __post_init__(self) -> None:
        problems = []
        if not self.nodes or len(self.nodes) != len(self.compute_s):
            problems.append(
                f"job {self.name}: {len(self.nodes)} nodes and {len(self.compute_s)} computations; "
                "legal is one of each per rank, at least one"
            )
        if any(not (math.isfinite(c) and c >= 1e-9) for c in self.compute_s):
            problems.append(f"job {self.name}: legal computations are finite and at least 1 ns")
        if self.iterations < 1:
            problems.append(f"job {self.name}: {self.iterations} iterations, legal is a whole number from 1")
        if self.pieces < 1:
            problems.append(f"job {self.name}: {self.pieces} pieces, legal is a whole number from 1")
        if self.pattern not in PATTERNS:
            problems.append(
                f"job {self.name}: pattern is {self.pattern!r}, legal are {', '.join(map(repr, PATTERNS))}"
            )
        if not (math.isfinite(self.latency_s) and self.latency_s >= 1e-9):
            problems.append(f"job {self.name}: latency_s is {self.latency_s!r}, legal is at least 1 ns")
        if not 0 <= self.variation < 1:
            problems.append(f"job {self.name}: variation is {self.variation!r}, legal is from 0 to below 1")
        problems += [
            f"job {self.name}: {name} is {value!r}, legal is a finite number from 0"
            for name in ("refill_s", "arrival_s")
            if not (math.isfinite(value := getattr(self, name)) and value >= 0)
        ]
        if not 1e-3 <= self.cold_slowdown <= 1e3:
            problems.append(
                f"job {self.name}: cold_slowdown is {self.cold_slowdown!r}, legal is from 0.001 to 1000"
            )
        if problems:
            raise ConfigError(problems)


def least_loaded(loads: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `count` nodes with the fewest jobs, in the order of their numbers for equal loads.

    The argument `loads` holds the number of jobs on each node.
    """
    return tuple(sorted(range(len(loads)), key=lambda node: loads[node])[:count])


def moved(job: BspJob, loads: Sequence[int]) -> BspJob:
    """Return the job on the nodes with the fewest jobs; ranks that share a node continue to share one."""
    old = tuple(dict.fromkeys(job.nodes))
    new = dict(zip(old, least_loaded(loads, len(old)), strict=True))
    return replace(job, nodes=tuple(new[node] for node in job.nodes))
