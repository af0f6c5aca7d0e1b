"""Batches: who may write what, what is refused alone, and nothing twice."""

import numpy as np
import pytest

from nws.base.errors import ForeignSeries, Refused, TooManySeries, UnknownHost, UnknownSeries
from nws.messages.weatherdocuments import Batch
from nws.service.serviceconfig import Limits
from tests.transcripts import recorded

from .helpers import START, batch, kill, registered, settings

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


def test_what_is_put_is_kept_and_foretold(alpha):
    receipt = alpha.put(
        batch((ALPHA, START, 0.5), ("memory.free@alpha", START, 1e9), (ALPHA, START + 1, 0.7)),
        as_host="alpha",
    )
    assert (receipt.accepted, receipt.next, receipt.refused.count) == (3, 3, 0)
    assert receipt.schedule == alpha.schedule().version
    assert kept(alpha) == [(START, 0.5), (START + 1, 0.7)]
    assert {str(s): f.samples for s, f in alpha.forecasts().items()} == {ALPHA: 2, "memory.free@alpha": 1}


@pytest.mark.parametrize(
    "name",
    ["cpu.new@beta", "network.latency@beta>alpha", "x.power@beta", "x.hops@beta>alpha", "cpu.new@Alpha"],
)
def test_host_writes_its_own_series_only(alpha, name):
    with pytest.raises(ForeignSeries, match=f"alpha may not write {name}"):
        alpha.put(batch((ALPHA, START, 0.5), (name, START, 0.5)), as_host="alpha")
    assert kept(alpha) == []
    # nor once the series is there
    alpha.put(batch((name, START, 0.5)), as_host=None)
    with pytest.raises(ForeignSeries):
        alpha.put(batch((ALPHA, START, 0.5), (name, START, 0.5)), as_host="alpha")
    assert kept(alpha) == []


def test_host_writes_pairs_that_it_measures_and_what_it_got_elsewhere(alpha):
    names = ["network.latency@alpha>beta", "network.bandwidth@alpha>alpha", "x.power@alpha", "x.hops@alpha>b"]
    receipt = alpha.put(batch(*((n, START, 1.0) for n in names)), as_host="alpha")
    assert receipt.accepted == 4


def test_without_a_host_anything_may_be_written(alpha):
    assert alpha.put(batch((ALPHA, START, 0.5), ("x.power@rack", START, 300.0)), as_host=None).accepted == 2
    assert alpha.host("rack").registered_at is None


@recorded("nws/service/wrong_names.txt", "name")
def test_names_that_are_none_refuse_the_batch(alpha, answered, name):
    with pytest.raises(Refused) as caught:
        alpha.put(batch((ALPHA, START, 0.5), (name, START, 1.0)), as_host=None)
    answered(str(caught.value))
    assert kept(alpha) == []
    assert len(alpha._parts.forecaster.catalogue) == 0


def test_who_is_not_registered_may_not_write(alpha):
    with pytest.raises(UnknownHost):
        alpha.put(batch(("cpu.new@gamma", START, 0.5)), as_host="gamma")


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


def test_sample_out_of_range_is_left_out_alone_and_acknowledged(alpha, clock):
    values = [0.5, np.nan, np.inf, -2e120, 0.6]
    receipt = alpha.put(
        batch(
            *((ALPHA, START, value) for value in values),
            (ALPHA, START + 7201, 0.7),
            (ALPHA, START - 800 * 86400, 0.7),
            (ALPHA, float("nan"), 0.7),
            (ALPHA, START + 7200, 0.8),
            source="alpha/1",
        ),
        as_host="alpha",
    )
    assert (receipt.accepted, receipt.next, receipt.refused.count) == (3, 9, 6)
    assert [r.partition(": ")[2].partition(" ")[0] for r in receipt.refused.reasons[:3]] == [
        "nan",
        "inf",
        "-2e+120",
    ]
    assert "2 h ahead of the service's clock; at most 2 h is taken" in receipt.refused.reasons[3]
    assert "800 d behind the service's clock; at most 730 d" in receipt.refused.reasons[4]
    assert [v for _, v in kept(alpha)] == [0.5, 0.6, 0.8]
    assert alpha.counters().samples_refused == 6


def test_twenty_reasons_are_enough(alpha):
    receipt = alpha.put(batch(*((ALPHA, START, np.nan) for _ in range(50))), as_host="alpha")
    assert (receipt.refused.count, len(receipt.refused.reasons)) == (50, 20)


def test_repeated_delivery_doubles_nothing(alpha):
    first = batch(*((ALPHA, START + i, i / 10) for i in range(4)), source="alpha/1", first=0)
    more = batch(*((ALPHA, START + i, i / 10) for i in range(2, 6)), source="alpha/1", first=2)
    assert [alpha.put(b, as_host="alpha").accepted for b in (first, first, more)] == [4, 0, 2]
    assert alpha.put(more, as_host="alpha").next == 6
    assert [v for _, v in kept(alpha)] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert alpha.forecasts([ALPHA]).popitem()[1].samples == 6
    assert alpha.counters().samples_repeated == 4 + 2 + 4


def test_what_was_refused_in_a_stream_is_refused_again_and_the_stream_goes_on(alpha):
    bad = batch((ALPHA, START, np.nan), (ALPHA, START, 0.5), (ALPHA, START, np.nan), source="alpha", first=0)
    for _ in range(2):
        receipt = alpha.put(bad, as_host="alpha")
        assert (receipt.next, receipt.refused.count) == (3, 2)
    assert alpha.put(batch((ALPHA, START + 1, 0.6), source="alpha", first=3), as_host="alpha").accepted == 1
    assert len(kept(alpha)) == 2


def test_streams_are_remembered_over_restarts(start):
    first = start()
    registered(first, "alpha")
    stream = batch((ALPHA, START, 0.5), (ALPHA, START + 1, 0.6), source="alpha/1")
    first.put(stream, as_host="alpha")
    kill(first)
    second = start()
    assert second.put(stream, as_host="alpha").accepted == 0
    assert len(kept(second)) == 2


@pytest.mark.parametrize("source", ["beta", "beta/1", "alphabet/1", "alpha2"])
def test_nobody_moves_the_stream_of_another_host(alpha, source):
    with pytest.raises(ForeignSeries, match="its own begin with alpha/"):
        alpha.put(batch((ALPHA, START, 0.5), source=source, first=10**6), as_host="alpha")
    assert kept(alpha) == []


@pytest.mark.parametrize(
    ("source", "first"), [("a b", 0), ("", 0), ("a" * 200, 0), ("a", -1), ("a", 1 << 60)]
)
def test_streams_have_names_and_numbers(alpha, source, first):
    with pytest.raises(Refused, match="expected 1 to 128 of"):
        alpha.put(batch((ALPHA, START, 0.5), source=source, first=first), as_host=None)


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


def test_file_inserted_again_after_many_others_is_kept_once(start, clock):
    service = start(settings(limits=Limits(streams_per_host=2)))
    files = [batch((ALPHA, START - 10 - i, 0.5), source=f"insert/{i}") for i in range(5)]
    for file in files:
        clock.advance(1)
        assert service.put(file, as_host=None).accepted == 1
    clock.advance(3600)
    service.tick()
    assert [service.put(file, as_host=None).accepted for file in files] == [0] * 5


def test_sign_of_life_is_a_batch_without_samples(alpha):
    receipt = alpha.put(batch(status={"done": 12.0}), as_host="alpha")
    assert (receipt.accepted, receipt.next, receipt.refused.count) == (0, 0, 0)
    assert alpha.host("alpha").status == {"done": 12.0}
    assert alpha.put(batch(source="alpha/1", first=7), as_host="alpha").next == 7


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


def test_samples_come_as_they_come(alpha):
    """Late samples are kept in their place and seen by the battery when they come."""
    for t in (5, 1, 3):
        alpha.put(batch((ALPHA, START + t, t / 10)), as_host="alpha")
    assert kept(alpha) == [(START + 1, 0.1), (START + 3, 0.3), (START + 5, 0.5)]
    assert alpha.forecasts([ALPHA]).popitem()[1].last == 0.3
