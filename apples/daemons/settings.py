"""Settings of both daemons: one file for the manager and all nodes, overridden by command-line options.

`load_settings` reads the file and reports all mistakes at once with file and line. A path in it is relative to it.
The legal range of each constant is the policy's own. docs/sharing-hosts.md explains the keys.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.messagedriven import MessageDrivenConstants
from apples.coscheduling.policies import POLICIES, CoschedulingConstants, PolicyKind, policy_kind
from apples.daemons.paths import ManagerAccess
from apples.errors import ConfigError
from nws.base.cpulist import list_of, parse_list
from nws.base.quantities import SECONDS, Count, ReadFrom, Time_s, without_units
from nws.base.reader import load_yaml, under
from nws.base.records import copied

Freezer = Literal["signals", "cgroup", "auto"]

DEFAULT_PORT = 7171
DEFAULT_LISTEN = f"127.0.0.1:{DEFAULT_PORT}"
#: Of the organisation-local scope, which routers do not pass on.
DEFAULT_GROUP = "239.192.71.71"
#: 224.0.0.1, for one, is all hosts of the network.
_PROTOCOLS = ipaddress.IPv4Network("224.0.0.0/24")

_FCS = FcsConstants()


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class FcsEntry:
    """`fcs`: `FcsConstants` without the time slice, which is that of all policies."""

    spin_s: Time_s = _FCS.spin_s
    cslots_min: Count = _FCS.cslots_min
    dc_thresh_s: Time_s = _FCS.dc_thresh_s
    cs_thresh_s: Time_s = _FCS.cs_thresh_s
    f_thresh_share: float = _FCS.f_thresh_share
    tslots_max: Count = _FCS.tslots_max


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """`limits`: of each user of a node manager, but for the one that runs it.

    connections : to the node manager.  processes, jobs : registered at the same time
    """

    connections: Count = 2048
    processes: Count = 1024
    jobs: Count = 512


def parse_address(text: str, *, what: str = "address") -> tuple[str, int]:
    """Return (host, port) of HOST:PORT, [IPV6]:PORT or HOST; raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    # A bare IPv6 address has colons, and no port.
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or any(c.isspace() for c in host) or not port.isascii() or not port.isdecimal():
        raise ConfigError(f"{what} {text!r}: expected HOST:PORT, for example {DEFAULT_LISTEN}")
    if int(port) > 65535:
        raise ConfigError(f"{what} {text!r}: ports end at 65535")
    return host, int(port)


def is_group(text: str) -> bool:
    """Return whether a text is an IPv4 multicast address outside the network's own protocols."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return address.is_multicast and address not in _PROTOCOLS


def _group_of_file(text: str) -> str:
    if not is_group(text):
        raise ConfigError(
            f"{text!r} is no multicast group; legal are 224.0.1.0 to 239.255.255.255, or null for none"
        )
    return text


Address = Annotated[tuple[str, int], ReadFrom(parse_address)]
"""Host and port; HOST:PORT in a file."""


@without_units
@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSettings:
    """Settings of both daemons.

    slice_s : time slice of policies with a manager
    mpl : limit of jobs of one user that share a processor, None for no limit
    listen : (host, port) of the manager.  manager : the same, as a node reaches it; None without one
    multicast : group for heartbeats, None to send to each node
    """

    policy: Annotated[PolicyKind, ReadFrom(policy_kind)] = POLICIES["fcs"]
    slice_s: Time_s = _FCS.slice_s
    mpl: Count | None = None
    listen: Address = ("127.0.0.1", DEFAULT_PORT)
    manager: Address | None = None
    key: Path | None = None
    multicast: Annotated[str, ReadFrom(_group_of_file)] | None = DEFAULT_GROUP
    freezer: Freezer = "signals"
    realtime: bool = True
    limits: UserLimits = field(default_factory=UserLimits)
    fcs: Annotated[FcsConstants, ReadFrom(partial(copied, FcsConstants), FcsEntry)] = _FCS
    message_driven: Annotated[MessageDrivenConstants, ReadFrom(entry=MessageDrivenConstants)] = field(
        default_factory=MessageDrivenConstants
    )

    @property
    def constants(self) -> CoschedulingConstants:
        """Constants of all policies."""
        return CoschedulingConstants(fcs=self.fcs, message_driven=self.message_driven)

    @property
    def rows(self) -> int | None:
        """Limit of matrix rows of one user: one if a user's jobs do not share processors."""
        return 1 if self.policy.exclusive else self.mpl

    def needed_key(self) -> Path:
        """Return the key file; raises `ConfigError` if none is named."""
        if self.key is None:
            raise ConfigError(
                "no key file; name the one that manager and nodes share with --key FILE (`apples manager "
                "--new-key FILE` makes one)"
            )
        return self.key

    def check_manager(self) -> None:
        """Raise `ConfigError` for a policy that has no manager."""
        if not self.policy.coordinated:
            legal = ", ".join(kind.name for kind in POLICIES.values() if kind.coordinated)
            raise ConfigError(f"policy {self.policy.name} needs no manager; legal with one are: {legal}")

    def check_node(self) -> None:
        """Raise `ConfigError` if the policy needs a manager and none is named."""
        if self.policy.coordinated and self.manager is None:
            others = ", ".join(kind.name for kind in POLICIES.values() if not kind.coordinated)
            raise ConfigError(
                f"policy {self.policy.name} needs a machine manager; name it with --manager HOST:PORT, or choose one "
                f"of: {others}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of one node manager.

    cpus : CPUs of the node, to which processes are pinned; None for all CPUs of this process, without pinning
    key : key of this node, None without a manager.  while_needed : end when no process is registered
    machine : the manager, for runs that have other hosts join it; None to keep its key to this node manager
    everybody : root's node manager serves all users, also at a socket outside the system's directory
    """

    name: str
    sharing: SharingSettings
    socket: Path
    cpus: tuple[int, ...] | None = None
    key: bytes | None = None
    while_needed: bool = False
    machine: ManagerAccess | None = None
    everybody: bool = False

    def __post_init__(self) -> None:
        if self.everybody and os.geteuid() != 0:
            raise ConfigError("--everybody: only root's node manager may touch processes of all users")

    @property
    def processors(self) -> int:
        """Number of processors of the node."""
        return len(self.cpus) if self.cpus is not None else len(os.sched_getaffinity(0))


def _group(text: str) -> str | None:
    if text == "none":
        return None
    if not is_group(text):
        raise ConfigError(f"--multicast {text}: legal are 224.0.1.0 to 239.255.255.255, or none")
    return text


def load_settings(path: Path | None) -> SharingSettings:
    """Return the settings of a file, or the default values; raises `ConfigError` with all problems."""
    if path is None:
        return SharingSettings()
    settings: SharingSettings = under(path.parent, load_yaml(path, SharingSettings))
    return replace(settings, fcs=replace(settings.fcs, slice_s=settings.slice_s))


def address_text(address: tuple[str, int]) -> str:
    """Return HOST:PORT or [IPV6]:PORT, as `parse_address` reads it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_time(text: str, *, what: str) -> float:
    """Return the seconds of a value like `100ms` or `2s`; raises `ConfigError`."""
    try:
        return SECONDS.parse(text)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from None


#: Options of the command line that are texts, in the order of their messages.
_READ: Mapping[str, Callable[[str], Any]] = {
    "policy": policy_kind,
    "listen": partial(parse_address, what="--listen"),
    "manager": partial(parse_address, what="--manager"),
    "multicast": _group,
    "slice_text": partial(parse_time, what="--slice"),
    "gmet": partial(parse_time, what="--gmet"),
}


def settings_of(config: Path | None, **options: Any) -> SharingSettings:
    """Return the settings of a file with options applied; raises `ConfigError` with all problems.

    options : those of `_READ`, mpl, key and freezer; None if not given
    """
    base = load_settings(config)
    problems: list[str] = []
    values = {name: value for name, value in options.items() if value is not None}
    for name in [name for name in _READ if name in values]:
        try:
            values[name] = _READ[name](values[name])
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    driven, slice_s = base.message_driven, values.pop("slice_text", None)
    gmet_s = values.pop("gmet", driven.gmet_s)
    settings = replace(base, **values, slice_s=base.slice_s if slice_s is None else slice_s)
    # Policies with time slices of their own have other ones in the file, which are longer.
    own_s = driven.slice_s if slice_s is None or not settings.policy.own_timer else slice_s
    return replace(
        settings,
        fcs=replace(base.fcs, slice_s=settings.slice_s),
        message_driven=replace(driven, slice_s=own_s, gmet_s=gmet_s),
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPU numbers of `0-3` or `0,2,5`; raises `ConfigError`, also for CPUs that may not be used."""
    legal = os.sched_getaffinity(0)
    try:
        cpus = parse_list(text)
    except ValueError as error:
        raise ConfigError(f"--cpus {text}: {error}") from None
    if unusable := set(cpus) - legal:
        raise ConfigError(
            f"--cpus {text}: CPU {list_of(unusable)} may not be used here; usable are {list_of(legal)}"
        )
    return cpus
