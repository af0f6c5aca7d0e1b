"""Series: one resource of one host, or of one ordered pair of hosts, in one fixed unit.

The other packages of the weather service exchange these records: sensors produce `Measurement`s, the store keeps them,
the forecasters return `Forecast`s. Nothing here measures, stores or predicts. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import ClassVar

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
    CPU_LIMIT = "cpu.limit"
    """CPUs that control groups leave to all processes there together. Hosts without a quota have no such series."""
    MEMORY_FREE = "memory.free"
    """Bytes a new process can touch without paging."""
    LATENCY = "network.latency"
    """Seconds for one byte, one way: half of a 1-byte round trip."""
    BANDWIDTH = "network.bandwidth"
    """Bytes per second of a bulk transfer, latency taken off."""
    LOSS = "network.loss"
    """Share of packets lost on the way, 0..1."""

    @property
    def unit(self) -> str:
        """Return unit of every value of a series of this resource."""
        return _UNITS[self]

    @property
    def most(self) -> float:
        """Return the largest possible value."""
        return 1.0 if self in (Resource.CPU_NEW, Resource.CPU_RUNNING, Resource.LOSS) else math.inf

    @property
    def least(self) -> float:
        """Return the smallest possible value."""
        return 0.0

    @property
    def is_pair(self) -> bool:
        """Return whether a series of this resource belongs to a pair of hosts."""
        return self in (Resource.LATENCY, Resource.BANDWIDTH, Resource.LOSS)


CPU = frozenset({Resource.CPU_NEW, Resource.CPU_CAPACITY})
"""Resources with the CPU shares that new processes get."""

_UNITS = {
    Resource.CPU_NEW: "CPU",
    Resource.CPU_RUNNING: "CPU",
    Resource.CPU_CAPACITY: "CPUs",
    Resource.CPU_LIMIT: "CPUs",
    Resource.MEMORY_FREE: "B",
    Resource.LATENCY: "s",
    Resource.BANDWIDTH: "B/s",
    Resource.LOSS: "",
}


class External(str):
    """Resource of a series measured by another program: ``x.`` and up to 60 of a-z 0-9 _ and dot. It has no unit.

    Its series belong to a host or to a pair of hosts, as they are written: ``x.power@alpha``, ``x.hops@a>b``.
    Raises `UsageError` for any other name.
    """

    __slots__ = ()

    unit: ClassVar[str] = ""
    #: The smallest and the largest possible value are unknown.
    least: ClassVar[float] = -math.inf
    most: ClassVar[float] = math.inf

    def __new__(cls, name: str) -> External:
        """Return checked when it is made."""
        if not _EXTERNAL.fullmatch(name):
            raise UsageError(
                f"{name!r} is not a resource from elsewhere: expected x. and 1 to 60 of a-z, 0-9, _ and dot"
            )
        return super().__new__(cls, name)


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
        if not isinstance(name, str):
            raise UsageError(f"{name!r} is not a series name, which is a text")
        resource, at, where = name.partition("@")
        if not at:
            raise UsageError(f"{name!r} is not a series name: expected RESOURCE@HOST or RESOURCE@FROM>TO")
        kind = _RESOURCES.get(resource) or _external(name, resource)
        host, arrow, peer = where.partition(">")
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


def resource_numbers(series: Iterable[Series]) -> list[int]:
    """Return a number for each series, equal for series of one resource."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(one.resource, len(numbers)) for one in series]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of one series. `t`: seconds since the epoch; `value`: in the series' unit."""

    series: Series
    t: float
    value: float


SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Shares of the quantiles of every outlook."""

HORIZONS_S = (10.0, 30.0, 120.0, 600.0, 3600.0, 14_400.0, 86_400.0)
"""Spans that clients ask for by default, seconds; outlooks for others are interpolated."""

SHORTEST_SPAN_S, LONGEST_SPAN_S = 1.0, 7 * 86_400.0
"""Bounds of the spans that a service answers, seconds."""

MOST_SPANS = 16
"""Maximum number of spans in one query."""

SCORES = tuple(NormalDist().inv_cdf(share) for share in SHARES)
"""Standard normal scores of `SHARES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Distribution of the mean of a series over the next `over_s` seconds.

    mean : expectation.  quantiles : at `SHARES`, never falling; above 0 if every measurement was
    held : share of past 80 % intervals that held; NaN if none was judged
    outcomes : past forecasts judged; with 0 the error is unknown, and the quantiles follow from other series of its
    kind, or are those of a broad prior
    variation : standard deviation of single measurements around the mean of such a span, as a share of that mean
    """

    over_s: float
    mean: float
    quantiles: tuple[float, ...]
    held: float = math.nan
    outcomes: float = 0.0
    variation: float = 0.0

    @property
    def median(self) -> float:
        """Return the value that is as likely exceeded as not."""
        return self.quantiles[SHARES.index(0.5)]

    @property
    def low(self) -> float:
        """Return the lower end of the 80 % interval."""
        return self.quantiles[SHARES.index(0.1)]

    @property
    def high(self) -> float:
        """Return the upper end of the 80 % interval."""
        return self.quantiles[SHARES.index(0.9)]

    def quantile(self, share: float) -> float:
        """Return the quantile of a share in (0, 1), interpolated in the normal score; the ends are extended."""
        score, q = NormalDist().inv_cdf(share), self.quantiles
        at = min(max(bisect_left(SCORES, score), 1), len(SCORES) - 1)
        part = (score - SCORES[at - 1]) / (SCORES[at] - SCORES[at - 1])
        if part < 0.0 < q[0]:
            return q[0] * math.exp(part * math.log(q[1] / q[0]))
        return q[at - 1] + part * (q[at] - q[at - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The battery's forecast of the next measurement of a series.

    value : forecast, in the series' unit
    mae, rmse : expected error of both kinds, same unit; NaN while only one sample is known
    method : predictor that answered, and its selector, for example ``median_21 (mae/50)``
    samples : measurements the battery has seen
    measured_at : time of the last of them, seconds since the epoch
    last : the last of them
    outlooks : distributions of means over spans from now, by rising length; empty if they were not asked for
    """

    value: float
    mae: float
    rmse: float
    method: str
    samples: int
    measured_at: float
    last: float
    outlooks: tuple[Outlook, ...] = ()

    def over(self, over_s: float) -> Outlook:
        """Return the distribution of the mean over the next `over_s` seconds.

        It is interpolated between the outlooks; beyond the ends, the nearest is returned. Without outlooks it follows
        from the value and its expected error, and with an unknown error it is broad.
        """
        return (
            outlook_over(self.outlooks, over_s) if self.outlooks else _outlook(self.value, self.rmse, over_s)
        )


def outlook_over(outlooks: Sequence[Outlook], over_s: float) -> Outlook:
    """Return the outlook over `over_s` seconds, interpolated between one or more outlooks by rising length."""
    at = bisect_left([one.over_s for one in outlooks], over_s)
    below, above = outlooks[max(at - 1, 0)], outlooks[min(at, len(outlooks) - 1)]
    if below.over_s == above.over_s:
        return above
    part = math.log(over_s / below.over_s) / math.log(above.over_s / below.over_s)

    def between(a: float, b: float) -> float:
        return a + part * (b - a)

    near = above if part > 0.5 else below
    return Outlook(
        over_s=over_s,
        mean=between(below.mean, above.mean),
        quantiles=tuple(map(between, below.quantiles, above.quantiles)),
        held=near.held,
        outcomes=near.outcomes,
        variation=between(below.variation, above.variation),
    )


def _outlook(value: float, rmse: float, over_s: float) -> Outlook:
    """Return an outlook from a value and its error; below a positive value the error is one of its logarithm."""
    error = rmse if math.isfinite(rmse) else abs(value)
    quantiles = tuple(
        value * math.exp(score * error / value) if score < 0.0 < value else value + score * error
        for score in SCORES
    )
    return Outlook(over_s=over_s, mean=value, quantiles=quantiles)
