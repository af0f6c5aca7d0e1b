"""Which processors of which hosts a job gets: the machine as hosts with slots, shared out in space.

The queue counts processors; where they are is decided here, when a job starts: on one host if one has enough free, and
then on the one that is left with the fewest, else on as few hosts as will do. The same slots free give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apples.model.hostlist import HostSlots

HOSTS_VARIABLE = "APPLES_QUEUE_HOSTS"
"""Tells a job its processors by host, as `listed` writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """slots : processors by host, in the order in which hosts are preferred"""

    slots: Mapping[str, int]

    @property
    def processors(self) -> int:
        """Of all hosts."""
        return sum(self.slots.values())

    def share(self, taken: Iterable[Mapping[str, int]], procs: int) -> dict[str, int]:
        """Processors by host for a job of `procs`, beside those that others have; empty if so many are not free."""
        free = dict(self.slots)
        for others in taken:
            for host in others.keys() & free.keys():
                free[host] -= others[host]
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


def machine_of(hosts: Iterable[HostSlots]) -> Machine:
    """Hosts as people name them; one processor where they do not say."""
    return Machine(slots={host.name: host.slots or 1 for host in hosts})


def listed(hosts: Mapping[str, int]) -> str:
    """``alpha:4,beta:2``, which `mpiexec -hosts`, `mpirun --host` and `apples-run -H` read."""
    return ",".join(f"{host}:{procs}" for host, procs in hosts.items())
