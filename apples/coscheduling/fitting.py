"""Admission: whether programs fit beside each other on the same processors.

A rank needs its duty cycle of a processor: its computation as a share of computation and waiting. Rank r runs on
processor r modulo their number, as node managers place ranks. Where the needs on a processor add up to one at most, the
programs keep their speed. Beyond, ranks there take longer by that sum, and because ranks wait for each other, so do
their programs. Shared caches and memory bandwidth are not part of it.
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
    both = [a + b for a, b in zip(one, other, strict=True)]
    return SideBySide(
        first=_longest(both, one) / _longest(one, one), second=_longest(both, other) / _longest(other, other)
    )


def duty_cycle(t_cpu_s: float, t_comm_s: float) -> float | None:
    """Return the duty cycle of a process from the monitor's times; None if it did nothing."""
    total_s = t_cpu_s + t_comm_s
    return t_cpu_s / total_s if total_s > 0.0 else None


def _needs(duties: Sequence[float], processors: int) -> list[float]:
    """Return the sum of needs on each processor."""
    return [sum(duties[number::processors]) for number in range(processors)]


def _longest(needs: Sequence[float], own: Sequence[float]) -> float:
    """Return the largest need on a processor that a program uses, 1 at least. own : needs of the program alone"""
    return max([1.0, *(need for need, used in zip(needs, own, strict=True) if used > 0.0)])
