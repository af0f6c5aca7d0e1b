"""Cost of the store at the size of a pool: a day of all series of a full mesh, in minutes.

    python benchmarks/weather_store.py [--hosts 34] [--hours 24] [--period 10] [--store FILE]

Three series a host and two an ordered pair, whole milliseconds a little late, float32 values. A step delivers one
value of each. Housekeeping runs after every step in slices as a server's clock would start them, and reading continues
all the time. Prints percentiles of a step, of a slice and of reading, by wall time and by CPU time (other programs on
the machine lengthen the first and hardly the second), bytes a sample, and peak RSS.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nws.memory import Delivery, Memory
from nws.series import Series

START = 1_800_000_000.0


def series_of(hosts: int) -> list[str]:
    names = [f"h{i:03d}" for i in range(hosts)]
    single = [f"{r}@{n}" for r in ("cpu.new", "cpu.running", "memory.free") for n in names]
    pairs = [(a, b) for a in names for b in names if a != b]
    return single + [f"network.{r}@{a}>{b}" for r in ("latency", "bandwidth") for a, b in pairs]


def next_values(level: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the next value of each series: a walk with noise around it, exact in float32."""
    level *= np.exp(rng.normal(0, 0.01, len(level)))
    return (level * rng.lognormal(0, 0.1, len(level))).astype(np.float32).astype(np.float64)


class Watch:
    """Durations of one repeated operation, wall and CPU, in s."""

    def __init__(self, label: str) -> None:
        self.label, self.wall, self.cpu = label, [], []

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.cpu.append(time.thread_time() - self._began[1])
        self.wall.append(time.perf_counter() - self._began[0])

    def show(self) -> None:
        """Print one line; nothing if there are no durations."""
        if self.wall:
            columns = [1e3 * x for s in (self.wall, self.cpu) for x in np.percentile(s, [50, 99, 100])]
            print(
                f"{self.label:34}" + "".join(f"{c:9.2f}" for c in columns) + f"{len(self.wall):8}", flush=True
            )


def heading() -> None:
    columns = [f"{kind} {p}" for kind in ("wall", "CPU") for p in ("p50", "p99", "max")]
    print(f"{'milliseconds':34}" + "".join(f"{c:>9}" for c in columns) + f"{'calls':>8}")


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def a_day(memory: Memory, clock: list[float], options: argparse.Namespace) -> None:
    rng = np.random.default_rng(1)
    names = series_of(options.hosts)
    ids = memory.series_ids(names)
    level, phase = rng.lognormal(0, 1, len(ids)), rng.random(len(ids)) * options.period
    step, read = Watch("a step of one value each"), Watch("the last hour of one series")
    busy, idle = Watch("a slice of housekeeping"), Watch("housekeeping with nothing to do")
    steps = int(options.hours * 3600 / options.period)
    for turn in range(steps):
        clock[0] = START + turn * options.period
        late = rng.exponential(0.01, len(ids))
        times = np.rint((clock[0] - options.period + phase + late) * 1000) / 1000
        delivery = Delivery(ids=ids, times=times, values=next_values(level, rng), received=clock[0])
        with step:
            memory.deliver([delivery])
        waiting = True
        for _ in range(int(options.period)):
            with busy if waiting else idle:
                waiting = memory.tend()
        if turn % 10 == 0:
            with read:
                memory.samples(Series.parse(names[int(rng.integers(len(names)))]), since=clock[0] - 3600)
    print(f"{len(ids)} series, {steps} steps, {len(ids) * steps / 1e6:.1f} M samples")
    heading()
    for watch in (step, busy, idle, read):
        watch.show()
    rate = len(ids) * steps / sum(step.cpu)
    load = (sum(busy.cpu) + sum(idle.cpu)) / (steps * options.period)
    print(f"ingest while stepping: {rate:,.0f} samples per CPU second; housekeeping: {load:.2%} of one core")


def reading(memory: Memory, clock: list[float], names: list[str]) -> None:
    rng = np.random.default_rng(2)
    day, rolled = Watch("24 h of one series"), Watch("its ten-minute roll-ups")
    everything = Watch("what there is of all series")
    for name in rng.choice(names, 200):
        one = Series.parse(str(name))
        with day:
            memory.samples(one, since=clock[0] - 86400)
        with rolled:
            memory.rollup(one, bucket_s=600)
    for _ in range(20):
        with everything:
            memory.summaries()
    for watch in (day, rolled, everything):
        watch.show()


def small_batches(directory: Path) -> None:
    """Append as hosts do: 70 samples each, one by one and 34 in one step."""
    heading()
    for together in (1, 34):
        step = Watch(f"{together} batches of 70 in one step")
        with Memory(directory / f"small-{together}.db") as memory:
            ids = memory.series_ids([f"cpu.new@h{i}" for i in range(70)])
            for i in range(6800 // together):
                delivery = Delivery(
                    ids=ids, times=np.full(70, START + i), values=np.full(70, 0.5), received=START + i
                )
                with step:
                    memory.deliver([delivery] * together)
        step.show()
        rates = [70 * together * len(s) / sum(s) for s in (step.wall, step.cpu)]
        print(f"  {rates[0]:,.0f} samples/s on the wall, {rates[1]:,.0f} per CPU second")


def sizes(memory: Memory, path: Path) -> None:
    with memory.database.reading() as connection:

        def sums(query: str) -> tuple[float, float]:
            count, total = connection.execute(query).fetchone()
            return (count or 0), (total or 0)

        count, chunks = sums("SELECT sum(samples), sum(length(data)) FROM block WHERE bucket_s = 0")
        print(f"chunks: {chunks / count:.2f} bytes a sample")
        for bucket_s in (60, 600):
            rows, data = sums(f"SELECT count(*), sum(length(data)) FROM block WHERE bucket_s = {bucket_s}")
            print(f"roll-ups of {bucket_s} s: {rows:.0f} rows, {data / count:.2f} bytes a sample")
        free = connection.execute("PRAGMA freelist_count").fetchone()[0]
        page = connection.execute("PRAGMA page_size").fetchone()[0]
    whole = path.stat().st_size
    print(
        f"file: {whole / 1e6:.0f} MB, {whole / count:.2f} bytes a sample with roll-ups, log and indexes; "
        f"{free * page / 1e6:.0f} MB of it free; log beside it {Path(f'{path}-wal').stat().st_size / 1e6:.0f} MB"
    )


def reopened(path: Path, clock: list[float]) -> None:
    began = time.perf_counter()
    with Memory(path, clock=lambda: clock[0]) as memory:
        memory.summaries()
        print(f"opened again and the log read: {1e3 * (time.perf_counter() - began):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=34)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--period", type=float, default=10.0)
    parser.add_argument("--store", type=Path, help="keep the file there; must not exist")
    options = parser.parse_args()
    if options.store and options.store.exists():
        sys.exit(f"{options.store}: exists already; name another file")
    clock = [START]
    with tempfile.TemporaryDirectory() as directory:
        path = options.store or Path(directory) / "weather.db"
        before = rss_bytes()
        with Memory(path, clock=lambda: clock[0]) as memory:
            a_day(memory, clock, options)
            reading(memory, clock, memory.names())
            sizes(memory, path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"RSS: {before / 1e6:.0f} MB before, {rss_bytes() / 1e6:.0f} MB after, {peak / 1e6:.0f} MB at most"
        )
        reopened(path, clock)
        small_batches(Path(directory))


if __name__ == "__main__":
    main()
