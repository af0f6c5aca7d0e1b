"""Periodic reads of other monitors, whose measurements are put into the service.

`nws.timing.periodic` keeps the periods independent of the wall clock. A missed, skipped or failed read is counted
and leaves a gap. A failure is logged when it starts and when it ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nws.base.errors import WeatherError
from nws.messages.weatherdocuments import Batch
from nws.series import Measurement
from nws.service.weatherservice import WeatherService
from nws.sources.prometheus import PrometheusSource
from nws.timing.periodic import Tally, Timetable

_LOG = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class DrivenSource:
    """A source, its period, and the counts of its reads since the server started.

    name: for logs and `/metrics`.  period_s: seconds.  samples: stored
    runs: returns the counts of the scheduler, which include reads that did not start
    """

    source: PrometheusSource
    name: str
    period_s: float
    done: int = 0
    failed: int = 0
    samples: int = 0
    runs: Callable[[], Tally] = Tally

    def counts(self) -> Mapping[str, int]:
        """Return the number of reads by outcome."""
        runs = self.runs()
        return {"done": self.done, "failed": self.failed, "missed": runs.missed, "skipped": runs.skipped}


class Driver:
    """Reads sources into a service while it is open; a context manager. It logs when faults of hosts begin and end.

    clock: seconds since the epoch, an argument of the sources
    """

    def __init__(
        self, service: WeatherService, driven: Sequence[DrivenSource], *, clock: Callable[[], float]
    ) -> None:
        self._service, self._driven, self._clock = service, tuple(driven), clock
        self._failing: set[str] = set()
        self._faults: dict[str, Mapping[str, str]] = {}
        self._table: Timetable | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Driver:
        if self._driven:
            self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._table is not None and self._thread is not None:
            self._table.stop()
            self._thread.join()

    def read(self, one: DrivenSource) -> None:
        """Read one source now; a failure is counted and logged, never raised."""
        name = one.name
        faults: Mapping[str, str] = {}
        try:
            measurements = one.source.read(self._clock())
            if measurements:
                receipt = self._service.put(_batch(measurements), as_host=None)
                one.samples += receipt.accepted
        except Exception as error:
            one.failed += 1
            expected = isinstance(error, WeatherError)
            if name not in self._failing:
                level = logging.WARNING if expected else logging.ERROR
                _LOG.log(level, "source %s fails: %s", name, error, exc_info=not expected)
            self._failing.add(name)
            faults = dict.fromkeys(one.source.instances, str(error)) if expected else {}
        else:
            one.done += 1
            faults = one.source.faults
            self._log(name, faults)
            if name in self._failing:
                _LOG.warning("source %s works again", name)
            self._failing.discard(name)
        self._service.note_faults(name, faults)

    def _log(self, name: str, faults: Mapping[str, str]) -> None:
        before, self._faults[name] = self._faults.get(name, {}), faults
        for host in faults.keys() - before.keys():
            _LOG.warning("source %s: nothing of host %s: %s", name, host, faults[host])
        for host in before.keys() - faults.keys():
            _LOG.warning("source %s: host %s is complete again", name, host)

    def _start(self) -> None:
        # lost reads are counted and appear in the metrics
        table = self._table = Timetable(report=_LOG.debug)
        for index, one in enumerate(self._driven):
            name = str(index)
            # spread the first reads over time
            table.every(name, partial(self.read, one), one.period_s, first_s=0.2 * index)
            one.runs = partial(_tally, table, name)
        self._thread = threading.Thread(target=table.run, name="nws-sources", daemon=True)
        self._thread.start()


def _tally(table: Timetable, name: str) -> Tally:
    return table.tallies()[name]


def _batch(measurements: Sequence[Measurement]) -> Batch:
    places: dict[str, int] = {}
    index = [places.setdefault(str(m.series), len(places)) for m in measurements]
    return Batch(
        series=tuple(places),
        index=np.array(index, np.int64),
        t=np.array([m.t for m in measurements], np.float64),
        value=np.array([m.value for m in measurements], np.float64),
    )
