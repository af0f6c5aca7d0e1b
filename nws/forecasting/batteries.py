"""The battery over many series: values in, forecasts out.

`BatteryBank` holds one record of fixed size for every series in one array that grows, so that a thousand series are
updated in one call. The state is rebuilt from a store by `update_many` over the stored values, some microseconds each.
Values that are not numbers are rejected. Names of series and history are kept
elsewhere (see `nws.testing.InMemoryWeather`). One thread at a time may update a bank. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from io import BufferedIOBase

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nws.base.errors import UsageError, WeatherError
from nws.forecasting.borrowing import lend
from nws.forecasting.compiling import run
from nws.forecasting.horizons import KNOWN, read_outlooks
from nws.forecasting.kernel import advance_many
from nws.forecasting.statelayout import MAE, METHODS, MSE, PICKS, SELECTORS, STATE, method_text
from nws.series import SHARES, Forecast, Outlook

#: Squares of larger values, and sums of them, might not be representable.
LARGEST = 1e120
#: Values after which a series needs the errors of others no longer.
FEW_VALUES = 100


class Pick(IntEnum):
    """Which of the battery's two answers: the one meant to have the lowest MAE, or the lowest MSE."""

    MAE = MAE
    MSE = MSE


_TEXT = [
    [method_text(selector, method) for method in range(len(METHODS))] for selector in range(len(SELECTORS))
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Forecasts of n series as arrays[n]; the fields are those of `Forecast`, NaN where nothing is known.

    method : int64, place in `METHOD_TEXTS`
    """

    value: NDArray[np.float64]
    mae: NDArray[np.float64]
    rmse: NDArray[np.float64]
    method: NDArray[np.int64]
    samples: NDArray[np.int64]
    measured_at: NDArray[np.float64]
    last: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ahead:
    """Spans of outlooks.

    over_s : lengths from `now`, more than 0 s, rising.  now : seconds since the epoch
    least, most : smallest and largest possible value, of each series or of all
    """

    over_s: Sequence[float]
    now: float
    least: ArrayLike = -math.inf
    most: ArrayLike = math.inf


METHOD_TEXTS = tuple(text for selector in _TEXT for text in selector)
"""What `Columns.method` stands for, such as ``median_21 (mae/50)``."""


def first_illegal(values: NDArray[np.float64]) -> int | None:
    """Place of the first value that no battery takes: NaN, infinite or beyond ±`LARGEST`; None if all are legal."""
    # written so that NaN counts as illegal
    legal = np.abs(values) <= LARGEST
    return None if legal.all() else int(np.argmin(legal))


def refusal(series: str, value: float) -> str:
    """Return message of the error for an illegal value of that series."""
    return (
        f"{series}: {value} is not a measurement; legal are finite numbers up to ±{LARGEST:g}; "
        "leave out what could not be measured"
    )


def _outlooks(table: NDArray[np.float64], over_s: Sequence[float]) -> list[tuple[Outlook, ...]]:
    """Return the records of `BatteryBank.outlooks`, by series."""
    return [
        tuple(
            Outlook(
                over_s=span,
                mean=mean,
                held=held,
                outcomes=outcomes,
                variation=variation,
                quantiles=tuple(quantiles),
            )
            for span, (mean, held, outcomes, variation, *quantiles) in zip(over_s, row, strict=True)
        )
        for row in table.tolist()
    ]


def _pages(series: int) -> mmap.mmap:
    """Return memory for the states of so many series, zeros at first."""
    return mmap.mmap(-1, series * STATE.itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class BatteryBank:
    """Batteries of many series; a series is its index, counted from 0 in the order of `add`."""

    def __init__(self, series: int = 0) -> None:
        """Start with so many series."""
        # pages grow without a second copy of what they hold
        self._pages = _pages(max(series, 1))
        self._states: NDArray[np.void] = np.frombuffer(self._pages, STATE)
        self._size = series

    @classmethod
    def restored(cls, file: BufferedIOBase, series: int) -> BatteryBank:
        """Return a bank that continues from the states of so many series, read from a file; raises `ValueError`."""
        bank = cls(series)
        read = file.readinto(bank._states[:series].view(np.uint8).data)
        if read != series * STATE.itemsize:
            raise ValueError(f"{read} bytes of the states of {series} series")
        return bank

    def states(self, first: int = 0, most: int | None = None) -> NDArray[np.void]:
        """Return a copy of everything the batteries know of `most` series from `first` on, or of all: STATE[series]."""
        end = self._size if most is None else min(first + most, self._size)
        # bytes, because a copy of records leaves out the padding between their fields
        return self._states[first:end].view(np.uint8).copy().view(STATE)

    @property
    def bytes_per_series(self) -> int:
        """Return the bytes of one series' state."""
        return self._states.itemsize

    def __len__(self) -> int:
        """Return number of series."""
        return self._size

    def add(self, count: int = 1) -> range:
        """Make room for `count` further series and return their indices."""
        first, size = self._size, self._size + count
        if size > len(self._states):
            capacity = max(size, 2 * len(self._states))
            # pages that an array refers to cannot move
            del self._states
            try:
                self._grow(capacity)
            finally:
                self._states = np.frombuffer(self._pages, STATE)
        self._size = size
        return range(first, size)

    def lend(self, borrowers: ArrayLike, kinds: ArrayLike) -> None:
        """Let series without values start from the errors of others of their kind that have learnt.

        borrowers : int[n] of series; those with values keep what they have learnt
        kinds : int[k, series], the same number in a row means the same kind, a negative one none; the first rows count
        first, where enough of the kind have learnt. Raises `UsageError` for another number of series.
        """
        at, rows = np.asarray(borrowers, np.int64), np.atleast_2d(np.asarray(kinds, np.int64))
        self._check(at)
        if rows.shape[1] != self._size:
            raise UsageError(
                f"kinds of {rows.shape[1]} series in a bank of {self._size}; expected one for each"
            )
        states = self._states[: self._size]
        lend(states, at[states["samples"][at] == 0], rows)

    def _grow(self, capacity: int) -> None:
        """Make room for so many states; raises `MemoryError` with the pages as they were."""
        try:
            self._pages.resize(capacity * STATE.itemsize)
        except (BufferError, OSError, SystemError):
            # an array of another thread still refers to them, or the system moves none
            try:
                wider = _pages(capacity)
            except OSError as error:
                raise MemoryError(f"no memory for {capacity} batteries") from error
            wider[: len(self._pages)] = self._pages[:]
            self._pages = wider

    def update(self, index: int, value: float, *, t: float) -> None:
        """Take one value of one series, measured at `t` seconds since the epoch; see `update_many`."""
        self.update_many(np.array([index]), np.array([value]), np.array([t]))

    def update_many(self, indices: ArrayLike, values: ArrayLike, times: ArrayLike) -> None:
        """Update with n values in turn; a series may occur more than once.

        indices : int[n] of series;  values : float[n] in the series' unit;  times : float[n] or one float,
        seconds since the epoch. Raises `UsageError`, with nothing updated, when a value is not finite or
        beyond ±1e120, a series does not exist, or the lengths differ.
        """
        # a read-only array is another type to the compiler, which would compile everything once more for it
        at = np.require(indices, np.int64, ("C", "W"))
        value = np.require(values, np.float64, ("C", "W"))
        time = np.asarray(times, np.float64)
        if at.shape != value.shape or at.ndim != 1:
            raise UsageError(f"one value for one index: got values {value.shape} for indices {at.shape}")
        if time.shape not in ((), value.shape):
            raise UsageError(
                f"one time for one value, or one for all: got times {time.shape} for values {value.shape}"
            )
        self._check(at)
        illegal = first_illegal(value)
        if illegal is not None:
            raise UsageError(refusal(f"series {at[illegal]}", float(value[illegal])))
        run(advance_many, len(at), self._states, at, value, np.full(value.shape, time))

    def samples(self, index: int) -> int:
        """Return values taken of a series so far."""
        self._check(np.array([index]))
        return int(self._states["samples"][index])

    def forecast(self, index: int, pick: Pick = Pick.MAE) -> Forecast:
        """Return the battery's forecast of the next value; raises `WeatherError` before the first one."""
        return self.forecasts([index], pick)[0]

    def forecasts(
        self,
        indices: Sequence[int] | None = None,
        pick: Pick = Pick.MAE,
        *,
        ahead: Ahead | None = None,
    ) -> list[Forecast]:
        """Return forecasts of many series, of all by default; raises `WeatherError` where one has no value yet.

        ahead : spans for which outlooks are added
        """
        at = np.arange(self._size) if indices is None else np.asarray(indices, np.int64)
        answered = self.columns(at, pick)
        if not answered.samples.all():
            empty = int(at[answered.samples == 0][0])
            raise WeatherError(
                f"series {empty} has no measurement yet; record one before asking for a forecast"
            )
        columns = {name: getattr(answered, name).tolist() for name in Columns.__dataclass_fields__}
        columns["method"] = [METHOD_TEXTS[method] for method in columns["method"]]
        columns["outlooks"] = (
            [()] * len(at) if ahead is None else _outlooks(self.outlooks(at, ahead), ahead.over_s)
        )
        return [
            Forecast(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
        ]

    def outlooks(self, indices: ArrayLike, ahead: Ahead) -> NDArray[np.float64]:
        """Return the distributions of means: float64[n, spans, 3 + shares]; NaN for series without a value.

        Per span: expectation, share of past 80 % intervals that held, number of outcomes, quantiles at `SHARES`.
        """
        at = np.require(indices, np.int64, ("C", "W"))
        self._check(at)
        over_s = np.array(ahead.over_s, np.float64)
        table = np.full((len(at), len(over_s), KNOWN + len(SHARES)), math.nan)
        # what all spans need costs about as much as one update
        run(read_outlooks, len(at), self._states, at, over_s, ahead.now, np.array(SHARES), table)
        least, most = (np.asarray(bound, np.float64).reshape(-1, 1) for bound in (ahead.least, ahead.most))
        for column in (0, *range(KNOWN, table.shape[2])):
            np.clip(table[:, :, column], least, most, out=table[:, :, column])
        return table

    def columns(self, indices: ArrayLike, pick: Pick = Pick.MAE) -> Columns:
        """Return forecasts of many series as arrays, int[n] → arrays[n]; a series without a value has 0 samples."""
        at = np.asarray(indices, np.int64)
        self._check(at)
        state = self._states[: self._size]
        samples = state["samples"][at]
        selector = state["pick"][at, pick]
        method = np.where(selector < PICKS, state["chosen"][at, np.minimum(selector, PICKS - 1)], 0)
        # the first value had no forecast, so there is one error less than values
        scored = np.where(samples > 1, samples - 1, math.nan)
        return Columns(
            value=state["answer"][at, pick],
            mae=state["error"][at, pick, MAE] / scored,
            rmse=np.sqrt(state["error"][at, pick, MSE] / scored),
            method=selector * len(METHODS) + method,
            samples=samples,
            measured_at=state["measured_at"][at],
            last=state["last"][at],
        )

    def _check(self, indices: NDArray[np.int64]) -> None:
        wrong = (indices < 0) | (indices >= self._size)
        if wrong.any():
            raise UsageError(f"no series {indices[wrong][0]} in a bank of {self._size}; `add` makes one")
