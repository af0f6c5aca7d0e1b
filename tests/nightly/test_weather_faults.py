"""Fault tolerance of the weather service, tested on real processes: killed servers and sensors, stepped clocks, a full
disk."""

import contextlib
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client.remote import ServiceClient
from nws.links.cliques import Schedule

KILLS, AWAY_S = 20, 300.0
FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
#: Under libfaketime, sleeps until a time of the monotonic clock never end; Python's time.sleep is one.
SLEEPING_OTHERWISE = """
import threading, time
time.sleep = lambda seconds: threading.Event().wait(seconds)
from nws.cli import main
main()
"""
EVERY = "every: {cpu: 1s, memory: 1s, deliver: 1s}\n"
MEMORY, NUMBERS = "memory.free@alpha", "x.number@alpha"


class Processes:
    """Servers and sensors of one trial."""

    def __init__(self, directory):
        self.directory, self._running = directory, []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._address = f"127.0.0.1:{listener.getsockname()[1]}"

    def server(self, *, store=None, settings="", environ=None):
        """Return a server that responds."""
        config = self.directory / "weather.yaml"
        store = store or self.directory / "service.db"
        config.write_text(f"grid: trial\nlisten: {self._address}\nstore: {store}\n{settings}")
        process = self._start(["server", "--config", str(config)], "server", environ or {})
        self.wait(lambda: self.client().health(), f"the server's answer; see {self.directory}/server.log")
        return process

    def sensor(self, host, *, address="127.0.0.1", environ=None):
        """Return a sensor daemon for one host."""
        options = ["--server", f"http://{self._address}", "--host", host, "--address", address]
        own = {"APPLES_STATE": str(self.directory / host), **(environ or {})}
        return self._start(["sensor", *options], host, own)

    def client(self, **identity):
        return ServiceClient(f"http://{self._address}", timeout_s=5.0, **identity)

    def wait(self, condition, name, patience_s=30.0):
        """Return the first true result; failures to reach the service count as not yet."""
        end = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(ServiceUnreachable, ServiceError):
                if answer := condition():
                    return answer
            assert time.monotonic() < end, f"waited {patience_s:.0f} s in vain for {name}"
            time.sleep(0.05)

    def _start(self, arguments, name, environ):
        program = ["-c", SLEEPING_OTHERWISE] if "LD_PRELOAD" in environ else ["-m", "nws.cli"]
        command = [sys.executable, *program, *arguments]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | environ
                )
            )
        return self._running[-1]

    def close(self):
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(15.0)
            except subprocess.TimeoutExpired:
                kill(process)


def kill(process):
    process.kill()
    process.wait()


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.close()


class Stream(threading.Thread):
    """Sends the numbers 0, 1, 2, … as measurements, each until it is acknowledged."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.client = processes.client(host="alpha")
        self.next, self.failures, self._seen = 0, 0, 0
        self._began, self._ended = time.time(), threading.Event()

    def run(self):
        about = {"address": "127.0.0.1", "port": 1, "cpus": 1, "cpu_model": "none", "memory_bytes": 1 << 30}
        while not self._ended.is_set():
            try:
                if self.client.key is None:
                    self.client.register("alpha", {**about, "version": "0"})
                self.send()
            except ServiceUnreachable:
                self.failures += 1
                time.sleep(0.01)

    def send(self):
        numbers = range(self.next, self.next + 50)
        batch = {"source": "alpha/stream", "first": self.next, "series": [NUMBERS], "index": [0] * 50}
        batch |= {"t": [self._began + 1e-4 * n for n in numbers], "value": [float(n) for n in numbers]}
        self.next = int(self.client.put_batch(batch)["next"])

    def progressed(self):
        """Return whether a measurement was acknowledged since the last call that returned true."""
        before, self._seen = self._seen, self.next
        return self._seen > before

    def finish(self):
        """Stop, and return the number of acknowledged measurements."""
        self._ended.set()
        self.join()
        return self.next


def test_stream_server_killed_loses_nothing(processes, seed):
    chance, server, stream = random.Random(seed), processes.server(), Stream(processes)
    stream.start()
    for _ in range(KILLS):
        processes.wait(stream.progressed, "progress of the stream")
        time.sleep(chance.uniform(0.05, 0.8))
        kill(server)
        server = processes.server()
    processes.wait(stream.progressed, "progress after the last start")
    acknowledged, stored = stream.finish(), values(processes.client())
    print(f"{KILLS} kills: {acknowledged} acknowledged, {stream.failures} requests without an answer")
    assert len(stored) >= acknowledged
    assert stored == [float(number) for number in range(len(stored))], "each once and in order"


def test_sensor_server_away_delivers_later(processes):
    settings = EVERY.replace("deliver: 1s", "deliver: 2s")
    server = processes.server(settings=settings)
    processes.sensor("alpha")
    processes.wait(lambda: len(times(processes.client())) >= 3, "first measurements", 60.0)
    kill(server)
    time.sleep(AWAY_S)
    processes.server(settings=settings)
    back = time.time()

    def status():
        return processes.client().host_state("alpha").get("status") or {}

    def delivered():
        return times(processes.client())[-1] > back and status().get("buffered", 1) <= 10

    processes.wait(delivered, "the delivery of what was measured meanwhile", 120.0)
    print(f"server away {AWAY_S:.0f} s; all measurements there {time.time() - back:.1f} s after its return")
    measured = times(processes.client())
    assert max(b - a for a, b in itertools.pairwise(measured)) < 3.5, "at a period of 1 s"
    assert len(set(measured)) == len(measured)
    assert status()["dropped"] == 0


def test_probes_sensor_killed_in_its_turn_go_on(processes):
    processes.server(settings="frame: 2s\n")
    hosts = {f"h{i}": processes.sensor(f"h{i}", address=f"127.0.0.{i}") for i in range(2, 6)}
    client, pairs = processes.client(), set(itertools.permutations(hosts, 2))
    processes.wait(lambda: pairs <= measured_pairs(client).keys(), "every pair measured once", 120.0)
    schedule = Schedule.from_json(client.schedule()["schedule"])
    holder = processes.wait(
        lambda: next((h for h in hosts if schedule.turn(h, time.time()) is not None), None), "a turn"
    )
    kill(hosts[holder])
    died, others = time.time(), {pair for pair in pairs if holder not in pair}
    round_s = max(schedule.round_s(clique.name) for clique in schedule.cliques)

    def measured_again():
        latest = measured_pairs(client)
        return all(latest[pair] > died for pair in others)

    # A measurement is seen one delivery (10 s) after it was made.
    processes.wait(measured_again, "every other pair measured again", 2 * round_s + 60.0)
    assert min(measured_pairs(client)[pair] for pair in others) - died <= 2 * round_s


@pytest.mark.skipif(
    FAKETIME is None, reason="libfaketime is not installed (Debian: apt-get install faketime)"
)
@pytest.mark.parametrize("stepped", ["sensor", "server"])
def test_clock_steps_of_an_hour_do_no_harm(processes, tmp_path, stepped):
    offset = tmp_path / "offset"
    offset.write_text("+0")
    faked = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1"}
    faked["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
    processes.server(settings=EVERY, environ=faked if stepped == "server" else None)
    processes.sensor("alpha", environ=faked if stepped == "sensor" else None)
    client = processes.client()
    for step in ("+0", "+3600", "+0", "-3600", "+0"):
        offset.write_text(step)
        begun, expected_s = time.time(), float(step) if stepped == "server" else 0.0

        def newest(begun=begun, expected_s=expected_s):
            ages = [t - expected_s for t in times(client)]
            return [t for t in ages if begun + 4.0 < t < begun + 60.0][-1:]

        (measured,) = processes.wait(newest, f"measurements with the server's time at {step} s", 40.0)
        snapshot = client.snapshot()
        assert measured < time.time() + 2.0
        assert not [host["name"] for host in snapshot["hosts"] if host["lost"]]
        assert min(snapshot["series"]["age_s"]) >= 0


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="only root can mount a small disk"
)
def test_server_disk_full_refuses_writes_only(processes, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=True)
    try:
        processes.server(store=disk / "service.db")
        stream, client = Stream(processes), processes.client()
        stream.start()
        processes.wait(stream.progressed, "the first measurements")
        stream.finish()
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free))
        with pytest.raises(ServiceError) as refused:
            send_until_refused(stream)
        assert refused.value.status == 507
        assert client.snapshot()["series"]["name"], "readable"
        assert client.health()["status"] == "degraded"
        (disk / "filler").unlink()
        stream.send()
        assert values(client) == [float(number) for number in range(stream.next)]
    finally:
        processes.close()
        subprocess.run(["umount", str(disk)], check=True)


def send_until_refused(stream):
    for _ in range(2000):
        stream.send()


def times(client):
    return [float(t) for t in client.samples(MEMORY, resolution="raw")["t"]]


def values(client):
    """Return every number of the stream, the newest page first: the service returns the newest samples of a span."""
    pairs, until = [], time.time() + 60
    while True:
        page = client.samples(NUMBERS, since=0.0, until=until, resolution="raw", most=100_000)
        older = [p for p in zip(page["t"], page["value"], strict=True) if not pairs or p[0] < until]
        pairs = older + pairs
        if len(older) < 100_000 - 1:
            return [value for _, value in pairs]
        until = older[0][0]


def measured_pairs(client):
    """Return the time of each pair's last measurement."""
    series, latest = client.snapshot()["series"], {}
    for name, t in zip(series["name"], series["measured_at"], strict=True):
        resource, _, pair = name.partition("@")
        if resource == "network.bandwidth" and t is not None:
            latest[tuple(pair.split(">"))] = t
    return latest
