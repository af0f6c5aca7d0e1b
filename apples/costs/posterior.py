"""The time of a run as one model, with estimates of all its parts from benchmarks and finished runs.

    time = start + iterations × max over ranks (rows × cost / share + messages)

The cost of a row is the benchmark's, times factors of the program, of its kind of host, and of the host. So one run on
one host says something about hosts of its kind, and a little about others. The factor grows with a power of the rows of
a slab. Every finished run, oldest first, moves all estimates at once (`apples.costs.estimator`):

* The computation of each host shows its factors, less clearly where its CPU share was uncertain.
* The rank that waited least shows the price of messages, beyond what links explain.
* The time outside all iterations shows the start: a constant, parts by ranks and size, and CPU time on the busiest CPU.
* Of programs whose ranks leave no record, the whole time shows all of these together.

Before any run the errors are the priors below. They were chosen on other seeds than those of documented figures.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apples.costs.estimator import Estimator, Scatter
from apples.costs.runs import (
    TrainingRun,
    TrainingRuns,
    expected_compute,
    unexplained_waits,
    without_overhead,
)
from apples.model.template import Costs, Overhead
from nws.base.wording import counted

#: Errors of factors before any run, as logarithms: of a program whose slabs matter to caches, and of others; of a kind
#: of host, of a host in it, of a benchmark on slabs of another size, and of the exponent of rows.
_PROGRAM, _PROGRAM_IN_ALL_SLABS, _KIND, _HOST, _SLAB, _GROWTH = 0.1, 0.02, 0.02, 0.08, 0.04, 0.05
#: Scatter of a host, and of all hosts of a run together, from run to run; the errors that count as seen before.
_HOST_SCATTER, _RUN_SCATTER, _SEEN = 0.08, 0.02, 6.0
#: Further error of a share that Slurm or a user only stated, as a logarithm.
_OFFERED = 0.5
#: Errors of the price of a message in CPU seconds, of the latencies of a reduction, and of the factor on exchanges.
_MESSAGE_S, _HOPS, _EXCHANGE = 1e-3, 2.0, 0.3
#: Errors of observed waits: as parts of the iterations, and of the wait.
_WAIT, _OF_WAIT = 0.02, 0.1
#: Error of a start of which nothing is known.
_UNKNOWN_START_S = 1.0
#: Errors of the terms of the start as parts of these terms, at least; as parts of its constant, that of each rank, and
#: that of the CPU time on the busiest CPU.
_START, _OF_RANK, _OF_CPU = 0.02, 0.003, 0.1
#: Least factor on communication: some of it always remains visible.
_LEAST_EXCHANGE = 0.01

_PER_RUN, _CONSTANT, _SIZE, _RANK, _RANK2, _START_CPU_S = (
    "this run",
    "constant",
    "size",
    "rank",
    "rank2",
    "start",
)
_OVERHEAD = [_CONSTANT, _SIZE, _RANK, _RANK2]
_CODE, _MESSAGE, _HOP, _EXCHANGES = "program", "message", "hop", "exchanges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A factor on seconds per row: its logarithm's standard deviation, and the number of runs behind it."""

    factor: float
    error: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Costs by benchmarks and runs. types : corrections of CPU types.  hosts : of hosts relative to their types"""

    costs: Costs
    types: Mapping[str, Correction]
    hosts: Mapping[str, Correction]


def learn(same: TrainingRuns, others: Sequence[TrainingRuns] = ()) -> Learned:
    """Return costs by benchmarks and runs, on slabs of one size. others : runs on slabs of other sizes"""
    posterior = _Posterior(same)
    for run, of in sorted(
        ((run, one) for one in (same, *others) for run in one.runs), key=lambda pair: pair[0].id
    ):
        posterior.add(run, of)
    return posterior.learned()


class _Posterior:
    """The estimates of one program. same : its benchmarks on slabs of the size in question"""

    def __init__(self, same: TrainingRuns) -> None:
        self._same, self._benchmarks = same, same.benchmarks
        self._estimates = _prior(same.benchmarks)
        self._host_scatter = Scatter(_HOST_SCATTER, _SEEN)
        self._run_scatter = Scatter(_RUN_SCATTER, _SEEN)
        start_s, prior = _start_s(same.benchmarks.overhead), same.benchmarks.overhead
        self._start_scatter = Scatter(max(_START * start_s, prior.error_s / 2, 1e-3), _SEEN)
        #: Runs behind each factor, by its name.
        self._seen: Counter[str] = Counter()
        self._runs = 0

    def add(self, run: TrainingRun, of: TrainingRuns) -> None:
        """Learn from one more run. of : the benchmarks for its slabs"""
        self._estimates.forget()
        self._estimates.renew(_PER_RUN, math.sqrt(self._run_scatter.variance))
        self._runs += 1
        if run.observed_ranks:
            self._rows(run, of)
            self._waits(run)
            self._start(run, of)
        else:
            self._whole(run, of)
        for scatter in (self._host_scatter, self._run_scatter, self._start_scatter):
            scatter.forget()

    def _rows(self, run: TrainingRun, of: TrainingRuns) -> None:
        """Learn the cost of rows, each host with its median rank."""
        computed = _computed(run, of)
        for (cpu_type, host), ranks in computed.items():
            weights = {**self._factors(cpu_type, host, run, of), _PER_RUN: 1.0}
            scatter = self._host_scatter.variance
            variance = scatter + ranks[0][1] ** 2 + _OFFERED**2 * run.offered
            log = statistics.median(log for log, _ in ranks)
            surprise = self._estimates.observe(weights, log, variance)
            self._host_scatter.add(surprise.error(scatter), scatter / variance)
        self._seen.update(
            {name for cpu_type, host in computed for name in (f"kind {cpu_type}", f"host {host}")}
        )
        if computed:
            this = {_PER_RUN: 1.0}
            self._run_scatter.add(self._estimates.value(this) ** 2 + self._estimates.error(this) ** 2)

    def _factors(self, cpu_type: str, host: str, run: TrainingRun, of: TrainingRuns) -> dict[str, float]:
        """Return the factors on a host's cost of a row, and make those expected that are new."""
        weights = {_CODE: 1.0, f"kind {cpu_type}": 1.0, f"host {host}": 1.0}
        self._estimates.expect(f"host {host}", 0.0, _HOST)
        if self._benchmarks.slab_rows:
            low, high = self._benchmarks.slab_limits
            rows = min(max(run.typical_rows, low), high)
            weights[f"growth {cpu_type}"] = math.log(rows / self._benchmarks.slab_rows)
            if of is not self._same:
                self._estimates.expect(f"slab {of.benchmarks.slab_rows}", 0.0, _SLAB)
                weights[f"slab {of.benchmarks.slab_rows}"] = 1.0
        return weights

    def _waits(self, run: TrainingRun) -> None:
        """Learn the visible part of exchanges, and the price of messages."""
        loop_s = _iterations_s(run)
        slowest, times = max(run.observed_ranks, key=lambda one: one[1].compute_s)
        if slowest.exchange_s > 0:
            error_s = math.hypot(_WAIT * loop_s, _OF_WAIT * slowest.exchange_s)
            self._estimates.observe({_EXCHANGES: slowest.exchange_s}, times.communicate_s, error_s**2)
        waited = unexplained_waits(run)
        # A price measured between hosts is corrected by runs over hosts only.
        informative = not self._benchmarks.message_cpu_s or len({one.host for one in run.ranks}) > 1
        if run.messages > 0 and len(waited) > 1 and informative:
            wait_s, share = max(waited[0][0] - run.waiting_s, 0.0), waited[0][1]
            weights = {_MESSAGE: run.messages / share, _HOP: run.messages * run.latency_s}
            error_s = math.hypot(_WAIT * loop_s, _OF_WAIT * wait_s)
            self._estimates.observe(weights, wait_s, error_s**2)

    def _start(self, run: TrainingRun, of: TrainingRuns) -> None:
        """Learn the time outside the iterations."""
        outside_s = run.observed_s - _iterations_s(run)
        busiest = min((one for one in run.ranks if one.share > 0), key=lambda one: one.share, default=None)
        rows_s = 0.0 if busiest is None else of.benchmarks.start_row_cpu_s * busiest.rows / busiest.share
        scatter = self._start_scatter.variance
        # A benchmark starts on one host and on a small slab: the first run knows better.
        surprise = self._estimates.observe(
            _start_weights(run), max(outside_s - rows_s, 0.0), scatter, sure=self._runs == 1
        )
        self._start_scatter.add(surprise.error(scatter))

    def _whole(self, run: TrainingRun, of: TrainingRuns) -> None:
        """Learn from the whole time of a run whose ranks left no record."""
        costs = self.learned(of).costs
        expected_s = without_overhead(run, costs) + costs.overhead.seconds(run.size, len(run.ranks))
        computing = expected_compute(run, costs)
        if not math.isfinite(expected_s) or not computing:
            return
        last = max(computing, key=lambda rank: computing[rank])
        (slowest,) = (one for one in run.ranks if one.rank == last)
        factors = {**self._factors(slowest.cpu_type, slowest.host, run, of), _PER_RUN: 1.0}
        weights = {name: weight * computing[last] for name, weight in factors.items()} | _start_weights(run)
        variance = self._host_scatter.variance * computing[last] ** 2 + self._start_scatter.variance
        known_s = self._estimates.value(weights)
        self._estimates.observe(weights, known_s + run.observed_s - expected_s, variance)

    def learned(self, of: TrainingRuns | None = None) -> Learned:
        """Return the estimates as costs. of : other benchmarks than those in question"""
        benchmarks, value = (of or self._same).benchmarks, self._estimates.value
        kinds, scatter = list(benchmarks.seconds_per_row), self._host_scatter.variance
        of_kind = {
            t: self._correction({_CODE: 1.0, f"kind {t}": 1.0}, self._seen[f"kind {t}"]) for t in kinds
        }
        grown = {t: value({f"growth {t}": 1.0}) for t in kinds}
        names = [name.removeprefix("host ") for name in self._seen if name.startswith("host ")]
        hosts = {host: self._correction({f"host {host}": 1.0}, self._seen[f"host {host}"]) for host in names}
        common = max((one.error for one in of_kind.values()), default=0.0)
        costs = replace(
            benchmarks,
            seconds_per_row={
                t: {ranks: seconds * of_kind[t].factor for ranks, seconds in table.items()}
                for t, table in benchmarks.seconds_per_row.items()
            },
            growth={
                t: {ranks: (a + grown[t], b + grown[t]) for ranks, (a, b) in sides.items()}
                for t, sides in benchmarks.growth.items()
            },
            host_factors={host: one.factor for host, one in hosts.items()},
            host_errors={host: math.hypot(one.error, math.sqrt(scatter)) for host, one in hosts.items()}
            | {"": math.hypot(_HOST, math.sqrt(scatter))},
            row_error=math.hypot(common, math.sqrt(self._run_scatter.variance)),
            communication=min(max(value({_EXCHANGES: 1.0}), _LEAST_EXCHANGE), 1.0),
            message_cpu_s=max(value({_MESSAGE: 1.0}), 0.0),
            reduction_hops=max(value({_HOP: 1.0}), 0.0),
            start_cpu_s=max(value({_START_CPU_S: 1.0}), 0.0),
            overhead=self._overhead(benchmarks.overhead),
        )
        types = {t: one for t, one in of_kind.items() if one.runs}
        return Learned(costs=costs, types=types, hosts=hosts)

    def _correction(self, weights: Mapping[str, float], runs: int) -> Correction:
        return Correction(
            factor=math.exp(self._estimates.value(weights)), error=self._estimates.error(weights), runs=runs
        )

    def _overhead(self, prior: Overhead) -> Overhead:
        constant_s, row_s, rank_s, rank2_s = (self._estimates.value({name: 1.0}) for name in _OVERHEAD)
        return Overhead(
            constant_s=constant_s,
            per_row_s=row_s,
            per_rank_s=max(rank_s, 0.0),
            per_rank2_s=max(rank2_s, 0.0),
            error_s=math.sqrt(self._start_scatter.variance),
            covariance=tuple(map(tuple, self._estimates.covariance(_OVERHEAD).tolist())),
            source=f"fitted to {counted(self._runs, 'run')}" if self._runs else prior.source,
        )


def _start_s(overhead: Overhead) -> float:
    """Return the size of a start by its prior, by which the errors of its terms are measured."""
    return max(
        abs(overhead.constant_s), overhead.error_s, _UNKNOWN_START_S if overhead == Overhead() else 0.0
    )


def _prior(benchmarks: Costs) -> Estimator:
    """Return the estimates before any run."""
    estimates, prior, constant_s = Estimator(), benchmarks.overhead, _start_s(benchmarks.overhead)
    measured_s = benchmarks.message_cpu_s
    estimates.expect(_CODE, 0.0, _PROGRAM if benchmarks.slab_rows else _PROGRAM_IN_ALL_SLABS)
    for cpu_type in benchmarks.seconds_per_row:
        estimates.expect(f"kind {cpu_type}", 0.0, _KIND)
        estimates.expect(f"growth {cpu_type}", 0.0, _GROWTH if benchmarks.slab_rows else 0.0)
    estimates.expect(_MESSAGE, measured_s, max(_MESSAGE_S, measured_s / 2))
    estimates.expect(_HOP, 0.0, _HOPS)
    estimates.expect(_EXCHANGES, 1.0, _EXCHANGE)
    error_s = constant_s if prior == Overhead() else max(_START * constant_s, prior.error_s)
    estimates.expect(_CONSTANT, prior.constant_s, error_s)
    estimates.expect(_SIZE, prior.per_row_s, _START * max(abs(prior.per_row_s), 1e-3 * constant_s))
    estimates.expect(_RANK, prior.per_rank_s, max(_START * abs(prior.per_rank_s), _OF_RANK * constant_s))
    estimates.expect(_RANK2, prior.per_rank2_s, max(_START * prior.per_rank2_s, _OF_RANK / 100 * constant_s))
    estimates.expect(_START_CPU_S, 0.0, max(_START * constant_s, _OF_CPU * min(constant_s, 1.0)))
    return estimates


def _computed(run: TrainingRun, of: TrainingRuns) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return CPU type and host → for each of its ranks the logarithm of observed over expected computation, and the
    error of its share.
    """
    older = {t for t, measured_at in (of.since or {}).items() if run.started_at < measured_at}
    computed: dict[tuple[str, str], list[tuple[float, float]]] = {}
    expected = expected_compute(run, of.benchmarks)
    for one, times in run.observed_ranks:
        expected_s = expected.get(one.rank, 0.0)
        if times.compute_s > 0 and expected_s > 0 and one.cpu_type not in older:
            least_s, most_s = times.sweeps_s(one.share)
            log = math.log(min(max(expected_s, least_s), most_s) / expected_s)
            computed.setdefault((one.cpu_type, one.host), []).append((log, one.share_error))
    return computed


def _iterations_s(run: TrainingRun) -> float:
    """Return the seconds of all iterations, of the rank that took longest."""
    return max(times.compute_s + times.communicate_s + times.wait_s for _, times in run.observed_ranks)


def _start_weights(run: TrainingRun) -> dict[str, float]:
    ranks = float(len(run.ranks))
    return {
        _CONSTANT: 1.0,
        _SIZE: float(run.size),
        _RANK: ranks,
        _RANK2: ranks**2,
        _START_CPU_S: run.slowness,
    }
