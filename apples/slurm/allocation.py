"""Allocations: the enclosing one, or one that is made, waited for, held and released. Decides nothing about runs.

`salloc` makes it under a keep-alive (`apples.slurm.keepalive`), which releases it even if the launcher is
killed. While the job waits, changes of its state and expected start are reported. A wait that cannot end is an error
with Slurm's reason.

Options and environment of the Slurm platform: the allocation to request, the hosts allowed, the enclosing job.
"""

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from apples.errors import ConfigError, LaunchError, NoFeasiblePlan
from apples.hosts.hostagent import helper
from apples.model.grid import Grid
from apples.model.launchrequest import Notify
from apples.slurm import keepalive as allocationkeepalive, records, runner
from apples.slurm.commands import Shape, Wishes, salloc
from apples.slurm.meanings import RESERVED, WAITS, hopeless, meaning, reported_end
from apples.slurm.records import Job, Partition
from nws.base.closing import Closing
from nws.base.durations import parse_duration
from nws.base.hostlist import fold

_YES, _NO = ("yes", "true"), ("no", "false")
_NODES = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Values of the user and of the environment for a cluster.

    wishes : properties of the allocation.  grid : hosts of a grid file or a list, None for all nodes
    open_slots, open_types : hosts whose number of slots or CPU type Slurm must report
    job : number of the current allocation, None outside.  state : directory of stored links
    reads : check idle nodes in a short job before a run is planned
    """

    wishes: Wishes = field(default_factory=Wishes)
    grid: Grid | None = None
    open_slots: frozenset[str] = frozenset()
    open_types: frozenset[str] = frozenset()
    job: str | None = None
    state: Path
    reads: bool = True


def current_job() -> str | None:
    """Return the number of the Slurm allocation that this process runs in, None outside."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or None


def problems_in_allocation(given: Sequence[str]) -> list[str]:
    """Return a problem for each of these options of a new allocation, if this process is already in one."""
    job = current_job()
    return [
        f"--{name} is for a new allocation, but job {job} (SLURM_JOB_ID) is already allocated; leave it out, or "
        "unset SLURM_JOB_ID"
        for name in given
        if job is not None
    ]


def read_wishes(options: Mapping[str, str]) -> Wishes:
    """Return the allocation to request from Slurm; raise `ConfigError` with every problem."""
    problems: list[str] = []
    nodes, immediate_s = None, None
    if (asked := options.get("nodes")) is not None:
        match = _NODES.fullmatch(asked.strip())
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            problems.append(f"--nodes {asked}: expected MIN or MIN-MAX, for example 2 or 2-4")
        nodes = (least, most)
    if (immediate := options.get("immediate")) is not None:
        try:
            immediate_s = parse_duration(immediate, what="--immediate")
        except ConfigError as error:
            problems += error.problems
    for name in ("exclusive", "check"):
        if (value := options.get(name, "no")).lower() not in (*_YES, *_NO):
            legal = ", ".join((*_YES, *_NO))
            problems.append(f"--launcher-option {name}={value}: no legal value; legal are {legal}")
    names = {name: options.get(name) for name in ("partition", "account", "qos", "reservation", "constraint")}
    problems += [f"--{name}: expected a name, got nothing" for name, value in names.items() if value == ""]
    if problems:
        raise ConfigError(problems)
    return Wishes(
        nodes=nodes, exclusive=is_yes(options.get("exclusive", "no")), immediate_s=immediate_s, **names
    )


def is_yes(value: str) -> bool:
    """Return whether a legal value is a yes."""
    return value.lower() in _YES


def chosen(partitions: Mapping[str, Partition], name: str | None) -> Partition:
    """Return the requested partition, or the default one; raise `ConfigError`."""
    legal = ", ".join(partitions) or "none"
    if name is None:
        default = next((one for one in partitions.values() if one.default), None)
        if default is None:
            raise ConfigError(f"the cluster has no default partition; give one with --partition ({legal})")
        return default
    if name not in partitions:
        raise ConfigError(f"--partition {name}: there is no such partition; legal are {legal}")
    partition = partitions[name]
    if partition.state != "UP":
        raise NoFeasiblePlan(
            f"partition {name} is {partition.state} and starts no jobs; use another with --partition"
        )
    return partition


def running_job(text: str, number: str) -> records.Job:
    """Return the job of this allocation; raise `LaunchError` if it does not run."""
    job = records.parse_job(text, datetime.now())
    if job is None or job.state not in ("RUNNING", "COMPLETING"):
        state = "unknown to Slurm" if job is None else job.state
        raise LaunchError(
            f"job {number} (SLURM_JOB_ID) is {state}; run this inside an allocation, or unset SLURM_JOB_ID to make one"
        )
    return job


#: Seconds between looks at a job that waits, and until an allocation that was given back must be gone.
LOOK_S, GONE_S = 2.0, 15.0
#: Seconds a job that has ended may take to be cleared from its nodes before its record is read as it is.
CLEARED_S = 10.0

_PENDING = re.compile(r"^salloc: (?:Pending|Granted) job allocation (\d+)", re.MULTILINE)


class AllocationRefused(LaunchError):
    """Slurm does not allocate the hosts of the plan.

    unavailable : hosts that are not available any more; the plan is to be made without them
    """

    def __init__(self, text: str, unavailable: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.unavailable = dict(unavailable or {})


class Allocation(Closing):
    """Nodes that are allocated to this process; a context manager. This one is the launcher's own, and is not released.

    number : of the job.  left_s : seconds until its time limit, inf for none
    """

    def __init__(self, number: str, left_s: float) -> None:
        self.number, self.left_s = number, left_s

    def close(self) -> None:
        """Release the nodes if this process allocated them. Idempotent."""

    def revoked(self) -> bool:
        """Return whether Slurm is known to have ended the job before its nodes were released."""
        job = runner.job(self.number)
        return job is not None and job.state != "RUNNING"

    def fate(self) -> Job | None:
        """Return Slurm's record of the job, which explains its end; None if Slurm has none."""
        return runner.job(self.number)


class OwnAllocation(Allocation):
    """An allocation that is made on entry, which may take long, and released on exit, whatever happens."""

    def __init__(self, shape: Shape, wishes: Wishes, notify: Notify) -> None:
        super().__init__("", 60.0 * shape.minutes)
        self._shape, self._wishes, self._notify = shape, wishes, notify
        self._guard: subprocess.Popen[bytes] | None = None
        self._lifeline = self._answer = self._salloc = -1
        self._stderr = b""
        self._reported = ""

    def __enter__(self) -> Self:
        """Make it. Raises `AllocationRefused` with Slurm's reason, `ProgramNotFound` without Slurm."""
        try:
            self._start()
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def fate(self) -> Job | None:
        """See `Allocation.fate`. Messages of `salloc` count more than the controller's record at that moment."""
        state = reported_end(self._stderr.decode(errors="replace"))
        if state is not None:
            return Job(number=self.number, state=state)
        deadline = time.monotonic() + CLEARED_S
        job = runner.job(self.number)
        while job is not None and job.state == "COMPLETING" and time.monotonic() < deadline:
            # Slurm shows the reason when all nodes are cleared.
            time.sleep(LOOK_S / 4)
            job = runner.job(self.number)
        return job

    def close(self) -> None:
        """Release it and wait for that."""
        guard, self._guard = self._guard, None
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if guard is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(GONE_S)
        if guard.poll() is None:
            guard.kill()
            guard.wait()
        self._read_stderr(guard)
        if guard.returncode < 0 and self.number:
            # It was killed, perhaps with the job still in the queue. A job that is cancelled while its `salloc` gives
            # it back can leave that waiting for ever, so one comes after the other.
            if self._salloc >= 0:
                allocationkeepalive.end(self._salloc)
            runner.tried(["scancel", "--quiet", self.number])
        assert guard.stderr is not None
        guard.stderr.close()
        for fd in (self._answer, self._salloc):
            if fd >= 0:
                os.close(fd)
        self._answer = self._salloc = -1

    def _start(self) -> None:
        lifeline, self._lifeline = os.pipe()
        self._answer, answer = os.pipe()
        command = salloc(self._shape, self._wishes, ["hold"])
        command[0] = runner.find("salloc")
        words = helper("guard", str(lifeline), str(answer), *command)
        try:
            self._guard = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(lifeline, answer),
                env=runner.slurm_environment(),
                # A Ctrl-C at the terminal ends it through the launcher.
                start_new_session=True,
            )
        finally:
            os.close(lifeline)
            os.close(answer)
        assert self._guard.stderr is not None
        os.set_blocking(self._guard.stderr.fileno(), False)

    def _wait(self) -> None:
        """Wait until the nodes are allocated; raises `AllocationRefused`."""
        assert self._guard is not None
        assert self._guard.stderr is not None
        poll = select.poll()
        poll.register(self._guard.stderr, select.POLLIN)
        poll.register(self._answer, select.POLLIN)
        look_at = time.monotonic() + LOOK_S / 4
        while True:
            found = [fd for fd, _ in poll.poll(1000.0 * max(0.0, look_at - time.monotonic()))]
            if self._answer in found:
                answer = os.read(self._answer, 64)
                if answer:
                    self.number, salloc_pid = answer.decode().split()
                    with contextlib.suppress(ProcessLookupError):
                        self._salloc = os.pidfd_open(int(salloc_pid))
                    return
                raise self._refusal(self._guard.wait())
            self._read_stderr()
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + LOOK_S

    def _read_stderr(self, guard: subprocess.Popen[bytes] | None = None) -> None:
        """Read the available output of `salloc`."""
        guard = guard or self._guard
        if guard is None or guard.stderr is None:
            return
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(guard.stderr.fileno(), 1 << 16):
                self._stderr += chunk
        match = _PENDING.search(self._stderr.decode(errors="replace"))
        if match is not None:
            self.number = match[1]

    def _refusal(self, code: int) -> AllocationRefused:
        self._read_stderr()
        text = self._stderr.decode(errors="replace")
        what = f"Slurm gives no allocation of {fold(self._shape.hosts)}: {meaning(text, code)}"
        return AllocationRefused(what)

    def _look(self) -> None:
        """Report why the job waits, if that is new; raises `AllocationRefused` if the wait cannot end."""
        job = runner.job(self.number) if self.number else None
        if job is None or job.state != "PENDING":
            return
        # An expected start that moves by seconds is not new.
        news = f"{job.reason} {job.expected[: len('2026-01-01T10:00')]}"
        if news != self._reported:
            self._notify(waiting_text(job))
            self._reported = news
        why = hopeless(job.reason)
        if why is not None:
            raise AllocationRefused(
                f"job {job.number} would wait in vain ({job.reason.replace('_', ' ')}): {why}",
                self._unavailable(job.reason.partition(",")[0]),
            )

    def _unavailable(self, reason: str) -> dict[str, str]:
        """Return the hosts of the plan that are not available any more."""
        if reason not in ("ReqNodeNotAvail", "NodeDown"):
            return {}
        nodes = runner.nodes()
        found = {host: nodes[host].away for host in self._shape.hosts if host in nodes and nodes[host].away}
        return found or dict.fromkeys(self._shape.hosts, "is not available to Slurm")


def waiting_text(job: Job) -> str:
    """Return why a job waits and when it is expected to start, as far as Slurm reports it."""
    why = WAITS.get(job.reason or "None", f"({job.reason})")
    if RESERVED in job.reason.lower().replace("_", " "):
        why = "for the end of a reservation of its nodes; one that ends before it, by --time-limit, starts earlier"
    until = "" if job.expected in ("", "N/A", "Unknown") else f"; expected to start at {job.expected}"
    return f"job {job.number} waits {why}{until}"
