"""Admission: whether programs fit beside each other on the same processors.

A rank needs its duty cycle of a processor: its computation as a share of computation and waiting. Rank r runs on
processor r modulo their number, as node managers place ranks. Where the needs on a processor add up to more than one,
ranks there take longer by that sum, and because ranks wait for each other, so do their programs. Below, a rank that is
ready to compute finds the other program computing with the probability of its need, and waits for as long as it
computes itself (two customers of one server: Reiser and Lavenberg, J. ACM 27, 1980). The busiest rank of a program
makes it longer by that. Others wait for the busiest one anyway and are late only beyond that. Shared caches and memory
bandwidth are not part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apples.coscheduling.contention import LEAST_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Two programs beside each other. first, second : how many times longer each takes than alone"""

    first: float
    second: float

    @property
    def fits(self) -> bool:
        """Whether both keep as much of their speed as a process that is not contended keeps of its processor."""
        return max(self.first, self.second) <= 1.0 / LEAST_SHARE


def fit(first: Sequence[float], second: Sequence[float], processors: int) -> SideBySide:
    """Return how two programs fit.

    Args:
        first, second: Duty cycles of the ranks of each, from 0 to 1, by rank.
        processors: Number of processors that both use.
    """
    one, other = _needs(first, processors), _needs(second, processors)
    return SideBySide(first=_longer(one, other), second=_longer(other, one))


def duty_cycle(t_cpu_s: float, t_comm_s: float) -> float | None:
    """Return the duty cycle of a process from the monitor's times; None if it did nothing."""
    total_s = t_cpu_s + t_comm_s
    return t_cpu_s / total_s if total_s > 0.0 else None


def _needs(duties: Sequence[float], processors: int) -> list[float]:
    """Return the sum of needs on each processor."""
    return [sum(duties[number::processors]) for number in range(processors)]


def _longer(duties: Sequence[float], other: Sequence[float]) -> float:
    """Return how many times longer a program takes beside another. own, other : needs on each processor"""
    busiest = max(duties)
    waits = max(1.0 - busiest, 0.0)
    times = [
        max(need + more, need + more * min(need, 1.0) + waits)
        for need, more in zip(duties, other, strict=True)
        if need > 0.0
    ]
    return max([1.0, *times]) / max(1.0, busiest)
