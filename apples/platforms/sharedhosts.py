"""A run under a policy on several hosts: it joins the node managers of its hosts, or starts them, over ssh or Slurm.

The hosts are joined for each plan (`apples.platforms.nodemanagers`). While the run lasts, a thread looks whether its
node managers are there. One may have been killed, or have ended with the Slurm job whose run has started it; and node
managers end soon after their machine manager. Then the hosts are joined again in the same way, and new node managers
adopt the ranks.

A run under `--policy auto` joins the policy of the node managers on the hosts of its plan. Where there are none, or
they refuse, it has no policy.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.exchanges import NodeManager
from apples.daemons.paths import SOCKET_VARIABLE
from apples.daemons.session import new_job, others_there, sharing_document
from apples.daemons.starting import Notify
from apples.errors import SharingError
from apples.model.snapshots import TimeShares
from apples.monitoring.build import monitor_library
from apples.monitoring.names import JOB_VARIABLE
from apples.platforms.nodemanagers import Addresses, NodeManagers, check_policies
from nws.base.closing import Closing
from nws.base.errors import ReportedError

#: Seconds between looks at the node managers of a run; they double with each that fails, up to the second.
_LOOK_S, _LONGEST_S = 2.0, 60.0
#: How often a run tries to join hosts on which another starts daemons at the same time.
_TRIES = 4


class SharedHosts(Closing):
    """The policy of one run over several hosts; a context manager.

    kind : the policy, None while a run under `--policy auto` has none
    job : its name.  environment : variables for all ranks.  managers : the node managers of its hosts
    turns : None, each look at the hosts returns them
    """

    turns: TimeShares | None = None

    def __init__(self, kind: PolicyKind | None, notify: Notify) -> None:
        """Without a `kind`, that of the node managers on the hosts is taken."""
        self.kind, self._auto, self._notify = kind, kind is None, notify
        self.job = new_job()
        self.environment = {JOB_VARIABLE: self.job}
        #: Hosts on which a node manager may run, and why the run has no part in their policy.
        self._managed: Collection[str] = ()
        self._refusal = ""
        self._settled = False
        self.managers = NodeManagers(notify)
        #: Time slots that others held when the run joined its hosts; later, its own job is among them.
        self._slots_before = 0
        self._shares: TimeShares | None = None
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._watcher: threading.Thread | None = None
        self._observed: dict[str, Any] = {}

    def close(self) -> None:
        """Leave the hosts."""
        self._stop_watching()
        self.managers.close()

    @property
    def hosts(self) -> Self:
        """Return this object, which a platform of several hosts needs."""
        return self

    def look(self, addresses: Addresses, managed: Collection[str] = ()) -> TimeShares | None:
        """Return how many jobs share each host; the first answer is kept, as later ones would count this run.

        Under `--policy auto` it may be called while ranks run, and returns None without a policy to share by.

        Args:
            addresses: of the hosts
            managed: hosts on which a node manager may run; under `--policy auto` no others are asked

        Raises:
            SharingError: A host does not answer, or has another policy than that which the user named.
        """
        with self._lock:
            self.managers.reach(addresses)
            if self._shares is not None:
                return self._shares
            if not self._auto:
                found = self.managers.running_on(list(addresses))
                assert self.kind is not None
                check_policies(self.kind, found)
                self._shares = _time_shares(found, self.kind)
                return self._shares
            self._managed = [host for host in managed if host in addresses]
            if self.managers.joined or self._refusal:
                return None
            try:
                found = self.managers.running_on(self._managed)
                kinds = {policy_kind(node.policy) for node in found.values()}
                if len(kinds) == 1:
                    (kind,) = kinds
                    self._shares = _time_shares(found, kind)
                    # Ranks that run already keep what was settled for them.
                    self.kind = self.kind if self._settled else kind
            except (ReportedError, OSError) as error:
                self._refuse(error)
            self.managers.close()
            return self._shares

    def settle(self, hosts: Sequence[str]) -> None:
        """Join the hosts of a plan under `--policy auto`, if node managers run there; otherwise have no policy."""
        if not self._auto:
            return
        self._stop_watching()
        with self._lock:
            self.kind, self._settled, self._observed = None, True, {}
            try:
                found = self.managers.running_on([host for host in hosts if host in self._managed])
                names = {host: node.policy for host, node in found.items()}
                if len(set(names.values())) > 1:
                    several = ", ".join(f"{host}: {name}" for host, name in names.items())
                    raise SharingError(f"its hosts have different policies ({several})")
                if found:
                    self.kind = policy_kind(next(iter(names.values())))
                    if self.kind.needs_monitor:
                        monitor_library()
                    self._join_and_watch(hosts)
                    return
            except (ReportedError, OSError) as error:
                self._refuse(error)
            self.managers.close()

    def _refuse(self, why: Exception) -> None:
        """Have no policy, with a note."""
        if str(why) != self._refusal:
            self._notify(f"the run does not take part in the policy of its hosts: {why}")
        self.kind, self._shares, self._refusal = None, None, str(why)

    def join(self, hosts: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Join the node managers of hosts; return for each the variables of its ranks.

        A host that was left, or gave up, is joined again. Raises `SharingError`, with what it has started released.

        Args:
            hosts: Of the plan; `look` has looked at them. Under `--policy auto`, `settle` has joined them.
            environment: Of the ranks; nothing is joined for those of another job, as benchmarks are.
        """
        if not self.shares(environment):
            return {}
        if not self._auto:
            self._join_and_watch(hosts)
        with self._lock:
            return {host: {SOCKET_VARIABLE: node.socket} for host, node in self.managers.joined.items()}

    def _join_and_watch(self, hosts: Sequence[str]) -> None:
        assert self.kind is not None
        self._stop_watching()
        self._join(self.kind, sorted(hosts))
        self._slots_before = max(node.slots for node in self.managers.joined.values())
        there = others_there(self._slots_before)
        self._notify(f"policy {self.kind.name} on {', '.join(sorted(hosts))}: {there}")
        self._watcher = threading.Thread(target=self._watch, args=[self.kind, sorted(hosts)], daemon=True)
        self._watcher.start()

    def shares(self, environment: Mapping[str, str]) -> bool:
        """Return whether ranks with this environment belong to the job, as those of benchmarks do not."""
        return self.kind is not None and environment.get(JOB_VARIABLE) == self.job

    def _join(self, kind: PolicyKind, hosts: Sequence[str]) -> None:
        # A run under `--policy auto` does not wait for others.
        self.managers.join(kind, hosts, 1 if self._auto else _TRIES, self._ended)

    def _watch(self, kind: PolicyKind, hosts: Sequence[str]) -> None:
        """Join the hosts again after the end of one of their node managers, until `_stop_watching`."""
        pause_s, known = _LOOK_S, ""
        while not self._ended.wait(pause_s):
            with self._lock:
                try:
                    lost = [host for host in hosts if not self.managers.hold(host)]
                    if lost and not self._ended.is_set():
                        self._notify(
                            f"the node manager of {', '.join(lost)} has ended; joining the hosts again"
                        )
                        self._join(kind, hosts)
                    pause_s, known = _LOOK_S, ""
                except (ReportedError, OSError) as error:
                    if str(error) != known:
                        self._notify(f"the run goes on without policy {kind.name} for now: {error}")
                    pause_s, known = min(2.0 * pause_s, _LONGEST_S), str(error)

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._ended.set()
            self._watcher.join()
            self._watcher = None
            self._ended.clear()

    def end(self) -> None:
        """Note the node managers' values of an ended run and leave its hosts, while they are still allocated."""
        self._observed = self.observed()
        self.close()

    def observed(self) -> dict[str, Any]:
        """Return the node managers' values of an ended run; empty if one of them has ended too."""
        self._stop_watching()
        if self.kind is None or not self.managers.joined:
            return self._observed
        try:
            processes = self.managers.ranks(self.job)
        except SharingError as error:
            self._notify(f"what the run shared is not known: {error}")
            return {}
        return sharing_document(
            self.kind,
            self.job,
            ", ".join(node.node for node in self.managers.joined.values()),
            self._slots_before,
            started=any(node.started for node in self.managers.joined.values()),
            processes=processes,
        )


def _time_shares(nodes: Mapping[str, NodeManager], kind: PolicyKind) -> TimeShares:
    """Return the time shares that node managers have given away under one policy."""
    held = {host: node.slots for host, node in nodes.items()}
    return TimeShares(here=0, node="", held=held, exclusive=kind.exclusive)
