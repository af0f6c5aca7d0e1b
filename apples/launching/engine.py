"""The one loop of a launch: wait for a signal, a rank's record, a host's silence or the clock; ask `ending`; do it.

What the processes are, and where, is behind `RunHandle`: those of this machine (`apples.launching.processes`) or of
many hosts (`apples.launching.remoteprocesses`).
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from signal import Signals
from typing import Protocol

from apples.adapting.progress import AdaptationController, CheckpointAndEnd, NewSlabs, parse_progress
from apples.launching.filelock import locked
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.signals import SignalQueue
from apples.launching.statuses import RankRecord
from apples.launching.termination import (
    CutLifeline,
    Forward,
    GracePeriods,
    Instruction,
    KillEverything,
    ShowStates,
    Termination,
)
from apples.launching.verdict import LaunchResult, judge
from apples.model.plan import Outcome


class RunHandle(Protocol):
    """The processes of a launch as the loop sees them.

    records : what every rank has recorded so far.  events : descriptor that is readable when there is news
    """

    records: dict[int, RankRecord]
    events: int

    @property
    def wake_at(self) -> float | None:
        """When to listen again although there is no news (`time.monotonic`), None for never."""

    def listen(self) -> tuple[list[RankRecord], bool]:
        """Records that are new since the last call, and whether all processes are gone."""

    def told(self) -> list[bytes]:
        """Lines of progress that are new since the last call; none where nobody asked for them."""

    def offer(self, heights: str) -> None:
        """Let the run find new slabs, as in `20,22,22`."""

    def troubles(self) -> Mapping[str, str]:
        """Hosts that were lost so far, and how."""

    def forward(self, number: Signals) -> None:
        """Send a signal to every rank."""

    def cut(self) -> None:
        """Let go of the lifeline."""

    def kill(self) -> None:
        """Kill everything from here."""


class Processes(RunHandle, Protocol):
    """Those that a launch has started itself."""

    def close(self) -> int:
        """End what is left of them; exit code of `mpiexec`."""

    def said(self) -> str:
        """What `mpiexec` itself has said."""


class RunLoop:
    """Follows one launch to its end."""

    def __init__(
        self,
        processes: RunHandle,
        ending: Termination,
        inbox: SignalQueue,
        notify: Notify,
        *,
        controller: AdaptationController | None = None,
    ) -> None:
        self._lost: set[str] = set()
        self._controller = controller
        self._processes, self._ending, self._inbox, self._notify = processes, ending, inbox, notify

    def follow(self, hosts: list[str]) -> None:
        """Until every process is gone, or was killed."""
        poll = select.poll()
        poll.register(self._inbox.fileno(), select.POLLIN)
        poll.register(self._processes.events, select.POLLIN)
        over = False
        while not over:
            moments = (self._ending.wake_at, self._processes.wake_at)
            wake_at = min((at for at in moments if at is not None), default=None)
            poll.poll(None if wake_at is None else 1000.0 * max(0.0, wake_at - time.monotonic()))
            changed, over = self._processes.listen()
            for record in changed:
                over = self._act(self._on_record(record), hosts) or over
            over = self._act(self._on_troubles(), hosts) or over
            over = self._act(self._on_progress(), hosts) or over
            for signal in self._inbox.take():
                over = self._act(self._ending.signalled(signal, time.monotonic()), hosts) or over
            over = self._act(self._ending.tick(time.monotonic()), hosts) or over
        self._ending.over()

    def _on_record(self, record: RankRecord) -> list[Instruction]:
        return self._ending.rank_failed(time.monotonic()) if record.failed else []

    def _on_troubles(self) -> list[Instruction]:
        """A host that is lost takes its ranks along: for the others that is a rank that failed."""
        found = self._processes.troubles().keys() - self._lost
        self._lost |= found
        if not found or self._ending.cause is not None:
            return []
        return self._ending.rank_failed(time.monotonic())

    def _on_progress(self) -> list[Instruction]:
        """Let the controller hear what the ranks tell, and pass on what it wants of them."""
        if self._controller is None:
            return []
        for told in map(parse_progress, self._processes.told()):
            order = None if told is None else self._controller.hear(told)
            match order:
                case NewSlabs(rows=rows):
                    self._processes.offer(",".join(map(str, rows)))
                case CheckpointAndEnd(why=why):
                    self._notify(why)
                    return self._ending.adapt()
        return []

    def _act(self, instructions: list[Instruction], hosts: list[str]) -> bool:
        """Do what the ending asks for; True when nothing more is to be waited for."""
        for instruction in instructions:
            match instruction:
                case Forward(signal=signal):
                    self._processes.forward(signal)
                case ShowStates():
                    self._show(hosts)
                case CutLifeline():
                    self._processes.cut()
                case KillEverything():
                    self._processes.kill()
                    return True
        return False

    def _show(self, hosts: list[str]) -> None:
        self._notify("passing the interrupt on to the ranks; interrupt once more to end them")
        for rank, host in enumerate(hosts):
            record = self._processes.records.get(rank)
            self._notify(f"rank {rank} on {host} has not started" if record is None else record.describe())


def launched(
    request: LaunchRequest, start: Callable[[], Processes], grace: GracePeriods, notify: Notify
) -> Outcome:
    """Start the processes of a launch, follow them to the end and judge it; nothing of them is left, whatever happens.

    start : raises `LaunchError` where they cannot be started
    """
    hosts = [a.host for a in sorted(request.plan.assignments, key=lambda a: a.rank)]
    with locked(request.run_dir / ".in-use", f"run directory {request.run_dir}"), SignalQueue() as inbox:
        started = time.monotonic()
        ending = Termination(started=started, time_limit_s=request.time_limit_s, grace=grace)
        processes = start()
        try:
            RunLoop(processes, ending, inbox, notify, controller=request.controller).follow(hosts)
        finally:
            code = processes.close()
    outcome = judge(
        LaunchResult(
            hosts=hosts,
            records=[processes.records.get(rank) for rank in range(len(hosts))],
            mpiexec_code=code,
            mpiexec_said=processes.said(),
            observed_s=time.monotonic() - started,
            time_limit_s=request.time_limit_s,
            lost=processes.troubles(),
        ),
        ending,
    )
    return outcome if request.controller is None else replace(outcome, moves=request.controller.ended())
