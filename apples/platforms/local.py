"""This machine as a platform: its sensors, its CPUs as slots, its `mpiexec`.

Other hosts of the pool can be planned for as their grid file states them; nothing is measured or started there.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from apples.errors import ConfigError
from apples.hosts.agentconnection import HostAddress
from apples.hosts.cores import bound_to
from apples.launching.mpirun import HostAccess
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import Notify
from apples.model.snapshots import TimeShares, with_time_shares, without
from apples.model.template import Benchmark, BenchmarkRequest
from apples.platforms.platform import (
    Platform,
    PlatformSetup,
    is_this_machine,
    kinds_of_this_machine,
    launched_benchmark,
    measured_write_s,
    run_warm_command,
)
from apples.platforms.serviceforecasts import ServiceWeather, forecast_snapshot
from nws.base.cpulist import list_of, overlaps
from nws.base.errors import StoreError
from nws.base.records import document_of
from nws.client import LocalWeather
from nws.client.busiest import busiest_processes
from nws.series import Forecast, Resource, Series

#: Quantities of a machine that its kinds of cores share.
_DIVIDED = (Resource.MEMORY_FREE, Resource.CPU_LIMIT)

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
        super().__init__(pool or kinds_of_this_machine())
        self._here = {host.name: host for host in self.pool.hosts if is_this_machine(host)}
        if overlaps({name: host.cpus for name, host in self._here.items()}):
            raise ConfigError(
                f"{self.pool.source}: {' and '.join(self._here)} are the same machine; name it once, with as many "
                "slots, or give each CPUs of its own (cpus: 0-3)"
            )
        usable = os.sched_getaffinity(0)
        if wrong := {cpu for host in self._here.values() for cpu in host.cpus} - usable:
            raise ConfigError(
                f"{self.pool.source}: CPU {list_of(wrong)} may not be used here; usable are {list_of(usable)}"
            )
        self._weather_file, self._service, self._turns = weather_file, service, turns
        self._warmed: set[str] = set()

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return this machine, or the hosts of the grid with their forecasts."""
        pool = setup.restrict(setup.grid or kinds_of_this_machine())
        return cls(pool, service=setup.service, turns=setup.turns)

    def snapshot(self, notify: Notify) -> Snapshot:
        """Return the service's forecasts; this machine is measured if the service has no fresh one of it."""

        def measure(known: Mapping[Series, Forecast] | None) -> tuple[Mapping[Series, Forecast], str]:
            if not self._here:
                return {}, NOT_MEASURED
            missing = [
                host
                for host in self._here.values()
                if Series(Resource.CPU_NEW, host.name) not in (known or {})
            ]
            measured: dict[Series, Forecast] = {}
            for host in missing:
                measured |= self._measured(host, notify)
            names = ", ".join(host.name for host in missing)
            source = OWN_SENSORS if known is None else f"{OWN_SENSORS} for {names}" if missing else ""
            return self._with_pairs(measured), source

        found = forecast_snapshot(
            self.pool, self._service, measure, silent=SILENT, now=self.now, notify=notify
        )
        found = without(found, self._dropped)
        if self._turns is None:
            return found
        return with_time_shares(found, self._turns, self._here)

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
            # The sensors see the CPUs of this thread; what all CPUs share is divided.
            with bound_to(here.cpus):
                weather.measure(rounds=rounds, interval_s=_ROUND_INTERVAL_S)
            part = len(here.cpus) / len(os.sched_getaffinity(0)) if here.cpus else 1.0
            return {
                series: _scaled(forecast, part if series.resource in _DIVIDED else 1.0)
                for series, forecast in weather.forecasts().items()
                if series.host == here.name and series.peer in (None, here.name)
            }

    def _with_pairs(self, forecasts: Mapping[Series, Forecast]) -> Mapping[Series, Forecast]:
        """Return the forecasts with those of links between kinds of cores, which are as a kind's with itself."""
        pairs = {
            Series(series.resource, series.host, peer): forecast
            for series, forecast in forecasts.items()
            for peer in self._here
            if series.peer is not None
        }
        return {**forecasts, **pairs}

    @property
    def access(self) -> HostAccess:
        """Return the access to this machine, whatever its hosts are called."""
        addresses = {h.name: HostAddress(host=h.name, address=h.address) for h in self.pool.hosts}
        return HostAccess(addresses=addresses, here=True)

    def reaches(self, host: Host) -> bool:
        """Return whether the host is this machine."""
        return host.name in self._here

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


def _scaled(forecast: Forecast, part: float) -> Forecast:
    values = document_of(forecast, "value", "mae", "rmse", "last")
    return replace(forecast, **{name: part * value for name, value in values.items()})
