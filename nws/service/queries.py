"""Queries of the service: hosts, series, samples, plots, forecasts, snapshots. They change nothing.

The values in one answer belong to one instant. Two kinds of series are hidden: those without a measurement within
the retention period of samples, and those that name a forgotten host.

One series for a plot: measurements, forecasts made before them, the error of those forecasts, and gaps.

The forecasts come from the real battery, run over the plotted points and some before them, at the plotted
resolution. A plot of a month thus shows how well the bucket means of that month could be predicted. A row without a
value marks a gap, a time without measurements that is much longer than usual.
Source: Wolski et al. 2000, §2.4.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from nws.base.errors import Refused, UnknownHost, UnknownSeries, UsageError
from nws.base.records import copied, document_of
from nws.forecasting.backtest import expected
from nws.forecasting.batteries import LARGEST
from nws.memory import Keep, Memory
from nws.messages.fieldtypes import Floats, Ints
from nws.messages.snapshotcolumns import SnapshotSeries, WeatherSnapshot
from nws.messages.weatherdocuments import HostState, PlotDocument, SampleDocument, SeriesState
from nws.series import Forecast, Resource, Series
from nws.service import samples
from nws.service.forecaster import Forecaster
from nws.service.hostdirectory import Directory, HostRegistration
from nws.service.parts import ServiceParts
from nws.service.samples import Points, checked_span, fitting, raw, rolled
from nws.service.scheduling import ScheduleVersions
from nws.service.snapshot import compact_methods, composed_columns, composed_pairs, outlook_columns

FEWEST_POINTS, MOST_POINTS = 2, 5000
#: Selections of series whose names are cached.
_MOST_SELECTIONS = 8
#: Points before the first plotted one from which the battery learns.
_LEARNT_FROM = 200
#: Length of a gap in multiples of the usual distance between points.
_GAP = 3.5


def plot_document(
    memory: Memory, series: Series, span: tuple[float, float], *, points: int, keep: tuple[Keep, float]
) -> PlotDocument:
    """Return a series over a span (seconds since the epoch) in about `points` points; raises `Refused`.

    Args:
        keep: retention periods, and the time now
    """
    checked_span(*span)
    if not FEWEST_POINTS <= points <= MOST_POINTS:
        raise Refused(f"points {points}: legal are {FEWEST_POINTS} to {MOST_POINTS}")
    drawn = fitting(memory, series, span, points=points, keep=keep)
    known = _with_older_points(memory, series, span, drawn)
    # other programs may have stored values that a battery rejects
    backtest = expected(np.clip(known.value, -LARGEST, LARGEST))
    shown = slice(len(known) - len(drawn), None)
    low = drawn.value if drawn.low is None else drawn.low
    high = drawn.value if drawn.high is None else drawn.high
    rows = _with_gaps(
        drawn.t,
        [drawn.value, low, high, backtest.forecast[shown], backtest.error[shown]],
        drawn.resolution_s,
    )
    return PlotDocument(
        series=str(series),
        unit=series.resource.unit,
        resolution_s=drawn.resolution_s,
        t=rows[0],
        value=rows[1],
        low=rows[2],
        high=rows[3],
        forecast=rows[4],
        error=rows[5],
    )


def _with_older_points(memory: Memory, series: Series, span: tuple[float, float], drawn: Points) -> Points:
    """Return the plotted points after up to `_LEARNT_FROM` older ones of the same resolution."""
    if not len(drawn):
        return drawn
    until = float(np.nextafter(drawn.t[0], -np.inf))
    if drawn.resolution_s:
        since = until - _LEARNT_FROM * drawn.resolution_s
        bucket_s, times = (
            (60, drawn.resolution_s / 60) if drawn.resolution_s % 600 else (600, drawn.resolution_s / 600)
        )
        before = rolled(memory, series, (since, until), 60 if bucket_s == 60 else 600, times=round(times))
    else:
        usual_s = _usual_s(drawn.t) or 60.0
        before = raw(memory, series, (until - _LEARNT_FROM * usual_s, until))
    return Points(
        resolution_s=drawn.resolution_s,
        t=np.concatenate((before.t, drawn.t)),
        value=np.concatenate((before.value, drawn.value)),
    )


def _usual_s(t: Floats) -> float:
    """Return the median distance of points in seconds; 0 for fewer than three points."""
    return float(np.median(np.diff(t))) if len(t) > 2 else 0.0


def _with_gaps(t: Floats, columns: list[Floats], resolution_s: float) -> list[Floats]:
    """Return time and columns with a row of NaN in the middle of every gap."""
    usual_s = max(_usual_s(t), resolution_s)
    before = np.flatnonzero(np.diff(t) > _GAP * usual_s) + 1 if usual_s else np.empty(0, np.int64)
    middle = (t[before - 1] + t[before]) / 2 if len(before) else np.empty(0)
    return [np.insert(t, before, middle), *(np.insert(c, before, np.nan) for c in columns)]


def host_states(
    directory: Directory, schedules: ScheduleVersions, forecaster: Forecaster, known: Ints
) -> list[HostState]:
    """Return the states by name; `known` contains the numbers of the series to count."""
    with forecaster.lock:
        catalogue = forecaster.catalogue
        owner, t = catalogue.owner[known], forecaster.last_t[known]
        count = np.bincount(owner, minlength=len(catalogue.hosts))
        latest = np.full(len(catalogue.hosts), -np.inf)
        np.maximum.at(latest, owner, t)
        series = dict(zip(catalogue.hosts, count.tolist(), strict=True))
        external = {
            name: last
            for name, last in zip(catalogue.hosts, latest.tolist(), strict=True)
            if series[name] and name not in directory.entries
        }
    faults = {host: why for known_faults in directory.faults.values() for host, why in known_faults.items()}
    external = {host: math.nan for host in faults if host not in directory.entries} | external
    states = [
        _registered(name, entry, directory, schedules, series.get(name, 0), faults.get(name))
        for name, entry in directory.entries.items()
    ]
    states += [
        HostState(
            name=name,
            site=schedules.site(name, None),
            last_seen=None if math.isnan(last) else last,
            cliques=schedules.cliques_of.get(name, ()),
            series=series.get(name, 0),
            fault=faults.get(name),
        )
        for name, last in external.items()
    ]
    return sorted(states, key=lambda state: state.name)


def _registered(
    name: str,
    entry: HostRegistration,
    directory: Directory,
    schedules: ScheduleVersions,
    series: int,
    fault: str | None,
) -> HostState:
    # not asdict, whose deep copy would dominate the snapshot of a thousand hosts
    return copied(
        HostState,
        entry.registration,
        name=name,
        site=schedules.site(name, entry.registration.site),
        **document_of(entry, "registered_at", "lost", "status"),
        last_seen=directory.last_seen(entry),
        cliques=schedules.cliques_of.get(name, ()),
        series=series,
        fault=fault,
    )


class Queries:
    """Queries over the parts of a service; thread-safe."""

    def __init__(self, parts: ServiceParts) -> None:
        self._config, self._lock, self._clock = parts.config, parts.lock, parts.clock
        self._memory, self._directory = parts.memory, parts.directory
        self._schedules, self._forecaster = parts.schedules, parts.forecaster
        # names never change, so those of recent selections stay valid
        self._names_of = lru_cache(_MOST_SELECTIONS)(self._list_names)

    def hosts(self) -> list[HostState]:
        """Return every host by name: registered hosts, and hosts measured by other monitors."""
        with self._lock:
            return host_states(self._directory, self._schedules, self._forecaster, self._known())

    def host(self, name: str) -> HostState:
        """Return one host; raises `UnknownHost`."""
        for state in self.hosts():
            if state.name == name:
                return state
        raise UnknownHost(f"no host {name!r} here; ask for the list of hosts")

    def series(self, *, host: str | None = None, resource: str | None = None) -> list[SeriesState]:
        """Return the series of a host (either end of a pair) or resource, by name; raises `Refused`."""
        with self._forecaster.lock:
            numbers, catalogue = self._known(), self._forecaster.catalogue
            if host is not None:
                numbers = numbers[catalogue.touching([host])[numbers]]
            if resource is not None:
                _check_resource(resource)
                numbers = numbers[catalogue.of_resource(resource)[numbers]]
            columns = self._forecaster.columns(numbers)
            chosen = [catalogue.series[i] for i in numbers.tolist()]
        now = self._clock()
        rows = zip(
            chosen, columns.samples.tolist(), columns.last.tolist(), columns.measured_at.tolist(), strict=True
        )
        return [
            SeriesState(
                series=str(one),
                unit=one.resource.unit,
                samples=count,
                last=last,
                measured_at=t,
                age_s=max(now - t, 0.0),
            )
            for one, count, last, t in rows
        ]

    def samples(
        self, name: str, *, since: float, until: float, resolution: str = "auto", most: int = 10_000
    ) -> SampleDocument:
        """Return samples of one series; raises `UnknownSeries`, `Refused`.

        Args:
            resolution: auto, raw, 60 or 600
        """
        keep = (self._config.keep, self._clock())
        return samples.document(
            self._memory, self._series(name), (since, until), resolution=resolution, most=most, keep=keep
        )

    def plot(self, name: str, *, since: float, until: float, points: int = 600) -> PlotDocument:
        """Return one series for a plot; raises `UnknownSeries`, `Refused`."""
        keep = (self._config.keep, self._clock())
        return plot_document(self._memory, self._series(name), (since, until), points=points, keep=keep)

    def forecasts(
        self, names: Sequence[str] | None = None, *, over_s: Sequence[float] = ()
    ) -> dict[Series, Forecast]:
        """Return forecasts of some series or of all, by name; raises `UnknownSeries`.

        Args:
            over_s: spans of their outlooks, rising
        """
        with self._forecaster.lock:
            catalogue = self._forecaster.catalogue
            numbers = self._known()
            if names is not None:
                chosen = np.array([self._number(name) for name in dict.fromkeys(names)], np.int64)
                silent = chosen[~np.isin(chosen, numbers)]
                if len(silent):
                    raise UnknownSeries(
                        f"series {catalogue.names[silent[0]]} has no measurement that is kept"
                    )
                numbers = chosen
        forecasts = self._forecaster.forecasts(numbers, over_s, self._clock())
        return dict(zip((catalogue.series[i] for i in numbers.tolist()), forecasts, strict=True))

    def snapshot(
        self,
        *,
        hosts: Sequence[str] | None = None,
        composed: bool = False,
        over_s: Sequence[float] = (),
    ) -> WeatherSnapshot:
        """Return all hosts and series, or those of and between some hosts; unknown names are left out.

        Args:
            composed: include pairs that are not measured; raises `TooMany` if there are too many of them
            over_s: spans of the series' outlooks, rising
        """
        states = self.hosts()
        if hosts is not None:
            only = frozenset(hosts)
            states = [state for state in states if state.name in only]
        with self._forecaster.lock:
            catalogue, everything = self._forecaster.catalogue, self._known()
            chosen = everything
            if hosts is not None:
                chosen = everything[catalogue.between([s.name for s in states])[everything]]
            names = self._names_of(chosen.tobytes())
            columns = self._forecaster.columns(chosen)
            now = self._clock()
            paths = None
            if composed:
                paths = composed_pairs(
                    catalogue,
                    everything,
                    columns if hosts is None else self._forecaster.columns(everything),
                    [state.name for state in states],
                    most=self._config.limits.composed_pairs,
                )
        outlooks = self._forecaster.outlooks(chosen, over_s, now) if over_s else None
        methods, places = compact_methods(columns)
        return WeatherSnapshot(
            format="nws-snapshot",
            version=1,
            now=now,
            grid=self._config.grid,
            hosts=states,
            methods=methods,
            series=copied(
                SnapshotSeries,
                columns,
                name=names,
                forecast=columns.value,
                method=places,
                age_s=np.maximum(now - columns.measured_at, 0.0),
            ),
            outlooks=None if outlooks is None else outlook_columns(outlooks, over_s),
            composed=None if paths is None else composed_columns(paths, now),
        )

    def _list_names(self, numbers: bytes) -> tuple[str, ...]:
        """Return the names of the series with these numbers, int64 each."""
        names = self._forecaster.catalogue.names
        return tuple(names[i] for i in np.frombuffer(numbers, np.int64).tolist())

    def _known(self) -> Ints:
        """Return the visible series, sorted by name."""
        with self._forecaster.lock:
            catalogue = self._forecaster.catalogue
            shown = self._forecaster.last_t >= self._clock() - self._config.keep.samples_s
            forgotten = frozenset(self._directory.forgotten)
            if forgotten:
                shown = shown & ~catalogue.touching(forgotten)
            order = catalogue.by_name()
            return order[shown[order]]

    def _number(self, name: str) -> int:
        try:
            return self._forecaster.catalogue.number(name)
        except UnknownSeries:
            try:
                Series.parse(name)
            except UsageError as error:
                raise Refused(str(error)) from None
            raise

    def _series(self, name: str) -> Series:
        with self._forecaster.lock:
            return self._forecaster.catalogue.series[self._number(name)]


def _check_resource(resource: str) -> None:
    if not resource.startswith("x.") and resource not in set(Resource):
        raise Refused(
            f"no resource {resource!r}; legal are {', '.join(Resource)}, and x.… for series from elsewhere"
        )
