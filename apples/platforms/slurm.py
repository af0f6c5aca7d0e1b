"""A Slurm cluster as a platform: idle nodes of a partition, or the allocation we are in; ranks through `srun`.

Outside an allocation plans are made over what a partition has idle, and each run gets an allocation of its hosts; its
nodes are looked at when they are ours. Inside one the pool is its nodes, which are looked at before every plan. CPUs
of an allocation are ours alone, so no sensor is asked what they deliver. Nothing here decides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from apples.errors import ConfigError, LaunchError, NoFeasiblePlan
from apples.launching.launcher import Launcher, Notify
from apples.launching.slurm import Cluster, ReadyNodes, SlurmLauncher
from apples.model.grid import Grid, Host, Snapshot
from apples.model.hostlist import fold
from apples.model.snapshots import from_forecasts
from apples.model.template import Benchmark, BenchmarkRequest
from apples.platforms.platform import fingerprint, launched_benchmark, measured_write_s
from apples.platforms.serviceforecasts import ServiceWeather
from apples.platforms.ssh import needed
from apples.remote.facts import HostFacts, holds
from apples.remote.warmhosts import Kernels, WarmHosts
from apples.slurm import records, runner
from apples.slurm.commands import Wishes
from apples.slurm.linkstore import LinkStore
from apples.slurm.nodecheck import NodeCheck, NodeCheckResult, look
from apples.slurm.pool import Offer, Pool, cpu_type, offered
from apples.slurm.records import Node, Partition
from nws.base.errors import WeatherError
from nws.series import Forecast, Resource, Series

ALLOCATED = "what Slurm gives"

#: Seconds that nodes of a job which has just ended may take to be free.
SETTLED_S, LOOK_S = 5.0, 0.5

#: File systems that every node of a cluster sees at the same place.
_SHARED = ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "panfs", "fuse.glusterfs", "orangefs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the user and the surroundings say of the cluster.

    wishes : for the allocation.  grid : hosts of a grid file or a list, None for all nodes
    open_slots, open_types : hosts of which nobody has said how many ranks they take, or what CPU they have
    job : number of the allocation we run in, None outside.  state : directory in which links are kept
    """

    wishes: Wishes = field(default_factory=Wishes)
    grid: Grid | None = None
    open_slots: frozenset[str] = frozenset()
    open_types: frozenset[str] = frozenset()
    job: str | None = None
    state: Path


class SlurmPlatform:
    """Nodes that Slurm gives."""

    name = "slurm"

    def __init__(self, given: Given, *, service: ServiceWeather | None = None) -> None:
        """service : whose forecasts of links are used"""
        self.grid = given.grid or Grid(name="slurm", hosts=(), source="Slurm")
        self._given, self._service = given, service
        self._cluster = Cluster(hosts=(), wishes=given.wishes, enclosing=given.job)
        self._nodes: Mapping[str, Node] = {}
        self._facts: dict[str, HostFacts] = {}
        self._links: LinkStore | None = None
        self._disk_bytes: dict[str, float] = {}
        self._wished: list[str] = []
        self._dropped: dict[str, str] = {}
        self._kernels: Kernels | None = None

    def need_disk(self, path: Path, size_bytes: float) -> None:
        """Every host must be able to write so much at `path`, and see what the others write there."""
        self._disk_bytes[str(path.absolute())] = size_bytes

    def wish_disk(self, path: Path) -> None:
        """Find out with each look whether all hosts see the directory of `path`; none is left out for it."""
        self._wished.append(str(path.absolute()))

    def keep_warm(self, command: Sequence[str], hosts: WarmHosts) -> None:
        """Before ranks are started, have `command` compile the kernels on every node that `hosts` does not know."""
        self._kernels = Kernels(command=tuple(command), warm=hosts)

    def drop(self, hosts: Mapping[str, str]) -> None:
        """See `apples.platforms.platform.Platform.drop`."""
        self._dropped |= hosts

    def write_s(self, path: Path, size_bytes: float) -> float | None:
        """See `apples.platforms.platform.Platform.write_s`; before nodes were looked at, only file systems of
        clusters count."""
        told = [self._facts[host.name] for host in self.grid.hosts if host.name in self._facts]
        if len(told) < len(self.grid.hosts):
            shared = _file_system(path.parent) in _SHARED
        else:
            shared = all(holds(facts, str(path.absolute()), size_bytes) for facts in told)
        return measured_write_s(path.parent, size_bytes) if shared else None

    @property
    def launcher(self) -> Launcher:
        """Runs plans over the hosts that were to be had when last asked."""
        return SlurmLauncher(self._cluster, ready=self._ready)

    def snapshot(self, notify: Notify) -> Snapshot:
        """Ask Slurm what it has; raises `NoFeasiblePlan` with all reasons, `ConfigError`, `LaunchError`."""
        inside = self._given.job is not None
        pool = self._allocated(notify) if inside else self._idle(notify)
        absent = {**self._dropped, **pool.absent}
        offers = [offer for offer in pool.offers if offer.node.name not in self._dropped]
        offers, absent = self._enough(offers, absent)
        for host, why in pool.absent.items():
            notify(f"without {host}: {why}")
        hosts = tuple(self._host(offer) for offer in offers)
        self.grid = replace(self.grid, hosts=hosts)
        threads = max(offer.node.threads for offer in offers)
        self._cluster = replace(self._cluster, hosts=tuple(h.name for h in hosts), threads=threads)
        return replace(self._weather(offers, notify), absent=absent)

    def reaches(self, host: Host) -> bool:
        """Every host that is to be had."""
        return host.name in self._cluster.hosts

    def machine(self, host: Host) -> str:
        """CPU model, or what Slurm says of the node; and the versions that shape its speed."""
        told = self._facts.get(host.name) if self._given.job is not None else None
        node = self._nodes.get(host.name)
        kind = told.cpu_model if told is not None else cpu_type(node) if node is not None else host.cpu_type
        return f"{kind} {fingerprint()}"

    def benchmark(self, request: BenchmarkRequest) -> Benchmark:
        """Real ranks on that host for a second or two, in an allocation of their own where we are in none."""
        return launched_benchmark(self.launcher, request)

    def now(self) -> float:
        """The clock on the wall."""
        return time.time()

    def _idle(self, notify: Notify) -> Pool:
        """What the partition has to give now, with what the launcher must know of it."""
        wishes = self._given.wishes
        self._configure()
        partitions = records.parse_partitions(runner.asked(["scontrol", "-o", "show", "partition"]))
        partition = _chosen(partitions, wishes.partition)
        names = (
            partition.nodes
            if self._given.grid is None
            else tuple(self._named(partition.nodes, f"partition {partition.name}"))
        )
        partition = replace(partition, nodes=names)
        self.grid = replace(self.grid, name=partition.name, source=f"partition {partition.name}")
        notify(f"looking at {len(names)} nodes of partition {partition.name}")
        deadline = time.monotonic() + SETTLED_S
        while True:
            self._nodes = runner.nodes()
            found = offered(partition, self._nodes, wishes, counts_memory=self._cluster.counts_memory)
            if not _settling(self._nodes, names) or time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
        self._cluster = replace(self._cluster, most_s=partition.max_time_s)
        return found

    def _named(self, nodes: Sequence[str], where: str) -> list[str]:
        """Those of the nodes that the user's grid has, by name or address, in its order; raises `ConfigError`."""
        names = [host.name if host.name in nodes else host.address or host.name for host in self._hosts()]
        unknown = [name for name in names if name not in nodes]
        if unknown:
            raise ConfigError(f"{fold(unknown)} are no nodes of {where} ({fold(nodes)}); correct the names")
        return names

    def _allocated(self, notify: Notify) -> Pool:
        """The nodes of the allocation we are in, looked at."""
        number = self._given.job
        assert number is not None
        self._configure()
        text = runner.asked(["scontrol", "-d", "-o", "show", "job", number])
        job = records.parse_job(text, datetime.now())
        if job is None or job.state not in ("RUNNING", "COMPLETING"):
            state = "unknown to Slurm" if job is None else job.state
            raise LaunchError(
                f"job {number} (SLURM_JOB_ID) is {state}; run this inside an allocation, or unset SLURM_JOB_ID to have "
                "one made"
            )
        self._cluster = replace(self._cluster, left_s=job.left_s)
        self._nodes = runner.nodes()
        cpus, memory = records.allocated_cpus(text), records.allocated_memory(text)
        names = list(cpus) if self._given.grid is None else self._named(tuple(cpus), f"job {number}")
        nodes = {name: self._nodes.get(name, Node(name=name)) for name in names}
        seen = self._look(number, nodes, notify)
        self._facts = dict(seen.facts)
        offers = tuple(
            Offer(
                node=node,
                slots=max(1, cpus[name] // node.threads),
                memory_bytes=_memory(memory.get(name, 0.0), seen.facts[name]),
            )
            for name, node in nodes.items()
            if name in seen.facts
        )
        return Pool(offers=offers, absent={name: f"it {why}" for name, why in seen.unfit.items()})

    def _configure(self) -> None:
        """What the cluster is like whatever runs there."""
        if self._links is not None:
            return
        found = records.parse_configuration(runner.asked(["scontrol", "show", "config"]))
        self._links = LinkStore(self._given.state / "slurm-links.json", found.get("ClusterName", ""))
        counts = "MEMORY" in found.get("SelectTypeParameters", "").upper()
        self._cluster = replace(self._cluster, counts_memory=counts)

    def _enough(self, offers: list[Offer], absent: dict[str, str]) -> tuple[list[Offer], dict[str, str]]:
        """As many nodes as the user allows; raises `NoFeasiblePlan` where there are too few."""
        least, most = self._given.wishes.nodes or (1, len(offers))
        if len(offers) < least:
            reasons = "\n".join(f"{host}: {why}" for host, why in absent.items())
            what = "no node can be had" if least == 1 else f"{len(offers)} of {least} nodes can be had"
            raise NoFeasiblePlan(f"{what} in {self.grid.source}:\n{reasons}".rstrip(":\n"))
        best = sorted(offers, key=lambda o: (-o.slots * o.share, -o.memory_bytes))[:most]
        kept = [offer for offer in offers if offer in best]
        more = {o.node.name: f"--nodes allows {most}" for o in offers if o not in kept}
        return kept, {**absent, **more}

    def _hosts(self) -> tuple[Host, ...]:
        return () if self._given.grid is None else self._given.grid.hosts

    def _host(self, offer: Offer) -> Host:
        """The node as a host: what the user's grid says of it, within what Slurm gives."""
        node = offer.node
        told = self._facts.get(node.name) if self._given.job is not None else None
        kind = told.cpu_model if told is not None and told.cpu_model else cpu_type(node)
        stated = next((h for h in self._hosts() if node.name in (h.name, h.address)), None)
        if stated is None:
            return Host(
                name=node.name, slots=offer.slots, cpu_type=kind, memory_bytes=_known(node.memory_bytes)
            )
        if stated.name in self._given.open_types:
            stated = replace(stated, cpu_type=kind)
        if stated.name in self._given.open_slots:
            stated = replace(stated, slots=offer.slots)
        return replace(stated, name=node.name, slots=min(stated.slots, offer.slots))

    def _weather(self, offers: Sequence[Offer], notify: Notify) -> Snapshot:
        now = self.now()
        forecasts: dict[Series, Forecast] = {}
        for offer in offers:
            name = offer.node.name
            forecasts[Series(Resource.CPU_NEW, name)] = _told(offer.share, now)
            forecasts[Series(Resource.CPU_CAPACITY, name)] = _told(offer.share * offer.slots, now)
            if math.isfinite(offer.memory_bytes):
                forecasts[Series(Resource.MEMORY_FREE, name)] = _told(offer.memory_bytes, now)
        links, source = self._link_forecasts(now), ALLOCATED
        notes: tuple[str, ...] = ()
        if self._service is not None:
            try:
                outlook = self._service.forecasts(self.grid)
            except WeatherError as error:
                notes = (f"no weather of links from the service ({str(error).splitlines()[0]})",)
                notify(notes[0])
            else:
                pairs = {s: f for s, f in outlook.forecasts.items() if s.peer is not None}
                links |= {s: replace(f, measured_at=now) for s, f in pairs.items()}
                source = f"{ALLOCATED}, and links from {outlook.source}"
        found = from_forecasts(self.grid, {**forecasts, **links}, now=now, source=source)
        return replace(found, notes=notes)

    def _link_forecasts(self, now: float) -> dict[Series, Forecast]:
        """Links that were measured once, unless the user's grid says what they are like."""
        found: dict[Series, Forecast] = {}
        if self._links is None or self.grid.links:
            return found
        for link in self._links.among([host.name for host in self.grid.hosts]):
            for resource, value in (
                (Resource.LATENCY, link.latency_s),
                (Resource.BANDWIDTH, link.bandwidth_Bps),
            ):
                if value is not None:
                    found[Series(resource, link.source, link.target)] = _told(value, now)
        return found

    def _ready(self, job: str, hosts: Sequence[str], notify: Notify) -> ReadyNodes:
        """Nodes of a fresh allocation, looked at; those of the one we are in were looked at before the plan."""
        if self._given.job is None:
            seen = self._look(job, {name: self._nodes.get(name, Node(name=name)) for name in hosts}, notify)
            self._facts |= seen.facts
        else:
            seen = NodeCheckResult(facts={name: self._facts[name] for name in hosts if name in self._facts})
        return ReadyNodes(interfaces=seen.interfaces, unfit=seen.unfit)

    def _look(self, job: str, nodes: Mapping[str, Node], notify: Notify) -> NodeCheckResult:
        what = NodeCheck(
            job=job,
            addresses={name: node.address or name for name, node in nodes.items()},
            links=None if self._service is not None or self.grid.links else self._links,
            kernels=self._kernels,
        )
        with needed(self._disk_bytes, self._wished) as needs:
            return look(what, needs, notify)


def _chosen(partitions: Mapping[str, Partition], name: str | None) -> Partition:
    """The partition asked for, else the default one; raises `ConfigError`."""
    legal = ", ".join(partitions) or "none"
    if name is None:
        default = next((one for one in partitions.values() if one.default), None)
        if default is None:
            raise ConfigError(f"the cluster has no default partition; give one with --partition ({legal})")
        return default
    if name not in partitions:
        raise ConfigError(f"--partition {name}: there is no such partition; legal are {legal}")
    chosen = partitions[name]
    if chosen.state != "UP":
        raise NoFeasiblePlan(
            f"partition {name} is {chosen.state} and starts no jobs; use another with --partition"
        )
    return chosen


def _settling(nodes: Mapping[str, Node], names: Sequence[str]) -> bool:
    """Whether nodes are being cleared of a job that has ended, and will be free in a moment."""
    return any("COMPLETING" in nodes[name].states and not nodes[name].away for name in names if name in nodes)


def _memory(allocated_bytes: float, told: HostFacts) -> float:
    """Of a node in our allocation: what Slurm gives where it counts memory, and what is free there."""
    free = math.inf if told.survey is None else told.survey.memory_bytes
    return min(free, allocated_bytes) if allocated_bytes > 0 else free


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _told(value: float, now: float) -> Forecast:
    """A value that somebody has said, with no idea of its error."""
    return Forecast(
        value=value, mae=math.nan, rmse=math.nan, method="slurm", samples=1, measured_at=now, last=value
    )


def _file_system(directory: Path) -> str:
    """Type of the file system a directory lies on, empty where that cannot be told."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [(words[1], words[2]) for line in lines if len(words := line.split()) > 2]
    place = str(directory.absolute())
    over = [m for m in mounts if place == m[0] or place.startswith(m[0].rstrip("/") + "/")]
    return max(over, key=lambda m: len(m[0]), default=("", ""))[1]
