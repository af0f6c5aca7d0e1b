"""Cost of the memory for a program that appends measurements: all series of a pool for some hours, then read back.

    python benchmarks/weather_memory.py [--hosts 34] [--hours 3] [--period 10]

Every ordered pair of hosts is a series, and every value a random number, the worst case for compression. Prints the
time of one step, which also compacts finished hours (median, 99th percentile, longest), bytes on disk for each sample,
and the time to read the samples that forecasts replay. `weather_store.py` measures a server's day.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from nws.memory import Memory
from nws.series import Measurement, Resource, Series


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=34)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--period", type=float, default=10.0)
    options = parser.parse_args()
    chance = random.Random(1)
    hosts = range(options.hosts)
    series = [Series(Resource.LATENCY, f"h{i}", f"h{j}") for i in hosts for j in hosts]
    steps = int(options.hours * 3600 / options.period) + 1
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "weather.db"
        clock = [1.8e9]
        with Memory(path, clock=lambda: clock[0]) as memory:
            seconds = []
            for step in range(steps):
                t = clock[0] = 1.8e9 + step * options.period
                rows = [Measurement(s, t + 0.01 * chance.random(), 1e-4 * chance.random()) for s in series]
                start = time.perf_counter()
                memory.append(rows)
                seconds.append(time.perf_counter() - start)
            start = time.perf_counter()
            memory.history(most=2000)
            read = time.perf_counter() - start
        size = path.stat().st_size
    seconds.sort()
    print(
        f"{len(series)} series, {steps} steps: one step median {1e3 * statistics.median(seconds):.2f} ms, "
        f"99th percentile {1e3 * seconds[int(0.99 * len(seconds))]:.2f} ms, longest {1e3 * seconds[-1]:.0f} ms"
    )
    print(f"{size / (steps * len(series)):.1f} bytes a sample on disk; all read back in {read:.2f} s")


if __name__ == "__main__":
    main()
