"""What a testbed file asks for, checked. Nothing is made here.

Units are spelled as `tc` and people do: `10mbit`, `10ms`, `256M`. Every problem of a file is told at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from .errors import TestbedError

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_RATE = re.compile(r"([\d.]+)\s*([kmg]?)bit")
_SIZE = re.compile(r"([\d.]+)\s*([KMG]?)(?:i?B)?")
_TIME = re.compile(r"([\d.]+)\s*(s|ms|us)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """One host.

    cpu : share of one CPU, 1 for all of it.  cpuset : the CPU it is pinned to, None for the emptiest
    memory_bytes : limit on all it holds.  rate_bps, delay_s : of its own link, each way; None and 0 for neither
    loss : share of the frames that a link with a delay loses
    login : whether its sshd accepts the testbed's key.  clock : time its sessions see, as faketime spells it (`+1h`)
    own_name : address its own name has in its own /etc/hosts, None for the true one
    known : whether clients know its host key.  private : directories that no other host sees, empty at the start
    python : interpreter that is its `python3`, None for the machine's
    """

    name: str
    number: int
    site: str
    address: str
    cpu: float = 1.0
    cpuset: int = 0
    memory_bytes: int = 1 << 30
    rate_bps: int | None = None
    delay_s: float = 0.0
    loss: float = 0.0
    login: bool = True
    clock: str | None = None
    own_name: str | None = None
    known: bool = True
    private: tuple[str, ...] = ()
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec:
    """Hosts that are near each other, and their link to the other sites."""

    name: str
    number: int
    rate_bps: int | None = None
    delay_s: float = 0.0
    loss: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A whole testbed; its name tells it from others on the machine."""

    name: str
    hosts: tuple[HostSpec, ...]
    sites: tuple[SiteSpec, ...]
    file: str = ""
    crowded: tuple[str, ...] = field(default=())

    def host(self, name: str) -> HostSpec:
        """Host of that name; raises `TestbedError` saying which there are."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise TestbedError(f"no host {name!r}; there are {', '.join(h.name for h in self.hosts)}")


def rate(value: object) -> int:
    """Bits per second of `10mbit`."""
    match = _RATE.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is no rate; legal are 10mbit, 500kbit, 1gbit")
    return int(float(match[1]) * 1000 ** " kmg".index(match[2] or " "))


def size(value: object) -> int:
    """Bytes of `256M`."""
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is no amount of memory; legal are 256M, 1G, 500000")
    return int(float(match[1]) * 1024 ** " KMG".index(match[2] or " "))


def delay(value: object) -> float:
    """Seconds of `10ms`; 0 for none."""
    match = _TIME.fullmatch("0s" if value == 0 else str(value))
    if match is None:
        raise ValueError(f"{value!r} is no delay; legal are 10ms, 0.5s, 200us, 0")
    return float(match[1]) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[match[2]]


def share(value: object) -> float:
    """Share of one CPU."""
    if isinstance(value, bool) or not 0.01 <= float(str(value)) <= 1.0:
        raise ValueError(f"{value!r} is no share of a CPU; legal are 0.01 to 1")
    return float(str(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


#: Key of the file → field of the record and how it is read.
READERS: dict[str, tuple[str, Any]] = {
    "cpu": ("cpu", share),
    "cpuset": ("cpuset", int),
    "memory": ("memory_bytes", size),
    "rate": ("rate_bps", rate),
    "delay": ("delay_s", delay),
    "loss": ("loss", float),
    "login": ("login", _flag),
    "clock": ("clock", str),
    "own_name": ("own_name", str),
    "known": ("known", _flag),
    "private": ("private", lambda value: tuple(map(str, value))),
    "python": ("python", str),
}


def load(path: Path | str) -> Spec:
    """The testbed of a file; raises `TestbedError` with every problem."""
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise TestbedError(f"{path}: cannot be read: {error}") from error
    return parse(document, file=str(path))


def parse(document: Any, *, file: str = "", cpus: int | None = None) -> Spec:
    """The testbed of a document; raises `TestbedError` with every problem."""
    if not isinstance(document, Mapping) or not document.get("hosts"):
        raise TestbedError(f"{file}: expected a mapping with `hosts`, and maybe name, defaults, sites")
    problems = [
        f"{key}: unknown key; legal are name, defaults, sites, hosts"
        for key in document.keys() - {"name", "defaults", "sites", "hosts"}
    ]
    name = str(document.get("name", "grid"))
    if not _NAME.fullmatch(name):
        problems.append(f"name: {name!r} must be small letters, digits and dashes, a letter first")
    declared = document.get("sites") or {"lan": {}}
    sites = [
        SiteSpec(
            name=site, number=i, **_read(entry or {}, ("rate", "delay", "loss"), f"sites.{site}", problems)
        )
        for i, (site, entry) in enumerate(declared.items())
    ]
    entries = [{"site": sites[0].name, **(document.get("defaults") or {}), **h} for h in document["hosts"]]
    hosts = []
    for number, entry in enumerate(entries, start=1):
        where, own = f"hosts.{entry.get('name', number)}", dict(entry)
        host, site = str(own.pop("name", "")), str(own.pop("site"))
        if not _NAME.fullmatch(host) or host in {h.name for h in hosts} or number > 200:
            problems.append(f"{where}: a host needs a name of its own, small letters, digits and dashes")
        place = {s.name: s.number for s in sites}.get(site)
        if place is None:
            problems.append(f"{where}: no site {site!r}; there are {', '.join(s.name for s in sites)}")
        values = _read(own, tuple(READERS), where, problems)
        values.setdefault("cpuset", -1)
        address = f"10.77.{place or 0}.{number + 10}"
        hosts.append(HostSpec(name=host, number=number, site=site, address=address, **values))
    if problems:
        raise TestbedError("\n".join(f"{file}: {problem}" for problem in problems))
    pinned, crowded = _pinned(hosts, cpus or os.cpu_count() or 1)
    return Spec(name=name, hosts=pinned, sites=tuple(sites), file=file, crowded=crowded)


def _read(
    entry: Mapping[str, Any], legal: tuple[str, ...], where: str, problems: list[str]
) -> dict[str, Any]:
    values = {}
    for key, value in entry.items():
        if key not in legal:
            problems.append(f"{where}.{key}: unknown key; legal are {', '.join(legal)}")
            continue
        target, read = READERS[key]
        try:
            values[target] = read(value)
        except (TypeError, ValueError) as error:
            problems.append(f"{where}.{key}: {error}")
    return values


def _pinned(hosts: list[HostSpec], cpus: int) -> tuple[tuple[HostSpec, ...], tuple[str, ...]]:
    """Every host on one CPU, large shares first, each on the emptiest; and what is said of CPUs given away twice."""
    load = dict.fromkeys(range(cpus), 0.0)
    places = {}
    for host in sorted(hosts, key=lambda h: (h.cpuset < 0, -h.cpu)):
        cpu = host.cpuset if host.cpuset >= 0 else min(load, key=lambda c: (load[c], c))
        load[cpu] = load.get(cpu, 0.0) + host.cpu
        places[host.name] = cpu
    pinned = tuple(
        HostSpec(**{f.name: getattr(h, f.name) for f in fields(h)} | {"cpuset": places[h.name]})
        for h in hosts
    )
    crowded = tuple(
        f"the shares on CPU {cpu} add up to {total:.2f}" for cpu, total in load.items() if total > 1.0
    )
    return pinned, crowded
