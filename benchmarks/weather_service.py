"""Performance of the weather service: over HTTP, its core alone, sensors on their hosts, and deployment.

    python -m benchmarks weather_service http [--hours 24] [--rounds 100]
    python -m benchmarks weather_service core [--hosts 34 1000] [--samples 200000]
    python -m benchmarks weather_service sensors [--seconds 300] [--hosts 4] [--server URL]
    sudo python -m benchmarks weather_service deploy [--hosts 30] [--prefix shared|own] [--installed] [--uv DIR]

http: a real server process on loopback, with requests as clients send them. 34 hosts, every ordered pair with latency
    and bandwidth and three series of each host (2,346 series). It puts a day of measurements with past times (CPU and
    memory every 10 s, pairs every 60 s) and measures the server's memory after it. Then it measures the snapshot of all
    of it through `nws.client.remote.ServiceClient`, and ingest in batches with the forecasts kept current. Then 1,000
    hosts in cliques of 16: registration, and their snapshot. Medians and percentiles
core: without HTTP. For each number of hosts: a full mesh up to 64 hosts, cliques of 16 beyond; three series a host and
    two a measured pair. Batches of 50, 200 and 2,000 samples are put with forecasts kept current, singly and ten to a
    transaction. Prints samples a second by wall time and by CPU time (other programs on the machine affect the first
    and hardly the second), percentiles of a snapshot and of encoding it, the time to start again from a saved state
    and from none, and peak RSS
sensors: CPU seconds of each daemon and its children, and resident memory, in steady state. Starts a weather service (or
    uses the given one) and one sensor for each host, on addresses of the loopback interface, all in one clique. After a
    warm-up of --settle seconds it reads the CPU time and the memory of each sensor from /proc, once a second. The
    loopback is the most expensive network for a probe: all of it is CPU
deploy: how long one command takes to put a weather service on hosts: package, tokens, TLS, server and sensors. The
    hosts are those of `tests/testbed`, reached over ssh and without a network beyond it, so that dependencies come from
    a directory that is filled first and isn't timed. With `--prefix shared` the hosts have one directory, as on a
    shared file system, and one of them installs; with `own` each installs into its own. Afterwards the command runs
    again, and must change nothing, with `--check` and without; then one file is changed, and the check must say so
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import orjson
import requests

from apples_deploy.wheel import this_package
from benchmarks.common.hosts import make_testbed
from benchmarks.common.report import BIN, ROOT, median, output, say, seconds_of, table
from nws.client.remote import ServiceClient
from nws.links.cliques import automatic, pairs
from nws.messages.weatherdocuments import Batch
from nws.server.encoding import encode
from nws.service.serviceconfig import Limits, ServiceConfig
from nws.service.weatherservice import WeatherService
from tests.testbed.grid import Testbed


def _mesh(url: str, hours: float, rounds: int) -> None:
    """Measure 34 hosts in a full mesh."""
    names = series_of(34)
    own, links = names[: 3 * 34], names[3 * 34 :]
    print(f"34 hosts, {len(names)} series")
    few = max(rounds // 5, 5)
    with ServiceClient(url) as client, requests.Session() as session:
        for number in range(34):
            client.register(f"h{number:04d}", {"address": "127.0.0.1", "port": 1, "site": "lab", "cpus": 2})
        end, chance, count, start = time.time() - 60, np.random.default_rng(1), 0, time.perf_counter()
        # A minute of everything is one batch of some thousand samples, as if many sensors delivered together.
        for t in np.arange(end - hours * 3600, end, 60.0):
            times = [np.repeat(t + 10.0 * np.arange(6), len(own)), np.full(len(links), t + 5.0)]
            count += _post(session, url, _body(own * 6 + links, np.concatenate(times), chance))
        seconds = time.perf_counter() - start
        print(f"history of {hours:g} h: {count} measurements in {seconds:.0f} s, {count / seconds:.0f}/s")
        print(f"server's memory: {_metric(session, url, 'process_resident_memory_bytes') / 1e6:.0f} MB")
        print(f"store: {_metric(session, url, 'nws_store_bytes') / 1e6:.1f} MB")
        _report("snapshot, ServiceClient", client.snapshot, rounds)
        _report("snapshot, bytes only", lambda: _get(session, url, "/v1/snapshot"), rounds)
        _report("snapshot, composed", lambda: client.snapshot(composed=True), few)
        _report("forecasts of 3 series", lambda: client.forecasts(own[:3]), rounds)
        _report("plot of a day", lambda: client.plot(own[0], since=end - 86400, until=end), rounds)
        _report("/metrics", lambda: _get(session, url, "/metrics"), few)
        _ingest(url, names, end)


def _ingest(url: str, names: Sequence[str], t: float) -> None:
    """Measure batches by four senders at once; counted samples are acknowledged, and forecasts include them."""
    for size in (50, 500, 2000):
        chance, bodies = np.random.default_rng(size), []
        for k in range(max(20_000 // size, 40) * 2):
            t += 1e-3
            chosen = [names[(k * size + i) % len(names)] for i in range(size)]
            bodies.append(_body(chosen, np.full(size, t), chance))

        def deliver(mine: Sequence[bytes]) -> list[float]:
            with requests.Session() as session:
                return [seconds_of(partial(_post, session, url, body)) for body in mine]

        start = time.perf_counter()
        with ThreadPoolExecutor(4) as pool:
            times = list(pool.map(deliver, [bodies[i::4] for i in range(4)]))
        seconds = time.perf_counter() - start
        _print(f"put of {size}", [one for part in times for one in part])
        print(f"  ingest in batches of {size}, 4 senders: {len(bodies) * size / seconds:.0f} measurements/s")
    with ServiceClient(url) as client:
        newest = max(f["measured_at"] for f in client.forecasts()["forecasts"])
        print(f"  forecasts are {t - newest:.3f} s behind what was acknowledged")


def _cliques(url: str, rounds: int) -> None:
    """Measure 1,000 hosts in cliques of 16."""
    names, hosts = series_of(1000), [f"h{i:04d}" for i in range(1000)]
    print(f"1,000 hosts, {len(names)} series")
    chance, now, few = np.random.default_rng(2), time.time(), max(rounds // 10, 5)
    with ServiceClient(url, timeout_s=60) as client, requests.Session() as session:
        about = {"address": "127.0.0.1", "port": 1, "cpus": 2}
        _print("registration", [seconds_of(partial(client.register, host, about)) for host in hosts])
        for age in (30.0, 20.0, 10.0):
            for at in range(0, len(names), 5000):
                part = names[at : at + 5000]
                _post(session, url, _body(part, np.full(len(part), now - age), chance))
        print(f"snapshot: {len(_get(session, url, '/v1/snapshot')) / 1e6:.1f} MB")
        _report("snapshot, ServiceClient", client.snapshot, max(rounds // 3, 5))
        _report("snapshot, bytes only", lambda: _get(session, url, "/v1/snapshot"), max(rounds // 3, 5))
        _report("snapshot of 64, composed", lambda: client.snapshot(hosts=hosts[:64], composed=True), few)
        _report("/metrics", lambda: _get(session, url, "/metrics"), few)
        _report("schedule", client.schedule, few)


def _body(names: Sequence[str], t: np.ndarray, chance: np.random.Generator) -> bytes:
    """Return measurements of these series at these times as a request's body."""
    places: dict[str, int] = {}
    index = [places.setdefault(name, len(places)) for name in names]
    value = np.round(0.5 + 0.1 * chance.standard_normal(len(names)), 4)
    batch = {"series": list(places), "index": index, "t": np.round(t, 3), "value": value}
    return orjson.dumps(batch, option=orjson.OPT_SERIALIZE_NUMPY)


def _post(session: requests.Session, url: str, body: bytes) -> int:
    """Put measurements; return the number accepted."""
    headers = {"Content-Type": "application/json"}
    answer = session.post(url + "/v1/measurements", data=body, headers=headers, timeout=120)
    answer.raise_for_status()
    return int(answer.json()["accepted"])


def _get(session: requests.Session, url: str, path: str) -> bytes:
    return session.get(url + path, timeout=60).content


def _metric(session: requests.Session, url: str, name: str) -> float:
    line = re.search(rf"^{name} (\S+)$", _get(session, url, "/metrics").decode(), re.MULTILINE)
    assert line is not None, name
    return float(line[1])


def _report(what: str, call: Callable[[], object], rounds: int) -> None:
    for _ in range(3):
        call()
    _print(what, [seconds_of(call) for _ in range(rounds)])


def _print(what: str, seconds: Sequence[float]) -> None:
    median, p90, p99 = 1e3 * np.percentile(seconds, (50, 90, 99))
    print(
        f"  {what:26s} median {median:7.1f} ms   p90 {p90:7.1f}   p99 {p99:7.1f} ms   ({len(seconds)} times)"
    )


START = 1_800_000_000.0
CORE = ServiceConfig(limits=Limits(series_per_host=10**6))
BATCHES = (50, 200, 2000)


def series_of(hosts: int) -> list[str]:
    names = [f"h{i:04d}" for i in range(hosts)]
    measured = list(permutations(names, 2)) if hosts <= 64 else pairs(automatic(names, {}))
    single = [f"{r}@{n}" for r in ("cpu.new", "cpu.running", "memory.free") for n in names]
    return single + [f"network.{r}@{a}>{b}" for r in ("latency", "bandwidth") for a, b in measured]


class Feed:
    """Batches over all series in turn, a tick of ten seconds a round."""

    def __init__(self, names: list[str]) -> None:
        self._names, self._at = names, 0
        self._rng = np.random.default_rng(1)

    @property
    def now(self) -> float:
        """Return seconds since the epoch."""
        return START + 10.0 * (self._at // len(self._names))

    def batch(self, size: int) -> Batch:
        """Return the next `size` samples."""
        places = (self._at + np.arange(size)) % len(self._names)
        first = self._at
        self._at += size
        chosen, index = np.unique(places, return_inverse=True)
        return Batch(
            series=tuple(self._names[i] for i in chosen),
            index=index.astype(np.int64),
            t=START + 10.0 * ((first + np.arange(size)) // len(self._names)),
            value=self._rng.random(size),
            source="feed/1",
            first=first,
        )


def ingest(service: WeatherService, feed: Feed, size: int, together: int, samples: int) -> None:
    groups = [[(feed.batch(size), None) for _ in range(together)] for _ in range(samples // size // together)]
    wall, cpu = time.perf_counter(), time.thread_time()
    for group in groups:
        service.put_many(group)
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    put = len(groups) * together * size
    label = f"batches of {size}, {together} a transaction"
    print(f"  {label:34} {put / wall:10,.0f} samples/s   {put / cpu:10,.0f} a CPU second")


def snapshots(service: WeatherService, feed: Feed, rounds: int) -> None:
    made, encoded = [], []
    for _ in range(rounds):
        service.put(feed.batch(50), as_host=None)
        start, document = time.perf_counter(), service.snapshot()
        between = time.perf_counter()
        content = encode(document)
        made.append(between - start)
        encoded.append(time.perf_counter() - between)
    for label, times in (("snapshot", made), ("encoded", encoded)):
        p50, p90, top = 1e3 * np.percentile(times, [50, 90, 100])
        print(f"  {label:34} p50 {p50:8.2f} ms   p90 {p90:8.2f} ms   max {top:8.2f} ms")
    print(f"  {'':34} {len(document.series.name):,} series, {len(content):,} bytes")


def timed(label: str, action: object) -> object:
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()  # type: ignore[operator]
    print(f"  {label:34} {time.perf_counter() - wall:8.2f} s   {time.process_time() - cpu:8.2f} s of CPU")
    return result


def run_core(hosts: int, samples: int, folder: Path) -> None:
    names, path = series_of(hosts), folder / f"{hosts}.db"
    feed = Feed(names)
    print(f"{hosts} hosts, {len(names):,} series")

    def start() -> WeatherService:
        return WeatherService(CORE, store=path, clock=lambda: feed.now)

    service = start()
    timed("every series for the first time", lambda: service.put(feed.batch(len(names)), as_host=None))
    for size in BATCHES:
        for together in (1, 10):
            ingest(service, feed, size, together, samples)
    snapshots(service, feed, 50)
    timed("a tick", service.tick)
    timed("saving at the end", service.close)
    # its memory must not count in the peak of the next one
    del service
    service = timed("starting from the saved state", start)
    service.close()
    del service
    path.with_name(path.name + ".battery").unlink()
    service = timed("starting from the log", start)
    service.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {'peak RSS so far':34} {peak:8.0f} MB")


_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True, kw_only=True)
class Watched:
    """One sensor. `resident`: MB, once a second."""

    host: str
    process: subprocess.Popen[bytes]
    before_s: float = 0.0
    resident: list[float] = field(default_factory=list)

    def cpu_s(self) -> float:
        """Return user and system time of the process and of its children that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(x) for x in fields[11:15]) * _TICK_S

    def look(self) -> None:
        """Record its resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        self.resident.append(pages * _PAGE / 1e6)


def steps(testbed: Testbed, directory: Path, wheels: Path, given: SimpleNamespace, hosts: str) -> None:
    """Deploy, repeat, check, and remove."""
    prefix = directory / ("{host}" if given.prefix == "own" else "shared")
    command = ["nws", "deploy", "--server", "head", hosts, "--prefix", str(prefix), "--wait", "10m"]
    python = os.path.realpath(sys.executable)
    if given.uv is not None:
        wrapper = directory / "python"
        wrapper.write_text(f'#!/bin/sh\nPATH={given.uv}:$PATH exec {python} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        python = str(wrapper)
    command += ["--python", python]
    if given.installed:
        command += ["--installed", str(BIN.parent)]
    else:
        # once, as the checkout may change meanwhile
        name, content = this_package()
        (directory / name).write_bytes(content)
        command += ["--wheelhouse", str(wheels), "--wheel", str(directory / name)]

    def timed(title: str, code: int, *more: str, lines: int = 1) -> str:
        began = time.monotonic()
        done = subprocess.run(
            testbed.command(
                "head", ["env", f"APPLES_STATE={directory}/desk", str(BIN / command[0]), *command[1:], *more]
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        last = done.stderr.strip().splitlines()[-lines:]
        say(f"{title}: {time.monotonic() - began:.1f} s, exit code {done.returncode}: {' | '.join(last)}")
        if done.returncode != code:
            sys.exit(done.stderr)
        return done.stderr

    said = timed("deployed and measuring", 0)
    installed = re.findall(r"^· (\S+): package", said, re.MULTILINE)
    say(f"  on {len(installed)} hosts the package was installed or made current")
    timed("again", 0)
    timed("check", 0, "--check")
    (settings,) = directory.glob("*/hosts/node01/settings/nws-sensor")
    (settings / "ca.pem").write_text("changed\n", encoding="utf-8")
    timed("check after a change", 1, "--check")
    timed("mended", 0)
    timed("removed", 0, "--remove")


@contextlib.contextmanager
def server(settings: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server process with an empty store; yields its address and the process."""
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder) / "weather.yaml", Path(folder) / "log"
        file.write_text(
            f"listen: 127.0.0.1:0\nstore: weather.db\nlimits: {{requests_per_minute: 100000000}}\n{settings}"
        )
        command = [sys.executable, "-m", "nws.cli", "server", "--config", str(file)]
        with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as process:
            try:
                while (address := re.search(r" at (http://[^\s,]+)", log.read_text())) is None:
                    if process.poll() is not None:
                        raise SystemExit(f"the server did not start: {log.read_text()}")
                    time.sleep(0.05)
                yield address[1], process
            finally:
                process.terminate()
                took_s = seconds_of(process.wait)
                print(f"ended with exit code {process.returncode} after {took_s:.1f} s\n")


def http(*, hours: float = 24.0, rounds: int = 100, only: Literal["", "34", "1000"] = "") -> None:
    """Measure requests to a server.

    hours: history put before asking
    rounds: snapshots timed
    only: one of the two parts
    """
    if only != "1000":
        with server() as (url, _):
            _mesh(url, hours, rounds)
    if only != "34":
        with server() as (url, process):
            _cliques(url, rounds)
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            assert peak is not None
            print(f"server's memory at most: {int(peak[1]) / 1e3:.0f} MB")


def core(*, hosts: tuple[int, ...] = (34, 1000), samples: int = 200_000) -> None:
    """Measure the core without HTTP."""
    for count in hosts:
        with tempfile.TemporaryDirectory() as folder:
            run_core(count, samples, Path(folder))


def sensors(
    *,
    seconds: float = 300.0,
    settle: float = 30.0,
    hosts: int = 4,
    period: float = 10.0,
    server_url: str = "",
) -> None:
    """Measure sensors on their hosts.

    settle: warm-up before it
    hosts: sensors, all in one clique
    period: of CPU, memory and delivery, s
    server_url: service to use instead of one of our own
    """
    every = f"grid: overhead\nevery: {{cpu: {period}s, memory: {period}s, deliver: {period}s}}\n"
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        url = server_url or stack.enter_context(server(every))[0]
        watched = []
        for number in range(hosts):
            host, address = f"overhead{number}", f"127.0.1.{number + 1}"
            command = [sys.executable, "-m", "nws.cli", "sensor", "--server", url, "--host", host]
            process = subprocess.Popen(
                [*command, "--address", address],
                env=os.environ | {"APPLES_STATE": state},
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            watched.append(Watched(host=host, process=process))
        time.sleep(settle)
        begun = time.monotonic()
        for one in watched:
            one.before_s = one.cpu_s()
        while time.monotonic() - begun < seconds:
            time.sleep(1.0)
            for one in watched:
                one.look()
        took_s = time.monotonic() - begun
        spent = [one.cpu_s() - one.before_s for one in watched]
        print(
            f"{hosts} sensors for {took_s:.0f} s; {len(list(Path('/proc').glob('[0-9]*/task/*')))} threads here"
        )
        rows = [
            (one.host, cpu_s, 100 * cpu_s / took_s, median(one.resident), max(one.resident))
            for one, cpu_s in zip(watched, spent, strict=True)
        ]
        table(("host", "CPU s", "% of a core", "RSS MB median", "highest"), rows)
        print(f"median: {100 * median(spent) / took_s:.2f} % of a core")


def deploy(
    *,
    hosts: int = 30,
    prefix: Literal["shared", "own"] = "shared",
    installed: bool = False,
    wheelhouse: Path | None = None,
    uv: Path | None = None,
) -> None:
    """Print the seconds of each step of a deployment.

    installed: use this environment instead of installing
    wheelhouse: directory with the dependencies; downloaded by default
    uv: directory with uv, for the PATH of the hosts; without it they use pip
    """
    names = [f"node{number:02}" for number in range(1, hosts + 1)]
    with tempfile.TemporaryDirectory(prefix="deploy-hosts-", dir="/var/tmp") as directory:
        wheels = wheelhouse or Path(directory) / "wheels"
        if not installed and wheelhouse is None:
            output([sys.executable, "-m", "pip", "download", "-q", "-d", str(wheels), str(ROOT)])
        given = SimpleNamespace(prefix=prefix, installed=installed, uv=uv)
        with make_testbed("deploy", [{"name": name} for name in names], memory="2G", desk="head") as testbed:
            steps(testbed, Path(directory), wheels, given, f"node[01-{hosts:02}]")


PARTS = (http, core, sensors, deploy)
