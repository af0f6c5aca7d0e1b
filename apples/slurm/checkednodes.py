"""The nodes of a Slurm cluster as checks have found them: facts, faults, readings of sensors, links.

A short job on idle nodes before planning, in which their sensors are read: Slurm starts nothing on them without one.

It is made to delay others little: only idle cores are asked for, one on each node where Slurm gives single cores;
nothing is compiled in it; and a job that Slurm does not start at once is given up.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from apples.errors import LaunchError
from apples.hosts.hostmessages import HostFacts
from apples.model.launchrequest import Notify
from apples.platforms.hostreadings import HostReadings, survey_forecasts
from apples.platforms.platform import link_forecasts
from apples.platforms.requirements import Requirements
from apples.slurm import runner
from apples.slurm.allocation import AllocationRefused, OwnAllocation
from apples.slurm.commands import Shape, minutes
from apples.slurm.launching import RANK_BYTES, UNPREDICTED_S, Cluster
from apples.slurm.nodecheck import MOST_LINKED, NodeCheck, NodeCheckResult, look
from apples.slurm.pool import LinkStore, Offer
from apples.slurm.records import Node
from nws.series import CPU, Forecast, Resource, Series


class CheckedNodes:
    """Results of all checks of this process, and the readings and links that are kept for later ones.

    facts : of nodes that passed.  requirements : of the run, checked on each node
    """

    def __init__(
        self, state: Path, clock: Callable[[], float], *, allocated: bool, measures_links: bool
    ) -> None:
        """Read nothing yet.

        Args:
            state: directory for readings and links
            clock: seconds since the epoch
            allocated: the nodes are those of this process' allocation, so each check counts until the next
            measures_links: neither the weather service nor the user has the links
        """
        self.facts: dict[str, HostFacts] = {}
        self.requirements = Requirements(state / "warm.json", package=True)
        self._state, self._clock = state, clock
        self._allocated, self._measures_links = allocated, measures_links
        self._read_at: dict[str, float] = {}
        self._unfit: dict[str, str] = {}
        self._stored = True
        self._links: LinkStore | None = None
        self._readings: HostReadings | None = None

    @property
    def configured(self) -> bool:
        """Whether the cluster is known."""
        return self._readings is not None

    def configure(self, cluster: str, notify: Notify) -> None:
        """Open the readings and links of a cluster, by its name."""
        self._links = LinkStore(self._state / "slurm-links.json", cluster, notify)
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in cluster)
        self._readings = HostReadings(self._state / f"slurm-readings-{name}.db")

    def look_at_idle(self, offers: Sequence[Offer], cluster: Cluster, notify: Notify) -> None:
        """Check those of the nodes that were not checked lately, in a short job."""
        wanted = unread(offers, self._read_at, self._clock())
        if not wanted:
            return
        slots = {offer.node.name: offer.slots for offer in wanted}
        try:
            with check_job(wanted, cluster, notify) as job:
                self.look(job, {o.node.name: o.node for o in wanted}, slots, notify, compiles=False)
        except AllocationRefused:
            # a reason that does not pass is given when the run is refused, too
            notify("planning without a reading of the nodes: Slurm started no job on them at once")

    def look(
        self,
        job: str,
        nodes: Mapping[str, Node],
        slots: Mapping[str, int],
        notify: Notify,
        *,
        compiles: bool = True,
    ) -> NodeCheckResult:
        """Check nodes of a job, and store their readings.

        Args:
            job: number
            nodes: by name
            slots: of each node for a run
            notify: receives progress
            compiles: kernels, where the run needs them
        """
        kernels = self.requirements.kernels if compiles else None
        links = self._links if self._measures_links else None
        check = NodeCheck(job=job, addresses=addresses(nodes), links=links, kernels=kernels)
        with self.requirements.needs() as needs:
            found = look(check, needs, notify)
        seen = replace(found, facts={node: scaled(one, slots[node]) for node, one in found.facts.items()})
        self.facts = {n: f for n, f in self.facts.items() if n not in seen.unfit} | dict(seen.facts)
        self._unfit = {n: why for n, why in self._unfit.items() if n not in seen.facts} | dict(seen.unfit)
        now = self._clock()
        self._read_at |= dict.fromkeys((*seen.facts, *seen.unfit), now)
        if self._readings is not None:
            readings = survey_forecasts(seen.facts, now)
            self._stored = self._readings.add(readings, {node: node for node in seen.facts}, now, notify)
        return seen

    def unfit(self) -> dict[str, str]:
        """Return the nodes that were just found unfit, each with a predicate."""
        now = self._clock()
        return {node: why for node, why in self._unfit.items() if is_fresh(self._read_at[node], now)}

    def _just_read(self, node: str) -> bool:
        """Return whether the node was checked for the plan: in this allocation, or a moment ago."""
        return node in self.facts and (self._allocated or is_fresh(self._read_at[node], self._clock()))

    def ready(self, hosts: Sequence[str]) -> bool:
        """Return whether another check of hosts would find nothing new: links and kernels are known, too."""
        kernels, links = self.requirements.kernels, self._links if self._measures_links else None
        compiled = kernels is None or not kernels.command
        known = links is None or not 2 <= len(hosts) <= MOST_LINKED or not links.missing(list(hosts))
        return compiled and known and all(self._just_read(host) for host in hosts)

    def forecasts(self, alone: Iterable[str], notify: Notify) -> dict[Series, Forecast]:
        """Return the forecasts of CPUs from all readings. alone : nodes that Slurm gives to no other job"""
        if self._readings is None:
            return {}
        now = self._clock()
        names = {node: node for node in alone}
        read = survey_forecasts({n: self.facts[n] for n in names if self._just_read(n)}, now)
        new = {series: one for series, one in read.items() if series.resource in {*CPU, Resource.CPU_LIMIT}}
        kept = self._readings.forecasts(names, now, notify)
        return new | kept if self._stored else kept | new

    def link_forecasts(self, hosts: Iterable[str], source: str) -> dict[Series, Forecast]:
        """Return the forecasts of the measured links among hosts."""
        links = [] if self._links is None else self._links.among(list(hosts))
        return dict(link_forecasts(links, self._clock(), source))

    def facts_of(self, hosts: Iterable[str]) -> dict[str, HostFacts]:
        """Return the facts of those hosts that passed."""
        return {host: self.facts[host] for host in hosts if host in self.facts}


def addresses(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Return for each node the name or address that Slurm uses for it."""
    return {name: node.address or name for name, node in nodes.items()}


#: Most nodes of the job. A run over more of them is planned with the readings of earlier runs.
MOST_NODES = 32
#: Seconds until the job is given up.
WAIT_S = 5.0
#: Seconds for which a node counts as just read, and as fit for the run.
FRESH_S = 60.0
#: Seconds that nodes of a job which has just ended may take to be free.
SETTLED_S, LOOK_S = 5.0, 0.5


def unread(offers: Sequence[Offer], read_at: Mapping[str, float], now: float) -> tuple[Offer, ...]:
    """Return the nodes to read: those whose cores no job shares. None if they are too many, or all just read."""
    own = tuple(offer for offer in offers if offer.share >= 1.0)
    fresh = all(is_fresh(read_at.get(offer.node.name), now) for offer in own)
    return () if fresh or len(own) > MOST_NODES else own


def is_fresh(read_at: float | None, now: float) -> bool:
    """Return whether a node was read a moment ago. read_at : None if it was not"""
    return read_at is not None and 0.0 <= now - read_at < FRESH_S


def scaled(facts: HostFacts, slots: int) -> HostFacts:
    """Return the facts with the capacity of so many cores, if the check was bound to fewer."""
    survey = facts.survey
    if survey is None or not 0 < survey.cpus < slots:
        return facts
    return structs.replace(
        facts, survey=structs.replace(survey, capacity=survey.capacity * slots / survey.cpus)
    )


@contextmanager
def check_job(offers: Sequence[Offer], cluster: Cluster, notify: Notify) -> Iterator[str]:
    """Give the number of a job on these nodes; on exit they are free again. Raises `AllocationRefused`."""
    nodes = tuple(offer.node.name for offer in offers)
    shape = Shape(
        name="apples-check",
        hosts=nodes,
        ranks_each=1,
        minutes=minutes(UNPREDICTED_S, cluster.most_s),
        threads=max(offer.node.threads for offer in offers),
        memory_bytes=2 * RANK_BYTES if cluster.counts_memory else 0.0,
    )
    wishes = replace(cluster.wishes, exclusive=False, immediate_s=WAIT_S)
    with OwnAllocation(shape, wishes, notify) as allocation:
        yield allocation.number
    with contextlib.suppress(LaunchError):
        settled_nodes(nodes)


def settled_nodes(names: Sequence[str]) -> Mapping[str, Node]:
    """Return all nodes once Slurm has cleared those named of an ended job, or after `SETTLED_S`."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        nodes = runner.nodes()
        if not _settling(nodes, names) or time.monotonic() > deadline:
            return nodes
        time.sleep(LOOK_S)


def _settling(nodes: Mapping[str, Node], names: Sequence[str]) -> bool:
    """Return whether Slurm is still clearing nodes of an ended job; they will be free soon."""
    return any("COMPLETING" in nodes[name].states and not nodes[name].away for name in names if name in nodes)
