"""How ranks wait for messages where they share CPUs with other processes (`--policy auto`).

The ranks of a run that takes part in a policy wait as node managers say. Other ranks share CPUs if the forecast CPU
share of a rank is small, because other processes compute on its host or because its host has fewer CPUs than ranks.
Then they wait adaptively (`apples.monitoring`): they measure while they run which way to wait is the fastest. The
history remembers it, and the next run of this kind begins with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from apples.coscheduling.contention import LEAST_SHARE
from apples.coscheduling.events import Wait
from apples.costs.store import History
from apples.errors import MonitorError
from apples.model.launchrequest import Notify
from apples.model.runrequest import Monitor, RunRequest
from apples.monitoring.names import DIRECTORY_VARIABLE, FIRST_VARIABLE
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.run.agent import Decision


#: Newest runs among which one of the same kind is looked for.
_NEWEST = 50


class _SharedRun(msgspec.Struct, kw_only=True):
    """The report of a run that shared CPUs.

    why : hosts whose ranks do not get a CPU each, with the reason.  quarters : least CPU share of a rank, in quarters
    best, costs : the best way to wait, None if no rank has chosen; times per iteration of the others as multiples
    waited_s, used_s : seconds in MPI of all ranks that ended, and CPU seconds that they used there
    """

    policy: str = "auto"
    waits: str = Wait.ADAPTIVE.value
    why: dict[str, str]
    quarters: int
    waited_s: float = 0.0
    used_s: float = 0.0
    sleeps: int = 0
    best: str | None = None
    costs: dict[str, float] = {}


class RankWaits:
    """The monitor of one run, and how its ranks wait. `monitor`: that of the last attempt, None without one"""

    def __init__(self, request: RunRequest, history: History, notify: Notify) -> None:
        self.monitor: Monitor | None = request.monitor
        self._request, self._history, self._notify = request, history, notify
        self._shared: _SharedRun | None = None

    def variables(self, decision: Decision, run_dir: Path) -> Mapping[str, str]:
        """Return the monitor's variables for the ranks of an attempt, empty without one; raises `MonitorError`."""
        wait = self._wait(decision)
        variables = {} if self.monitor is None else self.monitor.environment(run_dir, wait)
        best = self._best_before(decision)
        return variables if best is None else {**variables, FIRST_VARIABLE: best}

    def _best_before(self, decision: Decision) -> str | None:
        """Return the way to wait that was best for the last run of this kind, None if there was none."""
        if self._shared is None:
            return None
        for record in reversed(self._history.records(decision.key, _NEWEST)):
            try:
                run = msgspec.convert(record.sharing, _SharedRun)
            except msgspec.ValidationError:
                # It did not share CPUs, or a node manager reported on it.
                continue
            ranks = len(record.plan.assignments)
            if run.best and (ranks, run.quarters) == (len(decision.plan.assignments), self._shared.quarters):
                return run.best
        return None

    def _wait(self, decision: Decision) -> Wait | None:
        """Return how the ranks of an attempt wait, None as the user, their MPI or a policy decides.

        Finds a monitor if they need one; raises `MonitorError` if a policy cannot do without.
        """
        self._shared = None
        request = self._request
        if request.sharing is not None:
            request.sharing.settle(decision.plan.hosts)
        if request.policy is not None:
            # On one machine the policy has put it into the ranks' environment already.
            if request.policy.needs_monitor and DIRECTORY_VARIABLE not in request.environment:
                self._ensure_monitor()
            return None
        if not self._request.adaptive_waits or not (shared := _shared_cpus(decision)):
            return None
        why = {
            host: f"{counted(n, 'rank')}, {share:.0%} of a CPU each" for host, (n, share) in shared.items()
        }
        where = "; ".join(f"{host}: {reason}" for host, reason in why.items())
        try:
            self._ensure_monitor()
        except MonitorError as error:
            self._notify(f"ranks share CPUs ({where}) and do not leave them to others: {error}")
            return None
        quarters = round(4 * min(share for _, share in shared.values()))
        self._shared = _SharedRun(why=why, quarters=quarters)
        self._notify(f"ranks leave CPUs to others while they wait ({where}); --policy none switches it off")
        return Wait.ADAPTIVE

    def _ensure_monitor(self) -> None:
        """Have a monitor in the ranks; raise `MonitorError`."""
        if self.monitor is None:
            from apples.monitoring.job import JOB, MonitoredRun

            sharing = self._request.sharing
            self.monitor = MonitoredRun(job=JOB if sharing is None else sharing.job)

    def document(self) -> dict[str, Any]:
        """Return the report of a run that shared CPUs, empty for others."""
        if self._shared is None or self.monitor is None:
            return {}
        ranks = [rank for rank in self.monitor.document()["observation"]["ranks"] if rank["finalized"]]
        chosen = next((rank for rank in self.monitor.figures if rank.best_wait is not None), None)
        run = msgspec.structs.replace(
            self._shared,
            waited_s=sum(rank["communication_s"] for rank in ranks),
            used_s=sum(max(rank["cpu_s"] - rank["compute_cpu_s"], 0.0) for rank in ranks),
            sleeps=sum(rank.sleeps for rank in self.monitor.figures),
            best=None if chosen is None else chosen.best_wait,
            costs={} if chosen is None else dict(chosen.wait_costs),
        )
        return msgspec.structs.asdict(run)


def _shared_cpus(decision: Decision) -> dict[str, tuple[int, float]]:
    """Return the hosts of a plan whose ranks do not get a CPU each, with their ranks and the share of one."""
    ranks = Counter(assignment.host for assignment in decision.plan.assignments)
    shared: dict[str, tuple[int, float]] = {}
    if len(decision.plan.assignments) < 2:
        # It waits for no other.
        return shared
    for host, conditions in zip(decision.snapshot.hosts, decision.snapshot.conditions, strict=True):
        count = ranks[host.name]
        if count and (share := conditions.share(count, host.slots)) < LEAST_SHARE:
            shared[host.name] = count, share
    return shared
