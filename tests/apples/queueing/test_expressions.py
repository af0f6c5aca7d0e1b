"""Priorities as users write them: what is understood, what is refused, and that nothing else is ever run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apples.errors import ConfigError
from apples.queueing.expressions import compile_expression
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.queue import JobQueue
from apples.queueing.scores import score_all
from apples.queueing.settings import QueueSettings

FIELDS = {"wait": 30.0, "request": 200.0, "estimate": 120.0, "submit": 70.0, "procs": 4.0, "nodes": 4.0}


def value(text):
    """Score of one job that has waited 30 s."""
    queue = JobQueue(QueueSettings(priority=text), 8)
    job = QueueJob(id=1, procs=4, request_s=200, submit_s=70)
    queue.submit(job, Beliefs(priority_s=120, backfill_s=120, running_s=120))
    score_all(queue._state, queue._rules, 100.0)
    return float(queue._state.scores[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait", 30),
        ("(wait/estimate)**3 * nodes", (30 / 120) ** 3 * 4),
        ("-request + submit", -130),
        ("+wait - -2", 32),
        ("min(wait, 10) + max(procs, 9) + abs(-3)", 22),
        ("sqrt(procs) + log(exp(2))", 4),
        ("1e3 if wait > 20 else estimate", 1000),
        ("1e3 if wait >= 31 else estimate", 120),
        ("(wait < 30) + 2 * (wait <= 30) + 4 * (procs == 4)", 6),
        ("2 ** 3 ** 2", 512),
        ("1 / 0", math.inf),
        ("sqrt(-1)", -math.inf),
        ("log(0)", -math.inf),
        ("-" * 296 + "wait", 30),
        ("(" * 140 + "wait" + ")" * 140, 30),
    ],
)
def test_values(text, expected):
    assert value(text) == pytest.approx(expected)


_leaf = st.one_of(st.sampled_from(sorted(FIELDS)), st.integers(0, 50).map(str))
_tree = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < 20 else {t[2]})"),
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(_tree)
def test_the_compiled_value_is_pythons(text):
    with np.errstate(all="ignore"):
        names = {name: np.float64(number) for name, number in FIELDS.items()}
        try:
            expected = float(eval(text, {"min": min, "max": max}, names))
        except ZeroDivisionError:
            return
    got = value(text)
    if math.isnan(expected):
        expected = -math.inf
    assert got == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1 to 300 characters are legal"),
        ("wait +", "invalid syntax"),
        ("wiat", r"'wiat': unknown field \(did you mean wait\?\)"),
        ("__import__('os').system('true')", "unknown function"),
        ("(lambda: 1)()", "unknown function"),
        ("wait.real", "'wait.real': not legal here"),
        ("[wait for wait in (1,)]", "not legal here"),
        ("'a' * 9", "not a number"),
        ("True", "not a number"),
        ("1e999", "too large"),
        ("10" + "0" * 399, "1 to 300 characters"),
        ("min(wait)", "min takes 2 arguments"),
        ("sqrt(wait, 2)", "sqrt takes 1 argument;"),
        ("max(wait, b=3)", "max takes 2 arguments"),
        ("1 < wait < 3", "not legal here"),
        ("wait and procs", "not legal here"),
        ("wait != procs", "not legal here"),
        ("not wait", "not legal here"),
        ("wait // 2", "not legal here"),
        ("wait; procs", "invalid syntax"),
        ("+".join(["(1"] * 40) + ")" * 40, "more than 32 values under way"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        compile_expression(text)
    assert str(caught.value).startswith("priority ")
