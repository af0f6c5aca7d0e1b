"""A run under a policy on several hosts: it joins the node managers of its hosts, or starts them, over ssh or Slurm.

All node managers of a coordinated policy must have one machine manager. If hosts of the plan have one, the others join
it; otherwise the first host by name starts it. Hosts are joined in the order of their names, so that of two runs that
begin at the same time one finds what the other has started. A run that finds two managers releases what it has
started, and looks again after a random time. While the run lasts, a thread looks whether its node managers are there.
One may have been killed, or have ended with the Slurm job whose run has started it; and node managers end soon after
their machine manager. Then the hosts are joined again in the same way, and new node managers adopt the ranks.

A run under `--policy auto` joins the policy of the node managers on the hosts of its plan. Where there are none, or
they refuse, it has no policy.
"""

import random
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self, TypeAlias

from apples.coscheduling.policies import PolicyKind, policy_kind
from apples.daemons.hostsharing import check_policy
from apples.daemons.paths import SOCKET_VARIABLE, ManagerAccess
from apples.daemons.session import new_job, others_there, sharing_document
from apples.daemons.starting import Notify
from apples.errors import SharingError
from apples.model.snapshots import TimeShares
from apples.monitoring.build import monitor_library
from apples.monitoring.names import JOB_VARIABLE
from apples.remote.answers import Answer, AskAnswer, HoldsAnswer, JoinAnswer, LeaveAnswer, LookAnswer, read
from apples.remote.hostcheck import MARK
from nws.base.errors import ReportedError
from nws.base.hostconnection import HostCheckError, HostConnection, together

#: Runs on each host, whose environment must have this package.
_PROGRAM = f"""
import json, sys
from apples.daemons.hostsharing import serve
serve(sys.stdin.buffer, lambda a: print({MARK!r} + json.dumps(a), flush=True))
""".encode()

#: Models of the answers to each request.
_ANSWERS: Mapping[str, type[Answer]] = {
    "look": LookAnswer,
    "join": JoinAnswer,
    "holds": HoldsAnswer,
    "leave": LeaveAnswer,
    "ask": AskAnswer,
}
#: Seconds until a host must answer a question, and until daemons must have started.
ANSWER_S, _START_S = 10.0, 30.0
#: Seconds between looks at the node managers of a run; they double with each that fails, up to the second.
_LOOK_S, _LONGEST_S = 2.0, 60.0
#: How often a run gives way to one that starts daemons at the same time, and seconds until its own have ended.
_TRIES, _RELEASED_S = 4, 3.0


#: How a host is reached: destination for ssh, None for this machine, or command prefix of a step of Slurm.
Reached: TypeAlias = str | tuple[str, ...] | None
Addresses: TypeAlias = Mapping[str, Reached]


class _BeginningError(SharingError):
    """Other runs may be starting or ending daemons on the hosts: a later look may find them ready."""


def _several_managers(found: str, *, started: bool) -> SharingError:
    """Return the error for hosts with different machine managers. started : runs have started one, which may end"""
    return (_BeginningError if started else SharingError)(
        f"the hosts belong to different machine managers ({found}), which cannot share them together; "
        "name hosts of one, or wait until the runs of the others have ended"
    )


class SharedHosts:
    """The policy of one run over several hosts; a context manager.

    kind : the policy, None while a run under `--policy auto` has none
    job : its name.  environment : variables for all ranks.  turns : None, each look at the hosts returns them
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
        self._reached: dict[str, Reached] = {}
        self._hosts: dict[str, HostConnection] = {}
        self._joined: dict[str, dict[str, Any]] = {}
        #: Time slots that others held when the run joined its hosts; later, its own job is among them.
        self._slots_before = 0
        self._shares: TimeShares | None = None
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._watcher: threading.Thread | None = None
        self._observed: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        self._stop_watching()
        self._disconnect()

    def _disconnect(self) -> None:
        together(HostConnection.close, list(self._hosts.values()))
        # With their connections the hosts are left.
        self._hosts.clear()
        self._joined.clear()

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
            self._reached |= addresses
            if self._shares is not None:
                return self._shares
            if not self._auto:
                found = self._nodes(list(addresses))
                assert self.kind is not None
                _check_policies(self.kind, found)
                self._shares = _time_shares(found, self.kind)
                return self._shares
            self._managed = [host for host in managed if host in addresses]
            if self._joined or self._refusal:
                return None
            try:
                found = self._nodes(self._managed)
                kinds = {policy_kind(str(node["policy"])) for node in found.values()}
                if len(kinds) == 1:
                    (kind,) = kinds
                    self._shares = _time_shares(found, kind)
                    # Ranks that run already keep what was settled for them.
                    self.kind = self.kind if self._settled else kind
            except (ReportedError, OSError) as error:
                self._refuse(error)
            self._disconnect()
            return self._shares

    def settle(self, hosts: Sequence[str]) -> None:
        """Join the hosts of a plan under `--policy auto`, if node managers run there; otherwise have no policy."""
        if not self._auto:
            return
        self._stop_watching()
        with self._lock:
            self.kind, self._settled, self._observed = None, True, {}
            try:
                found = self._nodes([host for host in hosts if host in self._managed])
                names = {host: str(node["policy"]) for host, node in found.items()}
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
            self._disconnect()

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
            return {host: {SOCKET_VARIABLE: node["socket"]} for host, node in self._joined.items()}

    def _join_and_watch(self, hosts: Sequence[str]) -> None:
        assert self.kind is not None
        self._stop_watching()
        self._join_patiently(sorted(hosts))
        self._slots_before = max(int(node["slots"]) for node in self._joined.values())
        there = others_there(self._slots_before)
        self._notify(f"policy {self.kind.name} on {', '.join(sorted(hosts))}: {there}")
        self._watcher = threading.Thread(target=self._watch, args=[self.kind, sorted(hosts)], daemon=True)
        self._watcher.start()

    def shares(self, environment: Mapping[str, str]) -> bool:
        """Return whether ranks with this environment belong to the job, as those of benchmarks do not."""
        return self.kind is not None and environment.get(JOB_VARIABLE) == self.job

    def _join_patiently(self, hosts: Sequence[str]) -> None:
        """Join hosts; give way a few times to other runs that begin or end now. Raises `SharingError`.

        A run under `--policy auto` does not wait for others.
        """
        for left in range(0 if self._auto else _TRIES - 1, -1, -1):
            try:
                self._join(hosts)
                break
            except _BeginningError:
                self._release()
                if not left or self._ended.wait(_RELEASED_S * random.uniform(1.0, 2.0)):
                    raise
            except BaseException:
                self._release()
                raise

    def _watch(self, kind: PolicyKind, hosts: Sequence[str]) -> None:
        """Join the hosts again after the end of one of their node managers, until `_stop_watching`."""
        pause_s, known = _LOOK_S, ""
        while not self._ended.wait(pause_s):
            with self._lock:
                try:
                    lost = [host for host in hosts if not self._ask(host, "holds")]
                    if lost and not self._ended.is_set():
                        self._notify(
                            f"the node manager of {', '.join(lost)} has ended; joining the hosts again"
                        )
                        self._join_patiently(hosts)
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
        self._close()

    def observed(self) -> dict[str, Any]:
        """Return the node managers' values of an ended run; empty if one of them has ended too."""
        self._stop_watching()
        if self.kind is None or not self._joined:
            return self._observed
        processes: list[dict[str, Any]] = []
        for host, node in self._joined.items():
            try:
                found = self._ask(host, "ask", ("job", self.job))
            except SharingError as error:
                self._notify(f"what the run shared is not known: {error}")
                return {}
            processes += [{**process, "node": node["node"]} for process in found]
        return sharing_document(
            self.kind,
            self.job,
            ", ".join(str(node["node"]) for node in self._joined.values()),
            self._slots_before,
            started=any(node["started"] for node in self._joined.values()),
            processes=processes,
        )

    def _nodes(self, hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the node managers of hosts that have one."""
        return {host: node for host, (node, _) in self._look(hosts).items() if node is not None}

    def _look(self, hosts: Sequence[str]) -> dict[str, tuple[dict[str, Any] | None, str]]:
        """Return for each host its node manager, if one runs, and the launcher's address as the host sees it."""
        found = together(lambda host: self._ask(host, "look"), hosts)
        return {host: (one["node"], one["launcher"]) for host, one in zip(hosts, found, strict=True)}

    def _join(self, hosts: Sequence[str]) -> None:
        assert self.kind is not None
        # Hosts that the plan no longer has may be lost: closing their connection leaves them without an answer.
        for host in [host for host in self._hosts if host not in hosts]:
            self._joined.pop(host, None)
            self._hosts.pop(host).close()
        self._release()
        found = self._look(hosts)
        nodes = {host: node for host, (node, _) in found.items()}
        _check_policies(self.kind, nodes)
        machine = _machine_of(nodes) if self.kind.coordinated else None
        for host in hosts:
            # The other hosts reach this machine where their connections came from.
            seen = [launcher for other, (_, launcher) in found.items() if not self._hosts[other].is_here]
            listen = next(iter(seen), "127.0.0.1") if self._hosts[host].is_here else None
            order = None if machine is None else asdict(machine)
            node = self._joined[host] = self._ask(host, "join", (self.kind.name, order, listen), _START_S)
            if not self.kind.coordinated:
                continue
            if machine is None:
                # Its node manager may have been started meanwhile, by a run or by an administrator.
                machine = _machine_of(nodes | {host: node})
            elif node["manager"] != machine.address:
                several = f"{host}: {node['manager']}, others of the plan: {machine.address}"
                raise _several_managers(several, started=True)

    def _release(self) -> None:
        for host in list(self._joined):
            with suppress(SharingError):
                self._ask(host, "leave")
        self._joined.clear()

    def _ask(self, host: str, what: str, argument: object = None, within_s: float = ANSWER_S) -> Any:
        if host not in self._hosts:
            self._hosts[host] = _connection(self._reached[host])
        connection = self._hosts[host]
        try:
            answer = connection.ask({what: argument}, within_s)
            while "note" in answer:
                self._notify(f"{host}: {answer['note']}")
                answer = connection.receive(within_s)
            if "refused" not in answer:
                read(_ANSWERS[what], answer)
        except HostCheckError as error:
            # A late answer would be taken for that of the next question. With its connection the host is left.
            self._joined.pop(host, None)
            self._hosts.pop(host).close()
            raise SharingError(f"{host} {error}; the policy needs this package on every host") from None
        if "refused" in answer:
            raise SharingError(f"{host}: {answer['refused']}")
        return answer[what]


def _check_policies(kind: PolicyKind, nodes: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Raise `SharingError` if the node manager of a host has another policy. nodes : None for a host without one"""
    for host, node in nodes.items():
        if node is not None:
            check_policy(kind, node, f"{host}: {node['socket']}")


def _time_shares(found: Mapping[str, Mapping[str, Any]], kind: PolicyKind) -> TimeShares:
    """Return the time shares that node managers have given away under one policy."""
    held = {host: int(node["slots"]) for host, node in found.items()}
    return TimeShares(here=0, node="", held=held, exclusive=kind.exclusive)


def _connection(reached: Reached) -> HostConnection:
    address, through = (None, reached) if isinstance(reached, tuple) else (reached, ())
    return HostConnection(address, {"lasting": not through}, through, program=_PROGRAM, python=sys.executable)


def _machine_of(found: Mapping[str, Mapping[str, Any] | None]) -> ManagerAccess | None:
    """Return the machine manager that the other hosts are to join, None if no host has one; raise `SharingError`."""
    known = {host: node for host, node in found.items() if node is not None}
    ending = [host for host, node in known.items() if node["key"] and not node["connected"]]
    if ending:
        raise _BeginningError(
            f"{', '.join(ending)}: the machine manager at {known[ending[0]]['manager']} does not answer, and "
            "node managers that runs have started end soon after theirs; try again"
        )
    managers = {host: str(node["manager"]) for host, node in known.items()}
    if len(set(managers.values())) > 1:
        several = ", ".join(f"{host}: {manager}" for host, manager in managers.items())
        raise _several_managers(several, started=any(node["key"] for node in known.values()))
    if not known:
        return None
    key = next((str(node["key"]) for node in known.values() if node["key"]), "")
    address = next(iter(managers.values()))
    without = sorted(found.keys() - known.keys())
    if without and not key:
        raise SharingError(
            f"{', '.join(without)}: no node manager runs there, and the key of the machine manager at {address} is "
            "not ours to give; start node managers there (apples node --manager …), or name other hosts"
        )
    if without and address.startswith(("127.", "[::1]")):
        raise SharingError(
            f"{', '.join(known)}: the machine manager there serves that host only; wait until its runs have ended"
        )
    return ManagerAccess(address, key)
