"""Decides whether an outcome justifies another attempt, and without which hosts.

Pure, from an `Outcome` to the next step.

External causes may not recur: a lost host, a killed rank, a launcher that failed on one host. Failures of the
application itself would recur: an exit code, an abort, a segmentation fault. A time limit and an interrupt are the
user's own wish. Source: Wolski et al. 2000, §2.1 (the actuator asks for a new schedule).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from signal import SIGBUS, SIGHUP, SIGKILL, SIGPWR, SIGTERM, Signals

from apples.model.plan import Outcome, RankStatus

#: Signals sent from outside a program: by users, a shutdown, the kernel short of memory or of a file's pages.
OUTSIDE = frozenset({SIGHUP, SIGKILL, SIGTERM, SIGBUS, SIGPWR})

#: Exit codes of programs that end in good order on such a signal.
_IN_ORDER = frozenset(128 + number for number in (SIGHUP, SIGTERM))

_LAUNCHER_FAILED = 125


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The step after an attempt.

    again : whether to make another.  without : hosts to exclude, each with a predicate as the reason
    why : the cause, in a few words; without another attempt the reason for that, empty if obvious
    """

    again: bool
    why: str = ""
    without: Mapping[str, str] = field(default_factory=dict)


def what_next(outcome: Outcome, pool: Collection[str], *, failures: int, limit: int) -> Next:
    """Return the step after an attempt with this outcome.

    pool : hosts that could still be used when it began.  failures : failed attempts so far, this one included
    limit : most attempts in all
    """
    if outcome.ended == "adapted":
        why = "; ".join(f"{host} {how}" for host, how in outcome.lost.items())
        return Next(
            again=True,
            why=why or "the run was ended to go on with another plan",
            without=dict(outcome.lost),
        )
    if outcome.ended != "failed":
        return Next(again=False)
    found = _cause(outcome, pool)
    if not found.again or failures < limit:
        return found
    if limit == 1:
        # The user has not requested more.
        return Next(again=False)
    return Next(again=False, why=f"{found.why}; this was attempt {failures} of {limit}")


def _cause(outcome: Outcome, pool: Collection[str]) -> Next:
    if outcome.lost:
        why = "; ".join(f"{host} {how}" for host, how in outcome.lost.items())
        return Next(again=True, why=why, without=dict(outcome.lost))
    blamed = [status for status in outcome.statuses if status.to_blame]
    killed = {status.host: _killed(status) for status in blamed if _from_outside(status)}
    if killed:
        why = "; ".join(f"{host}: {how}" for host, how in killed.items())
        # A rank may be killed on the same host again, but a usable host is better than none.
        spare = set(pool) - killed.keys()
        suspects = {host: f"is where {how}" for host, how in killed.items()}
        return Next(again=True, why=why, without=suspects if spare else {})
    if blamed and all(status.exit_code in _IN_ORDER for status in blamed):
        return Next(again=True, why="the ranks were told from outside to end")
    if not blamed and outcome.exit_code == _LAUNCHER_FAILED and _all_started(outcome):
        return Next(again=True, why="the processes that start ranks were killed")
    return Next(again=False)


def _from_outside(status: RankStatus) -> bool:
    if status.signal is not None:
        return status.signal in OUTSIDE
    # Neither exit code nor signal: its supervisor is gone.
    return status.exit_code is None


def _killed(status: RankStatus) -> str:
    if status.signal is None:
        return f"rank {status.rank} vanished"
    return f"rank {status.rank} was killed by signal {status.signal} ({Signals(status.signal).name[3:]})"


def _all_started(outcome: Outcome) -> bool:
    return bool(outcome.statuses) and all(status.pid is not None for status in outcome.statuses)
