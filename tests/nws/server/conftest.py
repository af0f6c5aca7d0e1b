"""A service that keeps nothing on disk and can be told to fail or to wait, and servers in front of it."""

import shlex
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import numpy as np
import orjson
import pytest
import requests

from nws.base.errors import KeyRefused, NameTaken, StoreError, UnknownHost
from nws.links.cliques import Clique, schedule
from nws.messages.snapshotcolumns import SnapshotOutlooks, SnapshotSeries, WeatherSnapshot
from nws.messages.weatherdocuments import (
    Health,
    HostState,
    PutReceipt,
    Refusals,
    RegistrationReceipt,
    SeriesState,
)
from nws.series import SHARES, Forecast, Series
from nws.server.serve import ServerThread, warm_up
from nws.server.tokens import Role, Tokens
from nws.service.parts import Counters
from nws.service.serviceconfig import Every, Limits, ServiceConfig, Tls

NOW = 1.8e9


@pytest.fixture(autouse=True, scope="session")
def kernels():
    """Compile what the service calls, as its daemon does before it listens: no request waits for the compiler."""
    warm_up()


class FakeService:
    """Methods of `nws.service.weatherservice.WeatherService` over dictionaries.

    failure : raised by every write.  gate : writes wait for it.  groups : sizes of the transactions, `begun` of them
    """

    def __init__(self):
        self.reset()

    def reset(self):
        """As new; a server in front of it is none the wiser."""
        self.config = ServiceConfig(limits=Limits(requests_per_minute=1_000_000))
        self.failure = None
        self.gate = threading.Event()
        self.gate.set()
        self.groups, self.faults = [], []
        self.begun = 0
        self.kept = {}
        self.registered = {}
        self.noted = []
        self.ticks = 0
        self.closed = False

    def now(self):
        return NOW

    def register(self, host, registration, key):
        if self.failure:
            raise self.failure
        known = self.registered.get(host)
        if known is not None and key != known[1]:
            raise NameTaken(f"{host} is held by another host")
        self.registered[host] = (registration, "k-" + host)
        new = None if known else "k-" + host
        every = Every()
        return RegistrationReceipt(
            now=NOW, key=new, every=every.as_json(), schedule=self.schedule(), peers=self.peers(), grid="lab"
        )

    def check_key(self, host, key):
        if host not in self.registered:
            raise UnknownHost(f"{host} is not registered")
        if self.registered[host][1] != key:
            raise KeyRefused(f"the key is not {host}'s")

    def hosts(self):
        return [self.host(name) for name in sorted(self.registered)]

    def host(self, name):
        if name not in self.registered:
            raise UnknownHost(f"{name} is not registered")
        told = self.registered[name][0]
        return HostState(
            name=name,
            address=told.address,
            port=told.port,
            site=told.site,
            cpus=told.cpus,
            cpu_model=told.cpu_model,
            memory_bytes=told.memory_bytes,
            version=told.version,
            registered_at=NOW,
            last_seen=NOW,
            lost=False,
            cliques=(),
            series=0,
            status={"done": 3, "missed": 1, "buffered": 7},
        )

    def forget(self, name):
        self.host(name)
        del self.registered[name]

    def schedule(self):
        members = tuple(sorted(self.registered))
        cliques = [Clique(name="all", members=members)] if len(members) > 1 else []
        return schedule(cliques, version=1, effective_from=NOW)

    def peers(self):
        return {name: (told.address, told.port) for name, (told, _) in self.registered.items()}

    def put_many(self, batches):
        self.begun += 1
        self.gate.wait()
        if self.failure:
            raise self.failure
        self.groups.append(len(batches))
        return [self._put(batch, host) for batch, host in batches]

    def note_faults(self, source, faults):
        self.faults.append(faults)

    def put(self, batch, *, as_host):
        return self.put_many([(batch, as_host)])[0]

    def _put(self, batch, host):
        for place, t, value in zip(batch.index, batch.t, batch.value, strict=True):
            self.kept.setdefault(batch.series[place], []).append((t, value))
        n = len(batch.t)
        return PutReceipt(now=NOW, accepted=n, next=batch.first + n, schedule=1, refused=Refusals())

    def series(self, *, host=None, resource=None):
        return [
            SeriesState(
                series=name,
                unit=Series.parse(name).resource.unit,
                samples=len(some),
                last=some[-1][1],
                measured_at=some[-1][0],
                age_s=0.0,
            )
            for name, some in sorted(self.kept.items())
        ]

    def forecasts(self, names=None, *, over_s=()):
        return {
            Series.parse(name): Forecast(
                value=some[-1][1],
                mae=float("nan"),
                rmse=float("nan"),
                method="last",
                samples=len(some),
                measured_at=some[-1][0],
                last=some[-1][1],
            )
            for name, some in sorted(self.kept.items())
            if names is None or name in names
        }

    def snapshot(self, *, hosts=None, composed=False, over_s=()):
        found = list(self.forecasts().items())

        def column(name):
            return np.array([getattr(f, name) for _, f in found], float)

        outlooks = None
        if over_s:
            rows = np.ones((len(found), len(over_s)))
            outlooks = SnapshotOutlooks(
                over_s=over_s,
                shares=SHARES,
                mean=rows,
                held=rows,
                outcomes=rows,
                variation=rows,
                quantiles=np.ones((*rows.shape, len(SHARES))),
            )
        series = SnapshotSeries(
            name=[str(s) for s, _ in found],
            forecast=column("value"),
            mae=column("mae"),
            rmse=column("rmse"),
            last=column("last"),
            measured_at=column("measured_at"),
            age_s=NOW - column("measured_at"),
            samples=np.array([f.samples for _, f in found], np.int64),
            method=np.zeros(len(found), np.int64),
        )
        return WeatherSnapshot(
            format="nws-snapshot",
            version=1,
            now=NOW,
            grid="lab",
            hosts=self.hosts(),
            methods=["last"],
            series=series,
            outlooks=outlooks,
        )

    def event(self, event):
        if self.failure:
            raise self.failure
        self.noted.append(event)

    def events(self, since, until, most=1000):
        return [e for e in self.noted if since <= e.t <= until][-most:]

    def tick(self):
        self.ticks += 1

    def health(self):
        bad = isinstance(self.failure, StoreError)
        return Health(
            status="degraded" if bad else "ok", store="memory", reason=str(self.failure) if bad else None
        )

    def counters(self):
        kept = sum(map(len, self.kept.values()))
        return Counters(
            batches=len(self.groups),
            samples_accepted=kept,
            hosts=len(self.registered),
            hosts_lost=0,
            series=len(self.kept),
            schedule_version=1,
            events=len(self.noted),
            store_bytes=4096,
            battery_saves=0,
            battery_save_failures=0,
            battery_save_s=0.0,
            restored="empty",
            restore_s=0.0,
        )

    def close(self):
        self.closed = True


class Caller:
    """Requests to one server: `call("GET", "/healthz")`, `call("POST", "/v1/…", body)`."""

    def __init__(self, url):
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def anew(self, *arguments, **named):
        """The same on a connection of its own, for threads."""
        other = Caller(self.url)
        try:
            return other(*arguments, **named)
        finally:
            other.close()

    def __call__(self, method, path, body=None, *, headers=None, token=None):
        headers = dict(headers or {})
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self._session.request(method, self.url + path, data=data, headers=headers, timeout=20)

    def close(self):
        self._session.close()


@pytest.fixture(scope="session")
def calling():
    """`calling(url)` gives a `Caller`."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(closing(Caller(url)))


#: A token for each role.
TOKENS = {
    "read": ["read-token-0123456789"],
    "write": ["write-token-0123456789"],
    "admin": ["admin-token-0123456789"],
}


@contextmanager
def serving(service, tokens=None, **options):
    """A `Caller` of a real server on loopback; its server is `caller.server`."""
    known = Tokens.of({Role(role): some for role, some in (tokens or {}).items()})
    with ServerThread(service, known, **options) as server:
        caller = Caller(server.url)
        caller.server = server
        yield caller
        caller.close()


@pytest.fixture(scope="package")
def shared():
    """One service and two servers in front of it, without tokens and with; emptied before each test."""
    service = FakeService()
    with serving(service) as call, serving(service, TOKENS) as guarded:
        yield service, call, guarded


@pytest.fixture
def service(shared):
    """The service, empty."""
    shared[0].reset()
    return shared[0]


@pytest.fixture
def call(shared, service):
    """A server without tokens in front of `service`."""
    return shared[1]


@pytest.fixture
def guarded(shared, service):
    """A server with a token for each role."""
    return shared[2]


@pytest.fixture
def start():
    """`start(service, tokens)` gives a `Caller` of a server of the test's own."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(serving(*arguments, **options))


@pytest.fixture
def eventually():
    """`eventually(lambda: …)` waits, some seconds at most, until it is true."""

    def wait(condition, timeout_s=10.0):
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            time.sleep(0.005)

    return wait


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for localhost that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        shlex.split(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
            " -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout host.key -out host.crt"
        ),
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return Tls(certificate=folder / "host.crt", key=folder / "host.key")
