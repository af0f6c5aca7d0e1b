"""Quantities with units in configuration files: one parser, one list of units.

A quantity is a number in the base unit (seconds, bytes, bytes per second) or a number with a unit: ``0.5ms``,
``100Mbit/s``, ``1.5GiB``. Decimal prefixes are powers of 1000, ``Ki Mi Gi`` powers of 1024; ``bit`` is an eighth of
``B``. Units are case-sensitive (``Mbit/s`` is not ``mbit/s``). Files are not known here; `Quantity` is an
annotation, so that a bad quantity is reported by `nws.base.reader` with file and line.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from nws.base.errors import ConfigError

T = TypeVar("T")

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*)?")


class Parsed:
    """An annotation of a type with values that `parse` reads; it raises `ValueError`."""

    def parse(self, value: Any) -> Any:
        """Return the value as the type."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class ReadFrom:
    """An annotation of a type that `make` makes from an entry of the file; each problem of a `ConfigError` is reported.

    entry : type of the entry.  named : its problems begin with the name of the record, which file and line say as well
    """

    make: Callable[[Any], Any] = lambda entry: entry
    entry: Any = str
    named: bool = False

    def made(self, read: Callable[[], Any]) -> Any:
        """Return the result of `make` for the entry read; raises `ValueError` with the problems as lines."""
        try:
            return self.make(read())
        except ConfigError as error:
            lines = (line.partition(": ")[2] if self.named else line for line in error.problems)
            raise ValueError("\n".join(lines)) from error


def without_units(cls: type[T]) -> type[T]:
    """Make the keys of a dataclass in a file its fields' names without the unit at the end: `every` for `every_s`."""
    _WITHOUT_UNITS.add(cls)
    return cls


_WITHOUT_UNITS: set[type] = set()


def key_of(kind: type, field: str) -> str:
    """Return the key of a dataclass's field in a file."""
    if kind not in _WITHOUT_UNITS:
        return field
    return field.removesuffix("_s").removesuffix("_bytes").removesuffix("_Bps")


# Compared by identity, because annotations must be hashable.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantity(Parsed):
    """A kind of quantity: its name, its units with their size in the base unit, and its range.

    base : unit of a number without one.  zero : whether zero is legal (negative never is)
    example : a legal value, for messages
    """

    name: str
    base: str
    units: Mapping[str, float]
    example: str
    zero: bool = False

    def parse(self, value: object) -> float:
        """Return `value` in the base unit; raises `ValueError` with the legal forms."""
        number, factor = self._split(value)
        amount = number * factor
        if not math.isfinite(amount):
            raise ValueError(f"{self.name} must be finite; got {value}")
        if amount < 0 or (amount == 0 and not self.zero):
            legal = "0 or more" if self.zero else "more than 0"
            raise ValueError(f"{self.name} must be {legal}; got {value}")
        return amount

    def _split(self, value: object) -> tuple[float, float]:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value), 1.0
        match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"{value!r} is not a {self.name}; {self._legal()}")
        number, unit = match.groups()
        if unit is None:
            return float(number), 1.0
        if unit not in self.units:
            near = difflib.get_close_matches(unit, self.units, n=1, cutoff=0.6)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(f"{value!r}: {unit!r} is not a unit of {self.name}{hint}; {self._legal()}")
        return float(number), self.units[unit]

    def _legal(self) -> str:
        return (
            f"legal are a number of {self.base} or one with {', '.join(self.units)}, such as {self.example}"
        )


_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_BYTES = {
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
_BITS = {"bit": 0.125, "kbit": 125.0, "Mbit": 1.25e5, "Gbit": 1.25e8}

LATENCY = Quantity(name="latency", base="seconds", units=_TIMES, example="0.5ms", zero=True)
SECONDS = Quantity(name="time", base="seconds", units=_TIMES, example="195ms")
BANDWIDTH = Quantity(
    name="bandwidth",
    base="bytes per second",
    units={f"{unit}/s": size for unit, size in (_BITS | _BYTES).items()},
    example="100Mbit/s",
)
MEMORY = Quantity(name="memory size", base="bytes", units=_BYTES, example="256MB")
AMOUNT = Quantity(name="amount of data", base="bytes", units=_BYTES, example="19.2MB", zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """An annotation of a number, or of a list or mapping by its length: its bounds.

    ge, gt : the value is at least, or more.  le, lt : at most, or less.  least_length : entries at least
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    least_length: int = 0

    def problem(self, value: Any) -> str | None:
        """Return the bound that the value does not meet, as text; None if it is within all."""
        if self.least_length:
            return None if len(value) >= self.least_length else f"of {self.least_length} entry at least"
        if self.ge is not None and not value >= self.ge:
            return f"greater than or equal to {self.ge}"
        if self.gt is not None and not value > self.gt:
            return f"greater than {self.gt}"
        if self.le is not None and not value <= self.le:
            return f"less than or equal to {self.le}"
        if self.lt is not None and not value < self.lt:
            return f"less than {self.lt}"
        return None


Loss = Annotated[float, Within(ge=0, lt=1)]
"""Share of packets lost, 0 or more and less than 1."""
Time_s = Annotated[float, SECONDS]
"""Seconds, more than 0; `100ms` in a file."""
TimeOrZero_s = Annotated[float, replace(SECONDS, zero=True)]
"""Seconds, 0 or more."""
Latency_s = Annotated[float, LATENCY]
"""Seconds, 0 or more."""
Bandwidth_Bps = Annotated[float, BANDWIDTH]
"""Bytes per second, more than 0."""
Memory_bytes = Annotated[float, MEMORY]
"""Bytes, more than 0."""
Amount_bytes = Annotated[float, AMOUNT]
"""Bytes, 0 or more."""


Count = Annotated[int, Within(ge=1)]
"""A whole number, 1 or more."""
