"""Hosts reached over ssh as a platform: a check of all hosts before every plan, and ranks over ssh.

Each snapshot checks all hosts of the pool, so a plan uses only hosts that can take part now. The others are absent,
each with its reason. The check also reads each host's sensors and, in a small pool, measures the links every few
minutes. Readings are kept, and forecasts are made from those of all checks. They are used where no weather service has
better ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from apples.errors import ConfigError, LaunchError, NoFeasiblePlan
from apples.hosts import hostpreflight, speed
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.hosts.facts import distrust, holds, managed
from apples.hosts.hostmessages import HostFacts
from apples.hosts.hostpreflight import Candidate, Checked
from apples.hosts.speed import CheckedConnection, LinkSpeed
from apples.launching.mpirun import HostAccess
from apples.model.allocations import allocated_hosts
from apples.model.grid import Grid, Host, Snapshot
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.model.snapshots import with_time_shares
from apples.platforms.hostreadings import ONE_READING, HostReadings, survey_forecasts
from apples.platforms.platform import (
    Platform,
    PlatformSetup,
    Preparation,
    address_of,
    link_forecasts,
    measured_write_s,
    run_warm_command,
    speed_versions,
    this_machine,
)
from apples.platforms.requirements import Requirements
from apples.platforms.serviceforecasts import ServiceWeather, forecast_snapshot
from nws.base.cpulist import list_of
from nws.base.paths import local_host
from nws.base.records import document_of
from nws.base.sshcommand import find_ssh, ssh_command
from nws.base.wording import counted
from nws.series import Forecast, Series

if TYPE_CHECKING:
    from apples.platforms.sharedhosts import SharedHosts

CHECKED = "looks at each host over ssh"
SILENT = f"no weather from the service ({{}}); planning with {CHECKED}"

#: Seconds in which a host that passed the check must answer at the start of a run; otherwise it is lost.
CONNECT_S = 12.0

#: Largest pool whose links are measured with the check; for more hosts that would take longer than most runs.
MOST_LINKED = 8


class SshPlatform(Platform):
    """Hosts of a pool that are reachable over ssh; this machine may be one of them."""

    name = "ssh"
    several_hosts = True
    excludes: ClassVar[Mapping[str, str]] = {
        "mock": "the mock grid has no real hosts",
        "scenario": "the mock grid has no real hosts",
    }

    def __init__(
        self,
        pool: Grid,
        *,
        open_slots: frozenset[str] = frozenset(),
        open_types: frozenset[str] = frozenset(),
        service: ServiceWeather | None = None,
        sharing: SharedHosts | None = None,
        limit_s: float = hostpreflight.LIMIT_S,
        state: Path = Path(),
    ) -> None:
        """Open no connection yet.

        Args:
            pool: Hosts that the user allows; `self.pool` is restricted to the usable ones by each snapshot.
            open_slots: Hosts that report their number of slots.
            open_types: Hosts that report their CPU type.
            service: Asked for forecasts first.
            sharing: Policy of the run, None without one.
            limit_s: Time limit of a host's check.
            state: Directory of the list of hosts with compiled kernels.
        """
        super().__init__(pool)
        self._allowed, self._open_slots, self._open_types = pool, open_slots, open_types
        self._service, self._limit_s, self._sharing = service, limit_s, sharing
        self._sockets: Mapping[str, Mapping[str, str]] = {}
        self._facts: Mapping[str, HostFacts] = {}
        self._links: list[LinkSpeed] = []
        self._requirements = Requirements(state / "warm.json")
        self._readings = HostReadings(state / "readings.db")

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return the hosts of the grid, of the service or of the list."""
        common = document_of(setup, "service", "sharing", "state")
        if setup.grid is not None or setup.of_service:
            pool = setup.restrict(setup.grid or this_machine())
            return cls(pool, **common)
        source = "the hosts named"
        if not setup.listed and (allocated := allocated_hosts(os.environ)) is not None:
            system, hosts = allocated
            source = f"the allocation of {system}"
            setup = replace(setup, listed={host.name: host for host in hosts})
        if not setup.listed:
            raise ConfigError(
                "--launcher ssh needs hosts; name them with -H LIST, --hostfile FILE or --grid FILE, or "
                "start in an allocation of PBS, LSF, Grid Engine, OAR or the MPI Operator"
            )
        pool = setup.restrict(replace(setup.listed_grid(), source=source))
        return cls(pool, **common, **document_of(setup, "open_slots", "open_types"))

    def prepare(self, preparation: Preparation) -> None:
        """Include the run's requirements in each check."""
        self._requirements.add(preparation)

    def checkpoint_s(self, path: Path, size_bytes: float) -> float | None:
        """Return the seconds measured here; None unless all usable hosts share the file system."""
        if not all(holds(facts, str(path.absolute()), size_bytes) for facts in self._facts.values()):
            return None
        return measured_write_s(path.parent, size_bytes)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """Remove the hosts from the pool; they are not checked again."""
        super().drop(hosts)
        self._allowed = self._allowed.restrict(h.name for h in self._allowed.hosts if h.name not in hosts)

    @property
    def access(self) -> HostAccess:
        """Return the access to the hosts that were usable in the last snapshot."""
        here = _address_here(self._facts.values())
        places = {
            host.name: _address(host, self._facts.get(host.name), here, self._sockets.get(host.name, {}))
            for host in self.pool.hosts
        }
        return HostAccess(addresses=places, launcher=here, timeouts=LivenessTimeouts(connect_s=CONNECT_S))

    def snapshot(self, notify: Notify) -> Snapshot:
        """Check every host and return forecasts of the usable ones; raise `NoFeasiblePlan` with all reasons."""
        checked = self.check_hosts(notify)
        absent = {one.candidate.name: f"it {one.reason}" for one in checked if not one.fit}
        self._facts = {one.candidate.name: one.facts for one in checked if one.fit and one.facts is not None}
        absent |= self._warm(notify)
        self._facts = {name: facts for name, facts in self._facts.items() if name not in absent}
        if not self._facts:
            raise NoFeasiblePlan(
                "no host of the pool can take part:\n"
                + "\n".join(f"{host}: {why}" for host, why in {**self._dropped, **absent}.items())
            )
        for note in (*(f"without {host}: {why}" for host, why in absent.items()), *distrust(self._facts)):
            notify(note)
        hosts = tuple(
            _reported(host, self._facts[host.name], self._open_slots, self._open_types)
            for host in self._allowed.hosts
            if host.name in self._facts
        )
        self.pool = replace(self._allowed, hosts=hosts)
        found = replace(self._forecast(notify), absent={**self._dropped, **absent})
        if self._sharing is None:
            return found
        held = self._sharing.look({host.name: address_of(host) for host in hosts}, managed(self._facts))
        return found if held is None else with_time_shares(found, held)

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run the plan after its hosts have joined the policy of the run; raise `LaunchError`, `SharingError`."""
        if self._sharing is not None:
            self._sockets = self._sharing.join(request.plan.hosts, request.environment)
        return super().run(request, notify)

    def check_hosts(self, notify: Notify) -> tuple[Checked, ...]:
        """Return the facts and the problems of every allowed host."""
        candidates = [
            Candidate(name=host.name, address=address_of(host), cpus=host.cpus)
            for host in self._allowed.hosts
        ]
        notify(f"checking {counted(len(candidates), 'host')}")
        with (
            self._requirements.needs() as needs,
            hostpreflight.conversations_with(candidates, needs, limit_s=self._limit_s) as found,
        ):
            fit = [one for one in found if one[0].fit]
            self._links = self._measured_links(fit, notify)
            if not self._links:
                return tuple(checked for checked, _ in found)
            # probing the links took seconds, in which a host may have become busy
            fresh = {one.candidate.name: one for one in hostpreflight.surveyed_again(fit)}
            return tuple(fresh.get(checked.candidate.name, checked) for checked, _ in found)

    def reaches(self, host: Host) -> bool:
        """Return whether the host passed the last check."""
        return host.name in self._facts

    def machine(self, host: Host) -> str:
        """Return the CPU model and the versions that determine its speed."""
        facts = self._facts.get(host.name)
        if facts is None:
            return host.cpu_type
        kind = f"{facts.cpu_model} {host.cpu_type}" if host.cpus else facts.cpu_model or host.cpu_type
        return f"{kind} {speed_versions(facts.versions)}"

    def _uses_links(self, hosts: int) -> bool:
        """Return whether links among so many hosts are measured: neither the service nor the grid file has them."""
        return self._service is None and not self._allowed.links and 2 <= hosts <= MOST_LINKED

    def _measured_links(self, fit: Sequence[CheckedConnection], notify: Notify) -> list[LinkSpeed]:
        """Return newly measured links of a small pool, none if recent checks have measured them."""
        names = {one.candidate.name for one, _ in fit}
        stored_as = _stored_as(host for host in self._allowed.hosts if host.name in names)
        if not self._uses_links(len(fit)) or self._readings.know_links(stored_as, self.now()):
            return []
        notify(f"measuring the links among {counted(len(fit), 'host')}")
        return speed.links(fit, losses=True)

    def _forecast(self, notify: Notify) -> Snapshot:
        def measure(known: Mapping[Series, Forecast] | None) -> tuple[Mapping[Series, Forecast], str]:
            now = self.now()
            own = link_forecasts(self._links, now, ONE_READING) | survey_forecasts(self._facts, now)
            if self._readings.add(own, _stored_as(self._allowed.hosts), now, notify):
                links = self._uses_links(len(self._facts))
                own |= self._readings.forecasts(_stored_as(self.pool.hosts), now, notify, links=links)
            return own, CHECKED

        return forecast_snapshot(
            self.pool, self._service, measure, silent=SILENT, now=self.now, notify=notify
        )

    def _warm(self, notify: Notify) -> dict[str, str]:
        """Return the hosts on which the kernels could not be compiled, with the reason."""
        kernels = self._requirements.kernels
        if kernels is None:
            return {}
        hosts = {host.name: host for host in self._allowed.hosts if host.name in self._facts}

        def one(name: str) -> str | None:
            command, address = kernels.command, address_of(hosts[name])
            if address is not None:
                command = tuple(ssh_command(find_ssh(), address, command))
            try:
                run_warm_command(command, lambda line: notify(f"{name}: {line}"))
            except LaunchError as error:
                return str(error)
            return None

        machines = {name: self.machine(host) for name, host in hosts.items()}
        failed = kernels.look_after(machines, one, notify)
        return {name: f"its kernels could not be compiled: {why}" for name, why in failed.items()}


def _address(
    host: Host, facts: HostFacts | None, here: str | None, environment: Mapping[str, str]
) -> HostAddress:
    """Return how ranks on a host are started. here : address of this machine for the others"""
    address, interface = address_of(host), None if facts is None else facts.interface
    if address is None and facts is not None and here is not None:
        interface = next((name for name, own in facts.interfaces.items() if here in own), None)
    return HostAddress(host=host.name, address=address, interface=interface, environment=environment)


def _reported(host: Host, facts: HostFacts, slots: Set[str], types: Set[str]) -> Host:
    """Return a host with what it reports itself. slots, types : hosts that report their slots, their CPU type"""
    if host.name in slots and facts.survey is not None:
        host = replace(host, slots=facts.survey.cpus)
    if host.name in types and facts.cpu_model:
        host = replace(host, cpu_type=facts.cpu_model)
    return host


def _address_here(facts: Iterable[HostFacts]) -> str | None:
    """Return an address of this machine at which all other hosts reach it; None without other hosts."""
    known = list(facts)
    called = [one.called_back for one in known if one.called_back is not None]
    if called:
        return next((one for one in called[0] if all(one in others for others in called)), None)
    return next((one.our_address for one in known if one.our_address is not None), None)


def _stored_as(hosts: Iterable[Host]) -> dict[str, str]:
    """Return for each host the name under which its readings are stored, by its address and its CPUs."""

    def name(host: Host) -> str:
        address = (address_of(host) or local_host()).rpartition("@")[2]
        return f"{address}.cpu{list_of(host.cpus).replace(',', '.')}" if host.cpus else address

    return {host.name: name(host) for host in hosts}
