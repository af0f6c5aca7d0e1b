"""Priorities as users write them: what is understood, what is refused, and that nothing else is ever run."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.expressions import compile_expression
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.scores import score_all
from apples.queueing.settings import QueueSettings
from tests.transcripts import recorded

FIELDS = {"wait": 30.0, "request": 200.0, "estimate": 120.0, "submit": 70.0, "procs": 4.0, "nodes": 4.0}


def value(text):
    """Score of one job that has waited 30 s."""
    queue = JobQueue(QueueSettings(priority=text), 8)
    job = QueueJob(id=1, procs=4, request_s=200, submit_s=70)
    queue.submit(job, Beliefs(priority_s=120, backfill_s=120, running_s=120))
    score_all(queue._state, queue._rules, 100.0)
    return float(queue._state.scores[0])


@recorded("apples/queueing/expressions.txt", "text")
def test_values(answered, text):
    answered(f"{value(text):.12g}")


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
def test_compiled_value_is_pythons(text):
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


@recorded("apples/queueing/refused_expressions.txt", "text")
def test_what_is_refused(answered, text):
    with pytest.raises(ConfigError) as caught:
        compile_expression(text)
    answered(str(caught.value))
