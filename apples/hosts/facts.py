"""The facts that a host reported in its check, and whether it can take part in a run. Pure.

A host can take part if it has the same versions of all software that a run starts, if the others can reach it by its
address, and if its clock, memory and disk suffice. All problems are reported at once.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from apples.hosts.hostmessages import Callback, CheckRequest, DiskAnswer, HostFacts
from nws.base.terminal import visible

PACKAGE = "apples-grid"

#: A clock that differs by more makes times of different hosts worthless.
MOST_SKEW_S = 5.0

#: A rank with its libraries takes about this much before it holds a single row.
LEAST_MEMORY_BYTES = 64e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The requirements of a run for every host.

    versions : distribution → version, as on this machine; empty for programs that need no installation
    files : must exist
    disk_bytes : path to be written → bytes it will take.  shared_memory_bytes : of /dev/shm for one rank
    tokens : path → name of a file beside it, which only hosts that share the directory see
    wished : paths of which the facts are wanted, but not required
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    disk_bytes: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    shared_memory_bytes: float = 0.0
    wished: tuple[str, ...] = ()


def request(needs: Needs, callback: Callback | None = None) -> CheckRequest:
    """Return the request of a check.

    Args:
        needs: of the run
        callback: our addresses, and the port and token of a listener; None for a host that need not call back
    """
    return CheckRequest(
        files=needs.files,
        callback=callback,
        disks={path: needs.tokens.get(path) for path in (*needs.disk_bytes, *needs.wished)},
    )


def problems(facts: HostFacts, needs: Needs, known_as: tuple[str, ...]) -> tuple[str, ...]:
    """Return the reasons why a host cannot take part, each a sentence without its subject; an empty tuple if it can.

    Args:
        known_as: numeric addresses to which its name resolves here
    """
    return (
        *_installed(facts, needs),
        *_named(facts, known_as),
        *_equipped(facts, needs),
    )


def holds(facts: HostFacts, path: str, size_bytes: float) -> bool:
    """Return whether a host can write `size_bytes` at `path`, in the same directory as this machine."""
    disk = facts.disks.get(path)
    return disk is not None and disk.shared and not _disk(disk, path, size_bytes, shared=True)


def distrust(facts: Mapping[str, HostFacts]) -> list[str]:
    """Return a sentence on each path that is not used on a host."""
    return [
        f"{host}: {visible(path)} is not used, as other users may replace it or a directory above; "
        "python3 and a temporary directory are. Run chmod go-w on them"
        for host, known in facts.items()
        for path in known.untrusted
    ]


def managed(facts: Mapping[str, HostFacts]) -> list[str]:
    """Return the hosts on which a node manager may run."""
    return [host for host, known in facts.items() if known.node_manager]


def _installed(facts: HostFacts, needs: Needs) -> list[str]:
    problems = not_installed(facts, needs.versions) if needs.versions else []
    if facts.missing:
        problems.append(f"lacks {', '.join(facts.missing)}; install the same at the same path there")
    return problems


def not_installed(facts: HostFacts, versions: Mapping[str, str]) -> list[str]:
    """Return the reasons why a host cannot run this package's own programs."""
    # The one problem that explains all others; a list of missing distributions would hide it.
    if PACKAGE not in facts.versions:
        return [
            f"has no {PACKAGE} ({versions.get(PACKAGE)} here), which this package's own applications need; install the "
            "same environment there (hosts need nothing for programs of your own)"
        ]
    problems = []
    for name, version in versions.items():
        has = facts.versions.get(name)
        if has is None:
            problems.append(f"has no {name} ({version} here); install the same environment there")
        elif has != version:
            problems.append(f"has {name} {has}, here it is {version}; install the same version there")
    for name in facts.versions.keys() - versions.keys():
        problems.append(
            f"has {name} {facts.versions[name]}, which is not installed here; MPI must be the same everywhere"
        )
    return problems


def _named(facts: HostFacts, known_as: tuple[str, ...]) -> list[str]:
    """Return the problems of names and addresses. Hosts that were not reached through a network have none."""
    # On one machine all names lead to it.
    if facts.reached_at is None or _loopback(facts.reached_at):
        return []
    problems = []
    if facts.called_back == ():
        problems.append(
            f"cannot connect to this machine (it came from {facts.reached_from} by ssh), and ranks must: a jump host "
            "(ProxyJump) passes on ssh only; start the run on a machine that it reaches, or open the firewall for "
            "the ports in MPIEXEC_PORT_RANGE"
        )
    # Debian writes the own name of a host into its /etc/hosts as 127.0.1.1.
    loopback = [address for address in known_as if _loopback(address)]
    if loopback:
        problems.append(
            f"has a name that resolves to {loopback[0]} here, which is this machine; correct /etc/hosts here"
        )
    host_addresses = {address for addresses in facts.interfaces.values() for address in addresses}
    if not facts.resolved:
        problems.append(
            f"cannot resolve its own name {facts.name}; add it to its /etc/hosts with {facts.reached_at}"
        )
    elif all(_loopback(address) for address in facts.resolved):
        problems.append(
            f"resolves its own name {facts.name} to {facts.resolved[0]}, where no other host reaches it; "
            f"give it {facts.reached_at} in its /etc/hosts"
        )
    # MPI listens at the address of its own name, where no other host could connect.
    elif host_addresses and not host_addresses.intersection(facts.resolved):
        problems.append(
            f"resolves its own name {facts.name} to {facts.resolved[0]}, which it does not have; "
            f"give it {facts.reached_at} in its /etc/hosts"
        )
    if host_addresses and facts.reached_at not in host_addresses:
        problems.append(
            f"was reached at {facts.reached_at}, which it does not have (address translation); "
            "ranks need addresses of their own"
        )
    return problems


def _equipped(facts: HostFacts, needs: Needs) -> list[str]:
    problems = []
    if abs(facts.skew_s) > MOST_SKEW_S:
        # Times of ranks on different hosts are compared, and records of the run sorted by them.
        way = "ahead of" if facts.skew_s > 0 else "behind"
        problems.append(
            f"has a clock {abs(facts.skew_s):.0f} s {way} ours, more than {MOST_SKEW_S:.0f} s; "
            "synchronise it (chrony, ntp)"
        )
    for path, size_bytes in needs.disk_bytes.items():
        disk = facts.disks.get(path)
        if disk is None:
            problems.append(f"did not report the directory of {path}")
        else:
            problems += _disk(disk, path, size_bytes, shared=path in needs.tokens)
    # Of one rank: how many ranks a host gets is not known before the plan.
    free = facts.shared_memory_bytes
    if free is None or free < needs.shared_memory_bytes:
        has = "no" if free is None else f"{free / 2**20:.1f} MiB in"
        problems.append(
            f"has {has} /dev/shm and a rank needs {needs.shared_memory_bytes / 2**20:.1f} MiB; "
            "mount a larger tmpfs there"
        )
    return [*problems, *survey_problems(facts)]


def survey_problems(facts: HostFacts) -> list[str]:
    """Return the reasons why a host cannot take part that its sensors show."""
    if facts.survey is None:
        return [f"cannot tell its CPU and memory ({facts.survey_error}); correct the installation there"]
    if facts.survey.memory_bytes < LEAST_MEMORY_BYTES:
        return [
            f"has {facts.survey.memory_bytes / 1e6:.0f} MB of memory left and a rank takes "
            f"{LEAST_MEMORY_BYTES / 1e6:.0f} MB before its first row; free some"
        ]
    return []


def _disk(disk: DiskAnswer, path: str, size_bytes: float, *, shared: bool) -> list[str]:
    directory = disk.directory
    if not disk.exists:
        return [
            f"has no directory {directory}, where {path} is written; make it on a file system that every host sees"
        ]
    # A checkpoint that each host has for itself cannot be read by another plan.
    if shared and not disk.shared:
        return [
            f"has another {directory} than this machine; put {path} on a file system that every host sees"
        ]
    if not disk.writable:
        return [f"may not write to {directory}, where {path} is written; change its permissions"]
    if disk.free_bytes < size_bytes:
        return [
            f"has {disk.free_bytes / 1e6:.0f} MB free in {directory} and {path} takes {size_bytes / 1e6:.0f} MB; "
            "free some, or put it elsewhere"
        ]
    return []


def _loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
