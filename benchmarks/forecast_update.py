"""Cost of forecasting: one update of one series through the whole battery, and the steps around it.

    python benchmarks/forecast_update.py [--series 1000] [--rounds 300] [--json]

All series are updated together, one value each a round, at three depths: the battery itself, through the
in-memory weather, and one series at a time. It also times forecasts of all series, replay of a stored series, and the
first use in a fresh process, with and without compiled code on disk. Prints percentiles over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nws.forecasting.batteries import Battery, BatteryBank
from nws.forecasting.layout import METHODS, SELECTORS, STATE
from nws.series import Resource, Series
from nws.testing import InMemoryWeather

ALLOWED_US = 60.0
FIRST_FORECAST = """
import time
began = time.perf_counter()
from nws.forecasting.batteries import Battery
imported = time.perf_counter()
battery = Battery()
battery.update(1.0, t=0.0)
battery.forecast()
print(imported - began, time.perf_counter() - imported)
"""


def percentiles(seconds: list[float], updates: int = 1) -> dict[str, float]:
    """Return percentiles of the time per update, in µs, for `updates` updates in each of the timings."""
    each = np.array(seconds) * 1e6 / updates
    return {f"p{q}": float(np.percentile(each, q)) for q in (50, 90, 99)} | {"mean": float(each.mean())}


def timed(action: Callable[[int], object], rounds: int) -> list[float]:
    seconds = []
    for i in range(rounds):
        began = time.perf_counter()
        action(i)
        seconds.append(time.perf_counter() - began)
    return seconds


def first_forecast(cache: Path) -> dict[str, float]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", FIRST_FORECAST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    importing, forecasting = map(float, done.stdout.split())
    return {"import_s": importing, "first_forecast_s": forecasting}


def measure(series: int, rounds: int) -> dict[str, object]:
    rng = np.random.default_rng(1)
    # a walk with noise and spikes for every series, so that the methods differ
    values = np.cumsum(rng.standard_normal((rounds + 100, series)), axis=0) + rng.standard_normal(
        (rounds + 100, series)
    )
    values[rng.random(values.shape) < 0.02] += 50.0
    names = tuple(Series(Resource.CPU_NEW, f"h{i}") for i in range(series))
    indices = np.arange(series)

    bank, weather = BatteryBank(series), InMemoryWeather()
    bank.add(series)
    for i, row in enumerate(values[:100]):
        bank.update_many(indices, row, float(i))
        weather.record_many(names, float(i), row)
    rows = values[100:]
    battery, stored = Battery(), rng.random(10_000)
    together = timed(lambda i: bank.update_many(indices, rows[i], i + 100.0), rounds)
    recorded = timed(lambda i: weather.record_many(names, i + 100.0, rows[i]), rounds)
    return {
        "series": series,
        "rounds": rounds,
        "methods": len(METHODS),
        "selectors": len(SELECTORS),
        "bytes_per_series": STATE.itemsize,
        "update_us": percentiles(together, series),
        "updates_per_s": series * rounds / sum(together),
        "allowed_over_mean": ALLOWED_US * 1e-6 * series * rounds / sum(together),
        "record_many_us": percentiles(recorded, series),
        "single_update_us": percentiles(
            timed(lambda i: battery.update(float(rows[i, 0]), t=float(i)), rounds)
        ),
        "forecast_us": percentiles(timed(lambda _: bank.forecasts(), 50), series),
        "replay_10000_s": float(np.median(timed(lambda _: Battery().replay(stored, range(10_000)), 7))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.series, options.rounds)
    with tempfile.TemporaryDirectory() as cache:
        result["fresh_process_cold"] = first_forecast(Path(cache))
        result["fresh_process_cached"] = first_forecast(Path(cache))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{name:22}" + "  ".join(f"{key} {number:.3g}" for key, number in value.items()))
        else:
            print(f"{name:22}{value:.6g}")


if __name__ == "__main__":
    main()
