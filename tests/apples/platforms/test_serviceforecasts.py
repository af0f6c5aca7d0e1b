"""Plans from a weather service: names matched, stale and lost named, and what happens without it."""

import math
import time

import pytest

from apples.model.grid import Grid, Host
from apples.model.snapshotdocument import snapshot_document
from apples.platforms import local, serviceforecasts as serviceweather
from apples.platforms.local import NOT_MEASURED, LocalPlatform
from apples.platforms.serviceforecasts import ServiceWeather
from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client import Endpoint, local_host
from nws.series import Measurement, Resource, Series
from nws.service.serviceconfig import CliqueConfig, ServiceConfig
from nws.testing import InMemoryServer

#: The service's clock is months away from this machine's.
NOW = 1.7e9


class Clock:
    t = NOW

    def __call__(self):
        return self.t


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def server(clock):
    """Hosts a, b, c in a row, all at 0.5 CPU; a-b and b-c are measured."""
    cliques = {"west": CliqueConfig(members=("a", "b")), "east": CliqueConfig(members=("b", "c"))}
    config = ServiceConfig(grid="lab", cliques=cliques, lost_after_s=1e6)
    with InMemoryServer(config, clock=clock) as server:
        for host in "abc":
            server.register(host, cpus=4, cpu_model="Some CPU", site="lab", address=f"10.9.0.{ord(host)}")
        put(server, "abc", ["a>b", "b>a", "b>c", "c>b"])
        yield server


def put(server, hosts, pairs=(), at=NOW, share=0.5):
    values = {f"cpu.new@{h}": share for h in hosts}
    values |= {f"cpu.capacity@{h}": 4 * share for h in hosts} | {f"memory.free@{h}": 4e9 for h in hosts}
    values |= {f"network.latency@{p}": 1e-3 for p in pairs} | {f"network.bandwidth@{p}": 1e8 for p in pairs}
    server.put(
        Measurement(Series.parse(name), at - ago, value)
        for ago in (20.0, 10.0, 0.0)
        for name, value in values.items()
    )


def service_at(server, **options):
    return ServiceWeather(Endpoint.of(server.url), **options)


def grid_of(*hosts):
    hosts = tuple(host if isinstance(host, Host) else Host(name=host, slots=4) for host in hosts)
    return Grid(name="lab", hosts=hosts, source="lab.yaml")


class QuietWeather(local.LocalWeather):
    """The weather of this host without its sensors: what they would say is said here."""

    def measure(self, *, rounds, interval_s):
        now = time.time()
        values = {Resource.CPU_NEW: 0.75, Resource.CPU_CAPACITY: 1.5, Resource.MEMORY_FREE: 5e9}
        self._memory.append(
            Measurement(Series(resource, self.host), now, value)
            for _ in range(rounds)
            for resource, value in values.items()
        )


@pytest.fixture
def said():
    return []


@pytest.fixture
def look(server, said, monkeypatch, tmp_path):
    """Snapshot of hosts through the service."""
    monkeypatch.setattr(local, "LocalWeather", QuietWeather)

    def take(*hosts, service=None, **options):
        platform = LocalPlatform(
            grid_of(*hosts),
            weather_file=tmp_path / "weather.db",
            service=service or service_at(server, **options),
        )
        return platform.snapshot(said.append)

    return take


def test_host_is_as_the_service_says(look, server, said):
    snapshot = look("a", "b")
    a, b = snapshot.conditions
    assert (a.availability.value, a.capacity.value, a.memory_bytes.value) == (0.5, 2.0, 4e9)
    assert (b.availability.samples, b.availability.age_s) == (3, 0.0)
    assert (snapshot.latency_s[0, 1], snapshot.bandwidth_Bps[1, 0]) == (1e-3, 1e8)
    assert snapshot.source == f"the weather service at {server.url} (grid lab, nothing older than 300 s)"
    assert (snapshot.notes, said) == ((), [])


def test_pair_that_nobody_measures_is_composed_and_marked(look):
    snapshot = look("a", "c")
    assert snapshot.latency_s[0, 1] == pytest.approx(2e-3)
    assert snapshot.through == {("a", "c"): ("b",), ("c", "a"): ("b",)}
    links = snapshot_document(snapshot)["links"]
    assert (links["measured"], links["composed"], links["nominal"], links["oldest_s"]) == (0, 2, 0, 0.0)
    assert snapshot.restrict(["a"]).through == {}


def test_ages_are_by_the_clock_of_the_service(look, clock):
    clock.t += 60.0
    snapshot = look("a", "b")
    assert snapshot.conditions[0].availability.age_s == 60.0
    assert snapshot.pair_age_s[0, 1] == 60.0
    assert math.isnan(snapshot.pair_age_s[0, 0])


def test_stale_forecasts_count_as_unmeasured_and_are_named(look, server, clock, said):
    clock.t += 200.0
    put(server, "a", ["a>b"], at=clock.t)
    snapshot = look("a", "b", stale_after_s=100.0)
    a, b = snapshot.conditions
    assert (a.availability.method != "nominal", b.availability.method) == (True, "nominal")
    assert snapshot.stale == (
        "cpu.capacity@b",
        "cpu.new@b",
        "memory.free@b",
        "network.bandwidth@b>a",
        "network.latency@b>a",
    )
    (note,) = snapshot.notes
    assert said == [note]
    assert note == (
        "5 forecasts of the weather service not used, older than 100 s: cpu.capacity@b, cpu.new@b, memory.free@b, "
        "network.bandwidth@b>a, network.latency@b>a"
    )
    assert snapshot_document(snapshot)["stale"] == list(snapshot.stale)


def test_composed_pair_is_as_stale_as_its_oldest_part(look, server, clock):
    clock.t += 200.0
    put(server, "abc", ["a>b"], at=clock.t)
    assert look("a", "c", stale_after_s=100.0).through == {}


def test_hosts_that_are_lost_are_named(look, server, clock):
    clock.t += 2e6
    server.service.tick()
    put(server, "a", at=clock.t)
    assert look("a").notes == ("a lost: the weather service has not heard of it for a while",)


def test_hosts_that_the_service_does_not_know_are_named(look, server):
    snapshot = look("a", "x1", "x2")
    assert snapshot.notes == (f"x[1-2] unknown to the weather service at {server.url}",)
    assert snapshot.conditions[1].availability.method == "nominal"


@pytest.mark.parametrize(
    "host", [Host(name="alpha", address="a"), Host(name="alpha", address="a.example.org"), Host(name="a.lab")]
)
def test_host_is_known_by_its_address_and_by_its_short_name_too(look, host):
    snapshot = look(host, "b")
    assert snapshot.conditions[0].availability.value == 0.5
    assert snapshot.latency_s[0, 1] == 1e-3


def test_this_machine_is_known_by_its_own_name(look, server, said):
    put(server, [local_host()], share=0.25)
    snapshot = look(Host(name="localhost", slots=2))
    assert snapshot.conditions[0].availability.value == 0.25
    assert said == []


def test_this_machine_is_measured_where_the_service_does_not_know_it(look, server, said):
    snapshot = look(Host(name="localhost", slots=2), "a")
    here, a = snapshot.conditions
    assert (here.availability.value, a.availability.value) == (0.75, 0.5)
    assert 0.0 <= here.availability.age_s < 60.0
    assert said == [
        f"localhost unknown to the weather service at {server.url}",
        "measuring localhost (0 earlier measurements)",
    ]
    assert snapshot.source.endswith(", and sensors on this machine for localhost")


def test_this_machine_is_measured_where_the_service_knows_only_its_past(look, server, clock, said):
    put(server, [local_host()], share=0.25)
    clock.t += 400.0
    snapshot = look(Host(name="localhost", slots=2))
    assert snapshot.conditions[0].availability.value == 0.75
    assert len(snapshot.stale) == 3
    assert said[-1] == "measuring localhost (0 earlier measurements)"


def test_service_that_is_gone_is_one_line_and_this_machine_is_measured(look, server, said):
    server.stop()
    snapshot = look(Host(name="localhost", slots=2), "a")
    here, a = snapshot.conditions
    assert (here.availability.value, a.availability.method) == (0.75, "nominal")
    first, second = said
    assert first.startswith(f"no weather from the service ({server.url}: ")
    assert first.endswith("; planning with what can be measured here")
    assert second == "measuring localhost (0 earlier measurements)"
    assert (snapshot.notes, snapshot.source) == ((first,), "sensors on this machine")


def test_service_that_is_gone_and_hosts_elsewhere(look, server):
    server.stop()
    assert look("a", "b").source == NOT_MEASURED


@pytest.mark.parametrize("token", [None, "no-such-token-at-all"])
def test_service_that_refuses_the_token(look, said, clock, token):
    with InMemoryServer(clock=clock, tokens={"read": ["reading-0123456789"]}) as guarded:
        service = ServiceWeather(Endpoint(url=guarded.url, token=token))
        snapshot = look(Host(name="localhost", slots=2), service=service)
    assert snapshot.conditions[0].availability.value == 0.75
    assert said[0].startswith(f"no weather from the service ({guarded.url}: ")
    assert "\n" not in said[0]


# the pool


def test_pool_is_every_host_that_is_alive(server, said):
    grid = service_at(server).pool(said.append)
    assert [(h.name, h.slots, h.cpu_type, h.site, h.memory_bytes) for h in grid.hosts] == [
        (name, 4, "Some CPU", "lab", 2.0**30) for name in "abc"
    ]
    assert [h.address for h in grid.hosts] == [f"10.9.0.{ord(h)}" for h in "abc"]
    assert grid.source == f"the weather service at {server.url}"
    assert said == []


def test_hosts_that_are_lost_or_never_registered_are_no_pool(clock, said):
    with InMemoryServer(clock=clock) as server:
        server.register("old")
        clock.t += 100.0
        server.service.tick()
        server.register("new")
        put(server, ["elsewhere"], at=clock.t)
        grid = service_at(server).pool(said.append)
    assert [h.name for h in grid.hosts] == ["new"]
    assert said == [
        "old left out of the pool: lost",
        "elsewhere left out of the pool: known by their series only, no sensor registered them",
    ]


def test_two_sensors_of_this_machine_are_one_host(server, said):
    server.register("one", address="127.0.0.1")
    server.register(local_host(), address="127.0.0.1")
    grid = service_at(server).pool(said.append)
    assert [h.name for h in grid.hosts if h.address == "localhost"] == [local_host()]
    assert said == [f"one left out of the pool: the same machine as {local_host()}"]
    LocalPlatform(grid)


def test_service_without_hosts_is_no_pool(clock, said):
    with InMemoryServer(clock=clock) as server:
        service = service_at(server)
        assert service.pool(said.append) is None
        assert said == [f"{server.url} knows no host that is alive; the pool is this machine"]


def test_service_that_is_gone_is_asked_once_and_told_once(look, server, said, monkeypatch):
    server.stop()
    service = service_at(server)
    assert service.pool(said.append) is None
    assert said == []
    monkeypatch.setattr(serviceweather, "RemoteWeather", None)
    look(Host(name="localhost", slots=2), service=service)
    assert len([line for line in said if line.startswith("no weather from the service")]) == 1


# events


def events(server):
    with server.client() as client:
        found = client.events()["events"]
    return [(e["t"], e["kind"], e["text"]) for e in found if not e["kind"].startswith("host")]


def test_what_is_told_is_marked_at_the_services_own_time(server, clock):
    service = service_at(server)
    service.forecasts(grid_of("a"))
    clock.t += 5.0
    service.report("plan made", "heat 64 on a")
    ((t, kind, text),) = events(server)
    assert (kind, text) == ("plan made", "heat 64 on a")
    assert abs(t - NOW) < 60.0


def test_very_long_text_is_cut(server):
    service = service_at(server)
    service.forecasts(grid_of("a"))
    service.report("plan made", "x" * 5000)
    assert len(events(server)[0][2]) == 500


def test_service_that_did_not_answer_is_told_nothing(server, monkeypatch):
    monkeypatch.setattr(serviceweather, "ServiceClient", None)
    service_at(server).report("plan made", "x")


@pytest.mark.parametrize("error", [ServiceUnreachable("gone"), ServiceError.of(403, "not with this token")])
def test_telling_that_fails_once_is_not_tried_again(server, monkeypatch, error):
    asked = []

    class Failing:
        @staticmethod
        def at(endpoint, *, timeout_s):
            asked.append(timeout_s)
            raise error

    service = service_at(server)
    service.forecasts(grid_of("a"))
    monkeypatch.setattr(serviceweather, "ServiceClient", Failing)
    service.report("plan made", "x")
    service.report("run ended", "x")
    assert asked == [1.0]


# many hosts: all pairs at once


@pytest.mark.parametrize("few", [32, 1])
def test_many_hosts_are_composed_here_and_come_out_the_same(look, server, clock, monkeypatch, few):
    monkeypatch.setattr(serviceweather, "_FEW", few)
    clock.t += 30.0
    snapshot = look(Host(name="alpha", address="a", slots=4), "c", "x")
    assert snapshot.latency_s[0, 1] == pytest.approx(2e-3)
    assert snapshot.bandwidth_Bps[0, 1] == 1e8
    assert snapshot.pair_age_s[0, 1] == 30.0
    assert snapshot.through == {("alpha", "c"): ("b",), ("c", "alpha"): ("b",)}
    links = snapshot_document(snapshot)["links"]
    assert (links["measured"], links["composed"], links["nominal"]) == (0, 2, 4)
    assert snapshot.conditions[0].availability.value == 0.5


def test_of_many_hosts_stale_links_are_no_part_of_a_path(look, server, clock, monkeypatch):
    monkeypatch.setattr(serviceweather, "_FEW", 1)
    clock.t += 200.0
    put(server, "abc", ["a>b"], at=clock.t)
    assert look("a", "c", stale_after_s=100.0).through == {}


def test_measured_pairs_stay_as_they_are_measured(look, server, monkeypatch):
    monkeypatch.setattr(serviceweather, "_FEW", 1)
    snapshot = look("a", "b", "c")
    links = snapshot_document(snapshot)["links"]
    assert (links["measured"], links["composed"], links["nominal"]) == (4, 2, 0)
