"""Where a run can happen: the machines, their weather, their benchmarks and the launcher, behind one seam.

The agent plans and runs in a `World` and does not know which. `LocalWorld` is this machine: real sensors, real
ranks. The mock grid's world stands in `apples.simulation`. Nothing here decides.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, runtime_checkable

from apples.errors import ConfigError, LaunchError
from apples.launching.launcher import Launcher, LaunchRequest, Notify
from apples.launching.mpiexec import MpiexecLauncher
from apples.launching.preflight import names_of_this_machine
from apples.model.grid import Grid, Host, Snapshot
from apples.model.plan import unplanned
from apples.model.snapshots import Turns, from_forecasts, with_composed, with_turns, without
from apples.model.template import Benchmark, BenchmarkRequest, Template, Workload
from apples.platforms.serviceforecasts import Outlook, ServiceWeather, with_local
from nws.base.errors import WeatherError
from nws.client import LocalWeather, local_host, usable_cpus
from nws.series import Forecast, Resource, Series

#: Sensor rounds before a plan: enough for an expected error when the weather is new, one when it is known.
_ROUNDS_NEW, _ROUNDS_KNOWN, _KNOWN_SAMPLES = 3, 1, 10
_ROUND_INTERVAL_S = 0.2

#: Written to find out how fast a directory takes files.
_SAMPLE_BYTES = 4 << 20

OWN_SENSORS = "sensors on this machine"
NOT_MEASURED = "the grid file (no host of it is this machine, nothing was measured)"


class World(Protocol):
    """Machines on which plans can be made and run."""

    @property
    def name(self) -> str:
        """Name of the world, as records keep it."""

    @property
    def grid(self) -> Grid:
        """The pool of hosts."""

    @property
    def launcher(self) -> Launcher:
        """What runs plans here."""

    def snapshot(self, notify: Notify) -> Snapshot:
        """Find out what every host will deliver now."""

    def reaches(self, host: Host) -> bool:
        """Whether a benchmark can be run on this host."""

    def machine(self, host: Host) -> str:
        """What a benchmark of this host holds for: hosts with the same text share it."""

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Run the application's benchmark on one host; raises `LaunchError`."""

    def now(self) -> float:
        """Seconds since the epoch, in this world's time."""


@runtime_checkable
class Enactable(Protocol):
    """A world in which a run can be tried again: its pool shrinks, and its hosts may keep files in common."""

    def drop(self, hosts: Mapping[str, str]) -> None:
        """These hosts are no part of the pool any more, each for a reason; snapshots tell them as absent."""

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """Seconds to write so much at `path`; None where not all hosts of the last snapshot can, into one directory."""


class LocalWorld:
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
        turns: Turns | None = None,
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
        return with_turns(found, self._turns, None if self._own is None else self._own.name)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """See `Enactable.drop`."""
        self._dropped |= hosts

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """See `Enactable.write_s`: every host that runs here is this machine."""
        return measured_write_s(path.parent, size_bytes)

    def _found(self, notify: Notify) -> Snapshot:
        """What the weather is, whoever takes turns."""
        if self._service is None:
            return self._alone(notify)
        try:
            outlook = self._service.outlook(self.grid)
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

    def _told(self, outlook: Outlook, notify: Notify) -> Snapshot:
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


def launched_benchmark(launcher: Launcher, request: BenchmarkRequest) -> Benchmark:
    """Run the application's benchmark with real ranks, a second or two; raises `LaunchError`."""
    with tempfile.TemporaryDirectory(prefix="apples-benchmark-") as directory:
        run_dir = Path(directory)
        output = run_dir / "benchmark.json"
        template, ranks = request.template, request.ranks
        outcome = launcher.run(
            LaunchRequest(
                plan=unplanned(
                    [request.host.name] * request.ranks,
                    scheduler="benchmark",
                    application=request.template.name,
                ),
                workload=Workload(application=template.name, size=ranks),
                command=tuple(template.benchmark_command(output, request.options, request.rows)),
                run_dir=run_dir,
                program_output_to_stderr=True,
            ),
            lambda _: None,
        )
        if outcome.ended == "interrupted":
            # The launcher took the signal for the ranks; it was meant for us as well, whatever it means here.
            signal.raise_signal(outcome.exit_code - 128)
            raise KeyboardInterrupt
        if not outcome.finished:
            raise LaunchError(
                f"the benchmark of {template.name} on {request.host.name} failed: {outcome.message}"
            )
        return template.read_benchmark(output, outcome.observed_s)


def warmed(command: Sequence[str], notify: Notify) -> None:
    """Run a command that compiles kernels, passing on what it says; raises `LaunchError`."""
    said = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                notify(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise LaunchError(
            f"{' '.join(command)} failed with exit code {process.returncode}: {''.join(said).strip()}"
        )


def measured_write_s(directory: Path, size_bytes: float) -> float | None:
    """Seconds that writing so much to disk would take there, from a smaller file; None where nothing can be written."""
    try:
        little_s, sample_s = (_write_s(directory, size) for size in (1, _SAMPLE_BYTES))
    except OSError:
        return None
    return little_s + max(0.0, sample_s - little_s) * size_bytes / _SAMPLE_BYTES


def _write_s(directory: Path, size_bytes: int) -> float:
    started = time.perf_counter()
    with tempfile.NamedTemporaryFile(prefix=".apples-write-", dir=directory) as file:
        file.write(bytes(size_bytes))
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - started


def this_machine() -> Grid:
    """A grid of one host: this machine, with a slot for each CPU we may use."""
    host = Host(name=local_host(), slots=usable_cpus(), cpu_type=cpu_model())
    return Grid(name=host.name, hosts=(host,))


def is_this_machine(host: Host) -> bool:
    """Whether a host means this machine, by its address or its name."""
    return (host.address or host.name) in names_of_this_machine()


@cache
def cpu_model() -> str:
    """Model name of this machine's CPU."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine() or "unknown"


@cache
def fingerprint() -> str:
    """Versions that decide how fast the application's kernels are."""
    parts = [f"python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("apples-grid", "numba", "numpy")]
    return ", ".join(parts)
