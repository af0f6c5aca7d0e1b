"""Status queries to the manager: refresh stale node reports first, with a short timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from apples.daemons.ipc.eventloop import Alarm, Loop

T = TypeVar("T")

#: Reports that are younger count as fresh; an answer waits for new reports at most so long. Both in seconds.
FRESH_S, GATHER_S = 0.2, 0.3


class StatusQueries(Generic[T]):
    """Queries that wait for an answer. `ask`: requests a report.  `answer`: gets each connection and query number"""

    def __init__(
        self, loop: Loop, *, ask: Callable[[T], None], answer: Callable[[list[tuple[T, int]]], None]
    ) -> None:
        self._loop, self._ask, self._answer_to = loop, ask, answer
        self._questions: list[tuple[T, int]] = []
        self._untold: set[T] = set()
        self._patience: Alarm | None = None

    def put(self, who: T, number: int, stale: set[T]) -> None:
        """Add a query. `stale`: nodes with an old report; nodes that join after the first query are not waited for"""
        self._questions.append((who, number))
        # Reports are on their way: the answer to the first query is that to this one.
        if self._untold:
            return
        self._untold = stale
        self._patience = self._loop.after(GATHER_S, self._answer)
        for node in list(stale):
            self._ask(node)
        if not self._untold:
            self._answer()

    def reported(self, node: T) -> None:
        """Handle a node that has reported or is lost."""
        if node in self._untold:
            self._untold.discard(node)
            if not self._untold:
                self._answer()

    def _answer(self) -> None:
        if self._patience is not None:
            # All reports are there; without this the alarm would answer later queries too early.
            self._patience.cancel()
        self._untold = set()
        # Emptied first: an answer may break a connection, whose end comes back here.
        questions, self._questions = self._questions, []
        if questions:
            self._answer_to(questions)
