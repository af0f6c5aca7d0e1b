"""Answers of hosts: what a host may say, and that no answer ends the check of the others."""

import json
import math

import pytest
from hypothesis import given, strategies as st
from msgspec import to_builtins

from apples.hosts import facts, hostcheck
from apples.hosts.hostmessages import HostCheckError, HostFacts, LinkAnswer, LossAnswer, SurveyedAnswer, read

LEGAL = json.loads(json.dumps(hostcheck.facts({"files": [], "disks": {"/tmp/a": None}, "callback": None})))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(document, before=()):
    """Return the paths of all parts of a document."""
    found = [before] if before else []
    if isinstance(document, dict):
        found += [path for key in document for path in places(document[key], (*before, key))]
    return found


def text(document):
    """Return the JSON text of a document, as a host writes it."""
    return json.dumps(document).encode()


def changed(document, path, value):
    """Return a copy with another value at a path."""
    first, *rest = path
    return {**document, first: changed(document[first], rest, value) if rest else value}


def test_answer_of_this_host_is_legal():
    report = read(HostFacts, text(LEGAL))
    assert report.clock_s == LEGAL["clock_s"]
    assert report.survey is not None
    assert to_builtins(report.disks) == LEGAL["disks"]


@given(st.sampled_from(places(LEGAL)), ANYTHING)
def test_any_answer_is_understood_or_refused(path, value):
    try:
        report = read(HostFacts, text(changed(LEGAL, path, value)))
    except HostCheckError:
        return
    facts.problems(report, facts.Needs(disk_bytes={"/tmp/a": 1.0}), ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("availability", 1.5),
        ("availability", float("nan")),
        ("capacity", -1.0),
        ("capacity", 10**400),
        ("cpus", 0),
        ("memory_bytes", "x"),
        ("memory_bytes", None),
        ("load", float("inf")),
    ],
)
def test_implausible_readings_are_refused(key, value):
    answer = {"survey": {**LEGAL["survey"], key: value}, "survey_error": None}
    # JSON has no NaN and no infinity: no text with one is JSON.
    place = (
        rf"survey\.{key}: " if not isinstance(value, float) or math.isfinite(value) else "JSON is malformed"
    )
    with pytest.raises(HostCheckError, match=rf"^gave an answer that cannot be understood \({place}"):
        read(SurveyedAnswer, text(answer))


@pytest.mark.parametrize("latency", [0, -1.0, "1", None, float("nan"), 1e9])
def test_implausible_links_are_refused(latency):
    place = (
        r"\(latency_s: "
        if not isinstance(latency, float) or math.isfinite(latency)
        else r"\(JSON is malformed"
    )
    with pytest.raises(HostCheckError, match=place):
        read(LinkAnswer, text({"latency_s": latency, "bandwidth_Bps": 1e6}))
    with pytest.raises(HostCheckError, match=r"\(lost: "):
        read(LossAnswer, text({"lost": 1.5}))


def test_reason_of_a_host_is_passed_on():
    with pytest.raises(HostCheckError, match=r"^nobody answers$"):
        read(LinkAnswer, text({"error": "nobody answers"}))
