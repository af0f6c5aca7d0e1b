"""Checks the nodes of an allocation: the same check as over ssh, through `srun`, and links and kernels that are new.

Requests and answers are those of `apples.hosts`. Nodes are checked inside an allocation only, because nothing can be
started on them before.
"""

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from apples.hosts import hostpreflight, speed
from apples.hosts.facts import Needs, distrust
from apples.hosts.hostmessages import HostFacts
from apples.hosts.hostpreflight import Candidate
from apples.hosts.speed import CheckedConnection
from apples.hosts.warmhosts import Kernels
from apples.slurm import runner
from apples.slurm.commands import on_node
from apples.slurm.pool import LinkStore
from nws.base.program import ProgramFailed
from nws.base.wording import counted

#: Nodes of an allocation whose links are measured with the check; more of them would take longer than most runs.
MOST_LINKED = 8
#: Seconds kernels may take to be compiled on a node.
WARM_S = 600.0

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheckResult:
    """Nodes that were checked. facts : of those that can take part.  unfit : why the others cannot, a predicate"""

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def interfaces(self) -> dict[str, str]:
        """Return host → network interface with the address that Slurm uses, as far as known."""
        return {host: facts.interface for host, facts in self.facts.items() if facts.interface is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """The nodes to be checked, and the measurements wanted.

    job : to which the nodes belong.  addresses : node → name or address that Slurm uses for it
    links : store of links, of which missing ones are measured; None if they come from elsewhere
    kernels : to be compiled if they are not yet, None for none
    """

    job: str
    addresses: Mapping[str, str]
    links: LinkStore | None = None
    kernels: Kernels | None = None
    limit_s: float = hostpreflight.LIMIT_S


def look(what: NodeCheck, needs: Needs, notify: Notify) -> NodeCheckResult:
    """Check all nodes at once, then measure and compile what is new; raises `ProgramNotFound`, `HistoryError`."""
    nodes = list(what.addresses)
    notify(f"checking {counted(len(nodes), 'node')}")
    with _asked(what, needs) as found:
        fit = [one for one in found if one[0].fit]
        _measure_links(what, fit, notify)
        unfit = {one.candidate.name: one.reason for one, _ in found if not one.fit}
        facts = {one.candidate.name: one.facts for one, _ in fit if one.facts is not None}
    for note in distrust(facts):
        notify(note)
    cold = _compile(what, facts, notify)
    return NodeCheckResult(facts={n: f for n, f in facts.items() if n not in cold}, unfit={**unfit, **cold})


def prefixes(job: str, addresses: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return for each node of a job a command prefix that runs a command there; raises `ProgramNotFound`.

    addresses : node → name or address that Slurm uses for it; the command finds it in its environment
    """
    srun = runner.find("srun")
    found = {}
    for node, address in addresses.items():
        numeric = _numeric(address)
        variables = ("/usr/bin/env", f"APPLES_REACHED_AT={numeric}") if numeric else ()
        found[node] = (*runner.without_enclosing(), *on_node(srun, job, node), *variables)
    return found


@contextmanager
def _asked(what: NodeCheck, needs: Needs) -> Iterator[list[CheckedConnection]]:
    through = prefixes(what.job, what.addresses)
    candidates = [
        Candidate(name=node, address=address, through=through[node])
        for node, address in what.addresses.items()
    ]
    with hostpreflight.conversations_with(candidates, needs, limit_s=what.limit_s) as found:
        yield found


def _measure_links(what: NodeCheck, fit: Sequence[CheckedConnection], notify: Notify) -> None:
    if what.links is None or not 2 <= len(fit) <= MOST_LINKED:
        return
    unknown = set(what.links.missing([one.candidate.name for one, _ in fit]))
    if unknown:
        notify(f"measuring the links among {counted(len(unknown), 'node')} (once, then kept)")
        what.links.add(speed.links([one for one in fit if one[0].candidate.name in unknown]))


def _compile(what: NodeCheck, facts: Mapping[str, HostFacts], notify: Notify) -> dict[str, str]:
    """Return the nodes on which the kernels could not be compiled, with the reasons."""
    if what.kernels is None:
        return {}
    command, srun = what.kernels.command, runner.find("srun")

    def one(node: str) -> str | None:
        try:
            runner.output([*on_node(srun, what.job, node), *command], WARM_S)
        except ProgramFailed as failed:
            return failed.reason if failed.code is None else failed.last_line
        return None

    machines = {
        node: f"{node_facts.cpu_model} {sorted(node_facts.versions.items())}"
        for node, node_facts in facts.items()
    }
    failed = what.kernels.look_after(machines, one, notify)
    return {node: f"could not compile its kernels: {why}" for node, why in failed.items()}


def _numeric(address: str) -> str:
    """Return the numeric form of an address or name, empty if it does not resolve here."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(address, None)[0][4][0])
    return ""
