"""Batches: who may write what, what is refused alone, and nothing twice."""

import numpy as np
import pytest

from nws.base.errors import ForeignSeries, Refused, TooManySeries, UnknownHost, UnknownSeries
from nws.messages.weatherdocuments import Batch
from nws.service.serviceconfig import Limits
from tests.transcripts import recorded

from .helpers import START, batch, registered, settings

ALPHA = "cpu.new@alpha"


def kept(service, name=ALPHA):
    try:
        found = service.samples(name, since=0, until=4e9, resolution="raw")
    except UnknownSeries:
        return []
    return list(zip(found.t.tolist(), found.value.tolist(), strict=True))


@pytest.fixture
def alpha(service):
    registered(service, "alpha", "beta")
    return service


@recorded("nws/service/wrong_names.txt", "name")
def test_names_that_are_none_refuse_the_batch(alpha, answered, name):
    with pytest.raises(Refused) as caught:
        alpha.put(batch((ALPHA, START, 0.5), (name, START, 1.0)), as_host=None)
    answered(str(caught.value))
    assert kept(alpha) == []
    assert len(alpha._parts.forecaster.catalogue) == 0


def test_host_may_have_so_many_series(start):
    service = start(settings(limits=Limits(series_per_host=3)))
    registered(service, "alpha")
    service.put(batch((ALPHA, START, 1.0), ("x.a@alpha", START, 1.0)), as_host="alpha")
    with pytest.raises(TooManySeries, match=r"x.c@alpha: alpha has 3 series and may have 3.*nothing"):
        service.put(batch(("x.b@alpha", START, 1.0), ("x.c@alpha", START, 1.0)), as_host="alpha")
    results = service.put_many(
        [
            (batch(("x.b@alpha", START, 1.0)), "alpha"),
            (batch(("x.c@alpha", START, 1.0)), None),
            (batch(("x.b@alpha", START + 1, 1.0)), "alpha"),
            (batch(("x.b@beta", START + 1, 1.0)), None),
        ]
    )
    assert isinstance(results[1], TooManySeries)
    assert [r.accepted for i, r in enumerate(results) if i != 1] == [1, 1, 1]
    assert len(service.series(host="alpha")) == 3


def test_streams_that_are_not_heard_any_more_make_room(start, clock):
    service = start(settings(limits=Limits(streams_per_host=2)))
    registered(service, "alpha")
    for i in range(4):
        clock.advance(1)
        service.put(batch((ALPHA, clock(), 0.5), source=f"alpha/{i}"), as_host="alpha")
        service.put(batch(("cpu.new@beta", clock(), 0.5), source="beta/1", first=i), as_host=None)
    clock.advance(3600)
    service.tick()
    with service._parts.memory.database.reading() as connection:
        assert sorted(connection.execute("SELECT name FROM source")) == [
            ("alpha/2",),
            ("alpha/3",),
            ("beta/1",),
        ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"t": np.zeros(2)}, "1 index, 2 t and 1 value"),
        ({"index": np.array([1])}, "index from 1 to 1 in a batch of 1 series"),
        ({"index": np.array([-1])}, "index counts from 0"),
        ({"series": ()}, "in a batch of 0 series"),
    ],
)
def test_columns_that_do_not_fit_are_refused(alpha, changes, says):
    columns = {
        "series": (ALPHA,),
        "index": np.zeros(1, np.int64),
        "t": np.full(1, START),
        "value": np.ones(1),
    }
    with pytest.raises(Refused, match=says):
        alpha.put(Batch(**(columns | changes)), as_host="alpha")


def test_one_batch_is_no_others_trouble(alpha):
    good, bad = batch((ALPHA, START, 0.5)), batch(("cpu.new@beta", START, 0.5))
    first, second, third, fourth = alpha.put_many(
        [(good, "alpha"), (bad, "alpha"), (good, "gamma"), (bad, "beta")]
    )
    assert (first.accepted, fourth.accepted) == (1, 1)
    assert isinstance(second, ForeignSeries)
    assert isinstance(third, UnknownHost)
    assert alpha.counters().batches == 2


def test_many_batches_are_one_transaction(alpha, monkeypatch):
    calls = []
    deliver = alpha._parts.memory.deliver
    monkeypatch.setattr(alpha._parts.memory, "deliver", lambda d: calls.append(len(d)) or deliver(d))
    alpha.put_many([(batch((ALPHA, START + i, 0.5)), "alpha") for i in range(10)])
    assert calls == [10]
