"""Checks all hosts of a pool at once, each over one ssh connection, within a time limit.

Requests and answers are defined in `apples.hosts.facts`; this module adds processes and the clock. The caller decides
which hosts remain for a plan.

A listener to which hosts connect during their check, as MPI's processes on them connect to the launcher later.

A host reached through a jump host can be called by ssh, but it may be unable to call back: its ranks would never start.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psutil
from msgspec import structs

from apples.hosts import facts
from apples.hosts.conversation import AgentConversation, together
from apples.hosts.facts import Needs
from apples.hosts.frames import ToAgent
from apples.hosts.hostmessages import (
    AskSurvey,
    Callback,
    HostCheckError,
    HostFacts,
    SurveyedAnswer,
    encoded,
    read,
)
from apples.hosts.travelling import CHECK, agent_program
from nws.base.closing import Closing
from nws.base.cpulist import overlaps

#: Seconds a host may take for its check, connection included.
LIMIT_S = 20.0

#: Seconds for new readings over an open connection.
SURVEY_S = 5.0

#: Range of ports that the user's MPI may listen on, as in `2000:2100`.
_RANGES = ("MPIEXEC_PORT_RANGE", "MPICH_PORT_RANGE", "I_MPI_PORT_RANGE")
_ANSWER_S = 2.0


class CallbackListener(Closing):
    """Answers every connection with a token; a context manager. Listens on all IPv4 interfaces."""

    def __init__(self) -> None:
        """Start listening; raises `OSError`."""
        self._token = secrets.token_hex(16)
        self._listener = _listening()
        self._thread = threading.Thread(target=self._answer, name="callback listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            # Wakes the thread; closing alone would not.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def request(self) -> Callback:
        """Return the part of a host's request that makes it connect here."""
        addresses = [
            entry.address
            for entries in psutil.net_if_addrs().values()
            for entry in entries
            if entry.family == socket.AF_INET and not entry.address.startswith("127.")
        ]
        return Callback(addresses=addresses, port=self._listener.getsockname()[1], token=self._token)

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                # A port scanner that reads nothing must not keep the hosts of this check waiting.
                connection.settimeout(_ANSWER_S)
                connection.sendall(self._token.encode())


def _listening() -> socket.socket:
    """Return a listener on a free port of the range that the user gives MPI, if any; raises `OSError`."""
    given = next((os.environ[name] for name in _RANGES if os.environ.get(name)), "")
    low, _, high = given.partition(":")
    # Port 0 lets the kernel choose.
    ports = range(int(low), int(high) + 1) if low.isdigit() and high.isdigit() else range(1)
    for port in ports:
        try:
            return socket.create_server(("", port), backlog=128)
        except OSError:
            continue
    raise OSError(f"no port of {given or 'this machine'} is free")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host to be checked: its name in the pool, and the destination for ssh, None for this machine.

    through : command prefix that replaces ssh, empty for ssh.  cpus : those that count, () for all
    """

    name: str
    address: str | None
    through: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A host that was checked.

    facts : its report, None if it did not answer.  problems : why it cannot take part, empty if it can
    """

    candidate: Candidate
    facts: HostFacts | None = None
    problems: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)

    @property
    def fit(self) -> bool:
        """Return whether it can take part."""
        return self.facts is not None and not self.problems

    @property
    def reason(self) -> str:
        """Return all problems in one line."""
        return "; ".join(self.problems)


def check(candidates: Sequence[Candidate], needs: Needs, *, limit_s: float = LIMIT_S) -> tuple[Checked, ...]:
    """Return every host with its facts, in the order of the arguments; raises `SshNotFound` without ssh."""
    with conversations_with(candidates, needs, limit_s=limit_s) as conversations:
        return tuple(checked for checked, _ in conversations)


@contextmanager
def conversations_with(
    candidates: Sequence[Candidate], needs: Needs, *, limit_s: float = LIMIT_S
) -> Iterator[list[tuple[Checked, AgentConversation]]]:
    """Return the same with the connections still open for orders; all are closed at the end, whatever happens."""
    connections: list[AgentConversation] = []
    program = agent_program(CHECK)
    over_ssh = [candidate.address is not None and not candidate.through for candidate in candidates]
    try:
        with CallbackListener() if any(over_ssh) else contextlib.nullcontext() as listener:
            for candidate, calls in zip(candidates, over_ssh, strict=True):
                request = facts.request(needs, listener.request() if listener and calls else None)
                opening = (ToAgent.CHECK, encoded(structs.replace(request, cpus=candidate.cpus)))
                # All are started before any is waited for.
                connections.append(
                    AgentConversation(candidate.address, opening, candidate.through, program=program)
                )
            pairs = list(zip(candidates, connections, strict=True))
            # In the listener's block: hosts call back during their check only.
            checked = together(
                lambda pair: _check(*pair, needs, limit_s), pairs, stop=lambda pair: pair[1].stop()
            )
        yield list(zip(_without_duplicates(checked), connections, strict=True))
    finally:
        # At once: each close may wait for half a second.
        together(AgentConversation.close, connections)


def surveyed_again(hosts: Sequence[tuple[Checked, AgentConversation]]) -> list[Checked]:
    """Return the hosts with new readings; without an answer a host keeps those of its check.

    `problems` has the reason if the new readings show one.
    """

    def one(host: tuple[Checked, AgentConversation]) -> Checked:
        checked, connection = host
        assert checked.facts is not None
        try:
            answer = connection.question(AskSurvey(), SurveyedAnswer, SURVEY_S)
        except HostCheckError:
            return checked
        report = structs.replace(checked.facts, survey=answer.survey, survey_error=answer.survey_error)
        return replace(checked, facts=report, problems=tuple(facts.survey_problems(report)))

    return together(one, hosts, stop=lambda host: host[1].stop())


def _check(candidate: Candidate, connection: AgentConversation, needs: Needs, limit_s: float) -> Checked:
    started = time.monotonic()
    try:
        answer: HostFacts = read(HostFacts, connection.answer(limit_s))
        report = structs.replace(answer, skew_s=answer.clock_s - time.time())
    except HostCheckError as trouble:
        return Checked(candidate=candidate, problems=(str(trouble),), took_s=time.monotonic() - started)
    wrong = facts.problems(report, needs, addresses_of(candidate))
    return Checked(candidate=candidate, facts=report, problems=wrong, took_s=time.monotonic() - started)


def addresses_of(candidate: Candidate) -> tuple[str, ...]:
    """Return the numeric addresses of a host's name on this machine; none if only ssh's own configuration knows it."""
    if candidate.address is None:
        return ()
    # Destinations of ssh may name a user.
    name = candidate.address.rpartition("@")[2]
    try:
        return tuple(sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}))
    except OSError:
        return ()


def _without_duplicates(checked: Sequence[Checked]) -> list[Checked]:
    """Return the hosts with a problem added to each that is the same machine as an earlier one."""
    seen: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}
    unique = []
    for one in checked:
        report, problems = one.facts, one.problems
        if report is not None and report.reached_at is not None:
            # Both: containers on one machine share its address, and cloned machines a name.
            same = seen.setdefault((report.name, report.reached_at), {})
            if overlaps({**same, one.candidate.name: one.candidate.cpus}):
                text = f"is the same machine as {next(iter(same))}; name it once, with as many slots, "
                problems = (*problems, text + "or give each CPUs of its own (cpus: 0-3)")
            else:
                same[one.candidate.name] = one.candidate.cpus
        # The first of equal hosts stays: its name is the one that the user gave first.
        unique.append(replace(one, problems=problems))
    return unique
