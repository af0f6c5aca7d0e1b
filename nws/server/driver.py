"""Other monitors read at their periods, and what they say put into the service.

APScheduler keeps the time; a read that was missed, skipped, late or failed is counted, told once when it starts and
once when it ends, and leaves a gap. What a source says is the source's affair.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nws.errors import WeatherError
from nws.service.records import Batch

if TYPE_CHECKING:
    from nws.series import Measurement
    from nws.service.core import WeatherService

_LOG = logging.getLogger(__name__)


class Source(Protocol):
    """Somebody who has measured already."""

    def read(self, now: float) -> Sequence[Measurement]:
        """Measurements that are new; raises `WeatherError`."""


class SourceTallies:
    """Counts of one source since the server started. `name`: for people and `/metrics`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.done = self.failed = self.missed = self.skipped = self.samples = 0

    def counts(self) -> Mapping[str, int]:
        """Reads by what became of them."""
        return {
            "done": self.done,
            "failed": self.failed,
            "missed": self.missed,
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """A source, and how often it is read. period_s : seconds"""

    source: Source
    period_s: float
    tallies: SourceTallies


class Driver:
    """Reads sources into a service while it is open; a context manager.

    clock : seconds since the epoch, told to the sources
    """

    def __init__(
        self, service: WeatherService, driven: Sequence[Driven], *, clock: Callable[[], float]
    ) -> None:
        self._service, self._driven, self._clock = service, tuple(driven), clock
        self._failing: set[str] = set()
        self._scheduler: Any = None

    def __enter__(self) -> Driver:
        if self._driven:
            self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=True)

    def read(self, one: Driven) -> None:
        """Read one source once, now; failures are counted and told, never raised."""
        name = one.tallies.name
        try:
            found = one.source.read(self._clock())
            if found:
                receipt = self._service.put(_batch(found), as_host=None)
                one.tallies.samples += receipt.accepted
        except WeatherError as error:
            one.tallies.failed += 1
            if name not in self._failing:
                _LOG.warning("source %s fails: %s", name, error)
            self._failing.add(name)
        except Exception:
            one.tallies.failed += 1
            if name not in self._failing:
                _LOG.exception("source %s fails", name)
            self._failing.add(name)
        else:
            one.tallies.done += 1
            if name in self._failing:
                _LOG.warning("source %s works again", name)
            self._failing.discard(name)

    def _start(self) -> None:
        from apscheduler import events
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        self._scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": ThreadPoolExecutor(len(self._driven))}
        )
        # what it would log is counted here
        logging.getLogger("apscheduler").addHandler(logging.NullHandler())
        logging.getLogger("apscheduler").propagate = False
        self._scheduler.add_listener(self._lost, events.EVENT_JOB_MISSED | events.EVENT_JOB_MAX_INSTANCES)
        for place, one in enumerate(self._driven):
            self._scheduler.add_job(
                self.read,
                "interval",
                args=[one],
                seconds=one.period_s,
                id=str(place),
                coalesce=True,
                max_instances=1,
                misfire_grace_time=max(math.ceil(one.period_s), 1),
                # not all at the same moment
                next_run_time=datetime.now(UTC) + timedelta(seconds=0.2 * place),
            )
        self._scheduler.start()

    def _lost(self, event: Any) -> None:
        from apscheduler import events

        one = self._driven[int(event.job_id)]
        if event.code == events.EVENT_JOB_MAX_INSTANCES:
            one.tallies.skipped += 1
        else:
            one.tallies.missed += 1


def _batch(measurements: Sequence[Measurement]) -> Batch:
    places: dict[str, int] = {}
    index = [places.setdefault(str(m.series), len(places)) for m in measurements]
    return Batch(
        series=tuple(places),
        index=np.array(index, np.int64),
        t=np.array([m.t for m in measurements], np.float64),
        value=np.array([m.value for m in measurements], np.float64),
    )
