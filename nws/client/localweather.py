"""The weather of this host: one call returns the forecasts of every known series.

`Weather` is the protocol that an agent needs. `LocalWeather` is the weather of this host in one process: its own
sensors, a store on disk, a battery for every series. `RemoteWeather` asks a service with the weather of many hosts.
Source: Wolski et al. 2000, §2.4 and §4.1 (the whole pool's forecasts in one step).
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from nws.base.arguments import checked_arguments
from nws.base.closing import Closing
from nws.base.errors import ProbeError, StoreError, UsageError
from nws.base.paths import local_host, state_dir
from nws.memory import DAY_S, Memory, Samples, SeriesHistory
from nws.memory.keyvalues import KeyValueTable
from nws.series import HORIZONS_S, Forecast, Measurement, Series, resource_numbers

if TYPE_CHECKING:
    from nws.forecasting.batteries import BatteryBank
    from nws.sensors import Sensor

_LOG = logging.getLogger(__name__)

#: History behind forecasts: enough for every window of the battery, short enough to replay at once.
REPLAY_S = DAY_S
REPLAY_SAMPLES = 2000
_REPLAY_EVERY_S = DAY_S / 4
#: Name of the saved batteries in the store, and series of which they are saved at most: more are replayed.
_BATTERIES, _MOST_SAVED = "batteries", 64
#: Samples so many seconds after now were measured before the clock was set back. They would be the newest for ever.
_AHEAD_S = 60.0


class Weather(Protocol):
    """Forecasts of all measured series."""

    def forecasts(self) -> Mapping[Series, Forecast]:
        """Return every series that is known, in one step."""


def weather_file() -> Path:
    """Return the default path of the store."""
    return state_dir() / "weather.db"


def usable_cpus() -> int:
    """Return CPUs that processes started here can keep busy: the affinity mask, and no more than a cgroup quota."""
    from nws.sensors.cgrouplimits import Cgroups

    return Cgroups().usable_cpus()


class _Saved(msgspec.Struct, kw_only=True):
    """The batteries as a process left them, so that the next one need not replay the history.

    layout : of the states.  replayed_at : when they were rebuilt from the history, seconds since the epoch
    cursor : position in the log up to which they include samples.  series : names, in the order of the states
    """

    layout: str
    replayed_at: float
    cursor: int
    series: list[str]
    states: bytes


class LocalWeather(Closing):
    """Weather of this host, in this process; a context manager.

    store_path : file of the store, `weather_file()` by default.  host : name in its series
    clock : seconds since the epoch.  sleep : waits for an argument in seconds
    sensors : sensors to use; all of this host's by default.  in_memory : without the file, nothing is kept
    """

    def __init__(
        self,
        store_path: Path | None = None,
        *,
        host: str | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        sensors: Sequence[Sensor] | None = None,
        in_memory: bool = False,
    ) -> None:
        if not isinstance(store_path, Path | None):
            raise UsageError(f"store_path: expected a Path or None; got {store_path!r}")
        self.host = host or local_host()
        self._clock, self._sleep = clock, sleep
        self._sensors = sensors
        self._memory = Memory(store_path or weather_file(), in_memory=in_memory)
        self._bank: BatteryBank | None = None
        self._places: dict[Series, int] = {}
        self._replayed_at = -math.inf
        self._cursor = 0

    @checked_arguments()
    def measure(
        self, *, rounds: int = 1, interval_s: float = 1.0, notify: Callable[[str], None] | None = None
    ) -> list[Measurement]:
        """Run every sensor `rounds` times, starts `interval_s` apart; store and return the measurements.

        A sensor that fails is reported through `notify` (or the log) and leaves nothing; `ProbeError` when all
        failed every time, `StoreError` when the store cannot keep it.
        """
        if rounds < 1 or not 0 <= interval_s <= DAY_S:
            raise UsageError(
                f"{rounds} rounds {interval_s} s apart: expected at least one round and 0 to {DAY_S:.0f} s"
            )
        taken: list[Measurement] = []
        failures: list[str] = []
        for turn in range(rounds):
            start = self._clock()
            measurements, failed = self._round()
            self._memory.append(measurements)
            taken += measurements
            failures += failed
            for failure in failed:
                (notify or _LOG.warning)(failure)
            if notify is not None:
                notify(f"round {turn + 1} of {rounds}: {len(measurements)} measurements of {self.host}")
            if turn + 1 < rounds:
                # a clock that was set back must not make the round after it late
                elapsed = max(self._clock() - start, 0.0)
                self._sleep(max(interval_s - elapsed, 0.0))
        if not taken:
            raise ProbeError("no sensor could measure:\n" + "\n".join(dict.fromkeys(failures)))
        return taken

    def record(self, measurements: Sequence[Measurement]) -> None:
        """Store measurements of other hosts' sensors; `StoreError` if the store cannot keep them."""
        self._memory.append(measurements)

    def history(self) -> Mapping[Series, Samples]:
        """Return the measurements of the last day, at most 2,000 a series."""
        return _last_day(self._memory, self._clock()).samples

    def forecasts(
        self, over_s: Sequence[float] = HORIZONS_S, *, aged: bool = True
    ) -> Mapping[Series, Forecast]:
        """Return forecasts from the last day on disk, at most 2,000 samples a series, from any process.

        Batteries continue from where the last process left them; every six hours they are rebuilt from the last day.

        over_s : spans of their outlooks, rising.  aged : outlooks widen with the time since the last sample
        """
        from nws.forecasting.batteries import Ahead

        stored = KeyValueTable(self._memory.database)
        bank = self._bank = self._restored(stored) if self._bank is None else self._bank
        before = self._cursor
        if bank is None or not self._follow(bank):
            bank = self._bank = self._replay()
        if self._cursor != before and len(self._places) <= _MOST_SAVED:
            self._save(bank, stored)
        resources = [series.resource for series in self._places]
        ahead = Ahead(
            over_s=over_s,
            now=self._clock() if aged else -math.inf,
            least=[one.least for one in resources],
            most=[one.most for one in resources],
        )
        forecasts = bank.forecasts(list(self._places.values()), ahead=ahead)
        return dict(zip(self._places, forecasts, strict=True))

    def _restored(self, stored: KeyValueTable) -> BatteryBank | None:
        """Return the batteries of an earlier process, None if there are none that this release can read."""
        from nws.forecasting.batteries import BatteryBank
        from nws.forecasting.statelayout import LAYOUT

        try:
            saved = msgspec.convert(stored.get(_BATTERIES), _Saved)
            if saved.layout != LAYOUT:
                return None
            bank = BatteryBank.restored(io.BytesIO(saved.states), len(saved.series))
        except ValueError:
            return None
        self._places = {Series.parse(name): place for place, name in enumerate(saved.series)}
        self._cursor, self._replayed_at = saved.cursor, saved.replayed_at
        return bank

    def _save(self, bank: BatteryBank, stored: KeyValueTable) -> None:
        from nws.forecasting.statelayout import LAYOUT

        saved = _Saved(
            layout=LAYOUT,
            replayed_at=self._replayed_at,
            cursor=self._cursor,
            series=[str(one) for one in self._places],
            states=bank.states().tobytes(),
        )
        # a store that cannot be written serves forecasts all the same
        with contextlib.suppress(StoreError):
            stored.put(_BATTERIES, msgspec.to_builtins(saved))

    def _follow(self, bank: BatteryBank) -> bool:
        """Take the measurements since the last call; return False, with nothing done, if the history must be read."""
        news = self._memory.news(self._cursor)
        if news is None or not 0 <= self._clock() - self._replayed_at < _REPLAY_EVERY_S:
            return False
        (stored, cursor), latest = news, self._clock() + _AHEAD_S
        fresh = [m for m in stored if m.t <= latest]
        last_t = dict(zip(self._places, bank.columns(range(len(bank))).measured_at.tolist(), strict=True))
        if any(t > latest for t in last_t.values()):
            return False
        for m in fresh:
            if m.t < last_t.get(m.series, -math.inf):
                # such as measurements from a file: batteries take them in the order of time
                return False
            last_t[m.series] = m.t
        self._cursor = cursor
        self._take([m.series for m in fresh], [m.value for m in fresh], [m.t for m in fresh])
        return True

    def _replay(self) -> BatteryBank:
        """Return batteries of the last day's measurements."""
        from nws.forecasting.batteries import FEW_VALUES, BatteryBank

        bank = self._bank = BatteryBank()
        self._places, self._replayed_at = {}, self._clock()
        history = _last_day(self._memory, self._clock())
        few = {one: len(samples) < FEW_VALUES for one, samples in history.samples.items()}
        for short in (False, True):
            # short series borrow from long ones
            self._add([one for one in few if few[one] == short])
            for series, samples in history.samples.items():
                if few[series] == short:
                    self._take([series] * len(samples), samples.values, samples.times)
        self._cursor = history.cursor
        return bank

    @property
    def path(self) -> Path:
        """Return file of the memory."""
        return self._memory.path

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()

    def _round(self) -> tuple[list[Measurement], list[str]]:
        if self._sensors is None:
            from nws.sensors import create, names

            self._sensors = [create(name, host=self.host, clock=self._clock) for name in names()]
        measurements: list[Measurement] = []
        failed: list[str] = []
        for sensor in self._sensors:
            try:
                measurements += sensor.measure()
            except ProbeError as error:
                failed.append(str(error))
        return measurements, failed

    def _add(self, series: Iterable[Series]) -> None:
        """Add batteries of unknown series, which borrow from others of the same resource."""
        assert self._bank is not None
        fresh = [one for one in dict.fromkeys(series) if one not in self._places]
        if fresh:
            added = self._bank.add(len(fresh))
            self._places |= zip(fresh, added, strict=True)
            self._bank.lend(added, resource_numbers(self._places))

    def _take(self, series: Sequence[Series], values: Sequence[float], times: Sequence[float]) -> None:
        assert self._bank is not None
        self._add(series)
        self._bank.update_many([self._places[s] for s in series], values, times)


def _last_day(memory: Memory, now: float) -> SeriesHistory:
    return memory.history(since=now - REPLAY_S, until=now + _AHEAD_S, most=REPLAY_SAMPLES)
