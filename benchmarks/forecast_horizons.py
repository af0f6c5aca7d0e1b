"""Forecasts of means and their ranges by horizon: over sets of recorded series, and after quiet days that end in load.

    python -m benchmarks forecast_horizons [FILE…] [--only TEXT] [--horizons 1,6,30,60] [--oracle | --new] [--json]

Files are as for `nws score`; without any, the reference series in `$APPLES_DATA/series` and our own recordings. Long
series are also cut into short pieces, each a series of its own. A row states the MAE beside the best of last value,
mean of the last k and forecast of the next value, the share of outcomes within the 80 % range (mean, and 10th and 90th
percentile of series), and the interval score beside that of the forecast of the next value ± 1.2816 lifetime RMSE.

*Quiet, then load*: seven days of an idle host, measured every 10 s, then a day of load: on and off, with phases of mean
length 60, 300 and 1800 s; a wandering share; steps between levels; each from several seeds. Rows are coverage from
the eleventh minute to the end of the first hour, and in the first day.

`--oracle` adds the 10th and 90th percentile of series for an oracle: the values of each series drawn anew, independent
of each other, and the interval between the exact 10 % and 90 % quantiles of their means.

`--new` prints the first forecasts of a new series instead, with and without errors borrowed from the others of its set,
which have learnt from all their values: coverage of the 80 % range, and the interval score with borrowing relative to
that without, of all together and as geometric mean of series. Each series is new once, long ones once in 1050 values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.report import print_document, say
from benchmarks.forecast_accuracy import default_files, groups
from nws.forecasting.accuracy import NOT_SCORED
from nws.forecasting.batteries import BatteryBank
from nws.forecasting.horizons import KNOWN
from nws.forecasting.horizonscore import HorizonScore, score_horizons, trace_outlooks
from nws.forecasting.statelayout import METHODS, STATE
from nws.series import SHARES

Values = NDArray[np.float64]
_DAY = 8640
_PIECE = 150
_SEEDS = 3
#: Numbers of outcomes of a new series, and the least series of a set to lend to it.
_FIRST_OUTCOMES, _LEAST_SET = (5, 20, 60), 4
_DRAWS = 100
_LOW, _HIGH = KNOWN + SHARES.index(0.1), KNOWN + SHARES.index(0.9)


def pieces(series: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return every seventh piece of each series, short enough that no long horizon has many outcomes."""
    return {
        f"{name}/{start}": values[start : start + _PIECE]
        for name, values in series.items()
        for start in range(0, len(values) - _PIECE, 7 * _PIECE)
    }


def sets(files: list[Path]) -> Iterator[tuple[str, dict[str, list[float]]]]:
    for path in files:
        for name, values in groups(path).items():
            series = {f"{name}/{i}": value.tolist() for i, value in enumerate(values)}
            yield name, series
            if min(map(len, values)) > 10 * _PIECE:
                yield f"{name}, pieces of {_PIECE}", pieces(series)


def loads(seed: int) -> dict[str, Values]:
    """Return a day of CPU shares under each kind of load."""
    rng = np.random.default_rng(seed)
    noise = 0.02 * rng.standard_normal(_DAY)
    found = {}
    for mean_s in (60, 300, 1800):
        phase = np.cumsum(rng.random(_DAY) < 10 / mean_s) % 2
        found[f"on and off, {mean_s} s"] = np.where(phase == 0, 0.45, 0.95) + noise
    wander = np.zeros(_DAY)
    for i in range(1, _DAY):
        wander[i] = 0.98 * wander[i - 1] + 0.1 * rng.standard_normal()
    found["wandering"] = 0.5 + 0.3 * np.tanh(wander) + noise
    level = np.array([1.0, 0.5, 1 / 3, 0.25, 0.2])[rng.integers(0, 5, _DAY)]
    found["steps, 600 s"] = level[np.cumsum(rng.random(_DAY) < 10 / 600)] + noise
    return {name: np.clip(values, 0.02, 1.0) for name, values in found.items()}


def quiet(seed: int) -> Values:
    if seed == 0:
        return np.ones(7 * _DAY)
    rng = np.random.default_rng(1000 + seed)
    return np.clip(0.985 + 0.006 * rng.standard_normal(7 * _DAY), 0.02, 1.0)


def after_quiet(horizons: list[int]) -> dict[str, list[list[float]]]:
    """Return coverage after quiet days: kind of load → horizon → [after ten minutes, in the first day]."""
    found: dict[str, list[list[list[float]]]] = {}
    for seed in range(_SEEDS):
        before = quiet(seed)
        states = np.zeros(1, STATE)
        _trace(states, before, horizons)
        for name, load in loads(seed).items():
            traced = _trace(states.copy(), load, horizons)
            found.setdefault(name, []).append(
                [_coverage(load, k, traced[:, j]) for j, k in enumerate(horizons)]
            )
    return {name: np.mean(rows, axis=0).tolist() for name, rows in found.items()}


def _trace(states: NDArray[np.void], values: Values, horizons: list[int]) -> Values:
    found = np.empty((len(values), len(horizons), KNOWN + len(SHARES)))
    states["measured_at"] = -1.0
    trace_outlooks.compiled(
        states,
        values,
        np.array(horizons, np.float64),
        np.array(SHARES),
        found,
        np.empty((len(values), len(METHODS) + 1)),
    )
    return found


def _coverage(value: Values, k: int, found: Values) -> list[float]:
    sums = np.concatenate(([0.0], np.cumsum(value)))
    at = np.arange(len(value) - k)
    outcome = (sums[at + k + 1] - sums[at + 1]) / k
    held = (found[at, _LOW] <= outcome) & (outcome <= found[at, _HIGH])
    return [float(held[60:360].mean()), float(held.mean())]


def oracle_spread(series: Mapping[str, list[float]], k: int) -> tuple[float, float]:
    """Return the 10th and 90th percentile of coverage, over draws of all series, if their law is known."""
    rng, held = np.random.default_rng(1), []
    for values in series.values():
        if len(values) > NOT_SCORED + k:
            sums = np.cumsum(rng.choice(values, (_DRAWS, len(values))), axis=1)[:, NOT_SCORED - 1 :]
            outcome = sums[:, k:] - sums[:, :-k]
            low, high = np.quantile(outcome, (0.1, 0.9))
            held.append(((low <= outcome) & (outcome <= high)).mean(axis=1))
    p10, p90 = np.quantile(held, (0.1, 0.9))
    return float(p10), float(p90)


def new_series(series: Mapping[str, list[float]], horizons: list[int]) -> dict[int, dict[int, list[float]]]:
    """Return horizon → outcomes → [coverage without and with borrowing, interval scores' ratio, their mean ratio]."""
    bank, every = BatteryBank(), [np.array(values) for values in series.values()]
    for index, values in enumerate(every):
        bank.add()
        bank.update_many(np.full(len(values), index), values, np.arange(len(values), dtype=np.float64))
    needed = _FIRST_OUTCOMES[-1] + max(horizons)
    # [borrows][horizon][series][outcome]
    found: list[list[list[tuple[Values, Values]]]] = [[[] for _ in horizons] for _ in range(2)]
    for index, values in enumerate(every):
        for start in range(0, len(values) - needed + 1, 7 * _PIECE):
            for borrows in range(2):
                (new,) = bank.add()
                kinds = np.full(len(bank), -1)
                kinds[: len(every)] = 0
                kinds[index], kinds[new] = -1, 0
                if borrows:
                    bank.lend([new], [kinds])
                piece = values[start : start + needed]
                traced = _trace(bank.states(new, 1), piece, horizons)
                for j, k in enumerate(horizons):
                    found[borrows][j].append(_first_scores(piece, k, traced[:, j]))
    rows: dict[int, dict[int, list[float]]] = {k: {} for k in horizons}
    for j, k in enumerate(horizons):
        held, score = (np.array([[one[i] for one in found[b][j]] for b in range(2)]) for i in range(2))
        for n in _FIRST_OUTCOMES:
            without, borrowed = score[:, :, :n].mean(axis=2)
            ratios = np.log(borrowed[without > 0] / without[without > 0])
            rows[k][n] = [
                *held[:, :, :n].mean(axis=(1, 2)).tolist(),
                float(borrowed.sum() / without.sum()),
                float(np.exp(ratios.mean())),
            ]
    return rows


def _first_scores(value: Values, k: int, found: Values) -> tuple[Values, Values]:
    """Return whether the first intervals held, and their interval scores: float64[outcomes] each."""
    sums = np.concatenate(([0.0], np.cumsum(value)))
    at = np.arange(_FIRST_OUTCOMES[-1])
    outcome = (sums[at + k + 1] - sums[at + 1]) / k
    low, high = found[at, _LOW], found[at, _HIGH]
    missed = np.maximum(low - outcome, 0.0) + np.maximum(outcome - high, 0.0)
    return (missed == 0.0).astype(np.float64), high - low + 10.0 * missed


def new_text(name: str, rows: dict[int, dict[int, list[float]]]) -> str:
    """Return the figures of new series as lines."""
    lines = [f"{name}: first outcomes of a new series, without → with borrowing"]
    for k, row in rows.items():
        for n, (without, borrowed, together, mean) in row.items():
            lines.append(
                f"  k {k:3d}, first {n:2d}: coverage {without:.3f} → {borrowed:.3f}; "
                f"interval score × {together:.3f}, mean of series × {mean:.3f}"
            )
    return "\n".join(lines)


def text(score: HorizonScore) -> str:
    best = min(score.mae_last, score.mae_mean_k, score.mae_reference)
    return (
        f"  k {score.k:3d}: MAE {score.mae / score.mae_last - 1:+6.1%} of last value, {score.mae / best:.3f} of best; "
        f"coverage {score.coverage:.3f} ({score.coverage_p10:.2f} to {score.coverage_p90:.2f}); "
        f"interval score {score.winkler / score.winkler_reference:.3f}"
    )


def main(
    *files: Path,
    only: str = "",
    horizons: str = "1,6,30,60",
    oracle: bool = False,
    new: bool = False,
    json: bool = False,
) -> None:
    """Score forecasts over horizons.

    only: sets with this in their name
    horizons: numbers of values, separated by commas
    oracle: add the coverage of an oracle
    new: the first forecasts of new series, and nothing else
    """
    steps = [int(k) for k in horizons.split(",")]
    document: dict[str, object] = {}
    show = (lambda *words: None) if json else say
    for name, series in sets(list(files) or default_files()):
        if only not in name or (new and (len(series) < _LEAST_SET or "pieces" in name)):
            continue
        if new:
            document[name] = rows = new_series(series, steps)
            show(new_text(name, rows))
            continue
        scores = score_horizons(series, steps, source=name)
        document[name] = [score.as_json() for score in scores]
        show("\n".join([f"{name}: {len(series)} series", *map(text, scores)]))
        if oracle:
            document[f"{name}, oracle"] = spreads = {k: oracle_spread(series, k) for k in steps}
            show("  oracle:", *(f"k {k}: {low:.2f} to {high:.2f};" for k, (low, high) in spreads.items()))
    if only in "quiet, then load" and not new:
        document["quiet, then load"] = quiet_rows = after_quiet(steps)
        show("quiet, then load: coverage after 10 minutes / in the first day, by k")
        for name, row in {**quiet_rows, "mean": np.mean(list(quiet_rows.values()), axis=0).tolist()}.items():
            show(
                f"  {name:22}",
                *(f"{k}: {soon:.3f}/{day:.3f}" for k, (soon, day) in zip(steps, row, strict=True)),
            )
    if json:
        print_document(document, as_json=True)
