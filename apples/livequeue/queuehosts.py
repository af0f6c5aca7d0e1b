"""Placement of a job on hosts: the machine as hosts with slots, shared in space.

The queue only counts processors. A job that starts gets processors of one host if one has enough free ones: of the host
that is left with the fewest. Otherwise it gets those of as few hosts as possible. The result is a function of the free
slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apples.errors import ConfigError

if TYPE_CHECKING:
    from nws.base.hostlist import HostSlots

HOSTS_VARIABLE = "APPLES_QUEUE_HOSTS"
"""Environment variable with the processors of a job by host, as `listed` writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Hosts of one queue.

    slots: processors by host, preferred hosts first.
    here: name of the manager's host, on which jobs start.
    cpus: CPUs of that host that jobs may use.
    """

    slots: Mapping[str, int]
    here: str = ""
    cpus: tuple[int, ...] = ()

    @property
    def processors(self) -> int:
        """Return the processors of all hosts."""
        return sum(self.slots.values())

    def share(self, taken: Iterable[Mapping[str, int]], procs: int) -> dict[str, int]:
        """Return the processors by host for one job.

        Args:
            taken: processors by host of each running job.
            procs: processors of the job.

        Returns:
            Processors by host, or an empty mapping if not enough are free.
        """
        free = dict(self.slots)
        for used in taken:
            for host in used.keys() & free.keys():
                free[host] -= used[host]
        enough = [host for host in free if free[host] >= procs]
        if enough:
            return {min(enough, key=lambda host: free[host]): procs}
        given: dict[str, int] = {}
        for host in sorted(free, key=lambda host: -free[host]):
            part = min(free[host], procs)
            if part > 0:
                given[host] = part
                procs -= part
        return {host: given[host] for host in free if host in given} if procs == 0 else {}

    def cpus_for(
        self, hosts: Mapping[str, int], taken: Iterable[Sequence[int]], affinity: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the CPUs of this host for one job: as many as its processors here, the least used ones.

        Args:
            hosts: processors of the job by host.
            taken: CPUs of each running job.
            affinity: CPUs to choose from, if the machine has one of them.

        Returns:
            CPU numbers, or none if the job has no processors of this host.
        """
        jobs = Counter(cpu for cpus in taken for cpu in cpus)
        allowed = [cpu for cpu in self.cpus if cpu in affinity] or list(self.cpus)
        least_used = sorted(allowed, key=lambda cpu: (jobs[cpu], cpu))
        return tuple(sorted(least_used[: hosts.get(self.here, 0)]))


def machine_of(hosts: Iterable[HostSlots], *, here: str = "", cpus: Sequence[int] = ()) -> Machine:
    """Return the machine of a host list; raise `ConfigError`. A host without slots has one processor."""
    hosts = tuple(hosts)
    if named := [host.address for host in hosts if host.user is not None]:
        raise ConfigError(
            f"{', '.join(map(str, named))}: jobs of a queue reach hosts as their own users; write other names into "
            "each user's ~/.ssh/config"
        )
    slots = {host.name: host.slots or 1 for host in hosts}
    return Machine(slots=slots, here=here, cpus=tuple(cpus))


def listed(hosts: Mapping[str, int]) -> str:
    """Return ``alpha:4,beta:2``, the form of `mpiexec -hosts`, `mpirun --host` and `apples-run -H`."""
    return ",".join(f"{host}:{procs}" for host, procs in hosts.items())
