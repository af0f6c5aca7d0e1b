"""Processes as the kernel shows them, and the check of a registration: which processes may be touched at all.

A pid alone proves nothing: it may belong to any process, and to another one when a signal is sent. So the kernel names
the owner of the socket's other end. The process must belong to that user, and be the peer or a descendant of it. It is
held by a descriptor (pidfd) that was opened before all these checks. Paper: Yoo and Jette, section 2.2.3 (CMDREG,
CMDOUT).
"""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from apples.coscheduling.events import Process
from apples.daemons.ipc.peers import peer
from apples.errors import SharingError
from nws.base.oserrors import REASON, os_errors_as

if TYPE_CHECKING:
    from apples.daemons.exchanges import RegisterRequest

#: Limit of generations between the client and the registered process: a shell or two in practice.
_GENERATIONS = 16
#: A line of 52 numbers, bytes.
_LONGEST_STAT = 2048
#: Words of a command line that name a program, and bytes of it that are read.
_WORDS, _LONGEST_COMMAND = 3, 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class RegistrationRefused(SharingError):
    """A registration that is refused; the message is the answer to the client."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One line of /proc. `state`: R, S, D, T (stopped), Z …; `started`: ticks since boot; `cpu_s` with its threads."""

    state: str
    parent: int
    group: int
    started: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRegistration:
    """One registered process.

    uid : its owner.  started : ticks since boot, a value that no later process with the same pid has
    page : path of its monitor page, None without one.  program : its name on the command line, None if unknown
    """

    process: Process
    ranks: int
    pid: int
    uid: int
    started: int
    page: str | None = None
    program: str | None = None


def facts(pid: int) -> Facts | None:
    """Return the state of a process from /proc; None if it has ended."""
    try:
        # Without a file object, which would cost as much as all the rest: this is done for every process every second.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(fd, _LONGEST_STAT)
        finally:
            os.close(fd)
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    fields = line.rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return Facts(
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        started=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
    )


def owner(pid: int) -> int | None:
    """Return the real user of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                # The first number is the real user: that of the person, also of a set-user-ID program.
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None


def threads(pid: int) -> list[int]:
    """Return the thread ids of a process; empty if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def group_members(group: int) -> list[int]:
    """Return the processes of a process group other than its leader."""
    # The kernel has no list of a group's members.
    processes = [(int(name), facts(int(name))) for name in os.listdir("/proc") if name.isdecimal()]
    return [pid for pid, about in processes if about is not None and about.group == group != pid]


def program_of(pid: int) -> str | None:
    """Return the words that name the program of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_LONGEST_COMMAND).decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    named = takewhile(lambda word: word and not word.startswith("-"), words[:_WORDS])
    return " ".join(named) or None


def alive(pidfd: int) -> bool:
    """Return whether the process of a descriptor is alive."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def check(request: RegisterRequest, connection: socket.socket) -> tuple[ProcessRegistration, int]:
    """Return a valid registration and the descriptor of its process; raises `RegistrationRefused`."""
    peer_pid, uid = peer(connection)
    pid = peer_pid if request.pid is None else request.pid
    me = os.geteuid()
    if me not in (0, uid):
        raise RegistrationRefused(
            f"process {pid} belongs to user {uid}; this node manager runs as user {me} and touches only that user's"
        )
    with os_errors_as(RegistrationRefused, f"there is no process {pid} here ({REASON})"):
        pidfd = os.pidfd_open(pid)
    try:
        # Looked at while the descriptor holds it: if it lives afterwards, all of this was about the same process.
        # Both are read by number while `pidfd` is held.
        about, whose = facts(pid), owner(pid)
        if whose != uid or not _descends(pid, peer_pid):
            raise RegistrationRefused(
                f"process {pid} is neither the process that registers ({peer_pid}) nor started by it for the same user"
            )
        # Last: if it is alive now, its number was its own during all of the checks.
        if about is None or not alive(pidfd):
            raise RegistrationRefused(f"process {pid} has ended")
    except BaseException:
        os.close(pidfd)
        raise
    made = ProcessRegistration(
        process=Process(request.job, request.rank),
        ranks=request.ranks,
        pid=pid,
        uid=uid,
        started=about.started,
        page=request.page,
        program=program_of(pid),
    )
    return made, pidfd


def adopt(registration: ProcessRegistration) -> int | None:
    """Return the descriptor of an earlier node manager's process; None if it has ended or may not be touched."""
    if os.geteuid() not in (0, registration.uid):
        return None
    try:
        pidfd = os.pidfd_open(registration.pid)
    except OSError:
        return None
    about = facts(registration.pid)
    # A later process with this number has started later.
    same = about is not None and about.started == registration.started
    if same and owner(registration.pid) == registration.uid and alive(pidfd):
        return pidfd
    os.close(pidfd)
    return None


def _descends(pid: int, ancestor: int) -> bool:
    # Bounded: parents change while they are followed.
    for _ in range(_GENERATIONS):
        if pid == ancestor:
            return True
        about = facts(pid)
        # A process whose parents have ended belongs to init, which is an ancestor of everything.
        if about is None or about.parent <= 1:
            return False
        pid = about.parent
    return False
