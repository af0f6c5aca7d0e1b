"""Many machines as a platform: who of the pool is fit, what each delivers now, and ranks over ssh.

Every snapshot begins with the check of all hosts, so a plan is always made for those that are there now; the others are
told with their reasons and stand in the plan as left out. The check also reads each host's sensors once and, in a small
pool, measures the links: the weather where no service has better. Nothing here decides.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from apples.errors import LaunchError, NoFeasiblePlan
from apples.launching.agentconnection import HostAddress, LivenessTimeouts
from apples.launching.command import RANK_WRAPPER
from apples.launching.launcher import Launcher, Notify
from apples.launching.preflight import SHARED_BYTES_FIXED, SHARED_BYTES_PER_RANK
from apples.launching.ssh import SshLauncher
from apples.model.grid import Grid, Host, Snapshot
from apples.model.snapshots import from_forecasts, with_composed
from apples.model.template import Benchmark, BenchmarkRequest
from apples.platforms.platform import is_this_machine, launched_benchmark, measured_write_s, warmed
from apples.platforms.serviceforecasts import ServiceWeather
from apples.remote import hostcheck, preflight, speed
from apples.remote.facts import HostFacts, Needs, holds
from apples.remote.preflight import Candidate, Checked
from apples.remote.speed import CheckedConnection, LinkSpeed
from apples.remote.ssh import find_ssh, ssh_command
from apples.remote.warmhosts import Kernels, WarmHosts
from nws.base.errors import WeatherError
from nws.series import Forecast, Resource, Series

CHECKED = "one look at each host over ssh"

#: Seconds that a host which has just been checked may take to be there for a run; one that takes longer is lost.
CONNECT_S = 12.0

#: Hosts of a pool whose links are measured with the check; more of them would take longer than most runs are worth.
MOST_LINKED = 8


class SshPlatform:
    """The hosts of a pool that can be reached over ssh, this machine among them if it is in the pool."""

    name = "ssh"

    def __init__(
        self,
        pool: Grid,
        *,
        open_slots: frozenset[str] = frozenset(),
        open_types: frozenset[str] = frozenset(),
        service: ServiceWeather | None = None,
        limit_s: float = preflight.LIMIT_S,
    ) -> None:
        """pool : the hosts the user allows.  limit_s : what the check of a host may take

        open_slots, open_types : hosts of which nobody has said how many ranks they take, or what CPU they have
        service : whose weather is asked first
        """
        self.grid = pool
        self._pool, self._open_slots, self._open_types = pool, open_slots, open_types
        self._service, self._limit_s = service, limit_s
        self._facts: Mapping[str, HostFacts] = {}
        self._links: list[LinkSpeed] = []
        self._disk_bytes: dict[str, float] = {}
        self._wished: list[str] = []
        self._dropped: dict[str, str] = {}
        self._kernels: Kernels | None = None

    def need_disk(self, path: Path, size_bytes: float) -> None:
        """Every host must be able to write so much at `path`, and see what the others write there."""
        self._disk_bytes[str(path.absolute())] = size_bytes

    def wish_disk(self, path: Path) -> None:
        """Find out with each check whether all hosts see the directory of `path`; none is left out for it."""
        self._wished.append(str(path.absolute()))

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """See `apples.platforms.platform.Platform.write_s`; measured here."""
        told = self._facts.values()
        if not all(holds(facts, str(path.absolute()), size_bytes) for facts in told):
            return None
        return measured_write_s(path.parent, size_bytes)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """These hosts are no part of the pool any more, each for a reason; they are not asked again."""
        self._dropped |= hosts
        self._pool = self._pool.restrict(h.name for h in self._pool.hosts if h.name not in hosts)

    def keep_warm(self, command: Sequence[str], hosts: WarmHosts) -> None:
        """Before plans are made, have `command` compile the kernels on every host that `hosts` does not know."""
        self._kernels = Kernels(command=tuple(command), warm=hosts)

    @property
    def launcher(self) -> Launcher:
        """Runs plans over the hosts that were fit when last asked."""
        here = self._address_here()
        places = {}
        for host in self.grid.hosts:
            told = self._facts.get(host.name)
            address = address_of(host)
            interface = None if told is None else told.interface
            if address is None and told is not None and here is not None:
                interface = next((name for name, own in told.interfaces.items() if here in own), None)
            places[host.name] = HostAddress(host=host.name, address=address, interface=interface)
        return SshLauncher(places, timeouts=LivenessTimeouts(connect_s=CONNECT_S))

    def snapshot(self, notify: Notify) -> Snapshot:
        """Check every host of the pool; raises `NoFeasiblePlan` with all reasons when none is fit."""
        checked = self.check(notify)
        absent = {one.candidate.name: f"it {one.reason}" for one in checked if not one.fit}
        self._facts = {one.candidate.name: one.facts for one in checked if one.fit and one.facts is not None}
        absent |= self._warm(notify)
        self._facts = {name: told for name, told in self._facts.items() if name not in absent}
        if not self._facts:
            raise NoFeasiblePlan(
                "no host of the pool can take part:\n"
                + "\n".join(f"{host}: {why}" for host, why in {**self._dropped, **absent}.items())
            )
        for host, why in absent.items():
            notify(f"without {host}: {why}")
        hosts = tuple(
            self._as_told(host, self._facts[host.name])
            for host in self._pool.hosts
            if host.name in self._facts
        )
        self.grid = replace(self._pool, hosts=hosts)
        return replace(self._weather(notify), absent={**self._dropped, **absent})

    def check(self, notify: Notify) -> tuple[Checked, ...]:
        """Every host of the pool with what it told and what is wrong with it."""
        candidates = [Candidate(name=host.name, address=address_of(host)) for host in self._pool.hosts]
        notify(f"checking {len(candidates)} host{'s' * (len(candidates) != 1)}")
        with (
            needed(self._disk_bytes, self._wished) as needs,
            preflight.asked(candidates, needs, limit_s=self._limit_s) as found,
        ):
            fit = [one for one in found if one[0].fit]
            self._links = self._measured_links(fit, notify)
            return tuple(checked for checked, _ in found)

    def reaches(self, host: Host) -> bool:
        """Every host that was fit."""
        return host.name in self._facts

    def machine(self, host: Host) -> str:
        """CPU model and the versions that shape its speed."""
        told = self._facts.get(host.name)
        if told is None:
            return host.cpu_type
        versions = [f"{name} {told.versions[name]}" for name in ("python", "apples-grid", "numba", "numpy")]
        return f"{told.cpu_model or host.cpu_type} {', '.join(versions)}"

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Real ranks on that host for a second or two."""
        return launched_benchmark(self.launcher, request)

    def now(self) -> float:
        """The clock on the wall."""
        return time.time()

    def _measured_links(self, fit: Sequence[CheckedConnection], notify: Notify) -> list[LinkSpeed]:
        """The links of a small pool, where neither a service nor the grid file says what they are like."""
        if self._service is not None or self._pool.links or not 2 <= len(fit) <= MOST_LINKED:
            return []
        notify(f"measuring the links among {len(fit)} hosts")
        return speed.links(fit)

    def _weather(self, notify: Notify) -> Snapshot:
        now = self.now()
        looked = {s: f for name, told in self._facts.items() for s, f in _forecasts(name, told, now).items()}
        looked |= _link_forecasts(self._links, now)
        if self._service is None:
            return from_forecasts(self.grid, looked, now=now, source=CHECKED)
        try:
            outlook = self._service.forecasts(self.grid)
        except WeatherError as error:
            note = f"no weather from the service ({str(error).splitlines()[0]}); planning with {CHECKED}"
            notify(note)
            return replace(from_forecasts(self.grid, looked, now=now, source=CHECKED), notes=(note,))
        for note in outlook.notes:
            notify(note)
        # What was looked at just now is moved to the service's clock; what the service says of a host counts more.
        moved = {s: replace(f, measured_at=outlook.now) for s, f in looked.items()}
        found = from_forecasts(
            self.grid,
            {**moved, **outlook.forecasts},
            now=outlook.now,
            source=f"{outlook.source}, and {CHECKED}",
            through=outlook.through,
        )
        if outlook.matrix is not None:
            found = with_composed(found, outlook.matrix, outlook.names, now=outlook.now)
        return replace(found, stale=tuple(map(str, outlook.stale)), notes=outlook.notes)

    def _as_told(self, host: Host, told: HostFacts) -> Host:
        if host.name in self._open_slots and told.survey is not None:
            host = replace(host, slots=told.survey.cpus)
        if host.name in self._open_types and told.cpu_model:
            host = replace(host, cpu_type=told.cpu_model)
        return host

    def _warm(self, notify: Notify) -> dict[str, str]:
        """Hosts on which the kernels could not be compiled, and why."""
        if self._kernels is None:
            return {}
        kernels = self._kernels
        hosts = {host.name: host for host in self._pool.hosts if host.name in self._facts}

        def one(name: str) -> str | None:
            command, address = kernels.command, address_of(hosts[name])
            if address is not None:
                command = tuple(ssh_command(find_ssh(), address, command))
            try:
                warmed(command, lambda line: notify(f"{name}: {line}"))
            except LaunchError as error:
                return str(error)
            return None

        machines = {name: self.machine(host) for name, host in hosts.items()}
        failed = kernels.look_after(machines, one, notify)
        return {name: f"its kernels could not be compiled: {why}" for name, why in failed.items()}

    def _address_here(self) -> str | None:
        """Address of this machine that other hosts of the pool see us come from; None while there are none."""
        return next(
            (told.reached_from for told in self._facts.values() if told.reached_from is not None), None
        )


def needs_of_ranks() -> Needs:
    """What every host must have so that ranks can be started there, whatever they run."""
    return Needs(
        versions=hostcheck.versions(),
        files=(str(RANK_WRAPPER),),
        shared_memory_bytes=SHARED_BYTES_FIXED + SHARED_BYTES_PER_RANK,
    )


@contextmanager
def needed(disk_bytes: Mapping[str, float], wished: Sequence[str]) -> Iterator[Needs]:
    """What is asked of every host; files by which hosts with the same file systems know them exist meanwhile.

    disk_bytes : path → bytes that will be written there.  wished : paths of which it is only to be found out
    """
    tokens: dict[str, str] = {}
    try:
        for path in (*disk_bytes, *wished):
            token = f".apples-shared-{secrets.token_hex(8)}"
            with contextlib.suppress(OSError):
                Path(path).with_name(token).touch()
                tokens[path] = token
        yield replace(needs_of_ranks(), disk_bytes=disk_bytes, tokens=tokens, wished=tuple(wished))
    finally:
        for path, token in tokens.items():
            with contextlib.suppress(OSError):
                os.unlink(Path(path).with_name(token))


def address_of(host: Host) -> str | None:
    """What ssh is told, None for this machine."""
    return None if is_this_machine(host) else host.address or host.name


def _forecasts(name: str, told: HostFacts, now: float) -> dict[Series, Forecast]:
    """What one look is worth: the value that was read, and no idea of its error."""
    survey = told.survey
    if survey is None:
        return {}
    values = {
        Resource.CPU_NEW: survey.availability,
        Resource.CPU_CAPACITY: survey.capacity,
        Resource.MEMORY_FREE: survey.memory_bytes,
    }
    return {Series(resource, name): _one_look(value, now) for resource, value in values.items()}


def _link_forecasts(links: Sequence[LinkSpeed], now: float) -> dict[Series, Forecast]:
    found = {}
    for link in links:
        for resource, value in ((Resource.LATENCY, link.latency_s), (Resource.BANDWIDTH, link.bandwidth_Bps)):
            if value is not None:
                found[Series(resource, link.source, link.target)] = _one_look(value, now)
    return found


def _one_look(value: float, now: float) -> Forecast:
    """A value that was read once: its error is not known."""
    return Forecast(
        value=value,
        mae=math.nan,
        rmse=math.nan,
        method="one look",
        samples=1,
        measured_at=now,
        last=value,
    )
