"""The node managers of several hosts, which a run joins or starts, over ssh or steps of Slurm.

All node managers of a coordinated policy must have one machine manager. If hosts of the plan have one, the others join
it; otherwise the first host by name starts it. Hosts are joined in the order of their names, so that of two runs that
begin at the same time one finds the daemons of the other. A run that finds two managers releases those it has started,
and looks again after a random time.
"""

import random
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from apples.coscheduling.policies import PolicyKind
from apples.daemons.exchanges import HOST_REQUESTS, NodeManager, SharedHost
from apples.daemons.hostsharing import check_policy
from apples.daemons.ipc.requests import Refusal, read_answer
from apples.daemons.nodemessages import ProcessReport
from apples.daemons.paths import ManagerAccess
from apples.daemons.starting import Notify
from apples.errors import SharingError
from apples.hosts.conversation import AgentConversation, together
from apples.hosts.frames import ToAgent
from apples.hosts.hostmessages import HostCheckError
from apples.hosts.travelling import INSTALLED

#: Seconds until a host must answer a question, and until daemons must have started.
ANSWER_S, _START_S = 10.0, 30.0
#: Seconds until daemons that were released have ended.
_RELEASED_S = 3.0

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


class NodeManagers:
    """Connections to hosts, and the node managers there that a run has joined.

    joined : host → description of its node manager.  One thread per host may ask at a time.
    """

    def __init__(self, notify: Notify) -> None:
        """notify : receives each note of a host"""
        self.joined: dict[str, NodeManager] = {}
        self._notify = notify
        self._reached: dict[str, Reached] = {}
        self._hosts: dict[str, AgentConversation] = {}

    def reach(self, addresses: Addresses) -> None:
        """Add addresses of hosts."""
        self._reached |= addresses

    def close(self) -> None:
        """End the connections; with them the hosts are left."""
        together(AgentConversation.close, list(self._hosts.values()))
        self._hosts.clear()
        self.joined.clear()

    def running_on(self, hosts: Sequence[str]) -> dict[str, NodeManager]:
        """Return the node managers of hosts that have one."""
        shared = self._look(hosts)
        return {host: one.node for host, one in shared.items() if one.node is not None}

    def _look(self, hosts: Sequence[str]) -> dict[str, SharedHost]:
        """Return for each host its node manager, if one runs, and the launcher's address as the host sees it."""
        return dict(zip(hosts, together(lambda host: self.ask(host, "look"), hosts), strict=True))

    def join(self, kind: PolicyKind, hosts: Sequence[str], tries: int, over: threading.Event) -> None:
        """Join or start the node managers of hosts, and leave all others; raises `SharingError`.

        Gives way to other runs that begin or end daemons now.

        Args:
            kind: policy
            hosts: hosts
            tries: after so many, the error is raised, with everything released
            over: set when the run ends
        """
        for left in range(tries - 1, -1, -1):
            try:
                self._join(kind, hosts)
                break
            except _BeginningError:
                self._release()
                if not left or over.wait(_RELEASED_S * random.uniform(1.0, 2.0)):
                    raise
            except BaseException:
                self._release()
                raise

    def _join(self, kind: PolicyKind, hosts: Sequence[str]) -> None:
        # Hosts that the plan no longer has may be lost: closing their connection leaves them without an answer.
        for host in [host for host in self._hosts if host not in hosts]:
            self.joined.pop(host, None)
            self._hosts.pop(host).close()
        self._release()
        shared = self._look(hosts)
        nodes = {host: one.node for host, one in shared.items()}
        check_policies(kind, nodes)
        machine = _machine_of(nodes) if kind.coordinated else None
        for host in hosts:
            # The other hosts reach this machine where their connections came from.
            seen = [one.launcher for other, one in shared.items() if not self._hosts[other].is_here]
            listen = next(iter(seen), "127.0.0.1") if self._hosts[host].is_here else None
            node = self.joined[host] = self.ask(host, "join", (kind.name, machine, listen), _START_S)
            if not kind.coordinated:
                continue
            if machine is None:
                # Its node manager may have been started meanwhile, by a run or by an administrator.
                machine = _machine_of(nodes | {host: node})
            elif node.manager != machine.address:
                several = f"{host}: {node.manager}, others of the plan: {machine.address}"
                raise _several_managers(several, started=True)

    def _release(self) -> None:
        """Leave all hosts; node managers that were started for this run end."""
        for host in list(self.joined):
            with suppress(SharingError):
                self.ask(host, "leave")
        self.joined.clear()

    def hold(self, host: str) -> bool:
        """Return whether the node manager that was joined on a host still runs; raises `SharingError`."""
        return bool(self.ask(host, "holds"))

    def ranks(self, job: str) -> list[ProcessReport]:
        """Return the reports of all node managers on the ranks of a job; raises `SharingError`."""
        return [
            msgspec.structs.replace(process, node=node.node)
            for host, node in self.joined.items()
            for process in self.ask(host, "ranks", job)
        ]

    def ask(self, host: str, what: str, argument: object = None, within_s: float = ANSWER_S) -> Any:
        """Return a host's answer to one request of `apples.daemons.hostsharing.serve`; raises `SharingError`."""
        if host not in self._hosts:
            self._hosts[host] = self._connection(host)
        connection = self._hosts[host]
        try:
            connection.send(msgspec.json.encode({what: argument}))
            answer = read_answer(HOST_REQUESTS[what], connection.answer(within_s))
        except (HostCheckError, ValueError, RecursionError) as error:
            # A late answer would be taken for that of the next question. With its connection the host is left.
            self.joined.pop(host, None)
            self._hosts.pop(host).close()
            why = (
                error
                if isinstance(error, HostCheckError)
                else f"gave an answer that cannot be understood ({error})"
            )
            raise SharingError(f"{host} {why}; the policy needs this package on every host") from None
        if isinstance(answer, Refusal):
            raise SharingError(f"{host}: {answer.refused}")
        return answer

    def _connection(self, host: str) -> AgentConversation:
        reached = self._reached[host]
        address, through = (None, reached) if isinstance(reached, tuple) else (reached, ())
        return AgentConversation(
            address,
            (ToAgent.SHARE, msgspec.json.encode({"lasting": not through})),
            through,
            program=INSTALLED,
            python=sys.executable,
            notify=lambda note: self._notify(f"{host}: {note}"),
        )


def check_policies(kind: PolicyKind, nodes: Mapping[str, NodeManager | None]) -> None:
    """Raise `SharingError` if the node manager of a host has another policy. nodes : None for a host without one"""
    for host, node in nodes.items():
        if node is not None:
            check_policy(kind, node, f"{host}: {node.socket}")


def _machine_of(nodes: Mapping[str, NodeManager | None]) -> ManagerAccess | None:
    """Return the machine manager that the other hosts are to join, None if no host has one; raise `SharingError`."""
    known = {host: node for host, node in nodes.items() if node is not None}
    ending = [host for host, node in known.items() if node.key and not node.connected]
    if ending:
        raise _BeginningError(
            f"{', '.join(ending)}: the machine manager at {known[ending[0]].manager} does not answer, and "
            "node managers that runs have started end soon after theirs; try again"
        )
    managers = {host: str(node.manager) for host, node in known.items()}
    if len(set(managers.values())) > 1:
        several = ", ".join(f"{host}: {manager}" for host, manager in managers.items())
        raise _several_managers(several, started=any(node.key for node in known.values()))
    if not known:
        return None
    key = next((node.key for node in known.values() if node.key), "")
    address = next(iter(managers.values()))
    without = sorted(nodes.keys() - known.keys())
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
