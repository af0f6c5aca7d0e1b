"""A Slurm cluster as a platform: idle nodes of a partition, or the current allocation; ranks are started by `srun`.

Outside an allocation, plans use the idle nodes of a partition, which a short job checks before the plan, and each run
gets an allocation of its hosts. Inside an allocation the pool is its nodes, checked before every plan. Each check
reads the node's sensors. CPU shares are forecast from the readings of all checks; a node that was not checked in the
last day, and one that Slurm has given to other jobs as well, gets the share that Slurm offers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from apples.errors import ConfigError, NoFeasiblePlan
from apples.hosts.facts import holds, managed
from apples.hosts.hostmessages import HostFacts
from apples.model.grid import OFFERED, Grid, Host, Snapshot
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.model.snapshots import with_time_shares
from apples.platforms.platform import (
    Platform,
    PlatformSetup,
    Preparation,
    fingerprint,
    measured_write_s,
    single_forecast,
)
from apples.platforms.requirements import SHARED_FILE_SYSTEMS, file_system
from apples.platforms.serviceforecasts import ServiceWeather, forecast_snapshot
from apples.slurm import launching, records, runner
from apples.slurm.allocation import (
    Given,
    chosen,
    current_job,
    is_yes,
    problems_in_allocation,
    read_wishes,
    running_job,
)
from apples.slurm.checkednodes import CheckedNodes, addresses, settled_nodes
from apples.slurm.clustertables import read_tables
from apples.slurm.commands import Wishes
from apples.slurm.launching import Cluster, ReadyNodes
from apples.slurm.nodecheck import NodeCheckResult, prefixes
from apples.slurm.pool import Offer, PartitionPool, cpu_type, offered
from apples.slurm.records import Node
from nws.base.hostlist import fold
from nws.base.records import document_of
from nws.base.wording import counted
from nws.series import Forecast, Resource, Series

if TYPE_CHECKING:
    from apples.platforms.sharedhosts import SharedHosts

ALLOCATED = "the offers of Slurm and looks at nodes"
SILENT = "no weather of links from the service ({})"


class SlurmPlatform(Platform):
    """Nodes that Slurm allocates. cluster : the facts for the launcher, of the last snapshot"""

    name = "slurm"
    several_hosts = True
    tables = staticmethod(read_tables)
    excludes: ClassVar[Mapping[str, str]] = {
        "mock": "the mock grid has no real hosts",
        "scenario": "the mock grid has no real hosts",
        "queue": "Slurm has its own queue",
    }
    options: ClassVar[Mapping[str, str]] = {
        "partition": "partition (default: the cluster's default)",
        "account": "account charged for the allocation",
        "qos": "quality of service",
        "reservation": "use nodes of this reservation",
        "constraint": "use nodes with these features (a&b, a|b)",
        "nodes": "MIN[-MAX], number of nodes to plan over",
        "exclusive": "yes or no: share the nodes with no other job",
        "immediate": "TIME after which to give up if the nodes are not allocated",
        "check": "yes or no: read sensors of idle nodes in a short job before a run is planned (default: yes)",
    }

    def __init__(
        self, given: Given, *, service: ServiceWeather | None = None, sharing: SharedHosts | None = None
    ) -> None:
        """service : asked for forecasts of links.  sharing : policy of the run, None without one"""
        super().__init__(given.grid or Grid(name="slurm", hosts=(), source="Slurm"))
        self._given, self._service, self._sharing = given, service, sharing
        self.cluster = Cluster(hosts={}, wishes=given.wishes, enclosing=given.job)
        self._nodes: Mapping[str, Node] = {}
        self._reads = False
        self._checked = CheckedNodes(
            given.state,
            self.now,
            allocated=given.job is not None,
            measures_links=service is None and not self.pool.links,
        )

    @classmethod
    def open(cls, setup: PlatformSetup) -> Self:
        """Return the cluster, restricted to the hosts of the grid or of the list if there is one."""
        grid = setup.listed_grid() if setup.grid is None and setup.listed else setup.grid
        given = Given(
            wishes=read_wishes(setup.options),
            grid=None if grid is None else setup.restrict(grid),
            **document_of(setup, "open_types", "open_slots", "state"),
            job=current_job(),
            reads=is_yes(setup.options.get("check", "yes")),
        )
        return cls(given, service=setup.service, sharing=setup.sharing)

    @classmethod
    def option_problems(cls, given: Sequence[str]) -> list[str]:
        """Return a problem for each option that shapes a new allocation, if this process is already in one."""
        return problems_in_allocation([name for name in given if name not in ("nodes", "check")])

    def prepare(self, preparation: Preparation) -> None:
        """Include the run's requirements in each check, and check idle nodes before the plan of a run."""
        self._checked.requirements.add(preparation)
        self._reads = preparation.runs and self._given.reads

    def checkpoint_s(self, path: Path, size_bytes: float) -> float | None:
        """Return the seconds measured here; before nodes are checked, only on cluster file systems."""
        facts = self._checked.facts_of(host.name for host in self.pool.hosts)
        known = len(facts) == len(self.pool.hosts)
        same = (holds(one, str(path.absolute()), size_bytes) for one in facts.values())
        shared = all(same) if known else file_system(path.parent) in SHARED_FILE_SYSTEMS
        return measured_write_s(path.parent, size_bytes) if shared else None

    def check(self, request: LaunchRequest) -> None:
        """Raise `LaunchError` if the run cannot start; change nothing."""
        launching.check(self.with_mpi(request), self.cluster)

    def command_line(self, request: LaunchRequest) -> list[str]:
        """Return the command that `run` would execute."""
        return launching.command_line(self.with_mpi(request), self.cluster)

    def run(self, request: LaunchRequest, notify: Notify) -> Outcome:
        """Run the plan in an allocation of its hosts, or in the current one."""
        ready = partial(self._ready, request.environment)
        # a plan made while ranks run must not start a job beside them
        reads, self._reads = self._reads, False
        try:
            return launching.run(self.with_mpi(request), self.cluster, notify, ready=ready)
        finally:
            self._reads = reads

    def snapshot(self, notify: Notify) -> Snapshot:
        """Return the usable nodes; raise `NoFeasiblePlan` with all reasons, `ConfigError`, `LaunchError`."""
        inside = self._given.job is not None
        pool = self._allocated(notify) if inside else self._idle(notify)
        absent = {**self._dropped, **pool.absent}
        offers = [offer for offer in pool.offers if offer.node.name not in self._dropped]
        wishes, source = self._given.wishes, self.pool.source
        if self._reads and not inside:
            self._checked.look_at_idle(_enough(offers, absent, wishes, source)[0], self.cluster, notify)
        unfit = {} if inside else _sentences(self._checked.unfit())
        offers = [offer for offer in offers if offer.node.name not in unfit]
        offers, absent = _enough(offers, absent | unfit, wishes, source)
        for host, why in {**pool.absent, **unfit}.items():
            notify(f"without {host}: {why}")
        facts = self._checked.facts if inside else {}
        hosts = (_host(offer, facts.get(offer.node.name), self._given) for offer in offers)
        self.pool = replace(self.pool, hosts=tuple(hosts))
        threads = max(offer.node.threads for offer in offers)
        self.cluster = replace(self.cluster, hosts={o.node.name: o.slots for o in offers}, threads=threads)
        found = replace(self._forecast(offers, notify), absent=absent)
        # Outside, the offers have the CPUs of other jobs; node managers can be asked once the nodes are allocated.
        if not inside or self._sharing is None or self._given.job is None:
            return found
        commands = _prefixes(self._given.job, self._nodes, [host.name for host in found.hosts])
        held = self._sharing.look(commands, managed(self._checked.facts))
        return found if held is None else with_time_shares(found, held)

    def reaches(self, host: Host) -> bool:
        """Return whether the node was usable in the last snapshot."""
        return host.name in self.cluster.hosts

    def machine(self, host: Host) -> str:
        """Return the CPU model, or Slurm's description of the node, and the versions that determine its speed."""
        facts = self._checked.facts.get(host.name) if self._given.job is not None else None
        node = self._nodes.get(host.name)
        kind = facts.cpu_model if facts is not None else cpu_type(node) if node is not None else host.cpu_type
        return f"{kind} {fingerprint()}"

    def _idle(self, notify: Notify) -> PartitionPool:
        """Return the idle nodes of the partition, and store its limits for the launcher."""
        self._configure(notify)
        partitions = records.parse_partitions(runner.asked(["scontrol", "-o", "show", "partition"]))
        partition = chosen(partitions, self._given.wishes.partition)
        names = _named(self._given.grid, partition.nodes, f"partition {partition.name}")
        partition = replace(partition, nodes=names)
        self.pool = replace(self.pool, name=partition.name, source=f"partition {partition.name}")
        notify(f"looking at {counted(len(names), 'node')} of partition {partition.name}")
        self._nodes = settled_nodes(names)
        if partition.shared > 1:
            self._nodes = _beside_all_jobs(self._nodes)
        self.cluster = replace(self.cluster, most_s=partition.max_time_s)
        counts = self.cluster.counts_memory
        return offered(partition, self._nodes, self._given.wishes, counts_memory=counts)

    def _allocated(self, notify: Notify) -> PartitionPool:
        """Return the checked nodes of the current allocation."""
        number = self._given.job
        assert number is not None
        self._configure(notify)
        text = runner.asked(["scontrol", "-d", "-o", "show", "job", number])
        self.cluster = replace(self.cluster, left_s=running_job(text, number).left_s)
        self._nodes = runner.nodes()
        cpus, memory = records.allocated_cpus(text), records.allocated_memory(text)
        names = _named(self._given.grid, tuple(cpus), f"job {number}")
        nodes = {name: _node(self._nodes, name) for name in names}
        self._checked.facts.clear()
        slots = {name: max(1, cpus[name] // node.threads) for name, node in nodes.items()}
        seen = self._checked.look(number, nodes, slots, notify)
        offers = tuple(
            Offer(node=node, slots=slots[name], memory_bytes=_memory(memory.get(name, 0.0), seen.facts[name]))
            for name, node in nodes.items()
            if name in seen.facts
        )
        return PartitionPool(offers=offers, absent=_sentences(seen.unfit))

    def _configure(self, notify: Notify) -> None:
        """Read the cluster's configuration once."""
        if self._checked.configured:
            return
        settings = records.parse_configuration(runner.asked(["scontrol", "show", "config"]))
        self._checked.configure(settings.get("ClusterName", ""), notify)
        counts = "MEMORY" in settings.get("SelectTypeParameters", "").upper()
        self.cluster = replace(self.cluster, counts_memory=counts)

    def _forecast(self, offers: Sequence[Offer], notify: Notify) -> Snapshot:
        def measure(known: Mapping[Series, Forecast] | None) -> tuple[Mapping[Series, Forecast], str]:
            alone = [offer.node.name for offer in offers if offer.share >= 1.0]
            own = _forecasts(offers, self.now()) | self._checked.forecasts(alone, notify)
            if not self.pool.links:
                own |= self._checked.link_forecasts([h.name for h in self.pool.hosts], self.name)
            return own, ALLOCATED

        return forecast_snapshot(
            self.pool, self._service, measure, silent=SILENT, now=self.now, notify=notify, links_only=True
        )

    def _ready(
        self, environment: Mapping[str, str], job: str, hosts: Sequence[str], notify: Notify
    ) -> ReadyNodes:
        """Return the nodes, checked in a new allocation, under the policy of ranks with this environment."""
        if self._given.job is None and not self._checked.ready(hosts):
            slots = {host: self.cluster.hosts.get(host, 1) for host in hosts}
            seen = self._checked.look(job, {h: _node(self._nodes, h) for h in hosts}, slots, notify)
        else:
            seen = NodeCheckResult(facts=self._checked.facts_of(hosts))
        ready = ReadyNodes(interfaces=seen.interfaces, unfit=seen.unfit)
        if self._sharing is None or seen.unfit or not self._sharing.shares(environment):
            return ready
        self._sharing.look(_prefixes(job, self._nodes, hosts))
        return replace(ready, environment=self._sharing.join(hosts, environment), ended=self._sharing.end)


def _beside_all_jobs(nodes: Mapping[str, Node]) -> Mapping[str, Node]:
    """Return the nodes of a shared partition with the CPUs that all jobs together have: Slurm counts each CPU once."""
    held = records.held_cpus(runner.tried(["scontrol", "-d", "-o", "show", "job"]))
    return {
        name: replace(node, allocated_cpus=max(node.allocated_cpus, held[name]))
        for name, node in nodes.items()
    }


def _node(nodes: Mapping[str, Node], name: str) -> Node:
    return nodes.get(name, Node(name=name))


def _sentences(unfit: Mapping[str, str]) -> dict[str, str]:
    return {node: f"it {why}" for node, why in unfit.items()}


def _prefixes(job: str, nodes: Mapping[str, Node], hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return for each host of a job the prefix of commands that run there."""
    return prefixes(job, addresses({host: _node(nodes, host) for host in hosts}))


def _named(grid: Grid | None, nodes: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the nodes of the user's grid, by name or address, in its order; raise `ConfigError`. All without one."""
    if grid is None:
        return nodes
    names = tuple(host.name if host.name in nodes else host.address or host.name for host in grid.hosts)
    unknown = [name for name in names if name not in nodes]
    if unknown:
        raise ConfigError(f"{fold(unknown)} are no nodes of {where} ({fold(nodes)}); correct the names")
    return names


def _enough(
    offers: list[Offer], absent: dict[str, str], wishes: Wishes, source: str
) -> tuple[list[Offer], dict[str, str]]:
    """Return at most as many nodes as the user allows; raise `NoFeasiblePlan` if there are too few."""
    least, most = wishes.nodes or (1, len(offers))
    if len(offers) < least:
        reasons = "\n".join(f"{host}: {why}" for host, why in absent.items())
        what = "no node can be had" if least == 1 else f"{len(offers)} of {least} nodes can be had"
        raise NoFeasiblePlan(f"{what} in {source}:\n{reasons}".rstrip(":\n"))
    best = sorted(offers, key=lambda o: (-o.slots * o.share, -o.memory_bytes))[:most]
    kept = [offer for offer in offers if offer in best]
    more = {o.node.name: f"--nodes allows {most}" for o in offers if o not in kept}
    return kept, {**absent, **more}


def _host(offer: Offer, facts: HostFacts | None, given: Given) -> Host:
    """Return the node as a host: the values of the user's grid, limited by the values of Slurm."""
    node = offer.node
    kind = facts.cpu_model if facts is not None and facts.cpu_model else cpu_type(node)
    hosts = () if given.grid is None else given.grid.hosts
    stated = next((h for h in hosts if node.name in (h.name, h.address)), None)
    if stated is None:
        memory = None if math.isnan(node.memory_bytes) else node.memory_bytes
        return Host(name=node.name, slots=offer.slots, cpu_type=kind, memory_bytes=memory)
    if stated.name in given.open_types:
        stated = replace(stated, cpu_type=kind)
    if stated.name in given.open_slots:
        stated = replace(stated, slots=offer.slots)
    return replace(stated, name=node.name, slots=min(stated.slots, offer.slots))


def _forecasts(offers: Sequence[Offer], now: float) -> dict[Series, Forecast]:
    """Return the forecasts of CPUs and memory that Slurm offers."""
    return {
        Series(resource, offer.node.name): single_forecast(value, now, OFFERED)
        for offer in offers
        for resource, value in (
            (Resource.CPU_NEW, offer.share),
            (Resource.CPU_CAPACITY, offer.share * offer.slots),
            (Resource.MEMORY_FREE, offer.memory_bytes),
        )
        if math.isfinite(value)
    }


def _memory(allocated_bytes: float, facts: HostFacts) -> float:
    """Return the memory of an allocated node: the smaller of the allocated and the free bytes."""
    free = math.inf if facts.survey is None else facts.survey.memory_bytes
    return min(free, allocated_bytes) if allocated_bytes > 0 else free
