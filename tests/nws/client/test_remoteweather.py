"""The weather from a service: one step for everything, composed pairs marked, answers of other releases refused."""

import copy
import math

import pytest

from nws.base.errors import ServiceError, ServiceUnreachable, TooMany
from nws.client import RemoteWeather
from nws.client.remote import ServiceClient
from nws.client.remotesnapshot import RemoteHost, read_forecasts, read_hosts, read_kept, read_snapshot
from nws.client.remoteweather import COMPOSED_MOST, all_samples, complete, take_snapshot
from nws.links.composition import Link
from nws.series import Forecast, Measurement, Resource, Series
from nws.service.serviceconfig import Limits, ServiceConfig
from nws.testing import InMemoryServer

A_TO_C = Series(Resource.LATENCY, "a", "c")


@pytest.fixture
def document(server):
    with server.client() as client:
        return client.snapshot(composed=True)


def test_forecasts_of_everything_in_one_call(server):
    with RemoteWeather(server.url) as weather:
        found = weather.forecasts()
    share = found[Series.parse("cpu.new@a")]
    assert (share.value, share.samples, share.last, share.measured_at) == (0.5, 3, 0.5, 1.8e9)
    assert share.method
    assert (share.mae, share.rmse) == (0.0, 0.0)
    assert len(found) == 14 + 4


@pytest.mark.parametrize("hosts", [None, ["a", "c"], ["c", "a", "b", "a"]])
def test_pair_that_nobody_measures_says_its_path(server, hosts):
    with RemoteWeather(server.url, hosts=hosts) as weather:
        snapshot = weather.snapshot()
    forecast = snapshot.forecasts[A_TO_C]
    assert forecast.method == "composed via b"
    assert forecast.value == pytest.approx(2e-3)
    assert (forecast.samples, math.isnan(forecast.last)) == (0, True)
    assert snapshot.through == {("a", "c"): ("b",), ("c", "a"): ("b",)}


def test_only_the_hosts_asked_for_and_pairs_among_them(server):
    with RemoteWeather(server.url, hosts=["a", "c"], composed=False) as weather:
        found = weather.forecasts()
        assert [h.name for h in weather.hosts()] == ["a", "c"]
    assert {name for s in found for name in (s.host, s.peer) if name} == {"a", "c"}
    assert A_TO_C not in found


@pytest.mark.parametrize("hosts", [["a", "nobody"], ["a", "not a name"]])
def test_hosts_that_the_service_does_not_know_are_absent(server, hosts):
    with RemoteWeather(server.url, hosts=hosts) as weather:
        assert [h.name for h in weather.snapshot().hosts] == ["a"]


@pytest.mark.parametrize("hosts", [["nobody"], ["not a name"], []])
def test_nobody_known_nothing_forecast(server, hosts):
    with RemoteWeather(server.url, hosts=hosts) as weather:
        snapshot = weather.snapshot()
    assert (snapshot.hosts, snapshot.forecasts, snapshot.now) == ((), {}, 1.8e9)


def test_more_hosts_than_an_address_holds_are_sorted_out_here(server):
    many = [f"n{k}" for k in range(300)]
    with RemoteWeather(server.url, hosts=["a", *many]) as weather:
        assert {s.host for s in weather.forecasts()} == {"a"}


def test_ages_are_told_by_the_clock_of_the_service(server, clock):
    clock.t += 60.0
    with RemoteWeather(server.url) as weather:
        snapshot = weather.snapshot()
    assert snapshot.age_s(Series.parse("cpu.new@a")) == 60.0
    assert snapshot.age_s(A_TO_C) == 60.0


def test_what_is_known_of_a_host(server, clock):
    clock.t += 100.0
    server.service.tick()
    with RemoteWeather(server.url) as weather:
        (a, *_) = weather.hosts()
    assert (a.name, a.cpus, a.cpu_model, a.site, a.memory_bytes) == ("a", 2, "Some CPU", "lab", 2.0**30)
    assert (a.lost, a.last_seen, a.cliques, a.series) == (True, 1.8e9, ("west",), 4)


def test_service_that_composes_no_more_than_it_likes_still_tells_what_is_measured(clock):
    with InMemoryServer(ServiceConfig(limits=Limits(composed_pairs=0)), clock=clock) as server:
        for name in ("network.latency@a>b", "network.latency@b>c"):
            server.put([Measurement(Series.parse(name), clock.t, 1e-3)])
        for host in "abc":
            server.register(host)
        with server.client() as client:
            with pytest.raises(TooMany):
                client.snapshot(hosts=["a", "c"], composed=True)
            assert A_TO_C not in take_snapshot(client, ["a", "c"]).forecasts
            assert take_snapshot(client, None).forecasts[A_TO_C].method == "composed via b"


def test_service_that_is_gone(server):
    server.stop()
    with RemoteWeather(server.url, timeout_s=1.0) as weather, pytest.raises(ServiceUnreachable):
        weather.forecasts()


# what is composed here


def forecast(value, measured_at=1.8e9, samples=3):
    return Forecast(
        value=value, mae=0.0, rmse=0.1, method="m", samples=samples, measured_at=measured_at, last=value
    )


def snapshot_of(forecasts, lost=()):
    series = {Series.parse(name): f for name, f in forecasts.items()}
    names = sorted({n for s in series for n in (s.host, s.peer) if n})
    hosts = tuple(RemoteHost(name=n, lost=n in lost) for n in names)
    return snapshot_like(hosts, series)


def snapshot_like(hosts, forecasts):
    from nws.client.remotesnapshot import RemoteSnapshot

    return RemoteSnapshot(now=1.8e9, grid="g", hosts=hosts, forecasts=forecasts)


def test_links_are_as_old_as_their_older_series():
    found = (
        snapshot_of(
            {
                "network.latency@a>b": forecast(1.0, 50.0),
                "network.bandwidth@a>b": forecast(2.0, 40.0),
                "network.latency@b>a": forecast(3.0, 60.0),
                "network.bandwidth@b>c": forecast(3.0, 60.0),
            }
        )
    ).links()
    assert found["a", "b"] == Link(
        latency_s=1.0, latency_error_s=0.1, bandwidth_Bps=2.0, bandwidth_error_Bps=0.1, measured_at=40.0
    )
    assert found.keys() == {("a", "b"), ("b", "a")}
    assert math.isnan(found["b", "a"].bandwidth_Bps)
    assert found["b", "a"].measured_at == 60.0


def test_no_path_crosses_a_lost_host():
    forecasts = {"network.latency@a>b": forecast(1.0), "network.latency@b>c": forecast(1.0)}
    assert A_TO_C in complete(snapshot_of(forecasts)).forecasts
    assert A_TO_C not in complete(snapshot_of(forecasts, lost=["b"])).forecasts


def test_links_that_are_too_old_are_no_parts_of_paths():
    snapshot = snapshot_of(
        {"network.latency@a>b": forecast(1.0), "network.latency@b>c": forecast(1.0, 1.8e9 - 100)}
    )
    assert snapshot.matrix().through(0, 2) == ("b",)
    assert snapshot.matrix(oldest_s=50.0).before[0, 2] == -1
    assert snapshot.links(oldest_s=50.0).keys() == {("a", "b")}


def test_pairs_of_one_host_are_composed_however_many_there_are():
    far = {f"network.latency@b>h{k:03}": forecast(1.0) for k in range(COMPOSED_MOST)}
    snapshot = snapshot_of({"network.latency@a>b": forecast(1.0), **far})
    assert complete(snapshot).through == {}
    assert complete(snapshot, of="a").through == {("a", f"h{k:03}"): ("b",) for k in range(COMPOSED_MOST)}


def test_of_very_many_hosts_nothing_is_composed():
    hosts = tuple(RemoteHost(name=f"h{k}") for k in range(COMPOSED_MOST + 1))
    everything = snapshot_like(hosts, {})
    assert complete(everything) is everything


# answers that are not what this release reads


def test_what_the_service_sends_is_read_back(document, server):
    snapshot = read_snapshot(document, server.url)
    assert (snapshot.grid, snapshot.now) == ("lab", 1.8e9)
    assert len(snapshot.forecasts) == 18
    assert {s.peer for s in snapshot.restrict(["a", "b"]).forecasts} == {None, "a", "b"}


@pytest.mark.parametrize("change", [{"version": 2}, {"format": "other"}, {"format": None}])
def test_another_version_is_refused(document, change):
    with pytest.raises(
        ServiceError, match="this release reads nws-snapshot version 1: use releases of one age"
    ):
        read_snapshot(document | change, "http://x")


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("series"),
        lambda d: d.pop("now"),
        lambda d: d["series"].pop("mae"),
        lambda d: d["series"]["forecast"].pop(),
        lambda d: d["series"].update(name=["nonsense"] * len(d["series"]["name"])),
        lambda d: d["series"].update(method=[99] * len(d["series"]["name"])),
        lambda d: d["series"].update(forecast=["x"] * len(d["series"]["name"])),
        lambda d: d["hosts"].append({}),
        lambda d: d.update(hosts=None),
        lambda d: d["composed"].pop("through"),
    ],
)
def test_answer_that_cannot_be_understood_is_one_error(document, damage):
    damaged = copy.deepcopy(document)
    damage(damaged)
    with pytest.raises(ServiceError, match=r"http://x: its answer cannot be understood \(.+\); use releases"):
        read_snapshot(damaged, "http://x")


@pytest.mark.parametrize(
    "read", [read_hosts, read_kept, read_forecasts], ids=["hosts", "series", "forecasts"]
)
@pytest.mark.parametrize("answer", [{}, {"now": 1, "hosts": [3], "series": [3], "forecasts": [3]}])
def test_so_are_the_others(read, answer):
    with pytest.raises(ServiceError, match="cannot be understood"):
        read(answer, "http://x")


def test_series_without_a_forecast_is_left_out(document):
    document["series"]["forecast"][0] = None
    first = Series.parse(document["series"]["name"][0])
    assert first not in read_snapshot(document, "http://x").forecasts


# samples in as many requests as it takes


def test_all_samples_come_back_oldest_first_whatever_one_request_holds(server, monkeypatch):
    series = Series.parse("x.power@a")
    server.put(Measurement(series, 1.8e9 - 100 + k, float(k)) for k in range(25))
    monkeypatch.setattr("nws.client.remoteweather.SAMPLES_PER_REQUEST", 10)
    with ServiceClient(server.url) as client:
        times, values = all_samples(client, str(series))
        assert list(values) == [float(k) for k in range(25)]
        assert list(times) == sorted(times)
        times, values = all_samples(client, str(series), since=1.8e9 - 95, until=1.8e9 - 84)
    assert list(values) == [float(k) for k in range(5, 17)]


def test_outlooks_of_snapshot_and_forecasts_agree(server):
    share = Series.parse("cpu.new@a")
    with RemoteWeather(server.url) as weather:
        found = weather.forecasts((60.0, 600.0))[share]
        _, listed = read_forecasts(weather.client.forecasts([str(share)], over_s=(60.0, 600.0)), server.url)
    assert [one.over_s for one in found.outlooks] == [60.0, 600.0]
    # by their texts, as `held` is NaN without outcomes
    assert repr(listed[share].outlooks) == repr(found.outlooks)
    assert found.outlooks[0].low < 0.5 < found.outlooks[0].high <= 1.0


def test_outlooks_at_other_shares_are_refused(server):
    with server.client() as client:
        document = client.snapshot(over_s=[60.0])
    document["outlooks"]["shares"] = [0.5]
    with pytest.raises(ServiceError, match=r"quantiles at \[0.5\]"):
        read_snapshot(document, server.url)
