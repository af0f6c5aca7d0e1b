"""Run the benchmarks that the evidence on a request lacks, each once, and keep them."""

from dataclasses import dataclass
from typing import NamedTuple

from apples.costs.costs import costs_of, second_size
from apples.costs.evidence import Evidence, Slab
from apples.costs.store import History
from apples.errors import ConfigError, LaunchError
from apples.model.grid import Host
from apples.model.launchrequest import Notify
from apples.model.runrequest import RunRequest
from apples.model.template import SHORT_RUN_S, BenchmarkRequest, Costs
from apples.model.wholenumbers import ANY, WholeNumbers
from apples.platforms.platform import Platform
from nws.base.wording import counted


class Priced(NamedTuple):
    """Costs, and the evidence that they were made from, with the benchmarks that were run for them."""

    costs: Costs
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Benchmarks of one request on one platform, kept in the history.

    running, limit_s : of `BenchmarkRequest`
    """

    platform: Platform
    request: RunRequest
    history: History
    notify: Notify
    running: Notify = lambda text: None
    limit_s: float = SHORT_RUN_S

    def price(self, evidence: Evidence, slab: Slab, *, between: bool = False) -> Priced:
        """Return the costs on slabs; benchmarks that are missing are run.

        Args:
            evidence: All that is known.
            slab: The slabs.
            between: Whether slabs between two sizes need the benchmarks of both.

        Raises:
            ConfigError: A user's program was not measured, and may not be started now.
            LaunchError: A benchmark failed.
        """
        for cpu_type in evidence.hosts if evidence.measurable else ():
            evidence = self._measured(evidence, slab, cpu_type)
        for cpu_type in evidence.hosts if evidence.measurable and between else ():
            evidence = self._second_measured(evidence, slab, cpu_type)
        self._require(evidence, slab)
        return Priced(costs_of(evidence, slab), evidence)

    def calibrate(self, evidence: Evidence, slab: Slab) -> Evidence:
        """Measure every benchmark anew, also those of the other slabs that plans of this size have had."""
        second = second_size(evidence, slab)
        measured_now = {slab.rows, slab.rows if second is None else second.rows}
        stored = [
            rows
            for rows in sorted(set(evidence.benchmarks) - measured_now)
            if evidence.by_slab and slab.rows / 2 <= rows < 2 * self.request.size
        ]
        for cpu_type in evidence.hosts:
            evidence = self._measured(evidence, slab, cpu_type, anew=True)
            evidence = self._second_measured(evidence, slab, cpu_type, anew=True)
            for rows in stored:
                evidence = self._measured(evidence, Slab(rows, rows), cpu_type, anew=True)
        return evidence

    def _measured(self, evidence: Evidence, slab: Slab, cpu_type: str, *, anew: bool = False) -> Evidence:
        """Run the benchmarks of a CPU type that are missing, or all `anew`; each is kept at once."""
        host, name = evidence.hosts[cpu_type], self.request.template.name
        stored = evidence.benchmarks.get(slab.rows, {}).get(cpu_type)
        known = {b.ranks for b in stored.benchmarks} if stored is not None and not anew else set()
        template = self.request.template
        counts = rank_counts(host.slots, evidence.workload.ranks, template.fewest_measured)
        missing = [ranks for ranks in counts if ranks not in known]
        if not missing or not self.platform.reaches(host):
            return evidence
        for ranks in missing:
            number = f"{counted(ranks, 'rank')} of {counted(slab.rows, 'row')}{' together' * template.sized}"
            self.notify(f"benchmark of {name} on {host.name} with {number} (once, then kept)")
            benchmark = self.platform.benchmark(
                BenchmarkRequest(
                    template=template,
                    options=self.request.settings,
                    host=host,
                    ranks=ranks,
                    rows=slab.rows,
                    size=slab.rows if template.sized else None,
                    peer=_peer(self.platform, host) if self.platform.several_hosts else None,
                    notify=self.notify,
                    running=self.running,
                    limit_s=self.limit_s,
                )
            )
            machine = evidence.machines[cpu_type]
            self.history.put_benchmark(evidence.key, slab.rows, machine, benchmark, self.platform.now())
        return evidence.with_benchmarks(self.history.benchmarks(evidence.key))

    def _second_measured(
        self, evidence: Evidence, slab: Slab, cpu_type: str, *, anew: bool = False
    ) -> Evidence:
        """Run the benchmarks of the size on the other side of these slabs; if one fails, rows cost the same there."""
        # The memory of a row, which limits the size, is known from the first size.
        second = second_size(evidence, slab)
        try:
            return evidence if second is None else self._measured(evidence, second, cpu_type, anew=anew)
        except (ConfigError, LaunchError) as error:
            self.notify(f"rows are assumed to cost as much as in slabs of {slab.rows} rows: {error}")
            return evidence

    def _require(self, evidence: Evidence, slab: Slab) -> None:
        """Raise `ConfigError` if a user's program was not measured: it is started by a run or a check only."""
        template, size = self.request.template, self.request.size
        if evidence.measurable or not template.measured_by_monitor or evidence.used_benchmarks(slab):
            return
        raise ConfigError(
            f"{template.source}: {template.name} has not been measured on these hosts; measure it with: "
            f"apples app check {template.source} {size}"
        )


def rank_counts(slots: int, legal: WholeNumbers = ANY, fewest: int = 1) -> list[int]:
    """Return numbers of ranks to benchmark on a host: powers of two, and all slots, or the legal numbers next to them.

    One that the program needs at least may be more than the slots.
    """
    first = ranks = legal.following(fewest)
    counts = {legal.preceding(slots) or 0, first or 0}
    while ranks is not None and ranks < slots:
        counts.add(ranks)
        ranks = legal.following(2 * ranks)
    return sorted(n for n in counts if n >= fewest)


def _peer(platform: Platform, host: Host) -> Host | None:
    """Return another host within reach, preferably of the same CPU type; None if there is none."""
    others = [one for one in platform.pool.hosts if one.name != host.name and platform.reaches(one)]
    return min(others, key=lambda one: one.cpu_type != host.cpu_type, default=None)
