"""This machine as a platform: its sensors, its CPUs as slots, its `mpiexec`.

Other hosts of the pool can be planned for as their grid file states them; nothing is measured or started there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from apples.errors import ConfigError
from apples.hosts.agentconnection import HostAddress
from apples.launching.mpirun import HostAccess
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import Notify
from apples.model.snapshots import TimeShares, with_time_shares, without
from apples.model.template import Benchmark, BenchmarkRequest
from apples.platforms.platform import (
    Platform,
    PlatformSetup,
    is_this_machine,
    launched_benchmark,
    measured_write_s,
    run_warm_command,
    this_machine,
)
from apples.platforms.serviceforecasts import ServiceWeather, forecast_snapshot
from nws.base.errors import StoreError
from nws.client import LocalWeather
from nws.client.busiest import busiest_processes
from nws.series import Forecast, Resource, Series

#: Sensor rounds before a plan: 3 to get an expected error if the history is short, else 1.
_ROUNDS_NEW, _ROUNDS_KNOWN, _KNOWN_SAMPLES = 3, 1, 10
_ROUND_INTERVAL_S = 0.2

OWN_SENSORS = "sensors on this machine"
NOT_MEASURED = "the grid file (no host of it is this machine, nothing was measured)"
SILENT = "no weather from the service ({}); planning with what can be measured here"


class LocalPlatform(Platform):
    """This machine, with real ranks."""

    name = "mpiexec"

    def __init__(
        self,
        pool: Grid | None = None,
        *,
        weather_file: Path | None = None,
        service: ServiceWeather | None = None,
        turns: TimeShares | None = None,
    ) -> None:
        """Raise `ConfigError` if two hosts of the pool are this machine.

        Args:
            pool: None for one host with one slot for each usable CPU.
            weather_file: History of the sensors; None for the default file.
            service: Asked for forecasts first; None to only measure this machine.
            turns: Time shares of coscheduled jobs; None if the run is not coscheduled.
        """
        super().__init__(pool or this_machine())
        here = [host for host in self.pool.hosts if is_this_machine(host)]
        if len(here) > 1:
            names = " and ".join(host.name for host in here)
            raise ConfigError(
                f"{self.pool.source}: {names} are the same machine; name it once, with as many slots"
            )
        self._here = here[0] if here else None
        self._weather_file, self._service, self._turns = weather_file, service, turns
        self._warmed: set[str] = set()

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return this machine, or the hosts of the grid with their forecasts."""
        pool = setup.restrict(setup.grid or this_machine())
        return cls(pool, service=setup.service, turns=setup.turns)

    def snapshot(self, notify: Notify) -> Snapshot:
        """Return the service's forecasts; this machine is measured if the service has no fresh one of it."""

        def measure(known: Mapping[Series, Forecast] | None) -> tuple[Mapping[Series, Forecast], str]:
            here = self._here
            if here is None:
                return {}, NOT_MEASURED
            if known is None:
                return self._measured(here, notify), OWN_SENSORS
            if Series(Resource.CPU_NEW, here.name) in known:
                return {}, ""
            return self._measured(here, notify), f"{OWN_SENSORS} for {here.name}"

        found = forecast_snapshot(
            self.pool, self._service, measure, silent=SILENT, now=self.now, notify=notify
        )
        found = without(found, self._dropped)
        if self._turns is None:
            return found
        return with_time_shares(found, self._turns, None if self._here is None else self._here.name)

    def _measured(self, here: Host, notify: Notify) -> Mapping[Series, Forecast]:
        """Measure this machine for a moment and return forecasts from its whole history, if that can be used."""
        try:
            return self._measured_into(here, notify, in_memory=False)
        except StoreError as error:
            notify(f"{error}; planning with what is measured now, which is not kept")
            return self._measured_into(here, notify, in_memory=True)

    def _measured_into(self, here: Host, notify: Notify, *, in_memory: bool) -> Mapping[Series, Forecast]:
        with LocalWeather(self._weather_file, host=here.name, in_memory=in_memory) as weather:
            known = weather.forecasts(over_s=()).items()
            samples = [f.samples for series, f in known if series.resource is not Resource.CPU_LIMIT]
            rounds = _ROUNDS_KNOWN if samples and min(samples) >= _KNOWN_SAMPLES else _ROUNDS_NEW
            notify(f"measuring {here.name} ({min(samples, default=0)} earlier measurements)")
            weather.measure(rounds=rounds, interval_s=_ROUND_INTERVAL_S)
            return {
                series: forecast
                for series, forecast in weather.forecasts().items()
                if series.host == here.name and series.peer in (None, here.name)
            }

    @property
    def access(self) -> HostAccess:
        """Return the access to this machine, whatever its hosts are called."""
        addresses = {h.name: HostAddress(host=h.name, address=h.address) for h in self.pool.hosts}
        return HostAccess(addresses=addresses, here=True)

    def reaches(self, host: Host) -> bool:
        """Return whether the host is this machine."""
        return host is self._here

    def competitors(self) -> list[str]:
        """Return the processes of this machine that use most CPU time."""
        return busiest_processes()

    def checkpoint_s(self, path: Path, size_bytes: float) -> float | None:
        """Return the measured seconds: all ranks run on this machine."""
        return measured_write_s(path.parent, size_bytes)

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Compile the kernels once, so that no benchmark includes it, then run the benchmark."""
        template = request.template
        if template.warm and template.name not in self._warmed:
            run_warm_command(template.warm, request.notify)
            self._warmed.add(template.name)
        return launched_benchmark(self, request)
