"""A clock that is not affected by steps of the host's wall clock: the server's time, carried on by a counter.

Every answer of the server has its time; the error is at most half of the round trip. Of the last answers the one with
the least uncertainty counts, and corrections are spread out, so that time neither jumps nor runs backwards once it is
set. Before the first answer the clock continues the wall clock as it was at the start. Only a server whose own clock
has moved, confirmed by several answers in a row, makes it step later.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


def boot_time() -> float:
    """Return seconds since the host was started, including sleep; no program can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class _Answer:
    """`offset`: the server's time less the counter, wrong by `doubt` at most, learnt when the counter was `at`."""

    offset: float
    doubt: float
    at: float

    def doubt_at(self, counter: float) -> float:
        return self.doubt + _DRIFT * (counter - self.at)


#: Seconds per second by which a counter of ordinary hardware may be off.
_DRIFT = 1e-4
#: Answers the best is chosen from.
_KEPT = 8
#: Corrections above this are a clock that was set, not one that drifted.
_STEP_S = 1.0
#: Answers in a row that must agree on a step; and answers after which it is set at the latest.
_WITNESSES = 3
#: An answer with less doubt than this sets it; the first is often a slow one.
_SURE_S = 0.05


class SteadyClock:
    """Seconds since the epoch by the server's clock, returned by a call. Safe from any thread.

    wall : the host's clock, read once, for the time before the first answer
    counter : seconds of a clock that cannot be set.  slew : seconds of correction in a second, less than 1
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        counter: Callable[[], float] = boot_time,
        slew: float = 0.02,
    ) -> None:
        self.counter, self._slew = counter, slew
        self._guess = wall() - counter()
        self._lock = threading.Lock()
        self._answers: deque[_Answer] = deque(maxlen=_KEPT)
        self._strangers: list[_Answer] = []
        self._shown: float | None = None
        self._target = 0.0
        self._slewed_at = 0.0

    @property
    def is_set(self) -> bool:
        """Return whether the server's time is known: from one sure answer, or from a few."""
        return self._shown is not None

    def __call__(self) -> float:
        """Return the time now."""
        with self._lock:
            counter = self.counter()
            return counter + (self._guess if self._shown is None else self._offset(counter))

    def observe(self, server_now: float, *, sent: float, received: float) -> float | None:
        """Learn from an answer: `server_now` is its time, `sent` and `received` are counter readings around it.

        When that sets the clock, it answers how many seconds everything shown before was behind, else None.
        """
        if not math.isfinite(server_now) or received < sent:
            return None
        doubt = (received - sent) / 2
        answer = _Answer(offset=server_now - (sent + received) / 2, doubt=doubt, at=received)
        with self._lock:
            if self._shown is None:
                self._answers.append(answer)
                if len(self._answers) < _WITNESSES and doubt > _SURE_S:
                    return None
                self._step([*self._answers], received)
                return self._target - self._guess
            self._offset(received)
            if abs(answer.offset - self._target) > _STEP_S + doubt:
                self._suspect(answer, received)
                return None
            self._strangers.clear()
            self._answers.append(answer)
            self._target = self._best(received).offset
            return None

    def _suspect(self, answer: _Answer, counter: float) -> None:
        """Record an answer far from the known time: a step, if later answers confirm it."""
        self._strangers = [
            s for s in self._strangers if abs(s.offset - answer.offset) < _STEP_S + answer.doubt
        ]
        self._strangers.append(answer)
        if len(self._strangers) >= _WITNESSES:
            self._step(self._strangers, counter)

    def _step(self, answers: list[_Answer], counter: float) -> None:
        self._answers = deque(answers, maxlen=_KEPT)
        self._strangers = []
        self._target = self._shown = self._best(counter).offset
        self._slewed_at = counter

    def _best(self, counter: float) -> _Answer:
        return min(self._answers, key=lambda a: a.doubt_at(counter))

    def _offset(self, counter: float) -> float:
        """Move the displayed offset towards the target, as far as the time since the last move allows; return it."""
        assert self._shown is not None
        most = self._slew * max(counter - self._slewed_at, 0.0)
        self._slewed_at = max(counter, self._slewed_at)
        self._shown += min(max(self._target - self._shown, -most), most)
        return self._shown
