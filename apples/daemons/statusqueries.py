"""Questions of people to the manager: nodes that have not just told how they are do so first, if they are quick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from apples.ipc.loop import Alarm, Loop

T = TypeVar("T")

#: An answer takes what nodes have told in so many seconds, else waits for them to tell, at most so long.
FRESH_S, GATHER_S = 0.2, 0.3


class StatusQueries(Generic[T]):
    """What waits for an answer. ask : wants a node to tell.  answer : gets who asked, and each question's number"""

    def __init__(
        self, loop: Loop, *, ask: Callable[[T], None], answer: Callable[[list[tuple[T, int]]], None]
    ) -> None:
        self._loop, self._ask, self._answer_to = loop, ask, answer
        self._questions: list[tuple[T, int]] = []
        self._untold: set[T] = set()
        self._patience: Alarm | None = None

    def put(self, who: T, number: int, stale: set[T]) -> None:
        """Somebody asks. stale : nodes that have not just told; who joins after the first question is not waited for"""
        self._questions.append((who, number))
        if self._untold:
            return
        self._untold = stale
        self._patience = self._loop.after(GATHER_S, self._answer)
        for node in list(stale):
            self._ask(node)
        if not self._untold:
            self._answer()

    def reported(self, node: T) -> None:
        """It has told how it is, or is gone."""
        if node in self._untold:
            self._untold.discard(node)
            if not self._untold:
                self._answer()

    def _answer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._untold = set()
        questions, self._questions = self._questions, []
        if questions:
            self._answer_to(questions)
