"""One run of `apples-run --policy` on this machine: its node manager, its ranks' environment, the report on it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import to_builtins

from apples.coscheduling.fitting import duty_cycle, fit
from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.hostsharing import HostSharing
from apples.daemons.nodeclient import efficiencies, find_node
from apples.daemons.nodemessages import MachineView, NodeStatus, ProcessReport
from apples.daemons.paths import SOCKET_VARIABLE
from apples.daemons.starting import Notify
from apples.errors import SharingError
from apples.model.snapshots import TimeShares
from apples.monitoring.environment import monitor_environment, page_directory
from apples.monitoring.names import JOB_VARIABLE
from nws.base.wording import counted


def turns_of(status: NodeStatus, view: MachineView | None) -> TimeShares:
    """Return the time shares in use on this host, and on all others that the manager knows."""
    nodes = {} if view is None else view.nodes
    held = {name: node.report.slots for name, node in nodes.items() if node.report is not None}
    kind = policy_kind(status.policy)
    return TimeShares(here=status.slots, held=held, exclusive=kind.exclusive, node=status.node)


def new_job() -> str:
    """Return a name for the job of a run that shares its hosts."""
    return f"run-{os.getpid()}-{secrets.token_hex(4)}"


def others_there(slots: int) -> str:
    """Return a phrase on the jobs that share a host already."""
    return f"{counted(slots, 'job')} there already" if slots else "no other job there"


def sharing_document(
    kind: PolicyKind,
    job: str,
    node: str,
    slots: int,
    *,
    started: bool,
    processes: Iterable[ProcessReport],
) -> dict[str, Any]:
    """Return the report on an ended run that shared its hosts.

    node : names of its nodes.  slots : in use there when it began.  started : daemons were started for it
    processes : reports of node managers on its ranks
    """
    ranks = sorted(processes, key=lambda process: process.rank)
    return {
        "policy": kind.name,
        "node": node,
        "job": job,
        "slots_before": slots,
        "daemons_started": started,
        "ranks": to_builtins(ranks),
        "efficiencies": efficiencies(ranks),
    }


class SharingSession:
    """A run under a policy; a context manager. Raises `SharingError` or `MonitorError` if that is impossible.

    job : its name.  environment : variables for its ranks.  slots : slots in use here when it began
    turns : time shares of all nodes, for the plan.  hosts : None, the policy is that of this machine
    """

    hosts: None = None

    def __init__(self, kind: PolicyKind, notify: Notify, *, run: bool = True) -> None:
        """With `run` False, only look at existing daemons, for a plan."""
        self.kind, self._notify, self._run = kind, notify, run
        self.job = new_job()
        self.environment: dict[str, str] = {}
        self.slots = 0
        self.node = ""
        self.turns: TimeShares | None = None
        self._here = HostSharing(notify)
        self._pages = ExitStack()

    def __enter__(self) -> SharingSession:
        try:
            if self._run or find_node() is not None:
                self._join()
        except BaseException:
            # A context whose entry fails is not left by Python.
            self.__exit__()
            raise
        return self

    def _join(self) -> None:
        self._here.join(self.kind)
        status = self._here.status
        self.slots, self.node = status.slots, status.node
        self.turns = turns_of(status, self._here.ask("view"))
        self.environment = {SOCKET_VARIABLE: str(self._here.path), JOB_VARIABLE: self.job}
        if self._run and self.kind.needs_monitor:
            pages = self._pages.enter_context(page_directory(self._notify))
            self.environment |= monitor_environment(pages, self.job)
        self._notify(f"policy {self.kind.name}, node {self.node}: {others_there(self.slots)}")

    def __exit__(self, *exception: object) -> None:
        # First the node manager, which may use the pages until then.
        self._here.leave()
        self._pages.close()

    def settle(self, hosts: Sequence[str]) -> None:
        """Do nothing: the node manager is joined before there is a plan."""

    def observed(self) -> dict[str, Any]:
        """Return the node manager's values of an ended run; empty if the node manager has ended too."""
        try:
            processes = self._here.ask("job", self.job)
        except SharingError as error:
            self._notify(f"what the run shared is not known: {error}")
            return {}
        document = sharing_document(
            self.kind, self.job, self.node, self.slots, started=self._here.started, processes=processes
        )
        return document | {"beside": fits_beside(processes, self._here.ask("status"))}


def fits_beside(ranks: Sequence[ProcessReport], status: NodeStatus) -> dict[str, Any]:
    """Return for each other job on a node whether the job of these ranks fits beside it.

    own, other : how many times longer each takes than alone
    """
    duties_of_job, fits = _duties(ranks), {}
    jobs = {process.job for process in ranks}
    for job in dict.fromkeys(process.job for process in status.processes if process.job not in jobs):
        duties = _duties(process for process in status.processes if process.job == job)
        if duties_of_job and duties:
            both = fit(duties_of_job, duties, status.processors)
            fits[job] = {"fits": both.fits, "own": both.first, "other": both.second}
    return fits


def _duties(processes: Iterable[ProcessReport]) -> list[float]:
    """Return the duty cycles of processes that are measured, by rank."""
    duties = []
    for process in sorted(processes, key=lambda process: process.rank):
        if process.t_cpu_s is not None and process.t_comm_s is not None:
            duties.append(duty_cycle(process.t_cpu_s, process.t_comm_s))
    return [duty for duty in duties if duty is not None]
