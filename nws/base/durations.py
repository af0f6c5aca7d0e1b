"""Durations in the notations of users. Seconds inside, always.

Legal on input: `90` and `90s` (seconds), `15m`, `2h`, `1d`, sums such as `1h30m`, clocks `M:SS` and `H:MM:SS`, and
Slurm's days `D-HH`, `D-HH:MM` and `D-HH:MM:SS`. A unit or a clock's last field may have decimals. `Duration_s` and
`Period_s` are annotations, so that `nws.base.reader` reports a bad duration with file and line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated

from nws.base.errors import ConfigError
from nws.base.quantities import Parsed

LEGAL = (
    "90, 90s, 15m, 2h, 1d, 1h30m, 5:00 (minutes:seconds), 1:30:00 (hours:minutes:seconds) "
    "or 1-12:00 (days-hours:minutes)"
)

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_UNITS = re.compile("".join(rf"(?:({_NUMBER})\s*{unit}\s*)?" for unit in _SECONDS), re.ASCII | re.IGNORECASE)
_DAYS = re.compile(rf"([0-9]+)-([0-9]+)(?::([0-9]+)(?::({_NUMBER}))?)?", re.ASCII)
_CLOCK = re.compile(rf"(?:([0-9]+):)?([0-9]+):({_NUMBER})", re.ASCII)


def parse_duration(text: str, *, what: str = "duration", number_s: float = 1.0) -> float:
    """Return the seconds in `text`; raises `ConfigError` that names `what` and lists the legal forms.

    number_s : seconds of a bare number; 60 in commands that stand for Slurm's

    >>> parse_duration("1:30:00"), parse_duration("15m"), parse_duration("90")
    (5400.0, 900.0, 90.0)
    """
    word = text.strip()
    if re.fullmatch(_NUMBER, word, re.ASCII):
        return float(word) * number_s
    if days := _DAYS.fullmatch(word):
        day, hours, minutes, seconds = (float(part or 0) for part in days.groups())
        if hours >= 24 or minutes >= 60 or seconds >= 60:
            raise ConfigError(
                f"{what} {text!r}: hours after days stay below 24, minutes and seconds below 60; legal are {LEGAL}"
            )
        return 86400.0 * day + 3600.0 * hours + 60.0 * minutes + seconds
    if clock := _CLOCK.fullmatch(word):
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        if seconds >= 60 or (clock[1] is not None and minutes >= 60):
            raise ConfigError(
                f"{what} {text!r}: minutes and seconds of a clock stay below 60; legal are {LEGAL}"
            )
        return 3600.0 * hours + 60.0 * minutes + seconds
    units = _UNITS.fullmatch(word)
    if not word or units is None:
        raise ConfigError(f"{what} {text!r} is not a span of time; legal are {LEGAL}")
    return sum(float(part or 0) * size for part, size in zip(units.groups(), _SECONDS.values(), strict=True))


def parse_period(text: str, *, what: str = "duration", number_s: float = 1.0) -> float:
    """Return the seconds in `text`, more than 0; raise `ConfigError`; see `parse_duration`."""
    seconds = parse_duration(text, what=what, number_s=number_s)
    if seconds <= 0:
        raise ConfigError(f"{what} {text}: expected more than 0 seconds")
    return seconds


def slurm_seconds(text: str) -> float:
    """Return a duration as Slurm prints it, bare numbers in minutes; inf for no limit, nan for other text."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    try:
        return parse_duration(text, number_s=60.0)
    except ConfigError:
        return math.nan


def format_seconds(seconds: float) -> str:
    """Return a duration as text, two units at most: `0.012 s`, `4.27 s`, `1 min 30 s`, `2 h`, `3 d 4 h`."""
    if seconds < 0:
        return f"-{format_seconds(-seconds)}"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole >= 3600:
        whole = 60 * round(seconds / 60)
    if whole >= 86400:
        whole = 3600 * round(seconds / 3600)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


# Compared by identity, because annotations must be hashable.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Duration(Parsed):
    """A span of time in a settings file: text as `parse_duration` reads it, or a number of seconds.

    zero : whether zero is legal
    """

    zero: bool = False

    def parse(self, value: object) -> float:
        """Return seconds; raises `ValueError` with the legal forms."""
        if isinstance(value, str):
            try:
                seconds = parse_duration(value, what="time")
            except ConfigError as error:
                raise ValueError(str(error)) from None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        else:
            raise ValueError(f"time {value!r} is not a span of time; legal are {LEGAL}")
        if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not self.zero):
            raise ValueError(f"time must be {'0 or more' if self.zero else 'more than 0'}; got {value}")
        return seconds


Duration_s = Annotated[float, Duration(zero=True)]
"""Seconds, 0 or more."""
Period_s = Annotated[float, Duration()]
"""Seconds, more than 0."""
