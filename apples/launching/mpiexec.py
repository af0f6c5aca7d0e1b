"""Runs a plan with real ranks on this machine, through the environment's own `mpiexec` (the MPICH wheel).

This module joins the others and holds the one loop: wait for a signal, a rank's record, or the clock; ask
`ending` what to do; do it through `processes`; when everything is gone, let `verdict` say what it was.
Hosts on other machines, batch systems and the mock grid are other launchers. Paper: Wolski et al. 2000, §2.1
(the actuator).
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from pathlib import Path

from apples.launching import preflight
from apples.launching.command import mpiexec_command
from apples.launching.ending import (
    CutLifeline,
    Ending,
    Forward,
    Grace,
    Instruction,
    KillEverything,
    ShowStates,
)
from apples.launching.launcher import LaunchRequest, Notify
from apples.launching.processes import Processes
from apples.launching.signals import Inbox
from apples.launching.statuses import RankRecord
from apples.launching.verdict import Launch, judge
from apples.plan import Outcome


class MpiexecLauncher:
    """Real ranks on this machine.

    addresses : host name → address, where a grid gives one; hosts must be this machine by address or name
    bin_dir : where `mpiexec` is, by default beside the interpreter
    grace : how long ranks have to end before they are killed
    """

    name = "mpiexec"

    def __init__(
        self,
        *,
        addresses: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
        grace: Grace | None = None,
    ) -> None:
        self._addresses = dict(addresses or {})
        self._bin_dir = bin_dir
        self._grace = grace or Grace()

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError`, `NotExecutable` or `ProgramNotFound` when the run cannot start."""
        preflight.check_hosts(request, self._addresses)
        preflight.check_time_limit(request)
        preflight.check_run_dir(request)
        self.command_line(request)
        preflight.check_shared_memory(len(request.plan.assignments))

    def command_line(self, request: LaunchRequest) -> list[str]:
        """The command `run` executes; raises `ProgramNotFound` or `NotExecutable`."""
        mpiexec = preflight.find_mpiexec(self._bin_dir)
        return mpiexec_command(request, mpiexec, preflight.find_program(request))

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run to the end and judge it; no process is left behind, whatever happens. Raises `LaunchError`."""
        self.check(request)
        hosts = [a.host for a in sorted(request.plan.assignments, key=lambda a: a.rank)]
        with Inbox() as inbox:
            started = time.monotonic()
            ending = Ending(started=started, time_limit_s=request.time_limit_s, grace=self._grace)
            processes = Processes(request, self.command_line(request))
            try:
                _Run(processes, ending, inbox, notify).follow(hosts)
            finally:
                code = processes.close()
        return judge(
            Launch(
                hosts=hosts,
                records=[processes.records.get(rank) for rank in range(len(hosts))],
                mpiexec_code=code,
                mpiexec_said=processes.said(),
                observed_s=time.monotonic() - started,
                time_limit_s=request.time_limit_s,
            ),
            ending,
        )


class _Run:
    """The loop of one run."""

    def __init__(self, processes: Processes, ending: Ending, inbox: Inbox, notify: Notify) -> None:
        self._processes, self._ending, self._inbox, self._notify = processes, ending, inbox, notify

    def follow(self, hosts: list[str]) -> None:
        """Until every process is gone, or was killed."""
        poll = select.poll()
        poll.register(self._inbox.fileno(), select.POLLIN)
        poll.register(self._processes.events, select.POLLIN)
        over = False
        while not over:
            wake_at = self._ending.wake_at
            poll.poll(None if wake_at is None else 1000.0 * max(0.0, wake_at - time.monotonic()))
            changed, over = self._processes.listen()
            for record in changed:
                over = self._act(self._on_record(record), hosts) or over
            for signal in self._inbox.take():
                over = self._act(self._ending.signalled(signal, time.monotonic()), hosts) or over
            over = self._act(self._ending.tick(time.monotonic()), hosts) or over
        self._ending.over()

    def _on_record(self, record: RankRecord) -> list[Instruction]:
        return self._ending.rank_failed(time.monotonic()) if record.failed else []

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
