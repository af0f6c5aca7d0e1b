"""Fault tolerance of the weather service, tested on real processes: one line of results for each fault.

    python benchmarks/weather_faults.py                      all faults, about 12 minutes
    python benchmarks/weather_faults.py kill --times 20      server killed (SIGKILL) while measurements arrive
    python benchmarks/weather_faults.py outage --away 300    server down for some time; the sensor's measurements after
    python benchmarks/weather_faults.py lease                a sensor killed inside its turn to probe
    python benchmarks/weather_faults.py clock                clocks of sensor and server stepped by an hour (faketime)
    python benchmarks/weather_faults.py disk                 the store's disk full, and free again (needs root)

Exits 1 when a fault did harm.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from nws.base.errors import ServiceError, ServiceUnreachable
from nws.client.remote import ServiceClient
from nws.links.cliques import Schedule

READY_S = 30.0
_LIBRARIES = "*/faketime/libfaketimeMT.so.1"
# under libfaketime, sleeps until a time of the monotonic clock never end; Python's time.sleep is one
_SLEEPING_OTHERWISE = """
import threading, time
time.sleep = lambda seconds: threading.Event().wait(seconds)
from nws.cli import main
main()
"""


class Processes:
    """Servers and sensors of one trial, in a directory of their own; none of them outlives it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._running: list[subprocess.Popen[bytes]] = []

    def server(
        self, *, store: Path | None = None, settings: str = "", environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Return a server that responds."""
        config = self.directory / "weather.yaml"
        config.write_text(
            f"grid: trial\nlisten: 127.0.0.1:{self.port}\nstore: {store or self.directory / 'service.db'}\n{settings}"
        )
        process = self._start(["server", "--config", str(config)], "server", environ)
        self.wait(lambda: self.client().health(), f"the server's answer; see {self.directory}/server.log")
        return process

    def sensor(
        self, host: str, *, address: str = "127.0.0.1", environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Return a sensor daemon for one host."""
        own = {"APPLES_STATE": str(self.directory / host), **(environ or {})}
        options = ["--server", self.url, "--host", host, "--address", address]
        return self._start(["sensor", *options], host, own)

    def client(self, **identity: Any) -> ServiceClient:
        """Return a client with a short timeout."""
        return ServiceClient(self.url, timeout_s=5.0, **identity)

    def wait(self, what: Callable[[], Any], name: str, patience_s: float = READY_S) -> Any:
        """Return the first true result; failures to reach the service count as not yet."""
        end = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(ServiceUnreachable, ServiceError):
                if answer := what():
                    return answer
            if time.monotonic() > end:
                raise SystemExit(f"waited {patience_s:.0f} s in vain for {name}")
            time.sleep(0.05)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process with SIGKILL and wait for its end."""
        process.kill()
        process.wait()

    def close(self) -> None:
        """Terminate all processes, then kill the rest."""
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(15.0)
            except subprocess.TimeoutExpired:
                self.kill(process)

    def _start(
        self, arguments: Sequence[str], name: str, environ: Mapping[str, str] | None
    ) -> subprocess.Popen[bytes]:
        program = ["-c", _SLEEPING_OTHERWISE] if environ and "LD_PRELOAD" in environ else ["-m", "nws.cli"]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environ or {})},
            )
        self._running.append(process)
        return process


@contextlib.contextmanager
def trial() -> Iterator[Processes]:
    """Set up the processes of one trial and their directory; ends and removes both afterwards."""
    with tempfile.TemporaryDirectory(prefix="weather-faults-") as directory:
        processes = Processes(Path(directory))
        try:
            yield processes
        finally:
            processes.close()


class Verdict:
    """Prints the results and records whether every check passed."""

    def __init__(self) -> None:
        self.held = True

    def say(self, fault: str, held: bool, found: str) -> None:
        """Print one line."""
        self.held = self.held and held
        click.echo(f"{'held' if held else 'HARM':5} {fault:8} {found}")


def kill(verdict: Verdict, *, times: int) -> None:
    """Check that a numbered stream continues while its server is killed repeatedly."""
    chance = random.Random(5)
    with trial() as processes:
        server = processes.server()
        stream = _Stream(processes)
        stream.start()
        for _ in range(times):
            processes.wait(stream.progressed, "progress of the stream")
            time.sleep(chance.uniform(0.05, 0.8))
            processes.kill(server)
            server = processes.server()
        processes.wait(stream.progressed, "progress after the last start")
        acknowledged = stream.finish()
        kept = _values(processes.client(), "x.number@alpha")
    lost = acknowledged - len(set(kept))
    doubled = len(kept) - len(set(kept))
    in_order = kept == sorted(kept)
    verdict.say(
        "kill",
        lost <= 0 and doubled == 0 and in_order,
        f"{times} kills: {acknowledged} acknowledged, {max(lost, 0)} lost, {doubled} doubled, "
        f"{stream.failures} requests without an answer",
    )


class _Stream(threading.Thread):
    """Sends the numbers 0, 1, 2, … as measurements, each until it is acknowledged."""

    def __init__(self, processes: Processes) -> None:
        super().__init__(daemon=True)
        self._client = processes.client(host="alpha")
        self._registration = {
            "address": "127.0.0.1",
            "port": 1,
            "cpus": 1,
            "cpu_model": "none",
            "memory_bytes": 1 << 30,
            "version": "0",
        }
        self.next, self.failures, self._seen = 0, 0, 0
        self._began = time.time()
        self._ended = threading.Event()

    def run(self) -> None:
        """Send until `finish`."""
        while not self._ended.is_set():
            try:
                if self._client.key is None:
                    self._client.register("alpha", self._registration)
                self._send()
            except ServiceUnreachable:
                self.failures += 1
                time.sleep(0.01)

    def _send(self) -> None:
        numbers = list(range(self.next, self.next + 50))
        answer = self._client.put_batch(
            {
                "source": "alpha/stream",
                "first": self.next,
                "series": ["x.number@alpha"],
                "index": [0] * len(numbers),
                "t": [self._began + 1e-4 * n for n in numbers],
                "value": [float(n) for n in numbers],
            }
        )
        self.next = int(answer["next"])

    def progressed(self) -> bool:
        """Return whether a measurement was acknowledged since the last call that returned true."""
        before, self._seen = self._seen, self.next
        return self._seen > before

    def finish(self) -> int:
        """Stop, and return the number of acknowledged measurements."""
        self._ended.set()
        self.join()
        return self.next


def outage(verdict: Verdict, *, away_s: float) -> None:
    """Check that measurements made while the server is down arrive later, in order and once."""
    with trial() as processes:
        server = processes.server(settings="every: {cpu: 1s, memory: 1s, deliver: 2s}\n")
        processes.sensor("alpha")
        series = "memory.free@alpha"
        processes.wait(lambda: len(_times(processes.client(), series)) >= 3, "first measurements", 60.0)
        processes.kill(server)
        gone = time.time()
        time.sleep(away_s)
        processes.server(settings="every: {cpu: 1s, memory: 1s, deliver: 2s}\n")
        back = time.time()

        def delivered() -> bool:
            times = _times(processes.client(), series)
            return times[-1] > back and _status(processes.client(), "alpha").get("buffered", 1) <= 10

        processes.wait(delivered, "the delivery of what was measured meanwhile", 120.0)
        took = time.time() - back
        times = _times(processes.client(), series)
        status = _status(processes.client(), "alpha")
    longest = max(b - a for a, b in itertools.pairwise(times))
    within = sum(gone < t < back for t in times)
    verdict.say(
        "outage",
        longest < 3.5 and len(set(times)) == len(times) and status.get("dropped") == 0,
        f"server away {back - gone:.0f} s: {within} measurements of that time, longest gap {longest:.1f} s at a "
        f"period of 1 s, {len(times) - len(set(times))} doubled, {status.get('dropped')} dropped, all there "
        f"{took:.1f} s after its return",
    )


def lease(verdict: Verdict) -> None:
    """Check that the others' probe turns continue when a sensor dies inside its turn."""
    with trial() as processes:
        processes.server(settings="frame: 2s\n")
        hosts = {f"h{i}": processes.sensor(f"h{i}", address=f"127.0.0.{i}") for i in range(2, 6)}
        client = processes.client()
        pairs = {(a, b) for a in hosts for b in hosts if a != b}
        processes.wait(lambda: pairs <= _measured(client).keys(), "every pair measured once", 120.0)
        schedule = Schedule.from_json(client.schedule()["schedule"])
        holder = processes.wait(
            lambda: next((h for h in hosts if schedule.turn(h, time.time()) is not None), None), "a turn"
        )
        processes.kill(hosts[holder])
        died = time.time()
        rest = {pair for pair in pairs if holder not in pair}
        round_s = max(schedule.round_s(clique.name) for clique in schedule.cliques)

        def again() -> bool:
            measured = _measured(client)
            return all(measured[pair] > died for pair in rest)

        # a measurement is seen one delivery (10 s) after it was made
        processes.wait(again, "every other pair measured again", 2 * round_s + 60.0)
        after = max(_measured(client)[pair] for pair in rest) - died
        first = max(min(t for t in [_measured(client)[pair]]) for pair in rest) - died
    verdict.say(
        "lease",
        first <= 2 * round_s,
        f"{holder} killed in its turn: every other pair measured again after {after:.1f} s, one round of turns is "
        f"{round_s:.1f} s",
    )


def clock(verdict: Verdict) -> None:
    """Check steps of the sensor's and then the server's wall clock by an hour, forwards and back."""
    library = next(iter(Path("/usr/lib").glob(_LIBRARIES)), None)
    if library is None:
        click.echo("skip  clock    libfaketime is not installed (Debian: apt-get install faketime)")
        return
    for who in ("sensor", "server"):
        with trial() as processes:
            offset = processes.directory / "offset"
            offset.write_text("+0")
            faked = {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(offset),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            settings = "every: {cpu: 1s, memory: 1s, deliver: 1s}\n"
            processes.server(settings=settings, environ=faked if who == "server" else None)
            processes.sensor("alpha", environ=faked if who == "sensor" else None)
            for step in ("+0", "+3600", "+0", "-3600", "+0"):
                offset.write_text(step)
                expected = float(step) if who == "server" else 0.0
                _after_step(verdict, processes, f"{who}'s clock at {step} s", expected)


def _after_step(verdict: Verdict, processes: Processes, what: str, expected_s: float) -> None:
    """Check that new measurements carry the server's time, and that no host is lost."""
    client = processes.client()
    stepped = time.time()

    def fresh() -> float | None:
        ages = [t - expected_s for t in _times(client, "memory.free@alpha")]
        new = [t for t in ages if stepped + 4.0 < t < stepped + 60.0]
        return new[-1] if new else None

    try:
        t = processes.wait(fresh, "measurements with the server's time", 40.0)
    except SystemExit:
        verdict.say("clock", False, f"{what}: no measurement with the server's time within 40 s")
        return
    snapshot = client.snapshot()
    lost = [h["name"] for h in snapshot["hosts"] if h["lost"]]
    negative = [age for age in snapshot["series"]["age_s"] if age < 0]
    verdict.say(
        "clock",
        t < time.time() + 2.0 and not lost and not negative,
        f"{what}: measured at the server's time within {t - stepped:.0f} s, {len(lost)} hosts lost, "
        f"{len(negative)} negative ages",
    )


def disk(verdict: Verdict) -> None:
    """Check that a full disk rejects writes but not reads, and that writes work again once there is room."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        click.echo("skip  disk     only root can mount a small disk")
        return
    with trial() as processes:
        room = processes.directory / "disk"
        room.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(room)], check=True)
        try:
            server = processes.server(store=room / "service.db")
            _fill(verdict, processes, room)
            server.send_signal(signal.SIGTERM)
            server.wait()
        finally:
            processes.close()
            subprocess.run(["umount", str(room)], check=True)


def _fill(verdict: Verdict, processes: Processes, room: Path) -> None:
    stream = _Stream(processes)
    client = processes.client()
    stream.start()
    processes.wait(stream.progressed, "the first measurements")
    acknowledged = stream.finish()
    free = os.statvfs(room).f_bavail * os.statvfs(room).f_bsize
    (room / "filler").write_bytes(bytes(free))
    status, message = 200, ""
    sender = _Stream(processes)
    sender._client.key = stream._client.key
    sender.next = acknowledged
    for _ in range(2000):
        try:
            sender._send()
        except ServiceError as error:
            status, message = error.status, str(error)
            break
    readable = len(client.snapshot()["series"]["name"])
    health = client.health()["status"]
    (room / "filler").unlink()
    sender._send()
    kept = _values(client, "x.number@alpha")
    verdict.say(
        "disk",
        status == 507
        and readable > 0
        and health == "degraded"
        and len(kept) == sender.next == len(set(kept)),
        f"full: {status} ({message}), {readable} series readable, health {health}; with room again "
        f"{sender.next} acknowledged, {sender.next - len(set(kept))} lost, {len(kept) - len(set(kept))} doubled",
    )


def _times(client: ServiceClient, series: str) -> list[float]:
    return [float(t) for t in client.samples(series, resolution="raw")["t"]]


def _values(client: ServiceClient, series: str) -> list[float]:
    """Return every sample of a series, the newest page first: the service returns the newest samples of a span."""
    found: list[tuple[float, float]] = []
    until = time.time() + 60
    while True:
        page = client.samples(series, since=0.0, until=until, resolution="raw", most=100_000)
        pairs = [pair for pair in zip(page["t"], page["value"], strict=True) if not found or pair[0] < until]
        found = pairs + found
        if len(pairs) < 100_000 - 1:
            return [value for _, value in found]
        until = pairs[0][0]


def _status(client: ServiceClient, host: str) -> dict[str, Any]:
    return dict(client.host_state(host).get("status") or {})


def _measured(client: ServiceClient) -> dict[tuple[str, str], float]:
    """Return the time of each pair's last measurement."""
    series = client.snapshot()["series"]
    found = {}
    for name, t in zip(series["name"], series["measured_at"], strict=True):
        resource, _, place = name.partition("@")
        if resource == "network.bandwidth" and t is not None:
            source, _, destination = place.partition(">")
            found[source, destination] = t
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


_FAULTS: dict[str, Callable[..., None]] = {
    "kill": kill,
    "outage": outage,
    "lease": lease,
    "clock": clock,
    "disk": disk,
}


@click.command(help=__doc__)
@click.argument("faults", nargs=-1, type=click.Choice(list(_FAULTS)))
@click.option("--times", default=20, show_default=True, help="Kills of the server.")
@click.option("--away", default=300.0, show_default=True, help="Seconds that the server is gone.")
def main(faults: tuple[str, ...], times: int, away: float) -> None:
    """Try the faults named, or all."""
    verdict = Verdict()
    options: dict[str, dict[str, Any]] = {"kill": {"times": times}, "outage": {"away_s": away}}
    for name in faults or _FAULTS:
        _FAULTS[name](verdict, **options.get(name, {}))
    sys.exit(0 if verdict.held else 1)


if __name__ == "__main__":
    main()
