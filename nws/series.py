"""Series: one resource of one host, or of one ordered pair of hosts, in one fixed unit.

The other packages of the weather service exchange these records: sensors produce `Measurement`s, the store keeps them,
the forecasters return `Forecast`s. Nothing here measures, stores or predicts. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from nws.base.errors import UsageError

#: Names that hosts may have on a service, from any source.
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOST_NAME_LEGAL = "1 to 64 of A-Z a-z 0-9 . _ - that begin with a letter or digit"

_FORBIDDEN = set("@>,/\\ \t\n")
_EXTERNAL = re.compile(r"x\.[a-z0-9_.]{1,60}")


def is_host_name(name: str) -> bool:
    """Return whether a host may be called so on the service."""
    return HOST_NAME.fullmatch(name) is not None


class Resource(StrEnum):
    """The resources the weather service knows, each with its unit."""

    CPU_NEW = "cpu.new"
    """Share of one CPU that a process started now would get, 0..1."""
    CPU_RUNNING = "cpu.running"
    """Share of one CPU that a process already running gets, 0..1."""
    CPU_CAPACITY = "cpu.capacity"
    """CPUs that a group of new processes, one for each usable CPU, would get together."""
    MEMORY_FREE = "memory.free"
    """Bytes a new process can touch without paging."""
    LATENCY = "network.latency"
    """Seconds for one byte, one way: half of a 1-byte round trip."""
    BANDWIDTH = "network.bandwidth"
    """Bytes per second of a bulk transfer, latency taken off."""

    @property
    def unit(self) -> str:
        """Return unit of every value of a series of this resource."""
        return _UNITS[self]

    @property
    def is_pair(self) -> bool:
        """Return whether a series of this resource belongs to a pair of hosts."""
        return self in (Resource.LATENCY, Resource.BANDWIDTH)


_UNITS = {
    Resource.CPU_NEW: "CPU",
    Resource.CPU_RUNNING: "CPU",
    Resource.CPU_CAPACITY: "CPUs",
    Resource.MEMORY_FREE: "B",
    Resource.LATENCY: "s",
    Resource.BANDWIDTH: "B/s",
}


class External(str):
    """Resource of a series measured by another program: ``x.`` and up to 60 of a-z 0-9 _ and dot. It has no unit.

    Its series belong to a host or to a pair of hosts, as they are written: ``x.power@alpha``, ``x.hops@a>b``.
    Raises `UsageError` for any other name.
    """

    __slots__ = ()

    def __new__(cls, name: str) -> External:
        """Return checked when it is made."""
        if not _EXTERNAL.fullmatch(name):
            raise UsageError(
                f"{name!r} is not a resource from elsewhere: expected x. and 1 to 60 of a-z, 0-9, _ and dot"
            )
        return super().__new__(cls, name)

    @property
    def unit(self) -> str:
        """Return an empty unit: it is unknown."""
        return ""


_RESOURCES: dict[str, Resource] = {resource.value: resource for resource in Resource}


@dataclass(frozen=True, slots=True)
class Series:
    """Identity of a series; `str()` gives its name, `parse` takes it back. Series sort by name.

    >>> str(Series(Resource.LATENCY, "alpha", "beta"))
    'network.latency@alpha>beta'
    """

    resource: Resource | External
    host: str
    peer: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.resource, Resource) and self.resource.is_pair != (self.peer is not None):
            kind = "a pair of hosts" if self.resource.is_pair else "one host"
            raise UsageError(
                f"a series of {self.resource} belongs to {kind}; got {self.host!r}, {self.peer!r}"
            )
        for name in (self.host, self.peer):
            if name is not None and (not name or _FORBIDDEN & set(name)):
                raise UsageError(
                    f"{name!r} is not a host name: it is empty or has one of @ > , / \\ or a blank"
                )

    def __str__(self) -> str:
        pair = f">{self.peer}" if self.peer is not None else ""
        return f"{self.resource}@{self.host}{pair}"

    def __lt__(self, other: Series) -> bool:
        return str(self) < str(other)

    @property
    def is_pair(self) -> bool:
        """Return whether it belongs to an ordered pair of hosts."""
        return self.peer is not None

    @classmethod
    def parse(cls, name: str) -> Series:
        """Return the series of a name such as ``cpu.new@alpha``; raises `UsageError` with the legal forms."""
        resource, at, place = name.partition("@")
        if not at:
            raise UsageError(f"{name!r} is not a series name: expected RESOURCE@HOST or RESOURCE@FROM>TO")
        kind = _RESOURCES.get(resource) or _external(name, resource)
        host, arrow, peer = place.partition(">")
        return cls(kind, host, peer if arrow else None)


def _external(name: str, resource: str) -> External:
    legal = ", ".join(Resource)
    if not resource.startswith("x."):
        raise UsageError(
            f"{name!r}: unknown resource {resource!r}; legal are {legal}, and x.… for series from elsewhere"
        )
    try:
        return External(resource)
    except UsageError as error:
        raise UsageError(f"{name!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of one series. `t`: seconds since the epoch; `value`: in the series' unit."""

    series: Series
    t: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The battery's forecast of the next measurement of a series.

    value : forecast, in the series' unit
    mae, rmse : expected error of both kinds, same unit; NaN while only one sample is known
    method : predictor that answered, and its selector, for example ``median_21 (mae/50)``
    samples : measurements the battery has seen
    measured_at : time of the last of them, seconds since the epoch
    last : the last of them
    """

    value: float
    mae: float
    rmse: float
    method: str
    samples: int
    measured_at: float
    last: float
