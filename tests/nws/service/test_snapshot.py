"""The snapshot: everything of one instant in one document, and pairs that nobody measures."""

import itertools

import numpy as np
import orjson
import pytest

from nws.base.errors import TooMany
from nws.forecasting.batteries import BatteryBank
from nws.server.encoding import encode
from nws.service.serviceconfig import Limits

from .helpers import START, batch, registered, settings

HOSTS = ("a", "b", "c")


def network(pairs, t=START, *, latency_s=1e-3, bandwidth_Bps=1e7):
    for i, (start, end) in enumerate(pairs):
        yield f"network.latency@{start}>{end}", t, latency_s * (i + 1)
        yield f"network.bandwidth@{start}>{end}", t, bandwidth_Bps * (i + 1)


@pytest.fixture
def grid(service, clock):
    """Three hosts, of which a-b and b-c are measured."""
    registered(service, *HOSTS)
    measured = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]
    for k in range(3):
        t = START + 10 * k
        service.put(batch(*((f"cpu.new@{h}", t, 0.5 + 0.1 * k) for h in HOSTS)), as_host=None)
        service.put(batch(*network(measured, t)), as_host=None)
    clock.advance(25)
    return service


def rows(document, part="series", key="name"):
    names = document[part][key]
    columns = {k: v for k, v in document[part].items() if k != key}
    return {n: {k: v[i] for k, v in columns.items()} for i, n in enumerate(names)}


def test_one_document_holds_the_whole_grid(grid):
    document = orjson.loads(encode(grid.snapshot()))
    assert (document["format"], document["version"]) == ("nws-snapshot", 1)
    assert (document["now"], document["grid"]) == (START + 25, "grid")
    assert [h["name"] for h in document["hosts"]] == list(HOSTS)
    assert document["hosts"][0] == {
        "name": "a",
        "address": "a.example",
        "port": 4000,
        "site": None,
        "cpus": 4,
        "cpu_model": "",
        "memory_bytes": 0,
        "version": "",
        "registered_at": START,
        "last_seen": START,
        "lost": False,
        "cliques": list(grid.host("a").cliques),
        "series": 3,
        "status": {},
        "fault": None,
    }
    names = document["series"]["name"]
    assert names == sorted(names)
    assert len(names) == 3 + 8
    assert {len(column) for column in document["series"].values()} == {11}
    assert "composed" not in document


def test_its_columns_are_the_forecasts(grid):
    document = orjson.loads(encode(grid.snapshot()))
    found = rows(document)
    for series, forecast in grid.forecasts().items():
        row = found[str(series)]
        assert row == {
            "forecast": forecast.value,
            "mae": forecast.mae,
            "rmse": forecast.rmse,
            "last": forecast.last,
            "measured_at": forecast.measured_at,
            "age_s": 25.0 + START - forecast.measured_at,
            "samples": 3,
            "method": row["method"],
        }
        assert document["methods"][row["method"]] == forecast.method


def test_what_is_not_known_is_null(service):
    service.put(batch(("cpu.new@a", START, 0.5)), as_host=None)
    row = rows(orjson.loads(encode(service.snapshot())))["cpu.new@a"]
    assert (row["forecast"], row["mae"], row["rmse"]) == (0.5, None, None)


def test_empty_service_has_an_empty_snapshot(service):
    document = orjson.loads(encode(service.snapshot(composed=True)))
    assert (document["hosts"], document["series"]["name"], document["composed"]["from"]) == ([], [], [])


def test_some_hosts_and_what_is_between_them(grid):
    document = orjson.loads(encode(grid.snapshot(hosts=["a", "b", "nobody"])))
    assert [h["name"] for h in document["hosts"]] == ["a", "b"]
    assert document["series"]["name"] == [
        "cpu.new@a",
        "cpu.new@b",
        "network.bandwidth@a>b",
        "network.bandwidth@b>a",
        "network.latency@a>b",
        "network.latency@b>a",
    ]
    assert orjson.loads(encode(grid.snapshot(hosts=[])))["series"]["name"] == []


def test_names_stay_right_as_series_come(grid):
    before = orjson.loads(encode(grid.snapshot()))["series"]["name"]
    grid.put(batch(("cpu.new@aa", START, 0.5)), as_host=None)
    after = orjson.loads(encode(grid.snapshot()))["series"]["name"]
    assert sorted([*before, "cpu.new@aa"]) == after
    for hosts in itertools.permutations(HOSTS, 2):
        names = orjson.loads(encode(grid.snapshot(hosts=hosts)))["series"]["name"]
        assert all(set(name.partition("@")[2].split(">")) <= set(hosts) for name in names)


def test_pairs_nobody_measures_are_composed_along_the_path(grid):
    document = orjson.loads(encode(grid.snapshot(composed=True)))
    composed = document["composed"]
    assert list(zip(composed["from"], composed["to"], strict=True)) == [("a", "c"), ("c", "a")]
    assert composed["through"] == [["b"], ["b"]]
    assert composed["latency_s"] == pytest.approx([1e-3 + 3e-3, 4e-3 + 2e-3])
    assert composed["bandwidth_Bps"] == [1e7, 2e7]
    assert composed["measured_at"] == [START + 20, START + 20]
    assert composed["age_s"] == [5.0, 5.0]


def test_paths_may_lead_over_hosts_that_were_not_asked_for(grid):
    document = orjson.loads(encode(grid.snapshot(hosts=["a", "c"], composed=True)))
    assert document["series"]["name"] == ["cpu.new@a", "cpu.new@c"]
    assert document["composed"]["through"] == [["b"], ["b"]]


def test_pair_without_a_path_is_absent(grid):
    registered(grid, "island")
    pairs = orjson.loads(encode(grid.snapshot(composed=True)))["composed"]
    assert "island" not in pairs["from"] + pairs["to"]


def test_composition_is_that_of_the_library(grid):
    """Errors come from the batteries' RMSE, and go through `compose` untouched."""
    rng = np.random.default_rng(2)
    noisy = [START + 30 + i for i in range(30)]
    for t in noisy:
        grid.put(batch(("network.latency@a>b", t, float(1e-3 * rng.random()))), as_host=None)
    composed = grid.snapshot(composed=True).composed
    links = {}
    for pair in (("a", "b"), ("b", "c")):
        name = f"network.latency@{pair[0]}>{pair[1]}"
        forecast = next(iter(grid.forecasts([name]).values()))
        links[pair] = forecast
    expected = np.hypot(links["a", "b"].rmse, links["b", "c"].rmse)
    ac = [*zip(composed.start, composed.end, strict=True)].index(("a", "c"))
    assert composed.latency_error_s[ac] == pytest.approx(expected)


def test_so_many_pairs_are_composed_at_once(start):
    service = start(settings(limits=Limits(composed_pairs=10)))
    registered(service, "a", "b", "c", "d")
    with pytest.raises(TooMany, match=r"composing 12 pairs of 4 hosts: at most 10.*name the hosts"):
        service.snapshot(composed=True)
    assert service.snapshot(hosts=["a", "b", "c"], composed=True).composed.start == []


@pytest.mark.parametrize("hours", [-1, 1])
def test_ages_are_never_negative(grid, clock, hours):
    clock.step(3600 * hours)
    age_s = grid.snapshot().series.age_s
    assert (age_s >= 0).all()
    assert all(s.age_s >= 0 for s in grid.series())
    grid.put(batch(("cpu.new@a", clock(), 0.9)), as_host="a")
    assert grid.forecasts(["cpu.new@a"]).popitem()[1].last == 0.9


def test_hosts_from_elsewhere_are_there_too(grid):
    grid.put(batch(("memory.free@rack", START + 20, 1e9), ("cpu.new@rack", START + 10, 0.5)), as_host=None)
    state = grid.host("rack")
    assert (state.registered_at, state.address, state.last_seen, state.lost) == (
        None,
        None,
        START + 20,
        False,
    )
    assert state.series == 2


def test_series_are_found_by_host_and_resource(grid):
    assert [s.series for s in grid.series(host="a", resource="network.latency")] == [
        "network.latency@a>b",
        "network.latency@b>a",
    ]
    assert [s.series for s in grid.series(host="nobody")] == []
    assert [s.series for s in grid.series(resource="x.power")] == []
    (state,) = grid.series(host="c", resource="cpu.new")
    assert (state.unit, state.samples, state.last, state.measured_at, state.age_s) == (
        "CPU",
        3,
        0.7,
        START + 20,
        5.0,
    )


def test_battery_of_one_agrees(grid):
    battery = BatteryBank(1)
    battery.update_many([0] * 3, [0.5, 0.6, 0.7], [START, START + 10, START + 20])
    assert grid.forecasts(["cpu.new@b"]).popitem()[1] == battery.forecast(0)
