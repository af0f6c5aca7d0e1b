"""Plans from a weather service: names matched, stale and lost named, and what happens without it."""

import math

import pytest

from apples.model.grid import Grid, Host
from apples.model.snapshotdocument import snapshot_document
from apples.platforms import serviceforecasts as serviceweather
from apples.platforms.local import LocalPlatform
from apples.platforms.serviceforecasts import ServiceWeather
from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client import Endpoint, local_host
from nws.series import Measurement, Series
from nws.service.serviceconfig import CliqueConfig, ServiceConfig
from nws.testing import InMemoryServer
from tests.transcripts import replay

#: The service's clock is months away from this machine's.
NOW = 1.7e9


def grid_of(*words):
    """Hosts of words NAME or NAME@ADDRESS; a plain word of one letter is a host of the service's."""
    hosts = []
    for word in words:
        name, _, address = word.partition("@")
        hosts.append(Host(name=name, slots=2 if name == "localhost" else 4, address=address or None))
    return Grid(name="lab", hosts=tuple(hosts), source="lab.yaml")


def value_of(estimate):
    if estimate.method == "nominal":
        return "nominal"
    # Readings of this machine are a moment old.
    return f"{estimate.value:g} ({estimate.samples} samples, {10 * (estimate.age_s // 10):g} s old)"


class Session:
    """A service in memory, and the platform of this machine that asks it."""

    def __init__(self, monkeypatch, tmp_path):
        self.monkeypatch, self.directory, self.begun = monkeypatch, tmp_path, 0
        self.t, self.server, self.said = NOW, None, []

    def begin(self, hosts="abc", token=None):
        """Hosts a, b, c in a row, all at 0.5 CPU; a-b and b-c are measured."""
        self.close()
        self.few(32)
        self.t, self.begun = NOW, self.begun + 1
        cliques = {"west": CliqueConfig(members=("a", "b")), "east": CliqueConfig(members=("b", "c"))}
        config = ServiceConfig(grid="lab", cliques=cliques, lost_after_s=1e6)
        tokens = {"tokens": {"read": [token]}} if token else {}
        self.server = InMemoryServer(config, clock=lambda: self.t, **tokens).__enter__()
        self.service = ServiceWeather(Endpoint.of(self.server.url))
        if hosts == "abc" and not token:
            for host in hosts:
                self.register(host, address=f"10.9.0.{ord(host)}")
            self.put(hosts, "a>b", "b>a", "b>c", "c>b")

    def close(self):
        if self.server is not None:
            self.server.__exit__(None, None, None)

    def wait(self, seconds):
        self.t += float(seconds)

    def few(self, hosts):
        """So many hosts are few enough to ask the service for their paths."""
        self.monkeypatch.setattr(serviceweather, "_FEW", int(hosts))

    def tick(self):
        self.server.service.tick()

    def stop(self):
        self.server.stop()

    def register(self, name, address=None):
        name = local_host() if name == "HERE" else name
        about = {"cpus": 4, "cpu_model": "Some CPU", "site": "lab"}
        self.server.register(name, **about, **({"address": address} if address else {}))

    def put(self, hosts, *pairs, share="0.5"):
        share = float(share)
        hosts = [local_host()] if hosts == "HERE" else [hosts] if len(hosts) > 3 else list(hosts)
        values = {f"cpu.new@{h}": share for h in hosts}
        values |= {f"cpu.capacity@{h}": 4 * share for h in hosts} | {f"memory.free@{h}": 4e9 for h in hosts}
        values |= {f"network.latency@{p}": 1e-3 for p in pairs}
        values |= {f"network.bandwidth@{p}": 1e8 for p in pairs}
        self.server.put(
            Measurement(Series.parse(name), self.t - ago, value)
            for ago in (20.0, 10.0, 0.0)
            for name, value in values.items()
        )

    def look(self, *hosts, service=None, **options):
        options = {name: float(value) for name, value in options.items()}
        if options:
            service = ServiceWeather(Endpoint.of(self.server.url), **options)
        platform = LocalPlatform(
            grid_of(*hosts),
            weather_file=self.directory / f"weather{self.begun}.db",
            service=service or self.service,
        )
        snapshot = platform.snapshot(self.said.append)
        lines = [f"source: {snapshot.source}"]
        for host, one in zip(snapshot.hosts, snapshot.conditions, strict=True):
            values = (one.availability, one.capacity, one.memory_bytes)
            lines.append(f"{host.name}: {', '.join(value_of(value) for value in values)}")
        links = snapshot_document(snapshot)["links"]
        lines.append("links: " + ", ".join(f"{links[k]} {k}" for k in ("measured", "composed", "nominal")))
        names = [host.name for host in snapshot.hosts]
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                if i != j and snapshot.pair_age_s is not None and not math.isnan(snapshot.pair_age_s[i, j]):
                    times = f"{snapshot.latency_s[i, j]:g} s, {snapshot.bandwidth_Bps[i, j]:g} B/s"
                    via = "".join(f" via {c}" for c in snapshot.through.get((a, b), ()))
                    lines.append(f"{a} > {b}: {times}, {snapshot.pair_age_s[i, j]:g} s old{via}")
        lines += [f"stale: {name}" for name in snapshot.stale]
        return self.readable([*lines, *(f"note: {note}" for note in snapshot.notes), *self.heard()])

    def refused(self, host, token=None):
        return self.look(host, service=ServiceWeather(Endpoint(url=self.server.url, token=token)))

    def pool(self):
        grid = self.service.pool(self.said.append)
        hosts = () if grid is None else grid.hosts
        about = [(h.name, h.slots, h.cpu_type, h.site, h.memory_bytes, h.address) for h in hosts]
        return self.readable([*map(str, about), f"source: {grid and grid.source}", *self.heard()])

    def report(self, kind, text):
        self.service.forecasts(grid_of("a"))
        self.wait(5)
        self.service.report(kind.replace("-", " "), "x" * 5000 if text == "long" else text)

    def events(self):
        with self.server.client() as client:
            events = [e for e in client.events()["events"] if not e["kind"].startswith("host")]
        return [f"{e['t'] - NOW:.0f} s: {e['kind']}: {e['text'][:20]} ({len(e['text'])})" for e in events]

    def heard(self):
        said, self.said = self.said, []
        return [f"said: {line}" for line in said]

    def readable(self, lines):
        return [
            line.replace(self.server.url, "URL").replace(local_host(), "HERE").replace("\n", "|")
            for line in lines
        ]


@pytest.fixture
def session(monkeypatch, tmp_path, sensors):
    session = Session(monkeypatch, tmp_path)
    yield session
    session.close()


def test_snapshots_and_pools_of_a_service_are_as_recorded(session, golden):
    transcript = "apples/platforms/service.txt"
    golden(transcript, replay(transcript, session))


def test_service_that_is_gone_is_asked_once(session, monkeypatch):
    session.begin()
    session.stop()
    assert session.service.pool(session.said.append) is None
    monkeypatch.setattr(serviceweather, "RemoteWeather", None)
    assert len([line for line in session.look("localhost") if "said: no weather from the" in line]) == 1


def test_service_that_did_not_answer_is_told_nothing(session, monkeypatch):
    session.begin()
    monkeypatch.setattr(serviceweather, "ServiceClient", None)
    session.service.report("plan made", "x")


@pytest.mark.parametrize("error", [ServiceUnreachable("gone"), ServiceError.of(403, "not with this token")])
def test_telling_that_fails_once_is_not_tried_again(session, monkeypatch, error):
    timeouts_s = []

    class Failing:
        @staticmethod
        def at(endpoint, *, timeout_s):
            timeouts_s.append(timeout_s)
            raise error

    session.begin()
    session.service.forecasts(grid_of("a"))
    monkeypatch.setattr(serviceweather, "ServiceClient", Failing)
    session.service.report("plan made", "x")
    session.service.report("run ended", "x")
    assert timeouts_s == [1.0]
