"""Control of one process: stop, resume, favour, limit, pin, and its CPU time.

Stopping is by signals, or by a freezer if control groups can be used; both stop whole process groups at once.
Favouring is niceness, which needs a right (CAP_SYS_NICE) to be undone: without it favouring does nothing, and the
status shows that. A strict limit is a quota of control groups; without them the node manager uses pulses.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from apples.daemons import cgroups
from apples.daemons.cgroups import Group, Hierarchy
from apples.daemons.processes import ProcessRegistration, alive, facts, group_members, threads
from apples.daemons.settings import Freezer
from apples.daemons.signalling import send
from apples.errors import SharingError

#: Nearly nine tenths of a processor against a process of niceness 0.
_FAVOURED_NICE = -10
_CAP_SYS_NICE = 23
_MOST_NICE = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Means that this node manager has.

    freezer, quota : hierarchies, None for signals.  nice : may favour.  cpus : CPUs to pin to, None for all
    """

    freezer: Hierarchy | None = None
    quota: Hierarchy | None = None
    nice: bool = False
    cpus: tuple[int, ...] | None = None

    def describe(self) -> dict[str, str]:
        """Return a text for each capability."""
        quota, stopping = self.quota, "SIGSTOP and SIGCONT to process groups"
        if self.freezer is not None:
            stopping = f"control groups version {self.freezer.version} below {self.freezer.root}"
        return {
            "stopping": stopping,
            "favouring": f"niceness {_FAVOURED_NICE}" if self.nice else "not done; needs CAP_SYS_NICE",
            "limiting": "short pulses by signals"
            if quota is None
            else f"quota of control groups version {quota.version} below {quota.root}",
            "pinning": "not done" if self.cpus is None else f"to CPU {','.join(map(str, self.cpus))}",
        }

    def control(self, registration: ProcessRegistration, pidfd: int) -> ProcessControl:
        """Return the control of a process, which is pinned."""
        return ProcessControl(registration, pidfd, self)


def find_capabilities(freezer: Freezer, *, limits: bool, cpus: Sequence[int] | None) -> Capabilities:
    """Return the capabilities here; raises `SharingError` if control groups are demanded and not usable.

    `limits` is True if the policy limits processes strictly.
    """
    frozen = quota = None
    if freezer != "signals":
        try:
            # By a test with a real process: delegation may be incomplete in many ways.
            frozen = cgroups.find("freezer")
        except SharingError:
            if freezer == "cgroup":
                raise
    if limits:
        with suppress(SharingError):
            quota = cgroups.find("cpu")
    nice = _may_renice()
    return Capabilities(freezer=frozen, quota=quota, nice=nice, cpus=None if cpus is None else tuple(cpus))


def pin(pid: int, cpus: Sequence[int]) -> dict[int, set[int]]:
    """Restrict all threads of a process to these CPUs; return the earlier CPUs of each thread.

    A thread that MPI has bound to some of these CPUs stays there. A thread that starts meanwhile inherits the value.
    """
    before: dict[int, set[int]] = {}
    seen: set[int] = set()
    # Threads that start between listing and pinning inherit the old CPUs, so the list is read until it is stable.
    while new := set(threads(pid)) - seen:
        for thread in new:
            with suppress(ProcessLookupError, PermissionError):
                before[thread] = os.sched_getaffinity(thread)
                # Affinity belongs to a thread, not to a process.
                os.sched_setaffinity(thread, _narrowed(before[thread], cpus))
        seen |= new
    return before


def unpin(pid: int, cpus: Sequence[int], before: dict[int, set[int]]) -> None:
    """Undo `pin` for threads that are still on these CPUs; later threads get the first thread's earlier value."""
    for thread in threads(pid):
        with suppress(ProcessLookupError, PermissionError):
            were = before.get(thread) or before.get(pid)
            # The program, or its user, may have bound the thread anew meanwhile.
            if were is not None and os.sched_getaffinity(thread) == _narrowed(were, cpus):
                os.sched_setaffinity(thread, were)


def _narrowed(were: set[int], cpus: Sequence[int]) -> set[int]:
    """Return those of a thread's CPUs that are among these, all of these if there are none."""
    return were.intersection(cpus) or set(cpus)


class ProcessControl:
    """Control of a process of this host. No method fails because the process has ended.

    Orders may be repeated: the caller asserts them again, because another program may have undone them.
    """

    def __init__(self, registration: ProcessRegistration, pidfd: int, capabilities: Capabilities) -> None:
        self._pid, self._pidfd, self._capabilities = registration.pid, pidfd, capabilities
        about = facts(registration.pid)
        # A process that shares its group with others that have not registered is stopped alone.
        self._group = self._pid if about is not None and about.group == self._pid else 0
        self._frozen = self._group_of(capabilities.freezer)
        self._limited: Group | None = None
        # Unknown: one that is taken over may have been favoured by a node manager that was killed.
        self._favoured: bool | None = None
        self._nice = self._steps = 0
        # Opened once: the descriptor stays bound to this process, also when its number is used again.
        self._schedule = _opened(f"/proc/{self._pid}/schedstat")
        self._were = (
            {} if capabilities.cpus is None or not alive(pidfd) else pin(self._pid, capabilities.cpus)
        )

    def stop(self) -> None:
        """Stop it and its group."""
        if self._frozen is not None:
            # The kernel freezes in the background: the process may run for some microseconds more.
            self._frozen.write(self._frozen.hierarchy.frozen)
        else:
            self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run, also if another program has stopped it."""
        if self._frozen is not None:
            # Thawing does not undo a SIGSTOP, and SIGCONT does not thaw: both are needed.
            self._frozen.write(self._frozen.hierarchy.free)
        self._send(signal.SIGCONT)

    def stopped(self) -> bool | None:
        """Return whether /proc or the freezer shows it as stopped; None if it has ended."""
        about = facts(self._pid)
        # A zombie has ended, though its number still exists.
        if about is None or about.state in "ZX":
            return None
        if self._frozen is None:
            return about.state == "T"
        # Version 1 has a third value between both, FREEZING.
        frozen = os.pread(self._frozen.fd, 16, 0).strip() != self._frozen.hierarchy.free
        return frozen or about.state == "T"

    def favour(self, on: bool) -> None:
        """Run it ahead of others on its processor, or like them again: the niceness of all its threads."""
        if on != self._favoured:
            self._weigh(on, self._steps)

    def renice(self, steps: int) -> None:
        """Raise its niceness by this many steps above its own, or restore it with 0; once it is not favoured."""
        if steps != self._steps:
            self._weigh(bool(self._favoured), steps)

    def _weigh(self, favoured: bool, steps: int) -> None:
        # Niceness is set by process id, which may belong to another process once this one has ended.
        if not self._capabilities.nice or not alive(self._pidfd):
            return
        unchanged = not self._favoured and self._steps == 0
        if unchanged and (favoured or steps):
            with suppress(ProcessLookupError):
                # Its own value, read before the first change: the user may have started it under `nice`.
                self._nice = os.getpriority(os.PRIO_PROCESS, self._pid)
        # An adopted process counts as favoured once, so that the niceness of an earlier node manager is undone.
        unknown = self._favoured is None and not favoured and not steps
        before = self._niceness(bool(self._favoured) or unknown, self._steps)
        self._favoured, self._steps = favoured, steps
        if (value := self._niceness(favoured, steps)) != before:
            self._set_nice(value, None if favoured else before)

    def _niceness(self, favoured: bool, steps: int) -> int:
        return _FAVOURED_NICE if favoured else min(self._nice + steps, _MOST_NICE)

    def _set_nice(self, value: int, only: int | None) -> None:
        """Set the niceness of all threads; with `only`, of those that have that one, as others got theirs elsewhere."""
        for thread in threads(self._pid):
            with suppress(ProcessLookupError, PermissionError):
                if only is None or os.getpriority(os.PRIO_PROCESS, thread) == only:
                    os.setpriority(os.PRIO_PROCESS, thread, value)
        # Where sessions are scheduled as groups, niceness within a group of one has no effect.
        with suppress(OSError), open(f"/proc/{self._pid}/autogroup", "wb", buffering=0) as file:
            file.write(str(value).encode())

    def limit(self, processors: float | None) -> bool:
        """Limit it to a number of processors, None for no limit; return False if the caller has to use pulses."""
        if self._capabilities.quota is None:
            return False
        if self._limited is None and processors is not None:
            # Made late: most processes are never limited, and each group costs a directory and a descriptor.
            self._limited = self._group_of(self._capabilities.quota)
            if self._limited is None:
                return False
        if self._limited is not None:
            self._limited.limit(processors)
        return True

    def cpu_s(self) -> float | None:
        """Return CPU seconds from /proc, in ticks of a hundredth of a second."""
        about = facts(self._pid)
        return None if about is None else about.cpu_s

    def ready_s(self) -> tuple[float, float] | None:
        """Return seconds for which its first thread has run, and has been in the run queue; None if unknown.

        The file of /proc stays open: this is done at each heartbeat.
        """
        if self._schedule is None:
            return None
        try:
            # `pread` from 0: the kernel writes the text anew for each read from the begin.
            ran_ns, queued_ns, _ = os.pread(self._schedule, 80, 0).split()
        except (OSError, ValueError):
            return None
        return int(ran_ns) * 1e-9, int(queued_ns) * 1e-9

    def guards(self) -> list[tuple[int, bytes]]:
        """Return descriptors for the watchdog, with the action for each: of its control groups and of itself."""
        groups = [g for g in (self._frozen, self._limited) if g is not None]
        return [
            # Groups first: a frozen process does not act on SIGCONT.
            *((g.fd, b"w" + g.hierarchy.free) for g in groups),
            (self._pidfd, b"s%d" % self._group),
        ]

    def close(self) -> None:
        """Undo everything that was set."""
        if alive(self._pidfd):
            self.resume()
            if self._favoured or self._steps:
                self._weigh(favoured=False, steps=0)
            if self._capabilities.cpus is not None:
                # The process may go on for hours without this node manager.
                unpin(self._pid, self._capabilities.cpus, self._were)
        for group in (self._frozen, self._limited):
            if group is not None:
                group.close()
        if self._schedule is not None:
            os.close(self._schedule)
        os.close(self._pidfd)

    def _group_of(self, hierarchy: Hierarchy | None) -> Group | None:
        if hierarchy is None:
            return None
        try:
            # Children that are there already do not come along by themselves.
            return Group(hierarchy, [self._pid, *(group_members(self._group) if self._group else ())])
        except OSError:
            # It has ended, or is in a group that it cannot be moved from: signals are used.
            return None

    def _send(self, number: signal.Signals) -> None:
        try:
            # By descriptor: between a look at a process id and a signal, the id may get another process.
            send(self._pidfd, number, self._group)
        except PermissionError:
            # It has taken another identity since: its new owner's business. (No `suppress`: this is most of a turn.)
            return


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _may_renice() -> bool:
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            words = dict(line.split(":", 1) for line in file)
        # By the capability: a test would change the niceness of a process.
        return bool(int(words["CapEff"], 16) >> _CAP_SYS_NICE & 1)
    except (OSError, KeyError, ValueError):
        return False
