"""Performance of the weather service over HTTP: a real server process on loopback, with requests as clients send them.

    python benchmarks/weather_service.py [--hours 24] [--rounds 100]

34 hosts, every ordered pair with latency and bandwidth and three series of each host (2,346 series). It puts a day of
measurements with past times (CPU and memory every 10 s, pairs every 60 s) and measures the server's memory after it.
Then it measures the snapshot of all of it through `nws.client.remote.ServiceClient`, and ingest in batches with the
forecasts kept current. Then 1,000 hosts in cliques of 16: registration, and their snapshot. Medians and percentiles;
nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import requests

from nws.client.remote import ServiceClient
from nws.links.cliques import automatic, pairs

HOST_KINDS = ("cpu.new", "cpu.running", "memory.free")
PAIR_KINDS = ("network.latency", "network.bandwidth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0, help="history put before asking")
    parser.add_argument("--rounds", type=int, default=100, help="snapshots timed")
    parser.add_argument("--only", choices=("34", "1000"), help="one of the two parts")
    options = parser.parse_args()
    if options.only != "1000":
        with server() as (url, _):
            _mesh(url, options.hours, options.rounds)
    if options.only != "34":
        with server() as (url, process):
            _cliques(url, options.rounds)
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            assert peak is not None
            print(f"server's memory at most: {int(peak[1]) / 1e3:.0f} MB")


@contextlib.contextmanager
def server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a server process with an empty store; yields its address and the process."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "weather.yaml"
        settings.write_text(
            "listen: 127.0.0.1:0\nstore: weather.db\nlimits: {requests_per_minute: 100000000}\n"
        )
        command = [sys.executable, "-m", "nws.cli", "server", "--config", str(settings)]
        log = Path(folder) / "log"
        with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as process:
            try:
                yield _address(process, log), process
            finally:
                process.terminate()
                start = time.perf_counter()
                process.wait()
                print(
                    f"ended with exit code {process.returncode} after {time.perf_counter() - start:.1f} s\n"
                )


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        found = re.search(r" at (http://\S+), store", log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text()}")


def _mesh(url: str, hours: float, rounds: int) -> None:
    """Measure 34 hosts in a full mesh."""
    hosts = [f"h{i:02d}" for i in range(34)]
    own = [f"{kind}@{host}" for host in hosts for kind in HOST_KINDS]
    links = [f"{kind}@{a}>{b}" for a in hosts for b in hosts if a != b for kind in PAIR_KINDS]
    print(f"34 hosts, {len(own) + len(links)} series")
    with ServiceClient(url) as client, requests.Session() as session:
        for host in hosts:
            client.register(host, {"address": "127.0.0.1", "port": 1, "site": "lab", "cpus": 2})
        end = time.time() - 60
        begin = end - hours * 3600
        start = time.perf_counter()
        count = 0
        # a minute of everything is one batch of some thousand samples, as if many sensors delivered together
        chance = np.random.default_rng(1)
        for t in np.arange(begin, end, 60.0):
            count += _put(session, url, own * 6 + links, np.concatenate([
                np.repeat(t + 10.0 * np.arange(6), len(own)), np.full(len(links), t + 5.0)
            ]), chance)  # fmt: skip
        seconds = time.perf_counter() - start
        print(f"history of {hours:g} h: {count} measurements in {seconds:.0f} s, {count / seconds:.0f}/s")
        print(f"server's memory: {_metric(session, url, 'process_resident_memory_bytes') / 1e6:.0f} MB")
        print(f"store: {_metric(session, url, 'nws_store_bytes') / 1e6:.1f} MB")
        _report("snapshot, ServiceClient", lambda: client.snapshot(), rounds)
        _report("snapshot, bytes only", lambda: session.get(url + "/v1/snapshot", timeout=60).content, rounds)
        _report("snapshot, composed", lambda: client.snapshot(composed=True), max(rounds // 5, 5))
        _report("forecasts of 3 series", lambda: client.forecasts(own[:3]), rounds)
        _report("plot of a day", lambda: client.plot(own[0], since=end - 86400, until=end), rounds)
        _report("/metrics", lambda: session.get(url + "/metrics", timeout=60).content, max(rounds // 5, 5))
        _ingest(url, own + links, end)


def _ingest(url: str, names: Sequence[str], after: float) -> None:
    """Measure batches by several senders at once; counted samples are acknowledged, and forecasts include them."""
    t = after
    for size, senders in ((50, 4), (500, 4), (2000, 4)):
        chance = np.random.default_rng(size)
        batches = max(20_000 // size, 40) * 2
        bodies = []
        for k in range(batches):
            t += 1e-3
            chosen = [names[(k * size + i) % len(names)] for i in range(size)]
            bodies.append(_body(chosen, np.full(size, t), chance))
        with ThreadPoolExecutor(senders) as pool:
            sessions = [requests.Session() for _ in range(senders)]

            def deliver(mine: Sequence[bytes], session: requests.Session) -> list[float]:
                return [_timed(lambda body=body: _post(session, url, body)) for body in mine]

            start = time.perf_counter()
            times = list(pool.map(deliver, [bodies[i::senders] for i in range(senders)], sessions))
            seconds = time.perf_counter() - start
            for session in sessions:
                session.close()
        _print(f"put of {size}", [one for part in times for one in part])
        print(
            f"  ingest in batches of {size}, {senders} senders: {batches * size / seconds:.0f} measurements/s"
        )
    with ServiceClient(url) as client:
        newest = max(f["measured_at"] for f in client.forecasts()["forecasts"])
        print(f"  forecasts are {t - newest:.3f} s behind what was acknowledged")


def _cliques(url: str, rounds: int) -> None:
    """Measure 1,000 hosts in cliques of 16."""
    hosts = [f"n{i:04d}" for i in range(1000)]
    measured = pairs(automatic(hosts, {}, 16))
    names = [f"{kind}@{host}" for host in hosts for kind in HOST_KINDS]
    names += [f"{kind}@{a}>{b}" for a, b in measured for kind in PAIR_KINDS]
    print(f"1,000 hosts, {len(measured)} pairs, {len(names)} series")
    chance = np.random.default_rng(2)
    now = time.time()
    with ServiceClient(url, timeout_s=60) as client, requests.Session() as session:
        told = {"address": "127.0.0.1", "port": 1, "cpus": 2}
        _print("registration", [_timed(lambda h=h: client.register(h, told)) for h in hosts])
        for age in (30.0, 20.0, 10.0):
            for at in range(0, len(names), 5000):
                part = names[at : at + 5000]
                _put(session, url, part, np.full(len(part), now - age), chance)
        body = session.get(url + "/v1/snapshot", timeout=60).content
        print(f"snapshot: {len(body) / 1e6:.1f} MB")
        _report("snapshot, ServiceClient", lambda: client.snapshot(), max(rounds // 3, 5))
        _report(
            "snapshot, bytes only", lambda: session.get(url + "/v1/snapshot", timeout=60).content, rounds // 3
        )
        some = hosts[:64]
        _report(
            "snapshot of 64, composed",
            lambda: client.snapshot(hosts=some, composed=True),
            max(rounds // 10, 5),
        )
        _report("/metrics", lambda: session.get(url + "/metrics", timeout=60).content, max(rounds // 10, 5))
        _report("schedule", lambda: client.schedule(), max(rounds // 10, 5))


def _body(names: Sequence[str], t: np.ndarray, chance: np.random.Generator) -> bytes:
    places: dict[str, int] = {}
    index = [places.setdefault(name, len(places)) for name in names]
    value = np.round(0.5 + 0.1 * chance.standard_normal(len(names)), 4)
    batch = {"series": list(places), "index": index, "t": np.round(t, 3), "value": value}
    return orjson.dumps(batch, option=orjson.OPT_SERIALIZE_NUMPY)


def _put(
    session: requests.Session, url: str, names: Sequence[str], t: np.ndarray, chance: np.random.Generator
) -> int:
    return _post(session, url, _body(names, t, chance))


def _post(session: requests.Session, url: str, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    answer = session.post(url + "/v1/measurements", data=body, headers=headers, timeout=120)
    answer.raise_for_status()
    accepted: int = answer.json()["accepted"]
    return accepted


def _metric(session: requests.Session, url: str, name: str) -> float:
    page = session.get(url + "/metrics", timeout=60).text
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _report(what: str, call: Callable[[], object], rounds: int) -> None:
    for _ in range(3):
        call()
    _print(what, [_timed(call) for _ in range(rounds)])


def _print(what: str, seconds: Sequence[float]) -> None:
    median, p90, p99 = 1e3 * np.percentile(seconds, (50, 90, 99))
    print(
        f"  {what:26s} median {median:7.1f} ms   p90 {p90:7.1f} ms   p99 {p99:7.1f} ms   ({len(seconds)} times)"
    )


if __name__ == "__main__":
    main()
