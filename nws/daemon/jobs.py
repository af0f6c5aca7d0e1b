"""The jobs that measure this host alone, and the rounding of measurements before they wait in the spool.

Times are rounded to whole milliseconds and values to single precision: far finer than their accuracy, and such samples
pack to a third of the size in the store. A failure to write the spool fails the measuring job, is reported once, and is
retried at the next run.
"""

import os
import struct
from collections.abc import Callable, Mapping, Sequence

from nws.base.errors import ProbeError, StoreError
from nws.base.records import document_of
from nws.base.residentmemory import resident_bytes
from nws.daemon.spool import Spool
from nws.sensors.registry import Sensor
from nws.series import Measurement
from nws.timing.periodic import Tally, total

_SINGLE = struct.Struct("<f")


def rounded(measurement: Measurement) -> Measurement:
    """Return the measurement with its time in whole milliseconds and its value in single precision.

    >>> from nws.series import Measurement, Series
    >>> rounded(Measurement(Series.parse("cpu.new@a"), 1.23456, 0.1)).t
    1.235
    """
    (value,) = _SINGLE.unpack(_SINGLE.pack(measurement.value))
    return Measurement(measurement.series, round(measurement.t, 3), value)


class Keeper:
    """Puts measurements into the spool. say : receives a line when that fails, and when it works again."""

    def __init__(self, spool: Spool, say: Callable[[str], None]) -> None:
        self._spool, self._say = spool, say
        self._failing = False

    def keep(self, measurements: Sequence[Measurement]) -> None:
        """Add them, rounded; raises `ProbeError` where they are lost."""
        try:
            self._spool.add([rounded(m) for m in measurements])
        except StoreError as error:
            if not self._failing:
                self._failing = True
                self._say(str(error))
            raise ProbeError("what was measured could not be kept") from error
        if self._failing:
            self._failing = False
            self._say(f"{self._spool.path}: the spool can be written again")

    def job(self, sensor: Sensor) -> Callable[[], None]:
        """Return a run of a job that measures with `sensor`."""
        return lambda: self.keep(sensor.measure())


def status(tallies: Mapping[str, Tally], buffered: int, dropped: int) -> dict[str, float]:
    """Return counters of the process for the server: runs of all jobs, samples waiting and lost, CPU seconds,
    resident bytes.

    CPU seconds count children that have ended, as the spin probe's.
    """
    sums = total(tallies)
    return {
        **document_of(sums, "done", "failed", "missed", "skipped"),
        "merged": sum(t.merged for t in tallies.values()),
        "buffered": buffered,
        "dropped": dropped,
        "cpu_s": round(sum(os.times()[:4]), 2),
        "rss_bytes": resident_bytes(),
    }
