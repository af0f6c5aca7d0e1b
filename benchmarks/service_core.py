"""Cost of the core of a weather service, without HTTP: storing measurements, queries, restarts.

    python benchmarks/service_core.py [--hosts 34 1000] [--samples 200000]

For each number of hosts: a full mesh up to 64 hosts, cliques of 16 beyond; three series a host and two a measured pair.
Batches of 50, 200 and 2,000 samples are put with forecasts kept current, singly and ten to a transaction. Prints
samples a second by wall time and by CPU time (other programs on the machine affect the first and hardly the second),
percentiles of a snapshot and of encoding it, the time to start again from a saved state and from none, and peak RSS.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from itertools import permutations
from pathlib import Path

import numpy as np

from nws.links.cliques import automatic, pairs
from nws.service.config import Limits, ServiceConfig
from nws.service.core import WeatherService
from nws.service.records import Batch

START = 1_800_000_000.0
CONFIG = ServiceConfig(limits=Limits(series_per_host=10**6))
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
        start = time.perf_counter()
        document = service.snapshot()
        between = time.perf_counter()
        content = document.encode()
        made.append(between - start)
        encoded.append(time.perf_counter() - between)
    for label, times in (("snapshot", made), ("encoded", encoded)):
        p50, p90, top = 1e3 * np.percentile(times, [50, 90, 100])
        print(f"  {label:34} p50 {p50:8.2f} ms   p90 {p90:8.2f} ms   max {top:8.2f} ms")
    print(f"  {'':34} {len(document.series.names):,} series, {len(content):,} bytes")


def timed(label: str, action: object) -> object:
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()  # type: ignore[operator]
    print(f"  {label:34} {time.perf_counter() - wall:8.2f} s   {time.process_time() - cpu:8.2f} s of CPU")
    return result


def run(hosts: int, samples: int, folder: Path) -> None:
    names, path = series_of(hosts), folder / f"{hosts}.db"
    feed = Feed(names)
    print(f"{hosts} hosts, {len(names):,} series")

    def start() -> WeatherService:
        return WeatherService(CONFIG, store=path, clock=lambda: feed.now)

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[34, 1000])
    parser.add_argument("--samples", type=int, default=200_000)
    options = parser.parse_args()
    for hosts in options.hosts:
        with tempfile.TemporaryDirectory() as folder:
            run(hosts, options.samples, Path(folder))


if __name__ == "__main__":
    main()
