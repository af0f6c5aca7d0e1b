"""How ranks wait for messages where they share CPUs with other processes (`--policy auto`).

The ranks of a run that takes part in a policy wait as node managers say. Other ranks share CPUs if the forecast CPU
share of a rank is small, because other processes compute on its host or because its host has fewer CPUs than ranks.
Then they wait adaptively (`apples.monitoring`): they block while a rank of the job does not get its CPU, and else poll.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from apples.coscheduling.contention import LEAST_SHARE
from apples.coscheduling.events import Wait
from apples.errors import MonitorError
from apples.model.launchrequest import Notify
from apples.model.runrequest import Monitor, RunRequest
from apples.monitoring.names import DIRECTORY_VARIABLE
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.run.agent import Decision


class RankWaits:
    """The monitor of one run, and how its ranks wait. `monitor`: that of the last attempt, None without one"""

    def __init__(self, request: RunRequest, notify: Notify) -> None:
        self.monitor: Monitor | None = request.monitor
        self._request, self._notify = request, notify
        self._shared: dict[str, str] = {}

    def wait(self, decision: Decision) -> Wait | None:
        """Return how the ranks of an attempt wait, None as the user, their MPI or a policy decides.

        Finds a monitor if they need one; raises `MonitorError` if a policy cannot do without.
        """
        self._shared = {}
        request = self._request
        if request.sharing is not None:
            request.sharing.settle(decision.plan.hosts)
        if request.policy is not None:
            # On one machine the policy has put it into the ranks' environment already.
            if request.policy.needs_monitor and DIRECTORY_VARIABLE not in request.environment:
                self._ensure_monitor()
            return None
        if not self._request.adaptive_waits or not (shared := shared_cpus(decision)):
            return None
        where = "; ".join(f"{host}: {what}" for host, what in shared.items())
        try:
            self._ensure_monitor()
        except MonitorError as error:
            self._notify(f"ranks share CPUs ({where}) and do not leave them to others: {error}")
            return None
        self._shared = shared
        self._notify(f"ranks leave CPUs to others while they wait ({where}); --policy none switches it off")
        return Wait.ADAPTIVE

    def _ensure_monitor(self) -> None:
        """Have a monitor in the ranks; raise `MonitorError`."""
        if self.monitor is None:
            from apples.monitoring.job import JOB, MonitoredRun

            sharing = self._request.sharing
            self.monitor = MonitoredRun(job=JOB if sharing is None else sharing.job)

    def document(self) -> dict[str, Any]:
        """Return the report of a run that shared CPUs, empty for others.

        waited_s, used_s : seconds in MPI of all ranks that ended, and CPU seconds that they used there
        """
        if not self._shared or self.monitor is None:
            return {}
        ranks = [rank for rank in self.monitor.document()["observation"]["ranks"] if rank["finalized"]]
        return {
            "policy": "auto",
            "waits": Wait.ADAPTIVE.value,
            "why": self._shared,
            "waited_s": sum(rank["communication_s"] for rank in ranks),
            "used_s": sum(max(rank["cpu_s"] - rank["compute_cpu_s"], 0.0) for rank in ranks),
            "sleeps": sum(rank["sleeps"] for rank in self.monitor.document()["ranks"]),
        }


def shared_cpus(decision: Decision) -> dict[str, str]:
    """Return the hosts of a plan whose ranks do not get a CPU each, with the reason."""
    ranks = Counter(assignment.host for assignment in decision.plan.assignments)
    found: dict[str, str] = {}
    if len(decision.plan.assignments) < 2:
        # It waits for no other.
        return found
    for host, conditions in zip(decision.snapshot.hosts, decision.snapshot.conditions, strict=True):
        count = ranks[host.name]
        if count and (share := conditions.share(count, host.slots)) < LEAST_SHARE:
            found[host.name] = f"{counted(count, 'rank')}, {share:.0%} of a CPU each"
    return found
