"""Departures: how a run leaves hosts that are drained, or that have announced their end.

    ranks can give away their rows             rows move at the next iteration, and the run goes on
    the run or the program keeps checkpoints   the run ends, and goes on from the checkpoint on other hosts
    otherwise                                  the run stays, and the user is informed of the consequence

A run whose application writes its checkpoint when it is asked to end loses no iteration; a program that restarts from
checkpoints of its own loses those since the newest one.
"""

import time
from collections.abc import Mapping

from apples.model.drained import DrainedHosts
from apples.model.launchrequest import Notify
from apples.model.progress import AdaptationController, CheckpointAndEnd, Order
from apples.model.runrequest import RunRequest
from apples.run.agent import Decision


class Departures:
    """`apples.model.progress.DepartureController` of one attempt. controller : its adaptation, None without it"""

    def __init__(
        self,
        request: RunRequest,
        decision: Decision,
        controller: AdaptationController | None,
        notify: Notify,
    ) -> None:
        self._request, self._decision = request, decision
        self._controller, self._notify = controller, notify
        self._drained = DrainedHosts(notify=notify)

    def look(self) -> Mapping[str, str]:
        """Return the drained hosts, each with the reason; a damaged file is reported once and has none."""
        return {host: drain.reason() for host, drain in self._drained.at(time.time()).items()}

    def leave(self, hosts: Mapping[str, str]) -> Order | None:
        """Return the order by which the run leaves these hosts; without one, inform the user."""
        template = self._request.template
        why = "; ".join(f"{host} {how}" for host, how in hosts.items())
        keeps = self._decision.keep is not None
        if self._controller is not None and not keeps:
            order = self._controller.leave(hosts)
            if order is not None:
                return order
        others = {host.name for host in self._decision.snapshot.hosts} - hosts.keys()
        if others and (keeps or template.restart is not None):
            return CheckpointAndEnd(why=f"{why}: going on from the checkpoint without {', '.join(hosts)}")
        reason = (
            "no other host of the pool is usable"
            if not others
            else f"{template.name} neither moves rows in this run (--adapt slabs) nor goes on from a checkpoint"
        )
        again = "begins again on the others" if others and self._request.resilience.attempts > 1 else "fails"
        self._notify(
            f"{why}, but the run stays: {reason}. It goes on, and {again} if the host ends before it"
        )
        return None
