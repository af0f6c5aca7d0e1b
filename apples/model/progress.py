"""Progress reports of a running job's ranks, the orders it accepts, and the controller that joins both.

One line of progress reports the work of every rank since the line before (`stencil_app.running.runsteering` writes such
lines; any application may). No decision is made here.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from apples.model.plan import Move

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A stretch of a run, P ranks in rank order; seconds on the wall.

    iteration : count at its end, restarts included.  left : estimate of the remaining iterations, None if unknown
    iterations, seconds : of this stretch.  rows : slab heights in it
    compute_s, exchange_s, reduce_s : of each rank, summed over the stretch
    moves : of rows, so far.  moved_s : seconds of the moves in this stretch, None if there were none
    refused : why offered slabs were not taken, None if none were offered
    """

    iteration: int
    left: float | None
    iterations: int
    seconds: float
    rows: tuple[int, ...]
    compute_s: tuple[float, ...]
    exchange_s: tuple[float, ...]
    reduce_s: tuple[float, ...]
    moves: int = 0
    moved_s: float | None = None
    refused: str | None = None

    @property
    def iteration_s(self) -> float:
        """Return the seconds of one iteration, without the moves of rows."""
        return (self.seconds - (self.moved_s or 0.0)) / self.iterations

    @property
    def row_s(self) -> tuple[float, ...]:
        """Return the seconds each rank computes for one of its rows in one iteration."""
        return tuple(s / (self.iterations * rows) for s, rows in zip(self.compute_s, self.rows, strict=True))


class _Version(msgspec.Struct, frozen=True):
    """The part of a line that all versions have."""

    version: int


def parse_progress(line: bytes | str) -> Progress | None:
    """Return the progress of one line; None if the line is malformed or has no iteration."""
    try:
        if msgspec.json.decode(line, type=_Version).version != VERSION:
            return None
        progress = msgspec.json.decode(line, type=Progress)
    except ValueError:
        return None
    return progress if _is_sound(progress) else None


class Iterations(NamedTuple):
    """Iterations done. left : those left, None if unknown.  counted : counted by the monitor, perhaps a multiple."""

    done: int
    left: float | None
    counted: bool = False


def parse_iterations(line: bytes | str) -> Iterations | None:
    """Return the iterations of any line of progress; None if it has none.

    Beside lines of the application there are two of launchers: `{"counted": N}` by the monitor, `{"reached": N}` from
    the program's output. Both are of this attempt.
    """
    try:
        report: dict[str, Any] = json.loads(line)
        for kind in ("counted", "reached"):
            if kind in report:
                return Iterations(int(report[kind]), None, counted=kind == "counted")
    except (ValueError, TypeError):
        return None
    progress = parse_progress(line)
    return None if progress is None else Iterations(progress.iteration, progress.left)


def _is_sound(report: Progress) -> bool:
    times = (report.seconds, *report.compute_s, *report.exchange_s, *report.reduce_s)
    lengths = {len(report.rows), len(report.compute_s), len(report.exchange_s), len(report.reduce_s)}
    return (
        lengths == {len(report.rows)}
        and min(report.rows, default=0) > 0
        and report.iterations > 0
        and all(math.isfinite(t) and t >= 0 for t in times)
        and report.seconds > 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlabs:
    """Order to go on with slabs of these heights, in rank order. Ranks without rows leave the run.

    reader : host of the first rank that stays, None if it is the present one
    """

    rows: tuple[int, ...]
    reader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAndEnd:
    """Order to write a checkpoint and end, to resume on other hosts. why : reason for the user."""

    why: str


Order = NewSlabs | CheckpointAndEnd


class DepartureController(Protocol):
    """Lets a run leave hosts that are drained, or that have announced their end."""

    def look(self) -> Mapping[str, str]:
        """Return the drained hosts, each with a predicate as the reason."""

    def leave(self, hosts: Mapping[str, str]) -> Order | None:
        """Return the order by which the run leaves these hosts, None if it cannot; the user is informed."""


class AdaptationController(Protocol):
    """Receives the progress of a run and may interfere. Called between other duties, so it must return quickly."""

    @property
    def report_every_s(self) -> float:
        """Return the seconds between lines of progress, approximately."""

    def hear(self, report: Progress) -> Order | None:
        """Return the order that this report calls for, None to let the run go on."""

    def leave(self, hosts: Mapping[str, str]) -> Order | None:
        """Return the order that moves the rows of these hosts to others; None if they cannot hold them.

        hosts : each with the reason
        """

    def seen(self) -> Sequence[tuple[str, float]]:
        """Return host and seconds of a row for each rank, by the newest reports: the next plan builds on them.

        Empty if they are unknown, or are no reason for another plan.
        """

    def ended(self) -> tuple[Move, ...]:
        """Stop all background work after the run; return the ordered moves of rows with their results."""
