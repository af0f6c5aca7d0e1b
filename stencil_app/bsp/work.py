"""Computing for a given CPU time, in two ways; neither depends on other users of the core.

`Spin` reads the rank's own CPU clock until it has advanced far enough: exact by definition. `Arithmetic` does a fixed
amount of work, calibrated once in turns a second, for experiments whose jobs do the same work under any scheduler. A
run on quiet cores reports its rate, which is an argument of later runs.
"""

import time
from typing import Protocol

#: Turns of one calibration, and number of calibrations; the fastest, undisturbed one counts.
_TURNS, _TRIES = 200_000, 25


class Work(Protocol):
    """Computing. `rate`: turns a CPU second, None if it uses the clock."""

    rate: float | None

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""

    def compute(self) -> None:
        """Compute once."""


class Spin:
    """Computing by the CPU clock of the thread."""

    def __init__(self) -> None:
        self.rate: float | None = None
        self._ns = 0

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""
        self._ns = round(seconds * 1e9)

    def compute(self) -> None:
        """Read the clock until the time is over."""
        clock = time.thread_time_ns
        until = clock() + self._ns
        while clock() < until:
            pass


class Arithmetic:
    """Computing by the amount of work. `rate`: turns a CPU second, None to measure it."""

    def __init__(self, rate: float | None = None) -> None:
        from stencil_app.bsp.arithmetic import turn

        self._turn = turn
        self.rate: float | None = self.measured_rate() if rate is None else rate
        self._turns = 0

    def measured_rate(self) -> float:
        """Return turns a CPU second of this core, now."""
        best_ns = min(self._timed_ns() for _ in range(_TRIES))
        return _TURNS * 1e9 / best_ns

    def _timed_ns(self) -> int:
        before = time.thread_time_ns()
        self._turn(_TURNS, 0.5)
        return max(time.thread_time_ns() - before, 1)

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""
        assert self.rate is not None
        self._turns = max(1, round(seconds * self.rate))

    def compute(self) -> None:
        """Do the work."""
        self._turn(self._turns, 0.5)
