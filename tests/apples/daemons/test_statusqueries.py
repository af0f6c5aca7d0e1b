"""Who asks the manager waits for the nodes, but not for long."""

from __future__ import annotations

import pytest

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now
from apples.daemons.statusqueries import GATHER_S, StatusQueries


class Desk:
    """Questions, with what nodes were asked and what was answered, and when, seconds from the start."""

    def __init__(self):
        self.loop, self.asked, self.answers = Loop(), [], []
        self.begun = now()
        self.questions = StatusQueries(
            self.loop,
            ask=self.asked.append,
            answer=lambda questions: self.answers.append((questions, now() - self.begun)),
        )

    def pass_time(self, seconds):
        self.loop.after(seconds, self.loop.stop)
        self.loop.run()


@pytest.fixture
def desk():
    made = Desk()
    yield made
    made.loop.close()


def test_where_all_have_just_told_the_answer_comes_at_once(desk):
    desk.questions.put("p", 1, set())
    assert [questions for questions, _ in desk.answers] == [[("p", 1)]]
    desk.pass_time(GATHER_S + 0.05)
    assert len(desk.answers) == 1


def test_all_who_ask_meanwhile_are_answered_with_the_last_node_that_tells_or_goes(desk):
    desk.questions.put("p", 1, {"a", "b"})
    desk.questions.put("q", 2, {"a", "b"})
    assert sorted(desk.asked) == ["a", "b"]
    desk.questions.reported("a")
    desk.questions.reported("stranger")
    assert desk.answers == []
    desk.questions.reported("b")
    assert [questions for questions, _ in desk.answers] == [[("p", 1), ("q", 2)]]


def test_node_that_does_not_tell_is_waited_for_so_long_and_no_longer(desk):
    desk.questions.put("p", 1, {"a"})
    desk.pass_time(GATHER_S + 0.1)
    ((questions, after_s),) = desk.answers
    assert questions == [("p", 1)]
    assert after_s >= GATHER_S
    # Its word that comes too late changes nothing; the next question asks it again.
    desk.questions.reported("a")
    desk.questions.put("p", 2, {"a"})
    assert desk.asked == ["a", "a"]
