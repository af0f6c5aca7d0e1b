"""Progress of one attempt while it runs: iterations done, and an estimate of the time left.

Iterations come from one of three sources: lines that the application writes (`apples.model.progress`), the
monitor's count from the sequence of MPI calls, or numbers in the program's output. The time left follows from the rate
since the first report, so that start-up does not count. Before a second report it is the rest of the predicted time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apples.model.progress import parse_iterations
from apples.model.runrequest import RunRequest
from apples.platforms.platform import Platform

if TYPE_CHECKING:
    from apples.run.agent import Decision

OnEvent = Callable[[str, dict[str, Any]], None]
"""Receives an event's kind and its JSON document."""

#: Least seconds between two reports.
EVERY_S = 1.0
#: A count of more than this many times the iterations is one of other steps, as those of a solver in each iteration.
_ROUNDED = 1.05


class AttemptProgress:
    """Progress of one attempt.

    first : iterations done before it.  iterations : that it does.  predicted_s : its predicted run time
    counted_each : iterations that the monitor counts for one of the program, None if unknown
    own_lines : the application writes lines, so the monitor's count is ignored
    now : clock, seconds.  report : receives a document for each report, at most one each `EVERY_S`
    """

    def __init__(
        self,
        *,
        first: int,
        iterations: int,
        predicted_s: float,
        counted_each: float | None = None,
        own_lines: bool = False,
        now: Callable[[], float],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        self._first, self._iterations, self._predicted_s = first, iterations, predicted_s
        self._counted_each = counted_each
        self._now, self._report = now, report
        self._started_at = now()
        self._reported_at = -EVERY_S
        #: Instant and iterations of the first report.
        self._begin: tuple[float, float] | None = None
        #: Whether some source counts the program's own iterations.
        self._exact = own_lines

    def hear(self, line: bytes) -> None:
        """Handle one line of progress; ignored if it has no iteration, or follows too soon."""
        found, now = parse_iterations(line), self._now()
        if found is None or now - self._reported_at < EVERY_S or (found.counted and self._exact):
            return
        self._exact = not found.counted
        done, left = float(found.done), None if found.left is None else max(found.left, 0.0)
        if found.counted and self._counted_each is not None:
            done /= self._counted_each
        if left is None and (self._exact or self._counted_each is not None):
            if done <= _ROUNDED * self._iterations + 1:
                done = min(done, self._iterations)
                left = self._iterations - done
            # Only the application itself counts restarts.
            done += self._first
        self._begin = self._begin or (now, done)
        self._reported_at = now
        elapsed_s, left_s = now - self._started_at, None
        if left is not None:
            begun_at, before = self._begin
            rest_s = max(self._predicted_s - elapsed_s, 0.0)
            left_s = left * (now - begun_at) / (done - before) if done > before else rest_s
        self._report(
            {
                "iteration": round(done),
                "iterations": None if left is None else round(done + left),
                "elapsed_s": elapsed_s,
                "left_s": left_s,
            }
        )


def ignore(kind: str, document: dict[str, Any]) -> None:
    """Ignore the event."""


def progress_listener(
    platform: Platform, request: RunRequest, decision: Decision, on_event: OnEvent
) -> Callable[[bytes], None] | None:
    """Return a function that makes events of an attempt's lines of progress; None if nothing receives events."""
    if on_event is ignore or not platform.starts_programs:
        return None
    return AttemptProgress(
        first=decision.first_iteration,
        iterations=decision.workload.iterations,
        predicted_s=decision.plan.predicted_s,
        counted_each=decision.counted_each,
        own_lines=request.template.moves_rows,
        now=platform.now,
        report=lambda document: on_event("progress", document),
    ).hear
