"""A weather service in this process with measurements as arguments.

`InMemoryWeather` answers like the weather service (`nws.client.Weather`): record measurements, then query
forecasts. Its battery is the real one. It probes nothing, stores nothing and starts no server. Source: Wolski et
al. 2000, §2.4.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nws.base.errors import UsageError
from nws.forecasting.batteries import Ahead, BatteryBank, Pick, first_illegal, refusal
from nws.series import HORIZONS_S, Forecast, Measurement, Resource, Series, resource_numbers


class InMemoryWeather:
    """A weather service with measurements as arguments."""

    def __init__(self) -> None:
        self._bank = BatteryBank()
        self._index: dict[Series, int] = {}
        self._recent: tuple[Series, ...] = ()
        self._recent_indices = np.empty(0, np.int64)

    def record(self, measurements: Iterable[Measurement]) -> None:
        """Record measurements in turn; raises `UsageError`, with none recorded, if a value is not finite."""
        batch = list(measurements)
        values = np.array([m.value for m in batch])
        self._refuse([m.series for m in batch], values)
        indices = self._indices([m.series for m in batch])
        self._bank.update_many(indices, values, [m.t for m in batch])

    def record_many(self, series: Sequence[Series], t: ArrayLike, values: ArrayLike) -> None:
        """Record one value of each of many series at one time, or a whole history of them.

        Fastest if the same tuple is passed every time. Raises `UsageError`, with nothing recorded, if the shapes do
        not fit or a value is not finite.

        Args:
            series: their order is that of the values
            t: seconds since the epoch, one float or float[T]
            values: float[series] or float[T, series], each in its series' unit
        """
        value = np.asarray(values, np.float64)
        time = np.asarray(t, np.float64)
        if value.shape != (*time.shape, len(series)) or time.ndim > 1:
            raise UsageError(
                f"values of {len(series)} series at {time.size} times: expected shape "
                f"{(*time.shape[:1], len(series))}, got {value.shape}"
            )
        self._refuse(series, value)
        if series is not self._recent:
            self._recent_indices = self._indices(series)
            # a list may hold other series at the next call
            self._recent = series if isinstance(series, tuple) else ()
        indices = np.broadcast_to(self._recent_indices, value.shape)
        times = np.broadcast_to(time[..., None], value.shape)
        self._bank.update_many(indices.ravel(), value.ravel(), times.ravel())

    def forecasts(
        self,
        pick: Pick = Pick.MAE,
        *,
        now: float | None = None,
        over_s: Sequence[float] = HORIZONS_S,
        of: Collection[Resource] | None = None,
    ) -> dict[Series, Forecast]:
        """Return the forecast of every series recorded so far.

        Args:
            now: seconds since the epoch; with it, forecasts have outlooks over the spans `over_s`, rising
            over_s: seconds
            of: resources whose forecasts have outlooks, None for all
        """
        # indices are assigned in order, so both orders agree
        forecasts = dict(zip(self._index, self._bank.forecasts(pick=pick), strict=True))
        if now is not None:
            some = [series for series in self._index if of is None or series.resource in of]
            least = [series.resource.least for series in some]
            most = [series.resource.most for series in some]
            ahead = Ahead(over_s=over_s, now=now, least=least, most=most)
            indices = [self._index[series] for series in some]
            forecasts |= dict(zip(some, self._bank.forecasts(indices, pick, ahead=ahead), strict=True))
        return forecasts

    @staticmethod
    def _refuse(series: Sequence[Series], values: NDArray[np.float64]) -> None:
        illegal = first_illegal(values.ravel())
        if illegal is not None:
            raise UsageError(refusal(str(series[illegal % len(series)]), float(values.flat[illegal])))

    def _indices(self, series: Sequence[Series]) -> NDArray[np.int64]:
        index = self._index
        fresh = dict.fromkeys(one for one in series if one not in index)
        if fresh:
            added = self._bank.add(len(fresh))
            index |= zip(fresh, added, strict=True)
            self._bank.lend(added, resource_numbers(index))
        return np.fromiter((index[s] for s in series), np.int64, len(series))
