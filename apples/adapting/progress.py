"""What the ranks of a run tell while it goes on, what they can be told, and who hears and says it.

One line of progress says what every rank did since the line before (`stencil_app.running.steering` writes such
lines; any
application may). Nothing is decided here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Protocol

from apples.model.plan import Move

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A stretch of a run, P ranks in rank order; seconds on the wall.

    iteration : done at its end, restarts included.  left : about how many are to come, None if nobody can say
    iterations, seconds : of this stretch.  rows : slab heights in it
    compute_s, exchange_s, reduce_s : of each rank, summed over the stretch
    moves : of rows, so far.  moved_s : what those of this stretch took, None if there were none
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
        """Seconds of one iteration, without what moving rows took."""
        return (self.seconds - (self.moved_s or 0.0)) / self.iterations

    @property
    def row_s(self) -> tuple[float, ...]:
        """Seconds each rank computes for one of its rows in one iteration."""
        return tuple(s / (self.iterations * rows) for s, rows in zip(self.compute_s, self.rows, strict=True))


def parse_progress(line: bytes | str) -> Progress | None:
    """Progress of one line; None for what is no such line, or tells of no iteration."""
    try:
        told: dict[str, Any] = json.loads(line)
        if told["version"] != VERSION:
            return None
        found = Progress(
            iteration=int(told["iteration"]),
            left=None if told["left"] is None else float(told["left"]),
            iterations=int(told["iterations"]),
            seconds=float(told["seconds"]),
            rows=tuple(int(rows) for rows in told["rows"]),
            compute_s=tuple(map(float, told["compute_s"])),
            exchange_s=tuple(map(float, told["exchange_s"])),
            reduce_s=tuple(map(float, told["reduce_s"])),
            moves=int(told["moves"]),
            moved_s=None if told["moved_s"] is None else float(told["moved_s"]),
            refused=None if told["refused"] is None else str(told["refused"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
    return found if _is_sound(found) else None


def _is_sound(told: Progress) -> bool:
    times = (told.seconds, *told.compute_s, *told.exchange_s, *told.reduce_s)
    lengths = {len(told.rows), len(told.compute_s), len(told.exchange_s), len(told.reduce_s)}
    return (
        lengths == {len(told.rows)}
        and min(told.rows, default=0) > 0
        and told.iterations > 0
        and all(math.isfinite(t) and t >= 0 for t in times)
        and told.seconds > 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlabs:
    """Order: go on with slabs of these heights, in rank order."""

    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAndEnd:
    """Order: write a checkpoint and end, to go on from it elsewhere. why : for the user."""

    why: str


Order = NewSlabs | CheckpointAndEnd


class AdaptationController(Protocol):
    """Hears how a run goes, and may interfere. Called between other duties, so it must not take long."""

    @property
    def report_every_s(self) -> float:
        """Seconds from one line of progress to the next, about."""

    def hear(self, told: Progress) -> Order | None:
        """What to do now that this was told, None to let the run go on."""

    def ended(self) -> tuple[Move, ...]:
        """The run is over: stop what goes on beside it. Moves of rows that were ordered, with what became of them."""
