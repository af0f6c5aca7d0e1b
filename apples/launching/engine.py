"""The launch engine: one run loop for every launcher, from the start of the processes to the verdict.

The loop waits for a signal, a rank's record, a lost host or a deadline, asks `apples.launching.termination` what to do,
and does it. `apples.launching.runprocesses` are the processes; a `LaunchMethod` is all that a launcher adds.

Signals as events for a loop, in the main thread or any other.

While a `SignalQueue` is open in the main thread, INT, TERM, HUP, USR1 and USR2 are queued instead of ending the
process. The previous handlers are restored afterwards, and an ignored signal stays ignored (`nohup`). Python installs
handlers in the main thread only; elsewhere `post` still works. The effect of a signal on a run is decided in
`apples.launching.termination`.
"""

import select
import time
from dataclasses import replace

from apples.hosts.hostmessages import RankRecord
from apples.hosts.kernel import FORWARDED, SignalQueue
from apples.launching.command import LaunchMethod
from apples.launching.filelock import locked
from apples.launching.runprocesses import RunProcesses
from apples.launching.termination import (
    CutLifeline,
    Forward,
    GracePeriods,
    Instruction,
    KillEverything,
    ShowStates,
    Termination,
)
from apples.launching.verdict import LaunchResult, aftermath, judge
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.model.progress import CheckpointAndEnd, NewSlabs, Order, parse_progress

#: Seconds between two looks for drained hosts.
LOOK_S = 1.0


class RunLoop:
    """The loop of one launch. left : hosts that the run leaves, each with the reason"""

    def __init__(
        self,
        request: LaunchRequest,
        processes: RunProcesses,
        termination: Termination,
        signals: SignalQueue,
        notify: Notify,
    ) -> None:
        self.left: dict[str, str] = {}
        self._lost: set[str] = set()
        self._looked_at = time.monotonic()
        self._on_line, self._notify = request.on_progress, notify
        self._controller, self._departures = request.controller, request.departures
        self._processes, self._termination, self._signals = processes, termination, signals

    def run(self, hosts: list[str]) -> None:
        """Run until every process has ended or was killed; `hosts` are in rank order."""
        # All waits of a run are this one: each event is readable here or has a moment below.
        poll = select.poll()
        poll.register(self._signals.fileno(), select.POLLIN)
        poll.register(self._processes.events, select.POLLIN)
        over = False
        while not over:
            look_at = None if self._departures is None else self._looked_at + LOOK_S
            moments = (self._termination.wake_at, self._processes.wake_at, look_at)
            wake_at = min((at for at in moments if at is not None), default=None)
            poll.poll(None if wake_at is None else 1000.0 * max(0.0, wake_at - time.monotonic()))
            # Events before signals and time: a rank that failed on its own is recorded before an instruction ends it.
            changed, over = self._processes.listen()
            instructions = [i for record in changed for i in self._on_record(record)]
            instructions += self._on_lost_hosts()
            instructions += self._on_progress()
            instructions += self._on_departures(hosts)
            for number in self._signals.take():
                instructions += self._termination.signalled(number, time.monotonic())
            # Last, with the time of now: events of this turn may have set a deadline that is over already.
            instructions += self._termination.tick(time.monotonic())
            # After `KillEverything` nothing is waited for here: `close` has a time limit.
            over = self._act(instructions, hosts) or over
        self._termination.over()

    def _on_record(self, record: RankRecord) -> list[Instruction]:
        return self._termination.rank_failed(time.monotonic()) if record.failed else []

    def _on_lost_hosts(self) -> list[Instruction]:
        """Treat a lost host as a failed rank, because its ranks are lost with it."""
        lost = self._processes.lost_hosts().keys() - self._lost
        self._lost |= lost
        # Once the run is being ended, hosts may go in any order, and are not why it ended.
        if not lost or self._termination.cause is not None:
            return []
        return self._termination.rank_failed(time.monotonic())

    def _on_progress(self) -> list[Instruction]:
        """Pass the progress of the ranks to the listener and the controller, and its orders to the ranks."""
        lines = self._processes.progress()
        if self._on_line is not None:
            for line in lines:
                self._on_line(line)
        if self._controller is None:
            return []
        for report in map(parse_progress, lines):
            if instructions := self._carry_out(None if report is None else self._controller.hear(report)):
                return instructions
        return []

    def _on_departures(self, hosts: list[str]) -> list[Instruction]:
        """Leave hosts that have been drained, or have announced their end."""
        if self._departures is None:
            return []
        leaving = dict(self._processes.leaving_hosts())
        if time.monotonic() >= self._looked_at + LOOK_S:
            self._looked_at = time.monotonic()
            # The user's reason goes before that which a host has announced itself.
            leaving |= self._departures.look()
        # Each host is told of once; the controller has its answer already.
        new = {host: why for host, why in leaving.items() if host in hosts and host not in self.left}
        if not new or self._termination.cause is not None:
            return []
        self.left |= new
        return self._carry_out(self._departures.leave(self.left))

    def _carry_out(self, order: Order | None) -> list[Instruction]:
        match order:
            case NewSlabs():
                self._processes.offer(order)
            case CheckpointAndEnd(why=why):
                self._notify(why)
                return self._termination.adapt()
        return []

    def _act(self, instructions: list[Instruction], hosts: list[str]) -> bool:
        """Carry out the instructions of the termination; return True if the loop may end."""
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


def launch(request: LaunchRequest, method: LaunchMethod, grace: GracePeriods, notify: Notify) -> Outcome:
    """Start a run, follow it to its end and return the outcome. No process of it is left, whatever happens.

    Raises:
        LaunchError: the agents cannot be started, or the run directory is in use
    """
    hosts = [a.host for a in sorted(request.plan.assignments, key=lambda a: a.rank)]
    # Signals are queued before the first process starts, and until the last one has ended.
    with (
        locked(request.run_dir / ".in-use", f"run directory {request.run_dir}"),
        SignalQueue(FORWARDED) as signals,
    ):
        started = time.monotonic()
        termination = Termination(started=started, time_limit_s=request.time_limit_s, grace=grace)
        processes = RunProcesses(request, method)
        try:
            loop = RunLoop(request, processes, termination, signals, notify)
            loop.run(hosts)
        finally:
            # Also after an exception, for example of a callback.
            code = processes.close()
    result = LaunchResult(
        hosts=hosts,
        # Read after `close`, because the last statuses arrive while it waits.
        records=[processes.records.get(rank) for rank in range(len(hosts))],
        mpiexec_code=code,
        mpiexec_stderr=processes.stderr_text(),
        observed_s=time.monotonic() - started,
        time_limit_s=request.time_limit_s,
        lost=processes.lost_hosts(),
        names=method.names,
    )
    outcome = judge(result, termination)
    if text := aftermath(result):
        notify(f"the launcher {text}")
    if outcome.ended == "adapted":
        outcome = replace(outcome, lost=loop.left)
    return outcome if request.controller is None else replace(outcome, moves=request.controller.ended())
