"""The two sets of jobs of the FCS paper's section 5: synthetic jobs of all kinds, and SAGE and SWEEP3D.

Both use the same generated workload "as a mold". It provides sizes and arrivals, and run times for the synthetic jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apples.coscheduling.classes import FcsConstants
from apples.coscheduling.policies import CoschedulingConstants
from apples.simulation.batch.trace import Trace
from apples_experiments.coscheduled_jobs import sage_is_frustrated
from apples_experiments.coscheduled_settings import Flexible
from apples_experiments.dynamic_settings import DynamicSettings, RealApplications, Synthetic
from apples_experiments.dynamicjobs.jobs import JobKind, drawn, shortened
from apples_experiments.dynamicjobs.running import Site
from apples_experiments.lublin import generate, model_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """One set of experiments.

    workload: by seed, jobs with their natural arrivals and their programs
    loads: offered, as shares of the machine
    shown: the load at which policies are compared
    bound_s: τ of the bounded slowdown
    full: the load that keeps the queue full
    """

    site: Site
    workload: Callable[[int], tuple[Trace, tuple[JobKind, ...]]]
    loads: tuple[float, ...]
    shown: float
    bound_s: float
    full: float


def synthetic(settings: DynamicSettings, flexible: Flexible) -> Set:
    """Return F9: the model's run times, with equal probability for every kind of job."""
    synthetic_settings = settings.synthetic
    kinds = synthetic_kinds(synthetic_settings, flexible.latency_s)

    def workload(seed: int) -> tuple[Trace, tuple[JobKind, ...]]:
        trace = _mold(settings, synthetic_settings, seed)
        return shortened(trace, synthetic_settings.time_scale), drawn(kinds, len(trace), seed)

    return Set(
        site=_site(flexible, synthetic_settings, CoschedulingConstants()),
        workload=workload,
        loads=synthetic_settings.loads,
        shown=synthetic_settings.shown,
        bound_s=synthetic_settings.bound_s,
        full=settings.full_load,
    )


def synthetic_kinds(own: Synthetic, latency_s: float) -> tuple[JobKind, ...]:
    """Return every granularity with every imbalance and every pattern; slow ranks fill every other node."""
    return tuple(
        JobKind(
            name=f"{pattern} {granularity:g} s × {factor:g}",
            step_s=own.silent_step_s if pattern == "none" else factor * (granularity + latency_s),
            shares=(1.0,) * own.processors + (1.0 / factor,) * own.processors,
            pattern=pattern,
            latency_s=latency_s,
        )
        for granularity in own.granularities_s
        for factor in own.imbalances
        for pattern in own.patterns
    )


def applications(settings: DynamicSettings, flexible: Flexible) -> Set:
    """Return F10: SAGE or SWEEP3D of one of a few lengths, with equal probability; the jobs of F8."""
    applications_settings = settings.applications
    kinds = application_kinds(flexible)

    def workload(seed: int) -> tuple[Trace, tuple[JobKind, ...]]:
        trace = _mold(settings, applications_settings, seed)
        run = np.random.default_rng(seed).choice(applications_settings.lengths_s, len(trace))
        return replace(trace, run=run, request=run * settings.request_factor), drawn(kinds, len(trace), seed)

    slice_s = flexible.applications.slice_s
    return Set(
        site=_site(flexible, applications_settings, CoschedulingConstants(fcs=FcsConstants(slice_s=slice_s))),
        workload=workload,
        loads=applications_settings.loads,
        shown=applications_settings.shown,
        bound_s=applications_settings.bound_s,
        full=settings.full_load,
    )


def application_kinds(flexible: Flexible) -> tuple[JobKind, ...]:
    """Return SAGE and SWEEP3D with the granularities and the refilling of caches of F8."""
    own, latency_s = flexible.applications, flexible.latency_s
    slow, fast = own.sage_computation_s + latency_s, own.sage_frustrated_computation_s + latency_s
    cycle = next(count for count in range(1, 101) if float(own.sage_frustrated_share * count).is_integer())
    shares = tuple(fast / slow if sage_is_frustrated(own, rank) else 1.0 for rank in range(cycle))
    return (
        JobKind(
            name="SAGE",
            step_s=slow,
            shares=shares,
            latency_s=latency_s,
            refill_s=own.sage_refill_s,
            cold_slowdown=own.sage_cold_slowdown,
        ),
        JobKind(
            name="SWEEP3D",
            step_s=own.sweep3d_computation_s + latency_s,
            latency_s=latency_s,
            refill_s=own.sweep3d_refill_s,
            cold_slowdown=own.sweep3d_cold_slowdown,
        ),
    )


def _mold(settings: DynamicSettings, own: Synthetic | RealApplications, seed: int) -> Trace:
    return generate(
        settings.jobs,
        own.nodes * own.processors,
        seed,
        model_of(settings.model),
        request=settings.request_factor,
    )


def _site(flexible: Flexible, own: Synthetic | RealApplications, constants: CoschedulingConstants) -> Site:
    return Site(
        machine=replace(flexible.machine, nodes=own.nodes, processors=own.processors),
        constants=constants,
        mpl=own.mpl,
        increment_s=own.increment_s,
    )
