"""The workload model of Lublin and Feitelson (JPDC 63(11), 2003): sizes, run times, arrivals.

Sizes are serial, powers of two or neither. Run times are hyper-gamma in their logarithm, longer for larger jobs.
Arrivals follow a daily cycle of half-hour buckets. `MODELS` has the paper's constants for all jobs together, and for
batch and interactive jobs alone. The model has no requested times, users or projects: a request is the run time times a
factor, which is an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apples.errors import ConfigError
from apples.queueing.state import Floats, Ints
from apples.simulation.batch.trace import Trace

_BUCKETS, _BUCKET_S = 48, 1800.0
#: Half-hours of the day at which the cumulative of the daily cycle begins and ends.
_FIRST, _LAST = 11, 58


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadModel:
    """Parameters of the model, named as in the paper. Defaults are those without job types.

    u_low, u_prob: of log2 of the size. u_hi is log2 of the machine less `u_hi_below`, u_med is that less `u_med_below`.
    a1, b1, a2, b2: the two gammas of ln(run time).
    pa, pb: share of the first gamma, pa · nodes + pb.
    aarr, barr, arar: gap between arrivals.
    anum, bnum: daily cycle.
    run_limit, gap_limit: largest logarithms.
    """

    serial: float = 0.244
    power_of_two: float = 0.576
    u_low: float = 0.8
    u_prob: float = 0.86
    u_hi_below: float = 0.0
    u_med_below: float = 2.5
    a1: float = 4.2
    b1: float = 0.94
    a2: float = 312.0
    b2: float = 0.03
    pa: float = -0.0054
    pb: float = 0.78
    aarr: float = 10.2303
    barr: float = 0.4871
    arar: float = 1.0225
    anum: float = 8.1737
    bnum: float = 3.9631
    run_limit: float = 12.0
    gap_limit: float = 13.0


#: The model by the type of its jobs: all together, or one alone.
MODELS = {
    "all": WorkloadModel(),
    "batch": WorkloadModel(
        serial=0.2927,
        power_of_two=0.6686,
        u_low=1.2,
        u_prob=0.875,
        u_med_below=2.0,
        a1=6.57,
        b1=0.823,
        a2=639.1,
        b2=0.0156,
        pa=-0.003,
        pb=0.6986,
        aarr=6.0415,
        barr=0.8531,
        arar=1.0519,
        anum=6.1271,
        bnum=5.2740,
    ),
    "interactive": WorkloadModel(
        serial=0.1541,
        power_of_two=0.625,
        u_low=1.0,
        u_prob=0.705,
        u_hi_below=1.5,
        u_med_below=2.5,
        a1=3.8351,
        b1=0.6605,
        a2=7.073,
        b2=0.6856,
        pa=-0.0118,
        pb=0.9156,
        aarr=6.5510,
        barr=0.6621,
        arar=0.9797,
        anum=8.9186,
        bnum=3.6680,
    ),
}


def model_of(jobs: str) -> WorkloadModel:
    """Return the model of one job type; raise `ConfigError` with the legal types."""
    if jobs not in MODELS:
        raise ConfigError(f"jobs of type {jobs!r}; legal are {', '.join(MODELS)}")
    return MODELS[jobs]


def generate(
    jobs: int, processors: int, seed: int, model: WorkloadModel | None = None, request: float = 1.0
) -> Trace:
    """Return a generated trace. Time 0 is midnight, and equal seeds give equal traces.

    Args:
        jobs: number of jobs.
        processors: processors of the machine.
        seed: of the random numbers.
        model: parameters of the distributions.
        request: requested time over run time.

    Raises:
        ConfigError: an argument is not legal.
    """
    if jobs < 1 or processors < 2 or request < 1.0:
        raise ConfigError(
            f"a workload of {jobs} jobs for {processors} processors, requests {request!r} × run time; legal are 1 job, "
            "2 processors and a factor of 1, or more of each"
        )
    model = model or WorkloadModel()
    chance = np.random.default_rng(seed)
    procs = _sizes(model, jobs, processors, chance)
    run = _run_times(model, procs, chance)
    submit = _arrivals(model, jobs, chance)
    return Trace(
        name=f"lublin-{processors}-{seed}",
        id=np.arange(1, jobs + 1),
        submit=submit,
        run=run,
        procs=procs,
        request=np.maximum(np.ceil(run * request), 1.0),
        user=np.full(jobs, -1),
        project=np.full(jobs, -1),
        wait=np.full(jobs, np.nan),
        processors=processors,
    )


def with_load(trace: Trace, load: float) -> Trace:
    """Return the trace with arrivals stretched to this offered load; raise `ConfigError` if it is not above 0."""
    if not 0.0 < load < math.inf:
        raise ConfigError(f"an offered load of {load!r}; a number above 0 is legal")
    return trace.stretched(trace.offered_load(trace.processors) / load)


def _sizes(model: WorkloadModel, jobs: int, processors: int, chance: np.random.Generator) -> Ints:
    high = max(math.log2(processors) - model.u_hi_below, model.u_low)
    middle = max(high - model.u_med_below, model.u_low)
    low_part = chance.random(jobs) <= model.u_prob
    spread = chance.random(jobs)
    logs = np.where(
        low_part, model.u_low + spread * (middle - model.u_low), middle + spread * (high - middle)
    )
    kind = chance.random(jobs)
    rounded = kind < model.serial + model.power_of_two
    logs = np.where(rounded, np.round(logs), logs)
    sizes = np.where(kind < model.serial, 1.0, np.round(2.0**logs))
    return np.clip(sizes, 1, processors).astype(np.int64)


def _run_times(model: WorkloadModel, procs: Ints, chance: np.random.Generator) -> Floats:
    """Return run times, whole seconds, at least 1. Values above the limit are drawn again."""
    share = np.clip(model.pa * procs + model.pb, 0.0, 1.0)
    logs = np.full(len(procs), np.inf)
    while True:
        again = np.flatnonzero(logs > model.run_limit)
        if not len(again):
            whole: Floats = np.maximum(np.round(np.exp(logs)), 1.0)
            return whole
        first = chance.random(len(again)) <= share[again]
        one = chance.gamma(model.a1, model.b1, len(again))
        other = chance.gamma(model.a2, model.b2, len(again))
        logs[again] = np.where(first, one, other)


def _arrivals(model: WorkloadModel, jobs: int, chance: np.random.Generator) -> Floats:
    """Return submission times, whole seconds. A gap is a number of points; a half-hour has points by its weight."""
    weights = _daily_cycle(model)
    shape = model.aarr * model.arar
    points = np.full(jobs, np.inf)
    while len(again := np.flatnonzero(points > model.gap_limit)):
        points[again] = chance.gamma(shape, model.barr, len(again))
    points = np.exp(points) / _BUCKET_S
    found = np.empty(jobs)
    bucket, left = 0, 1.0
    for index in range(jobs):
        wanted = points[index]
        while wanted > left * weights[bucket % _BUCKETS]:
            wanted -= left * weights[bucket % _BUCKETS]
            bucket, left = bucket + 1, 1.0
        left -= wanted / weights[bucket % _BUCKETS]
        found[index] = (bucket + 1.0 - left) * _BUCKET_S
    whole: Floats = np.floor(found)
    return whole


def _daily_cycle(model: WorkloadModel) -> Floats:
    """Return the weight of each half-hour of the day, mean 1: differences of a gamma's cumulative distribution."""
    hours = np.arange(_FIRST, _LAST + 1) + 0.5
    weights = np.zeros(_BUCKETS)
    for hour, below, above in zip(range(_FIRST, _LAST + 1), hours - 1.0, hours, strict=True):
        weights[(hour - 1) % _BUCKETS] = _gamma_cdf(above, model) - _gamma_cdf(below, model)
    found: Floats = weights / weights.mean()
    return found


def _gamma_cdf(value: float, model: WorkloadModel) -> float:
    """Return the regularised lower incomplete gamma function, by its series."""
    x, a = value / model.bnum, model.anum
    term = total = 1.0 / a
    step = 1
    while term > 1e-15 * total:
        term *= x / (a + step)
        total += term
        step += 1
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))
