"""`Platform`: machines on which a run can take place, and the code that all platforms share.

A platform knows its pool, forecasts it (`snapshot`), runs plans and benchmarks, and drops hosts. The agent plans and
runs on a `Platform` and does not know which one. Each platform is a class in one file, found by an entry point of the
group `apples.platforms`, whose name is the value of `--launcher`. docs/add-a-platform.md shows how to write one.
"""

from __future__ import annotations

import math
import os
import platform as python_platform
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from apples.errors import ConfigError, LaunchError
from apples.hosts.cores import core_kinds
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.preflight import names_of_this_machine
from apples.model.drained import DrainedHosts
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import LaunchRequest, MpiChoice, Notify
from apples.model.plan import Outcome
from apples.model.template import Benchmark, BenchmarkRequest
from nws.base.hostlist import HostSlots
from nws.client import local_host, usable_cpus
from nws.series import Forecast, Resource, Series

if TYPE_CHECKING:
    from apples.hosts.speed import LinkSpeed
    from apples.model.gridfile import GridFile
    from apples.model.snapshots import TimeShares
    from apples.platforms.clusterqueue import Tables
    from apples.platforms.serviceforecasts import ServiceWeather
    from apples.platforms.sharedhosts import SharedHosts

#: Bytes written to measure the speed of a directory.
_SAMPLE_BYTES = 4 << 20


def _unrestricted(grid: Grid) -> Grid:
    return grid


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSetup:
    """Values from which a platform is opened.

    grid : hosts of a grid file or of the weather service, None if the user named neither
    stated : the grid is of a file, which states slots and CPU types.  of_service : the grid is the service's pool
    listed : host → its entry in a list of hosts (-H, --hostfile)
    restrict : returns a grid with only those hosts that the user allows; raises `ConfigError`
    options : the platform's own options, name → value
    service : asked for forecasts first, None for none.  turns : time shares of coscheduled jobs on this machine
    sharing : policy of the run on several hosts, None without one
    state : directory of this package's files
    """

    grid: Grid | None = None
    stated: bool = False
    of_service: bool = False
    listed: Mapping[str, HostSlots] = field(default_factory=dict)
    restrict: Callable[[Grid], Grid] = _unrestricted
    options: Mapping[str, str] = field(default_factory=dict)
    service: ServiceWeather | None = None
    turns: TimeShares | None = None
    sharing: SharedHosts | None = None
    state: Path = Path()

    def listed_grid(self) -> Grid:
        """Return a grid of the listed hosts; a host has 1 slot until it reports its number."""
        hosts = tuple(
            Host(name=name, slots=entry.slots or 1, address=entry.address)
            for name, entry in self.listed.items()
        )
        return Grid(name="hosts by name", hosts=hosts, source="the hosts named")

    @property
    def open_slots(self) -> frozenset[str]:
        """Return the hosts of unknown number of slots."""
        return frozenset(name for name, e in self.listed.items() if e.slots is None and not self.stated)

    @property
    def open_types(self) -> frozenset[str]:
        """Return the hosts of unknown CPU type."""
        return frozenset(() if self.stated else self.listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Requirements of a run on every host that takes part.

    warm_command : compiles the application's kernels; empty for none
    checkpoint : path of the checkpoint, None for none
    checkpoint_bytes : bytes that must be free there, on a file system that all hosts share; None to only find out
        whether they share it
    program_files : files of a user's program that every host must have; None for this package's own programs, which
        need the package on every host
    runs : a run follows, so that hosts which only a queue gives may be checked before it is planned
    """

    warm_command: Sequence[str] = ()
    checkpoint: Path | None = None
    checkpoint_bytes: float | None = None
    program_files: Sequence[str] | None = None
    runs: bool = False


class Platform(ABC):
    """Machines on which plans can be made and run.

    name : value of `--launcher`, and name of the platform in records.  pool : the hosts
    grid_file : file that the platform itself chose for its pool; it may know costs of applications
    mpi : the user's choice of an MPI, which takes precedence over that of the application
    several_hosts : ranks run on several machines, so a run can continue without a lost host
    starts_programs : ranks are processes, which use an MPI, write files and report progress
    shares_hosts : hosts may have other jobs: queue, policies, drains and weather services apply to them
    costs_vary_with_slab : what a row costs depends on the rows of a slab
    can_cut_two_axes : runs plans that are cut along two axes
    excludes : option of `apples-run` that this platform cannot be combined with → reason
    options : own option → help; `PlatformSetup.options` has no others
    """

    name: ClassVar[str]
    several_hosts: ClassVar[bool] = False
    starts_programs: ClassVar[bool] = True
    shares_hosts: ClassVar[bool] = True
    costs_vary_with_slab: ClassVar[bool] = True
    can_cut_two_axes: ClassVar[bool] = True
    excludes: ClassVar[Mapping[str, str]] = {}
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, pool: Grid) -> None:
        self.pool = pool
        self.grid_file: GridFile | None = None
        self.mpi = MpiChoice()
        self._dropped: dict[str, str] = {}

    @classmethod
    @abstractmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return the platform of a setup; raise `ConfigError` if it cannot be opened."""

    @classmethod
    def option_problems(cls, given: Sequence[str]) -> list[str]:
        """Return the problems of the platform's own options that were given, for example in an allocation."""
        return []

    @staticmethod
    def tables(directory: Path | None, at: str | None) -> Tables:
        """Return partitions, jobs and reservations of the platform's batch system; raise `ReportedError`.

        Args:
            directory: of files with the output of its commands; None to run these
            at: instant of the files, as a local time; None for that of the running jobs
        """
        raise ConfigError("this platform has no batch system; slurm has")

    @abstractmethod
    def snapshot(self, notify: Notify) -> Snapshot:
        """Return forecasts of every host and link now; raise `NoFeasiblePlan` if no host is usable."""

    @property
    def access(self) -> HostAccess:
        """Return the access to the last snapshot's hosts; not needed if the next three methods are overridden."""
        raise NotImplementedError

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError` if the run cannot start; change nothing."""
        mpirun.check(self.with_mpi(request), self.access)

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the command that `run` would execute."""
        return mpirun.command_line(self.with_mpi(request), self.access)

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run the plan to its end, leave no process behind, and return the outcome; raise `LaunchError`."""
        return mpirun.run(self.with_mpi(request), self.access, notify)

    def with_mpi(self, request: LaunchRequest) -> LaunchRequest:
        """Return the request with the user's choice of an MPI instead of the application's, and the CPUs of ranks."""
        cpus = {host.name: host.cpus for host in self.pool.hosts if host.cpus}
        return replace(request, mpi=replace(self.mpi, which=self.mpi.which or request.mpi.which), cpus=cpus)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """Remove hosts, each with a reason, from the pool; later snapshots list them as absent."""
        self._dropped |= hosts

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Run the application's benchmark on one host for a second or two; raise `LaunchError`."""
        return launched_benchmark(self, request)

    def reaches(self, host: Host) -> bool:
        """Return whether a benchmark can run on this host."""
        return True

    def machine(self, host: Host) -> str:
        """Return the key of a host's benchmarks: hosts with the same text share them."""
        return f"{host.cpu_type} {fingerprint()}"

    def checkpoint_s(self, path: Path, size_bytes: float) -> float | None:
        """Return seconds to write so many bytes at `path`; None unless all hosts of the last snapshot share it."""
        return None

    def drained(self, notify: Notify) -> Mapping[str, str]:
        """Return the hosts, of this pool or others, that runs must leave, each with the reason.

        notify : receives why their list cannot be used
        """
        if not self.shares_hosts:
            return {}
        return {host: drain.reason() for host, drain in DrainedHosts(notify=notify).at(time.time()).items()}

    def competitors(self) -> list[str]:
        """Return the processes that use most CPU time, where the platform can tell; most first."""
        return []

    def prepare(self, preparation: Preparation) -> None:  # noqa: B027 - optional, not abstract
        """Take note of a run's requirements, to be met by every host of later snapshots."""

    def now(self) -> float:
        """Return seconds since the epoch, by this platform's clock."""
        return time.time()


def launched_benchmark(platform: Platform, request: BenchmarkRequest) -> Benchmark:
    """Measure the application with real ranks, as its description says; raise `LaunchError`."""
    from apples.platforms.shortruns import observed_benchmark, own_benchmark

    if request.template.benchmark is None:
        return observed_benchmark(platform, request)
    return own_benchmark(platform, request, request.template.benchmark)


def run_warm_command(command: Sequence[str], notify: Notify) -> None:
    """Run a command that compiles kernels and forward its stderr lines; raise `LaunchError`."""
    lines = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(line)
                notify(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise LaunchError(
            f"{' '.join(command)} failed with exit code {process.returncode}: {''.join(lines).strip()}"
        )


def measured_write_s(directory: Path, size_bytes: float) -> float | None:
    """Return the seconds of a synchronised write of `size_bytes`, extrapolated from a smaller file.

    None where the directory cannot be written.
    """
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


def single_forecast(value: float, now: float, method: str) -> Forecast:
    """Return a forecast from one value of unknown error."""
    nan = math.nan
    return Forecast(value=value, mae=nan, rmse=nan, method=method, samples=1, measured_at=now, last=value)


def link_forecasts(links: Iterable[LinkSpeed], now: float, method: str) -> dict[Series, Forecast]:
    """Return the forecasts of measured links, each from one value."""
    found = {}
    for link in links:
        for resource, value in (
            (Resource.LATENCY, link.latency_s),
            (Resource.BANDWIDTH, link.bandwidth_Bps),
            (Resource.LOSS, link.lost),
        ):
            if value is not None:
                found[Series(resource, link.source, link.target)] = single_forecast(value, now, method)
    return found


def this_machine() -> Grid:
    """Return a grid of one host, this machine, with one slot for each usable CPU."""
    host = Host(name=local_host(), slots=usable_cpus(), cpu_type=cpu_model())
    return Grid(name=host.name, hosts=(host,))


def kinds_of_this_machine() -> Grid:
    """Return a grid of this machine with a host for each kind of its cores."""
    whole, usable = this_machine(), os.sched_getaffinity(0)
    (host,) = whole.hosts
    kinds = core_kinds(usable)
    if len(kinds) == 1 or host.slots < len(usable):
        # A quota that is smaller than the machine says nothing of either kind.
        return whole
    return replace(
        whole,
        hosts=tuple(
            Host(
                name=f"{host.name}.{kind}",
                slots=len(cpus),
                cpu_type=f"{host.cpu_type}.{kind}",
                address="localhost",
                cpus=cpus,
            )
            for kind, cpus in kinds.items()
        ),
    )


def is_this_machine(host: Host) -> bool:
    """Return whether the host's address or name means this machine."""
    return (host.address or host.name) in names_of_this_machine()


def address_of(host: Host) -> str | None:
    """Return the argument for ssh; None for this machine."""
    return None if is_this_machine(host) else host.address or host.name


@cache
def cpu_model() -> str:
    """Return the model name of this machine's CPU."""
    from apples.hosts import hostcheck

    return hostcheck.cpu_model() or python_platform.machine() or "unknown"


@cache
def fingerprint() -> str:
    """Return the versions that determine the speed of the application's kernels."""
    from apples.hosts import hostcheck

    return speed_versions(hostcheck.versions())


def speed_versions(versions: Mapping[str, str]) -> str:
    """Return the versions of a host, by distribution, that determine the speed of the application's kernels."""
    names = [name for name in ("python", "apples-grid", "numba", "numpy") if name in versions]
    return ", ".join(f"{name} {versions[name]}" for name in names)
