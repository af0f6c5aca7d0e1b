"""Conversion of a generated workload to jobs of the simulated machine.

Sizes, run times and arrivals are the workload's. The kind of a job defines its iterations. The run time in isolation is
exact: the number of iterations is rounded, and their length is adjusted. Ranks have no nodes until the queue places
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apples.errors import ConfigError
from apples.simulation.batch.trace import Trace
from apples_experiments.cluster.constants import ClusterConstants
from apples_experiments.cluster.workload import BspJob
from apples_experiments.lublin import with_load

#: Ways to set the offered load: by the time between arrivals, or by the run times.
VARIED = ("arrivals", "runtimes")

_LEAST_COMPUTATION_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """Iterations of a job.

    step_s: computation and exchange of the slowest ranks, s.
    shares: parts of `step_s`, repeated over the ranks. The exchange takes the same time on all ranks.
    pattern: partners of the exchange, see `apples_experiments.cluster.workload.PATTERNS`.
    latency_s: duration of an exchange, s.
    refill_s, cold_slowdown: cost of cold caches, see `BspJob`.
    """

    name: str
    step_s: float
    shares: tuple[float, ...] = (1.0,)
    pattern: str = "ring"
    latency_s: float
    refill_s: float = 0.0
    cold_slowdown: float = 1.0


def loaded(trace: Trace, load: float, *, vary: str) -> Trace:
    """Return the workload at this offered load: processor seconds in isolation over processors × last arrival.

    Raises:
        ConfigError: the load is not above 0, or `vary` is not in `VARIED`.
    """
    if vary not in VARIED:
        raise ConfigError(f"load is varied by {vary!r}; legal are {', '.join(VARIED)}")
    if vary == "arrivals":
        return with_load(trace, load)
    factor = load / trace.offered_load(trace.processors)
    if not 0.0 < load < float("inf"):
        raise ConfigError(f"an offered load of {load!r}; a number above 0 is legal")
    return replace(trace, run=trace.run * factor, request=trace.request * factor)


def shortened(trace: Trace, factor: float) -> Trace:
    """Return the workload with run times, requests and arrivals multiplied by a factor: the same load in less time."""
    return replace(
        trace, run=trace.run * factor, request=trace.request * factor, submit=trace.submit * factor
    )


def bsp_jobs(machine: ClusterConstants, trace: Trace, kinds: Sequence[JobKind]) -> tuple[BspJob, ...]:
    """Return one job for each job of the trace, named by its number. `kinds`: kind of each job."""
    columns = (trace.id.tolist(), trace.procs.tolist(), trace.run.tolist(), trace.submit.tolist())
    origin = float(trace.submit[0])
    return tuple(
        _job(machine, str(name), (procs, run_s, submit_s - origin), kind)
        for name, procs, run_s, submit_s, kind in zip(*columns, kinds, strict=True)
    )


def drawn(options: Sequence[JobKind], count: int, seed: int) -> tuple[JobKind, ...]:
    """Return a random kind for each job, all with equal probability. Equal seeds give equal values."""
    chance = np.random.default_rng((seed, len(options)))
    return tuple(options[i] for i in chance.integers(0, len(options), count))


def _job(machine: ClusterConstants, name: str, what: tuple[int, float, float], kind: JobKind) -> BspJob:
    procs, run_s, arrival_s = what
    # A serial job has no partner for messages.
    pattern = kind.pattern if procs > 1 else "none"
    latency_s = 0.0 if pattern == "none" else kind.latency_s
    iterations = max(1, round(run_s / kind.step_s))
    shares = [kind.shares[rank % len(kind.shares)] for rank in range(procs)]
    step_s = run_s / iterations / max(shares)
    return BspJob(
        name=name,
        nodes=tuple(rank // machine.processors for rank in range(procs)),
        compute_s=tuple(max(share * step_s - latency_s, _LEAST_COMPUTATION_S) for share in shares),
        iterations=iterations,
        pattern=pattern,
        latency_s=kind.latency_s,
        refill_s=kind.refill_s,
        cold_slowdown=kind.cold_slowdown,
        arrival_s=arrival_s,
    )
