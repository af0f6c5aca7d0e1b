"""Asks all hosts of a pool at once whether they can take part, each over one ssh connection, within a time limit.

What is asked and how answers are judged stands in `apples.remote.facts`; here it meets processes and the clock. Which
hosts are left for a plan is for the caller to decide.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from apples.remote import facts
from apples.remote.conversation import HostCheckError, HostConnection
from apples.remote.facts import HostFacts, Needs

Given = TypeVar("Given")
Found = TypeVar("Found")

#: Seconds a host may take for its check, connection included.
LIMIT_S = 20.0
#: Connections that are made at the same time.
AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host to be asked: its name in the pool, and what ssh is told, None for this machine.

    through : words before a command that run it there instead of ssh, none for ssh
    """

    name: str
    address: str | None
    through: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A host that was asked.

    facts : what it told, None where it did not answer.  problems : why it cannot take part, none when it can
    """

    candidate: Candidate
    facts: HostFacts | None = None
    problems: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)

    @property
    def fit(self) -> bool:
        """Whether it can take part."""
        return self.facts is not None and not self.problems

    @property
    def reason(self) -> str:
        """All that is wrong, in one line."""
        return "; ".join(self.problems)


def check(candidates: Sequence[Candidate], needs: Needs, *, limit_s: float = LIMIT_S) -> tuple[Checked, ...]:
    """Every host with what it told, in the order given; raises `ProgramNotFound` where there is no ssh."""
    with asked(candidates, needs, limit_s=limit_s) as found:
        return tuple(checked for checked, _ in found)


@contextmanager
def asked(
    candidates: Sequence[Candidate], needs: Needs, *, limit_s: float = LIMIT_S
) -> Iterator[list[tuple[Checked, HostConnection]]]:
    """The same, with the conversations still open for orders; they are closed at the end, whatever happens."""
    conversations = []
    try:
        for candidate in candidates:
            conversations.append(HostConnection(candidate.address, facts.request(needs), candidate.through))
        pairs = list(zip(candidates, conversations, strict=True))
        checked = together(
            lambda pair: _check(*pair, needs, limit_s), pairs, stop=lambda pair: pair[1].stop()
        )
        yield list(zip(_duplicates_told(checked), conversations, strict=True))
    finally:
        together(HostConnection.close, conversations)


def together(
    work: Callable[[Given], Found], items: Sequence[Given], *, stop: Callable[[Given], None] | None = None
) -> list[Found]:
    """The work on all items at once, results in their order.

    stop : makes the work on one item end soon; called for all when this is interrupted
    """
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=min(len(items), AT_ONCE)) as pool:
        try:
            return list(pool.map(work, items))
        except BaseException:
            for item in items if stop is not None else ():
                assert stop is not None
                stop(item)
            raise


def _check(candidate: Candidate, conversation: HostConnection, needs: Needs, limit_s: float) -> Checked:
    started = time.monotonic()
    try:
        answer = conversation.hear(limit_s)
        told = facts.parse(answer, time.time())
    except HostCheckError as trouble:
        return Checked(candidate=candidate, problems=(str(trouble),), took_s=time.monotonic() - started)
    except (KeyError, TypeError, ValueError) as error:
        why = f"gave an answer that cannot be understood ({type(error).__name__}: {error})"
        return Checked(candidate=candidate, problems=(why,), took_s=time.monotonic() - started)
    wrong = facts.problems(told, needs, addresses_of(candidate))
    return Checked(candidate=candidate, facts=told, problems=wrong, took_s=time.monotonic() - started)


def addresses_of(candidate: Candidate) -> tuple[str, ...]:
    """Numeric addresses that a host's name has here; none where only ssh's own configuration knows it."""
    if candidate.address is None:
        return ()
    name = candidate.address.rpartition("@")[2]
    try:
        return tuple(sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}))
    except OSError:
        return ()


def _duplicates_told(checked: Sequence[Checked]) -> list[Checked]:
    """A machine that answers under two names takes part once."""
    seen: dict[tuple[str, str], str] = {}
    found = []
    for one in checked:
        told, problems = one.facts, one.problems
        if told is not None and told.reached_at is not None:
            key = (told.name, told.reached_at)
            if key in seen:
                problems = (
                    *problems,
                    f"is the same machine as {seen[key]}; name it once, with as many slots",
                )
            seen.setdefault(key, one.candidate.name)
        found.append(replace(one, problems=problems))
    return found
