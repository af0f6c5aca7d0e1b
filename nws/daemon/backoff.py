"""Pauses after the server did not answer, or refused; each kind of failure is reported once, not at every attempt.

Pauses double during an outage, up to a minute, each drawn at random from its upper half so that many sensors do not
return at once. Errors that only an administrator can fix (a token, a key, a name) are retried once a minute. A retry
time named by the server is used. Nothing here contacts a server.
"""

import random
from collections.abc import Callable

from nws.base.errors import (
    Forbidden,
    NameTaken,
    ProbeError,
    ServiceError,
    StoreError,
    Unauthorized,
    WeatherError,
)

LONGEST_S = 60.0
REFUSED_S = 60.0
LONGEST_RETRY_AFTER_S = 300.0


class Backoff:
    """Consecutive failures. say : receives a line for the first of each kind, and at the end."""

    def __init__(self, say: Callable[[str], None], dice: random.Random) -> None:
        self._say, self._dice = say, dice
        self._failures = 0
        self._reported: str | None = None

    def pause_s(self, error: WeatherError, period_s: float) -> float:
        """Return seconds until the next attempt after this failure; `period_s` is between attempts that succeed."""
        self._failures += 1
        kind, advice = _described(error)
        if kind != self._reported:
            self._reported = kind
            self._say(f"server: {error}{advice}")
        if isinstance(error, Unauthorized | Forbidden | NameTaken):
            return REFUSED_S
        longest = min(period_s * 2.0 ** min(self._failures - 1, 30), max(LONGEST_S, period_s))
        pause = longest * self._dice.uniform(0.5, 1.0)
        named = error.retry_after_s if isinstance(error, ServiceError) else None
        return pause if named is None else max(pause, min(named, LONGEST_RETRY_AFTER_S))

    def over(self, waiting: int) -> None:
        """Record a successful attempt; `waiting` samples are left to deliver."""
        self._failures = 0
        if self._reported is not None:
            self._reported = None
            left = f"; {waiting} samples wait to be delivered" if waiting else ""
            self._say(f"server: answers again{left}")


def _described(error: WeatherError) -> tuple[str, str]:
    """Return the kind of failure, and the next step."""
    note = "; measurements are kept until it answers"
    if isinstance(error, Unauthorized | Forbidden):
        return (
            "refused",
            "\n  it does not accept this sensor's token or key: give it a token of the role `write` (--token-file, "
            "then SIGHUP); if the key is lost, run `nws forget` for this host"
            f"{note}, asked again every {REFUSED_S:.0f} s",
        )
    if isinstance(error, NameTaken):
        return (
            "name taken",
            "\n  if this is the same host, its key was lost: run `nws forget` for it; else choose another --host"
            f"{note}, asked again every {REFUSED_S:.0f} s",
        )
    if isinstance(error, StoreError):
        return "spool", ""
    if isinstance(error, ProbeError):
        return "address", note
    return f"{type(error).__name__}", note
