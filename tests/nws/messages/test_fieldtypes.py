"""JSON documents: what is understood, and every mistake told at once; nothing a client sends is anything else."""

import json

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.base.errors import Malformed
from nws.messages.fieldtypes import parse
from nws.messages.weatherdocuments import Batch, Event, Registration
from tests.transcripts import recorded

HOST = {"address": "10.0.0.1", "port": 4000, "cpus": 8, "cpu_model": "Xeon", "memory_bytes": 1 << 34}


def test_a_registration():
    assert parse(Registration, {**HOST, "site": "east", "version": "0.1"}) == Registration(
        address="10.0.0.1",
        port=4000,
        site="east",
        cpus=8,
        cpu_model="Xeon",
        memory_bytes=1 << 34,
        version="0.1",
    )
    assert parse(Registration, {"address": "fe80::1%eth0", "port": 0, "site": None}).site is None
    assert parse(Registration, {"address": "a", "port": 0, "site": ""}).site is None


def test_a_batch():
    found = parse(
        Batch,
        {
            "source": "alpha/1",
            "first": 1201,
            "series": ["cpu.new@alpha", "memory.free@alpha"],
            "index": [0, 1, 0],
            "t": [1, 2.5, 3],
            "value": [0.5, 10**10, 0.75],
            "status": {"done": 3, "cpu_s": 0.5, "missed": None},
        },
    )
    assert (found.source, found.first, found.series) == (
        "alpha/1",
        1201,
        ("cpu.new@alpha", "memory.free@alpha"),
    )
    assert (found.index.dtype, found.t.dtype, found.value.dtype) == (np.int64, np.float64, np.float64)
    assert (found.index.tolist(), found.t.tolist(), found.value.tolist()) == (
        [0, 1, 0],
        [1.0, 2.5, 3.0],
        [0.5, 1e10, 0.75],
    )
    assert found.status == {"done": 3.0, "cpu_s": 0.5}


def test_empty_batch():
    found = parse(Batch, {})
    assert (found.series, len(found.index), len(found.t), found.source, found.status) == (
        (),
        0,
        0,
        None,
        None,
    )
    assert len(parse(Batch, {"index": [], "t": [], "value": []}).index) == 0


def test_an_event():
    assert parse(Event, {"t": 1.5, "kind": "note"}) == Event(t=1.5, kind="note")
    assert parse(Event, {"t": 1, "kind": "plan made", "host": "a", "text": "x"}).host == "a"


def test_mistake_is_told():
    with pytest.raises(Malformed) as caught:
        parse(Registration, {"port": "4000", "site": "a b", "cpus": -1, "cores": 4, "cpu_model": "a\nb"})
    assert caught.value.problems == (
        "cores: unknown; legal are address, port, site, cpus, cpu_model, memory_bytes, version",
        "address: missing",
        "port: expected a whole number from 0 to 65535; got '4000'",
        "site: expected a name: 1 to 64 of A-Z a-z 0-9 . _ - that begin with a letter or digit; got 'a b'",
        "cpus: expected a whole number from 0 to 1048576; got -1",
        "cpu_model: expected text of at most 255 printable characters; got 'a\\nb'",
    )
    assert str(caught.value) == (
        "not a registration: cores: unknown; legal are address, port, site, cpus, cpu_model, memory_bytes, version, "
        "and 5 more"
    )


@recorded("nws/service/batch_fields.txt", "field", "value")
def test_fields_that_are_none(answered, field, value):
    with pytest.raises(Malformed) as caught:
        parse(Batch, {field: value})
    answered(str(caught.value))


@pytest.mark.parametrize("document", [None, [], "text", 5, True])
@pytest.mark.parametrize("kind", [Registration, Batch, Event])
def test_what_is_no_object(kind, document):
    with pytest.raises(Malformed, match="expected an object with"):
        parse(kind, document)


def test_long_values_are_told_in_short():
    with pytest.raises(Malformed) as caught:
        parse(Event, {"t": "x" * 10_000, "kind": "note"})
    assert len(str(caught.value)) < 200


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = sorted({f for kind in (Registration, Batch, Event) for f in kind.__struct_fields__})


@settings(max_examples=80, deadline=None)
@given(anything | st.dictionaries(st.sampled_from(NAMES), anything))
def test_whatever_is_sent_is_understood_or_malformed(document):
    for kind in (Registration, Batch, Event):
        try:
            parse(kind, document)
        except Malformed as error:
            json.dumps(error.problems)
