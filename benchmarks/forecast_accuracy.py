"""Our forecaster battery beside statsforecast and river, and what one of its updates costs.

    pip install 'apples-grid[bench]'
    python -m benchmarks forecast_accuracy score [FILE…] [--most 300] [--json]
    python -m benchmarks forecast_accuracy cost [--series 1000] [--rounds 300] [--json]

score: one step ahead, on the same points of each file, in one run. Files are as for `nws score`. Without any, the
benchmark uses the reference series in `$APPLES_DATA/series` and our own recording. The first 20 values of each series
are training values and not scored. MAE and RMSE are means over series. If a file has several resources, each is
scored apart, as bytes and seconds have no mean.

Every forecast uses only the values before it. *SES optimised* fits its gain to the whole past at each point.
*AutoETS* (no season) chooses its model and fits it to the whole past. It does so at each point while there are fewer
than `--refit` values (120), later whenever the past has grown by 5 %; in between it updates the fitted model with
each new value. *HoltWinters* has constants that the user must choose. Its first line is the best of nine choices in
hindsight, for each file and kind of error, which is impossible in practice. The second line uses the constants of its
manual (0.3, trend 0.1). The cost is that of one value: the update and the next forecast.

cost: one update of one series through the whole battery, and the steps around it. All series are updated together,
one value each a round, at three depths: the battery itself, through the in-memory weather, and one series at a time.
It also times forecasts of all series, replay of a stored series, and the first use in a fresh process, with and
without compiled code on disk. Prints percentiles over the rounds."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.report import ROOT, output, print_document
from nws.base.errors import UsageError
from nws.forecasting.accuracy import NOT_SCORED
from nws.forecasting.batteries import BatteryBank
from nws.forecasting.kernel import trace
from nws.forecasting.statelayout import LAST, METHODS, SELECTORS, STATE
from nws.series import Resource, Series
from nws.sources.csvfile import read_columns
from nws.testing import InMemoryWeather

Values = NDArray[np.float64]
#: Makes the forecast of every value from those before it; the first 20 forecasts do not count.
Method = Callable[[Values], Values]
_HOLT_GAINS = (0.1, 0.3, 0.6)
_HOLT_TRENDS = (None, 0.1, 0.3)
_MANUAL = "HoltWinters (manual's)"
#: Growth of the past between two fits of AutoETS, once fits are not made at each point.
_GROWTH = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One method on one file: errors in the unit of the series, cost in microseconds a value."""

    method: str
    mae: float
    rmse: float
    us_per_value: float


def batteries(values: Values) -> tuple[Values, Values, Values]:
    """Return last value, MAE pick and MSE pick, from one run of the battery."""
    predicted, answered = np.zeros((len(values), len(METHODS))), np.zeros((len(values), 2))
    trace.compiled(np.zeros(1, STATE), values, predicted, answered)
    return predicted[:, LAST], answered[:, 0], answered[:, 1]


def ses_optimised() -> Method:
    from statsforecast.models import SimpleExponentialSmoothingOptimized

    model = SimpleExponentialSmoothingOptimized()

    def forecast(values: Values) -> Values:
        found = np.zeros(len(values))
        for now in range(NOT_SCORED, len(values)):
            found[now] = model.forecast(y=values[:now], h=1)["mean"][0]
        return found

    return forecast


def auto_ets(refit: int) -> Method:
    from statsforecast.models import AutoETS

    def forecast(values: Values) -> Values:
        found = np.zeros(len(values))
        now = NOT_SCORED
        while now < len(values):
            model = AutoETS(season_length=1).fit(values[:now])
            until = now + 1 if now < refit else min(max(int(now * _GROWTH), now + 1), len(values))
            if until == now + 1:
                found[now] = model.predict(h=1)["mean"][0]
            else:
                # fitted values of an updated model are its one-step forecasts: the value at an index
                # does not affect the forecast at that index
                found[now:until] = model.forward(y=values[:until], h=1, fitted=True)["fitted"][now:until]
            now = until
        return found

    return forecast


def holt_winters(gain: float, trend: float | None) -> Method:
    from river.time_series import HoltWinters

    def forecast(values: Values) -> Values:
        model, found = HoltWinters(alpha=gain, beta=trend), np.zeros(len(values))
        for now, value in enumerate(values.tolist()):
            if now >= NOT_SCORED:
                found[now] = model.forecast(horizon=1)[0]
            model.learn_one(value)
        return found

    return forecast


def errors(values: Values, forecasts: Values) -> tuple[float, float]:
    """Return MAE and RMSE of one series."""
    wrong = (forecasts - values)[NOT_SCORED:]
    if not np.isfinite(wrong).all():
        raise SystemExit("a forecast is no finite number; nothing was left out to make figures look better")
    return float(np.abs(wrong).mean()), float(np.sqrt(np.square(wrong).mean()))


def judged(name: str, method: Method, series: Iterable[Values]) -> Result:
    """Return the result of one method over all series."""
    found, spent, count = [], 0.0, 0
    for values in series:
        began = time.perf_counter()
        forecasts = method(values)
        spent += time.perf_counter() - began
        count += len(values)
        found.append(errors(values, forecasts))
    mae, rmse = np.mean(found, axis=0)
    return Result(method=name, mae=float(mae), rmse=float(rmse), us_per_value=1e6 * spent / count)


def our_results(series: list[Values]) -> list[Result]:
    """Return last value and both picks. One run of the battery makes all three, so each has the cost of the battery."""
    # compiled before the clock starts
    batteries(np.zeros(2))

    def part(place: int) -> Method:
        return lambda values: batteries(values)[place]

    names = ("last value", "battery, MAE pick", "battery, MSE pick")
    return [judged(name, part(place), series) for place, name in enumerate(names)]


def theirs(series: list[Values], refit: int) -> list[Result]:
    found = [
        judged("SES optimised", ses_optimised(), series),
        judged("AutoETS", auto_ets(refit), series),
    ]
    holts = []
    for gain in _HOLT_GAINS:
        for trend in _HOLT_TRENDS:
            manual = (gain, trend) == (0.3, 0.1)
            name = _MANUAL if manual else f"HoltWinters ({gain}, {trend})"
            holts.append(judged(name, holt_winters(gain, trend), series))
    hindsight = Result(
        method="HoltWinters (hindsight)",
        mae=min(h.mae for h in holts),
        rmse=min(h.rmse for h in holts),
        us_per_value=float(np.mean([h.us_per_value for h in holts])),
    )
    return [*found, hindsight, next(h for h in holts if h.method == _MANUAL)]


def lost(results: list[Result]) -> list[str]:
    """Return the cases with another method better than ours: MAE beside the MAE pick, RMSE beside the MSE pick."""
    by_name = {r.method: r for r in results}
    mae, rmse = by_name["battery, MAE pick"].mae, by_name["battery, MSE pick"].rmse
    lines = []
    for r in (r for r in results if not r.method.startswith("battery")):
        for error, own, kind in ((r.mae, mae, "MAE"), (r.rmse, rmse, "RMSE")):
            if error < own:
                lines.append(
                    f"** {r.method} is better by {kind}: {error:.5g} against {own:.5g} ({1 - error / own:.1%})"
                )
    return lines or ["nobody is better than the battery, by MAE or by RMSE"]


def groups(path: Path) -> dict[str, list[Values]]:
    """Return series of a file that can be scored: together, or by resource if the file has several of our_results."""
    found: dict[str, list[Values]] = {}
    for name, values in read_columns(str(path)).values_by_series().items():
        if len(values) > NOT_SCORED:
            found.setdefault(_resource(name), []).append(np.array(values))
    return {path.name if len(found) == 1 else f"{path.name}, {name}": some for name, some in found.items()}


def _resource(series: str) -> str:
    try:
        return str(Series.parse(series).resource)
    except UsageError:
        return ""


def spread(every: list[Values], most: int) -> list[Values]:
    """Return at most that many of the series, evenly spread over them."""
    if len(every) <= most:
        return every
    return [every[round(i * (len(every) - 1) / max(most - 1, 1))] for i in range(most)]


def default_files() -> list[Path]:
    data = Path(os.environ.get("APPLES_DATA") or ROOT.parent / "shared" / "data") / "series"
    own = sorted((ROOT / "tests" / "nws" / "data").glob("*.csv.gz"))
    return sorted(data.glob("*.csv.gz")) + own


def report(name: str, series: list[Values], results: list[Result]) -> None:
    scored = sum(len(v) - NOT_SCORED for v in series)
    print(f"\n{name}: {len(series)} series, {scored} values scored")
    print(f"{'':26}{'MAE':>12}{'RMSE':>12}{'beside last value':>22}{'µs a value':>13}")
    base = results[0]
    for r in results:
        beside = f"{_change(r.mae, base.mae)} {_change(r.rmse, base.rmse)}"
        print(f"{r.method:26}{r.mae:12.5g}{r.rmse:12.5g}{beside:>22}{r.us_per_value:13.1f}")
    for line in lost(results):
        print(f"  {line}")


def _change(error: float, base: float) -> str:
    return f"{error / base - 1:+10.1%}" if base > 0 else f"{'':10}"


ALLOWED_US = 60.0
FIRST_FORECAST = """
import time
began = time.perf_counter()
from nws.forecasting.batteries import BatteryBank
imported = time.perf_counter()
battery = BatteryBank(1)
battery.update(0, 1.0, t=0.0)
battery.forecast(0)
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
    for i, row in enumerate(values[:100]):
        bank.update_many(indices, row, float(i))
        weather.record_many(names, float(i), row)
    rows = values[100:]
    battery, stored = BatteryBank(1), rng.random(10_000)
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
            timed(lambda i: battery.update(0, float(rows[i, 0]), t=float(i)), rounds)
        ),
        "forecast_us": percentiles(timed(lambda _: bank.forecasts(), 50), series),
        "replay_10000_s": float(
            np.median(timed(lambda _: battery.update_many([0] * 10_000, stored, range(10_000)), 7))
        ),
    }


def first_forecast(cache: str) -> dict[str, float]:
    """Return seconds of the import and of the first forecast in a fresh process."""
    importing, forecasting = map(
        float, output([sys.executable, "-c", FIRST_FORECAST], NUMBA_CACHE_DIR=cache).split()
    )
    return {"import_s": importing, "first_forecast_s": forecasting}


def score(*files: Path, most: int = 300, refit: int = 120, ours: bool = False, json: bool = False) -> None:
    """Score all methods on the files.

    most: series of a file, spread evenly over it
    refit: AutoETS is fitted at each point up to here
    ours: only our own; needs nothing installed
    """
    paths = files or default_files()
    if not paths:
        raise SystemExit("no reference series here; set APPLES_DATA to the data directory, or name files")
    if not ours:
        try:
            import river  # noqa: F401
            import statsforecast  # noqa: F401
        except ImportError as error:
            message = "is not installed; run: pip install 'apples-grid[bench]' (or give --ours)"
            raise SystemExit(f"{error.name} {message}") from None
    # Fits that did not converge warn at each point; their forecasts are scored unchanged.
    warnings.simplefilter("ignore")
    document = {}
    for name, every in ((n, e) for path in paths for n, e in groups(path).items()):
        series = spread(every, most)
        results = our_results(series) + ([] if ours else theirs(series, refit))
        document[name] = [asdict(r) for r in results]
        if not json:
            report(name, series, results)
            sys.stdout.flush()
    if json:
        print_document(document, as_json=True)


def cost(*, series: int = 1000, rounds: int = 300, json: bool = False) -> None:
    """Measure the cost of updates."""
    result = measure(series, rounds)
    with tempfile.TemporaryDirectory() as cache:
        result["fresh_process_cold"] = first_forecast(cache)
        result["fresh_process_cached"] = first_forecast(cache)
    print_document(result, as_json=json)


PARTS = (score, cost)
