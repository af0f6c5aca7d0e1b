"""This machine as a platform: its sensors, its CPUs as slots, its `mpiexec`.

Other hosts of the pool can be planned for as their grid file states them; nothing is measured or started there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from apples.errors import ConfigError
from apples.launching.launcher import Launcher, Notify
from apples.launching.mpiexec import MpiexecLauncher
from apples.model.grid import Grid, Host, Snapshot
from apples.model.snapshots import TimeShares, from_forecasts, with_composed, with_time_shares, without
from apples.model.template import Benchmark, BenchmarkRequest, Template
from apples.platforms.platform import (
    fingerprint,
    is_this_machine,
    launched_benchmark,
    measured_write_s,
    this_machine,
    warmed,
)
from apples.platforms.serviceforecasts import ServiceForecasts, ServiceWeather, with_local
from nws.base.errors import WeatherError
from nws.client import LocalWeather
from nws.series import Forecast, Resource, Series

#: Sensor rounds before a plan: enough for an expected error when the weather is new, one when it is known.
_ROUNDS_NEW, _ROUNDS_KNOWN, _KNOWN_SAMPLES = 3, 1, 10
_ROUND_INTERVAL_S = 0.2

OWN_SENSORS = "sensors on this machine"
NOT_MEASURED = "the grid file (no host of it is this machine, nothing was measured)"


class LocalPlatform:
    """This machine: its sensors, its CPUs as slots, its own `mpiexec`.

    Other hosts of the grid can be planned for, as their file states them; nothing is measured or started there.
    """

    name = "mpiexec"

    def __init__(
        self,
        grid: Grid | None = None,
        *,
        weather_file: Path | None = None,
        service: ServiceWeather | None = None,
        turns: TimeShares | None = None,
    ) -> None:
        """grid : None for one host with a slot for each usable CPU; raises `ConfigError` if two are this one.

        service : whose weather is asked first; None to measure this machine and nothing else
        turns : what jobs of a policy of sharing hold already; None where runs take no turns
        """
        self.grid = grid or this_machine()
        own = [host for host in self.grid.hosts if is_this_machine(host)]
        if len(own) > 1:
            names = " and ".join(host.name for host in own)
            raise ConfigError(
                f"{self.grid.source}: {names} are the same machine; name it once, with as many slots"
            )
        self._own = own[0] if own else None
        addresses = {host.name: host.address for host in self.grid.hosts if host.address is not None}
        self.launcher: Launcher = MpiexecLauncher(addresses=addresses)
        self._weather_file = weather_file
        self._service = service
        self._turns = turns
        self._warmed: set[str] = set()
        self._dropped: dict[str, str] = {}

    def snapshot(self, notify: Notify) -> Snapshot:
        """What the service says; of this machine, where the service says nothing fresh, what is measured now."""
        found = without(self._found(notify), self._dropped)
        if self._turns is None:
            return found
        return with_time_shares(found, self._turns, None if self._own is None else self._own.name)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """See `Platform.drop`."""
        self._dropped |= hosts

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """See `Platform.write_s`: every host that runs here is this machine."""
        return measured_write_s(path.parent, size_bytes)

    def _found(self, notify: Notify) -> Snapshot:
        """What the weather is, whoever takes turns."""
        if self._service is None:
            return self._alone(notify)
        try:
            outlook = self._service.forecasts(self.grid)
        except WeatherError as error:
            line = str(error).splitlines()[0]
            note = f"no weather from the service ({line}); planning with what can be measured here"
            notify(note)
            return replace(self._alone(notify), notes=(note,))
        for note in outlook.notes:
            notify(note)
        return self._told(outlook, notify)

    def _alone(self, notify: Notify) -> Snapshot:
        """What this machine finds out by itself."""
        if self._own is None:
            return replace(Snapshot.nominal(self.grid, taken_at=self.now()), source=NOT_MEASURED)
        forecasts = self._measured(self._own, notify)
        return from_forecasts(self.grid, forecasts, now=self.now(), source=OWN_SENSORS)

    def _told(self, outlook: ServiceForecasts, notify: Notify) -> Snapshot:
        """A snapshot out of the service's forecasts and, if need be, of our own of this machine."""
        forecasts, source = outlook.forecasts, outlook.source
        own = self._own
        if own is not None and Series(Resource.CPU_NEW, own.name) not in forecasts:
            local = self._measured(own, notify)
            forecasts = with_local(outlook, local, host=own.name, clock_s=self.now())
            source += f", and {OWN_SENSORS} for {own.name}"
        found = from_forecasts(self.grid, forecasts, now=outlook.now, source=source, through=outlook.through)
        if outlook.matrix is not None:
            found = with_composed(found, outlook.matrix, outlook.names, now=outlook.now)
        return replace(found, stale=tuple(map(str, outlook.stale)), notes=outlook.notes)

    def _measured(self, own: Host, notify: Notify) -> Mapping[Series, Forecast]:
        """Measure this machine for a moment, then forecast from all the weather of it kept on disk."""
        with LocalWeather(self._weather_file, host=own.name) as weather:
            known = [f.samples for f in weather.forecasts().values()]
            rounds = _ROUNDS_KNOWN if known and min(known) >= _KNOWN_SAMPLES else _ROUNDS_NEW
            notify(f"measuring {own.name} ({min(known, default=0)} earlier measurements)")
            weather.measure(rounds=rounds, interval_s=_ROUND_INTERVAL_S)
            return weather.forecasts()

    def reaches(self, host: Host) -> bool:
        """Only this machine is."""
        return host is self._own

    def machine(self, host: Host) -> str:
        """CPU model and the versions that shape its speed."""
        return f"{host.cpu_type} {fingerprint()}"

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Real ranks on this machine for a second or two."""
        self._warm(request.template, request.notify)
        return launched_benchmark(self.launcher, request)

    def _warm(self, template: Template, notify: Notify) -> None:
        """Compile the kernels once, so that no benchmark counts compiling and ranks do not all do it."""
        command = template.warm_command()
        if not command or template.name in self._warmed:
            return
        warmed(command, notify)
        self._warmed.add(template.name)

    def now(self) -> float:
        """The clock on the wall."""
        return time.time()
